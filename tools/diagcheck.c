/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-opt --verify-diags: the messages that comments announce, and those that arose. */
#include "tools/diagcheck_int.h"

#include <stdlib.h>
#include <string.h>

struct expectation {
    enum ir_severity severity;
    int line;
    bool any_line;
    const char *text;
    size_t length;
    int at;
    bool met;
};

static const struct {
    const char *word;
    enum ir_severity severity;
} kinds[] = {{"error", IR_ERROR}, {"warning", IR_WARNING}, {"note", IR_NOTE}};

#define MARK "expected-"

/* Reads one announcement at p (behind the mark); false if it is none. */
static bool read_expectation(const char *p, const char *end, int line, struct expectation *e)
{
    size_t k = 0;
    while (k < 3 && strncmp(p, kinds[k].word, strlen(kinds[k].word)) != 0)
        k++;
    if (k == 3)
        return false;
    p += strlen(kinds[k].word);
    *e = (struct expectation){.severity = kinds[k].severity, .line = line, .at = line};
    if (strncmp(p, "@any", 4) == 0) {
        e->any_line = true;
        p += 4;
    } else if (*p == '@') {
        char *stop;
        e->line += (int)strtol(p + 1, &stop, 10);
        p = stop;
    }
    const char *open = strstr(p, "{{"), *close = open ? strstr(open, "}}") : NULL;
    if (!close || close > end || memchr(p, '\n', (size_t)(close - p)))
        return false;
    e->text = open + 2;
    e->length = (size_t)(close - open - 2);
    return true;
}

static bool matches(const struct expectation *e, const struct ir_message *m)
{
    enum ir_severity severity = m->severity == IR_BUG ? IR_ERROR : m->severity;
    return severity == e->severity && (e->any_line || m->where.line == e->line) &&
           memmem(m->text, strlen(m->text), e->text, e->length);
}

bool diags_as_expected(struct ir_ctx *ctx, const char *name, const char *text, size_t size)
{
    VEC(struct expectation) list = {0};
    bool ok = true;
    char *copy = malloc(size + 1);

    if (!copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    int line = 1;
    for (const char *p = copy; *p; p++) {
        struct expectation e;
        line += *p == '\n';
        if (strncmp(p, MARK, strlen(MARK)) == 0 && read_expectation(p + strlen(MARK), copy + size, line, &e))
            VEC_PUSH(ctx, list, e);
    }
    for (int i = 0; i < ir_nmessages(ctx); i++) {
        const struct ir_message *m = ir_message(ctx, i);
        bool expected = false;
        for (int k = 0; k < list.n && !expected; k++)
            if (!list.at[k].met && matches(&list.at[k], m))
                expected = list.at[k].met = true;
        if (!expected) {
            fprintf(stderr, "unexpected: ");
            ir_print_message(stderr, m);
            ok = false;
        }
    }
    for (int k = 0; k < list.n; k++) {
        if (!list.at[k].met) {
            fprintf(stderr, "%s:%d: expected message did not arise: %.*s\n", name, list.at[k].at,
                    (int)list.at[k].length, list.at[k].text);
            ok = false;
        }
    }
    free(copy);
    return ok;
}
