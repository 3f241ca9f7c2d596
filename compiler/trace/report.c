/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - why a graph is new: the first difference from that of the graphs before which is most like it. Graphs
 * are compared as text, a line a node; a changed shape or constant changes many lines, and the first of them is where
 * it came from.
 */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

/* A piece of a text. */
struct span {
    const char *at;
    size_t n;
};

static struct span span_to(const char *from, const char *end)
{
    return (struct span){from, end > from ? (size_t)(end - from) : 0};
}

static bool same(struct span a, struct span b)
{
    return a.n == b.n && !memcmp(a.at, b.at, a.n);
}

static const char *find(struct span s, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= s.n; i++)
        if (!memcmp(s.at + i, what, n))
            return s.at + i;
    return NULL;
}

/* The next line; false at the end. */
static bool next_line(const char **text, struct span *line)
{
    if (!**text)
        return false;
    const char *end = strchr(*text, '\n');
    end = end ? end : *text + strlen(*text);
    *line = span_to(*text, end);
    *text = *end ? end + 1 : end;
    return true;
}

/* -- Lines of nodes: %1 = op(%2) {attributes} : type loc(...) -------------------------------------------------- */

struct node_line {
    struct span op, operands, attrs, type, part;
};

static struct node_line node_of(struct span line)
{
    struct node_line n = {0};
    const char *end = line.at + line.n, *start = find(line, " = ");
    start = start ? start + 3 : line.at + strspn(line.at, " ");
    const char *open = find(span_to(start, end), "(");
    if (!open)
        return (struct node_line){.op = span_to(start, end)};
    n.op = span_to(start, open);
    const char *close = find(span_to(open, end), ")");
    close = close ? close : end;
    n.operands = span_to(open, close);
    const char *loc = find(span_to(close, end), " loc("), *type = NULL;
    for (const char *p = close, *q; (q = find(span_to(p, loc ? loc : end), " : ")); p = q + 1)
        type = q;
    if (loc) {
        const char *name = find(span_to(loc, end), "\"");
        const char *last = name ? find(span_to(name + 1, end), "\"") : NULL;
        if (last)
            n.part = span_to(name + 1, last);
    }
    n.attrs = span_to(close, type ? type : loc ? loc : end);
    n.type = type ? span_to(type + 3, loc ? loc : end) : (struct span){0};
    return n;
}

/* -- Inputs and state: "%in0: f32[2,3]" in the head, "state ..." lines ------------------------------------------ */

static int count_lines(const char *text)
{
    struct span line;
    int n = 0;
    while (next_line(&text, &line))
        n++;
    return n;
}

/* How many lines have the same op in both, above all, and how many are the same. */
static int likeness(const char *a, const char *b)
{
    struct span x, y;
    int n = 0;
    while (next_line(&a, &x) && next_line(&b, &y))
        n += 3 * same(node_of(x).op, node_of(y).op) + same(x, y);
    return n;
}

static const struct trace_compiled *most_like(const struct trace_ctx *c, const char *text)
{
    const struct trace_compiled *best = NULL;
    int most = -1;
    for (const struct trace_compiled *g = c->compiled; g; g = g->next) {
        int n = likeness(g->text, text);
        int apart = count_lines(g->text) - count_lines(text);
        n -= 3 * (apart < 0 ? -apart : apart);
        if (!best || n > most) {
            most = n;
            best = g;
        }
    }
    return best;
}

static const char *name_at(const char *names, int i)
{
    while (i-- > 0)
        names += strlen(names) + 1;
    return names;
}

/* "input 2 'labels'", or "tensor 'w'" for one that is updated. */
static void print_input(FILE *to, const char *what, int i, const char *name)
{
    fprintf(to, "%s %d", what, i);
    if (*name)
        fprintf(to, " '%s'", name);
}

/* The inputs of a function's head, one by one. */
static bool next_input(const char **at, const char *end, struct span *type)
{
    const char *percent = find(span_to(*at, end), "%"), *colon = percent ? find(span_to(percent, end), ": ") : NULL;
    if (!colon)
        return false;
    const char *stop = colon + 2;
    for (int depth = 0; stop < end && (depth || (*stop != ',' && *stop != ')')); stop++)
        depth += *stop == '[' ? 1 : *stop == ']' ? -1 : 0;
    *type = span_to(colon + 2, stop);
    *at = stop;
    return true;
}

static bool inputs_differ(FILE *to, struct span old, struct span new, const char *names)
{
    const char *a = old.at, *b = new.at, *enda = find(old, ") ->"), *endb = find(new, ") ->");
    struct span x, y;
    enda = enda ? enda + 1 : old.at + old.n;
    endb = endb ? endb + 1 : new.at + new.n;
    for (int i = 0;; i++) {
        bool more = next_input(&a, enda, &x), too = next_input(&b, endb, &y);
        if (!more && !too)
            return false;
        if (more != too) {
            fprintf(to, "it has %s inputs", too ? "more" : "fewer");
            return true;
        }
        if (!same(x, y)) {
            print_input(to, "input", i, name_at(names, i));
            fprintf(to, " is %.*s, not %.*s", (int)y.n, y.at, (int)x.n, x.at);
            return true;
        }
    }
}

static bool starts(struct span line, const char *word)
{
    return line.n >= strlen(word) && !memcmp(line.at, word, strlen(word));
}

static int count_inputs(const char *text)
{
    struct span line, type;
    int n = 0;
    while (next_line(&text, &line))
        if (starts(line, "func")) {
            const char *at = line.at, *end = find(line, ") ->");
            while (next_input(&at, end ? end + 1 : line.at + line.n, &type))
                n++;
        }
    return n;
}

static struct span type_of_state(struct span line)
{
    const char *colon = find(line, ": ");
    const char *end = line.at + line.n;
    const char *stop = colon ? colon + 2 : end;
    while (stop < end && *stop != ' ')
        stop++;
    return colon ? span_to(colon + 2, stop) : line;
}

/* What follows "value = " of a constant. */
static struct span value_of(struct node_line n)
{
    const char *value = find(n.attrs, "value = "), *end = n.attrs.at + n.attrs.n;
    return value ? span_to(value + 8, end[-1] == '}' ? end - 1 : end) : n.attrs;
}

static void print_cut(FILE *to, struct span s)
{
    size_t most = 80;
    fprintf(to, "%.*s%s", (int)(s.n < most ? s.n : most), s.at, s.n > most ? "..." : "");
}

static void print_part(FILE *to, const struct node_line *n)
{
    if (n->part.n)
        fprintf(to, " (in %.*s)", (int)n->part.n, n->part.at);
}

static void explain_node(FILE *to, int number, struct span old, struct span new)
{
    struct node_line a = node_of(old), b = node_of(new);
    if (!same(a.op, b.op)) {
        fprintf(to, "op %d is %.*s", number, (int)b.op.n, b.op.at);
        print_part(to, &b);
        fprintf(to, ", not %.*s", (int)a.op.n, a.op.at);
    } else if (starts(b.op, "constant")) {
        fprintf(to, "constant %d is ", number);
        print_cut(to, value_of(b));
        fprintf(to, ", not ");
        print_cut(to, value_of(a));
    } else if (!same(a.attrs, b.attrs)) {
        fprintf(to, "op %d, %.*s", number, (int)b.op.n, b.op.at);
        print_part(to, &b);
        fprintf(to, ", has");
        print_cut(to, span_to(b.attrs.at + 1, b.attrs.at + b.attrs.n));
        fprintf(to, ", not");
        print_cut(to, span_to(a.attrs.at + 1, a.attrs.at + a.attrs.n));
    } else if (!same(a.type, b.type)) {
        fprintf(to, "the result of op %d, %.*s", number, (int)b.op.n, b.op.at);
        print_part(to, &b);
        fprintf(to, ", is %.*s, not %.*s", (int)b.type.n, b.type.at, (int)a.type.n, a.type.at);
    } else if (starts(b.op, "return")) {
        fprintf(to, "other tensors are asked for");
    } else {
        fprintf(to, "op %d, %.*s", number, (int)b.op.n, b.op.at);
        print_part(to, &b);
        fprintf(to, ", has other operands");
    }
}

/* The first difference between two graphs' texts. */
static void explain(FILE *to, const struct trace_compiled *old, const char *text, const char *names)
{
    const char *a = old->text, *b = text;
    struct span x = {0}, y = {0};
    int number = 0, inputs = count_inputs(text), states = 0;
    for (;;) {
        bool more = next_line(&a, &x), too = next_line(&b, &y);
        if (!more || !too) {
            fprintf(to, "it has %s ops", too ? "more" : "fewer");
            return;
        }
        bool state = starts(x, "state") || starts(y, "state");
        if (same(x, y)) {
            number += *y.at == ' ';
            states += state;
            continue;
        }
        if (state && starts(x, "state") && starts(y, "state")) {
            struct span was = type_of_state(x), now = type_of_state(y);
            print_input(to, "updated tensor", states, name_at(names, inputs + states));
            fprintf(to, " is %.*s, not %.*s", (int)now.n, now.at, (int)was.n, was.at);
            return;
        }
        if (state) {
            fprintf(to, "%s tensors are updated in place", starts(y, "state") ? "more" : "fewer");
            return;
        }
        if (starts(x, "func") && starts(y, "func")) {
            if (inputs_differ(to, x, y, names))
                return;
            continue; /* results: their ops say why */
        }
        explain_node(to, number, x, y);
        return;
    }
}

void trace_report(const struct trace_ctx *c, const char *text, const char *names)
{
    char *line = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&line, &size);
    const struct trace_compiled *old = most_like(c, text);
    if (!to)
        return;
    fprintf(to, "trace: graph %d of %d lines is new: ", old ? c->compiled->number + 1 : 1, count_lines(text));
    if (old) {
        fprintf(to, "unlike graph %d, ", old->number);
        explain(to, old, text, names);
    } else {
        fprintf(to, "it is the first");
    }
    if (fclose(to) == 0)
        fprintf(stderr, "%s\n", line);
    free(line);
}

void trace_report_warnings(const struct trace_ctx *c, int number)
{
    const struct ir_ctx *ctx = c->graph.ctx;
    for (int i = 0; c->report && i < ir_nmessages(ctx); i++)
        if (ir_message(ctx, i)->severity == IR_WARNING)
            fprintf(stderr, "trace: graph %d: warning: %s\n", number, ir_message(ctx, i)->text);
}
