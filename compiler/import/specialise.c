/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dim name=N and --shape input=AxBxC: which symbols of the inputs become what. Shapes are matched dim by dim with the
 * declared ones, so that pinning one input pins the same symbol everywhere. A name may hold '=': the longest declared
 * name that is followed by '=' wins.
 *
 * --dim name=N|M|* asks for a shape version (struct ir_version) for each of the sizes. Several such options give all
 * combinations; they are numbered with the last option's sizes changing fastest and `*`, wherever it stands, the last
 * of its option, so that the first version whose sizes are a call's is the most special one.
 */
#include "compiler/import/frontend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pinner {
    struct ir_ctx *ctx;
    int n;
    const char *const *names;
    ir_type *types;
    VEC(ir_expr) from, to;
    VEC(struct ir_guard) guards; /* the first nlisted of from and to, as what a call has to have */
    int nlisted;
};

static const struct ir_where no_where;

static bool add_pin(struct pinner *p, const char *option, ir_expr sym, ir_expr value)
{
    for (int i = 0; i < p->from.n; i++) {
        if (p->from.at[i] != sym)
            continue;
        if (p->to.at[i] == value)
            return true;
        return ir_error(p->ctx, &no_where, "%s: dim '%s' was already given as %s", option, sym->name,
                        ir_expr_text(p->ctx, p->to.at[i]));
    }
    VEC_PUSH(p->ctx, p->from, sym);
    VEC_PUSH(p->ctx, p->to, value);
    return true;
}

static bool read_size(const char *text, const char **end, int64_t *out)
{
    errno = 0;
    char *stop;
    long long v = strtoll(text, &stop, 10);
    *end = stop;
    *out = v;
    return stop != text && errno == 0 && v >= 0;
}

/* Finds the symbol of the inputs whose name is the longest that `option` starts with, followed by '='. */
struct longest {
    const char *option;
    size_t length;
    ir_expr sym;
};

static void try_symbol(void *user, ir_expr sym)
{
    struct longest *l = user;
    size_t n = strlen(sym->name);
    if (n >= l->length && strncmp(l->option, sym->name, n) == 0 && l->option[n] == '=') {
        l->length = n;
        l->sym = sym;
    }
}

static void list_symbol(void *user, ir_expr sym)
{
    ir_known_add(user, sym->name);
}

static void each_input_symbol(struct pinner *p, void *user, void (*visit)(void *user, ir_expr sym))
{
    for (int i = 0; i < p->n; i++)
        if (p->types[i] && p->types[i]->kind == IR_T_TENSOR)
            for (int k = 0; k < p->types[i]->rank; k++)
                ir_each_sym(p->types[i]->dim[k], visit, user);
}

/* -- Lists of sizes -- */

/* Where the sizes begin: no size has a '='. */
static const char *sizes_of(const char *option)
{
    const char *at = strrchr(option, '=');
    return at ? at + 1 : option + strlen(option);
}

static int count_sizes(const char *option)
{
    int n = 1;
    for (const char *c = sizes_of(option); *c; c++)
        n += *c == '|';
    return n;
}

/* Size k of a list, `*` being the last: -1. False: that is no size. */
static bool size_in_list(const char *option, int k, int64_t *size)
{
    const char *at = sizes_of(option), *end;
    for (;;) {
        bool any = *at == '*';
        if (any)
            end = at + 1;
        else if (!read_size(at, &end, size) || at == end || *at < '0' || *at > '9')
            return false;
        if (*end && *end != '|')
            return false;
        if (!any && k-- == 0)
            return true;
        if (!*end) {
            *size = -1;
            return k == 0;
        }
        at = end + 1;
    }
}

static bool check_sizes(struct ir_ctx *ctx, const char *option)
{
    int64_t size, other;
    for (int k = 0; k < count_sizes(option); k++) {
        if (!size_in_list(option, k, &size))
            return ir_error(ctx, &no_where,
                            "--dim=%s: expected whole numbers and at most one '*', separated by '|', after the '='",
                            option);
        for (int j = 0; j < k; j++) {
            if (size_in_list(option, j, &other) && other == size)
                return ir_error(ctx, &no_where, "--dim=%s: the same size is given twice", option);
        }
    }
    return true;
}

int frontend_combinations(struct ir_ctx *ctx, const struct frontend_options *o)
{
    int n = 1;
    for (int i = 0; o && o->dims && o->dims[i]; i++) {
        int sizes = count_sizes(o->dims[i]);
        if (sizes > 1 && !check_sizes(ctx, o->dims[i]))
            return -1;
        if (sizes > FRONTEND_MAX_VERSIONS || n * sizes > FRONTEND_MAX_VERSIONS)
            return ir_error(ctx, &no_where,
                            "--dim=%s: more than %d versions; at most %d combinations of sizes can be given",
                            o->dims[i], FRONTEND_MAX_VERSIONS, FRONTEND_MAX_VERSIONS),
                   -1;
        n *= sizes;
    }
    return n;
}

const char *const *frontend_lists(struct ir_ctx *ctx, const struct frontend_options *o)
{
    int n = 0, all = 0;
    while (o && o->dims && o->dims[all])
        all++;
    const char **lists = IR_NEWN(ctx, all + 1, const char *);
    for (int i = 0; i < all; i++)
        if (count_sizes(o->dims[i]) > 1)
            lists[n++] = o->dims[i];
    return lists;
}

/* Which of the sizes of option i the combination has. */
static int pick(const struct frontend_options *o, int i)
{
    int rest = o->combination;
    for (int last = i + 1; o->dims[last]; last++)
        rest /= count_sizes(o->dims[last]);
    return rest % count_sizes(o->dims[i]);
}

/* Lists come first, so that what is the same for all combinations is known apart. */
static bool pin_dim(struct pinner *p, const struct frontend_options *o, int i, bool lists)
{
    const char *option = o->dims[i];
    struct longest found = {.option = option};
    const char *end;
    int64_t value;

    if (lists != (count_sizes(option) > 1) || (lists && o->combination < 0))
        return true;

    each_input_symbol(p, &found, try_symbol);
    if (!found.sym) {
        struct ir_known known = {.near = {.word = option, .length = strcspn(option, "=")}};
        each_input_symbol(p, &known, list_symbol);
        return ir_error(p->ctx, &no_where, "--dim=%s: no input has a dim of that name%s%s", option,
                        ir_known_text(&known), known.n ? "" : ": all sizes are fixed");
    }
    if (lists) {
        if (!size_in_list(option, pick(o, i), &value) || value < 0)
            return true;
        VEC_PUSH(p->ctx, p->guards, (struct ir_guard){TCC_GUARD_EQ, found.sym, ir_const(p->ctx, value)});
        return add_pin(p, option, found.sym, ir_const(p->ctx, value));
    }
    if (!strcmp(option + found.length, "=*"))
        return true;
    if (!read_size(option + found.length + 1, &end, &value) || *end)
        return ir_error(p->ctx, &no_where, "--dim=%s: expected a whole number after '%s='", option, found.sym->name);
    return add_pin(p, option, found.sym, ir_const(p->ctx, value));
}

/* Reads AxBxC ("scalar" or nothing: rank 0); names stay symbols. Returns the rank, -1 after a diagnostic. */
static int read_shape(struct pinner *p, const char *option, const char *text, ir_expr *dims)
{
    int rank = 0;

    while (*text) {
        const char *end;
        int64_t value;
        if (rank == TCC_MAX_RANK)
            return ir_error(p->ctx, &no_where, "--shape=%s: more than %d dims", option, TCC_MAX_RANK), -1;
        if (read_size(text, &end, &value)) {
            dims[rank++] = ir_const(p->ctx, value);
        } else {
            size_t n = strcspn(text, "x");
            if (n == 0 || strspn(text, "-0123456789") == n)
                return ir_error(p->ctx, &no_where, "--shape=%s: expected sizes like 1x3x224x224 after the name",
                                option),
                       -1;
            dims[rank++] = ir_sym(p->ctx, ir_internf(p->ctx, "%.*s", (int)n, text));
            end = text + n;
        }
        if (*end && (*end != 'x' || !end[1]))
            return ir_error(p->ctx, &no_where, "--shape=%s: expected sizes like 1x3x224x224 after the name", option),
                   -1;
        text = *end ? end + 1 : end;
    }
    return rank;
}

static bool pin_shape_of(struct pinner *p, const char *option, int input, int rank, const ir_expr *dims)
{
    ir_type t = p->types[input];

    if (!t || t->kind != IR_T_TENSOR || (t->rank >= 0 && t->rank != rank))
        return ir_error(p->ctx, &no_where, "--shape=%s: a shape of rank %d, but input '%s' is %s", option, rank,
                        p->names[input], t ? ir_type_text(p->ctx, t) : "of unknown type");
    if (t->rank < 0) {
        p->types[input] = ir_tensor_type(p->ctx, t->dtype, rank, dims);
        return true;
    }
    for (int i = 0; i < rank; i++) {
        if (t->dim[i] == dims[i])
            continue;
        if (t->dim[i]->kind != IR_X_SYM)
            return ir_error(p->ctx, &no_where, "--shape=%s: dim %d of input '%s' is %s in the model", option, i,
                            p->names[input], ir_expr_text(p->ctx, t->dim[i]));
        if (!add_pin(p, option, t->dim[i], dims[i]))
            return false;
    }
    return true;
}

static bool pin_shape(struct pinner *p, const char *option)
{
    int best = -1;
    size_t length = 0;
    ir_expr dims[TCC_MAX_RANK];

    for (int i = 0; i < p->n; i++) {
        size_t n = strlen(p->names[i]);
        if (n >= length && strncmp(option, p->names[i], n) == 0 && option[n] == '=') {
            best = i;
            length = n;
        }
    }
    if (best < 0) {
        struct ir_known known = {.near = {.word = option, .length = strcspn(option, "=")}};
        for (int i = 0; i < p->n; i++)
            ir_known_add(&known, p->names[i]);
        return ir_error(p->ctx, &no_where, "--shape=%s: the model has no input of that name%s", option,
                        ir_known_text(&known));
    }
    int rank = read_shape(p, option, option + length + 1, dims);
    return rank >= 0 && pin_shape_of(p, option, best, rank, dims);
}

/* The batch that is pinned, or fixed in the model, is that of all microbatches together. */
static bool divide(struct pinner *p, const struct train_split *split, int input, ir_expr *dim)
{
    int64_t size;
    int pin = -1;
    for (int k = 0; k < p->from.n; k++)
        pin = p->from.at[k] == *dim ? k : pin;
    ir_expr *at = pin >= 0 ? &p->to.at[pin] : dim;
    if (!ir_is_const(*at, &size))
        return true;
    if (size % split->microbatches)
        return ir_error(p->ctx, &no_where, "input '%s' has %lld rows, which %d microbatches don't divide",
                        p->names[input], (long long)size, split->microbatches);
    *at = ir_const(p->ctx, size / split->microbatches);
    return true;
}

static bool divide_batches(struct pinner *p, const struct train_split *split)
{
    VEC(ir_expr) done = {0};
    bool ok = true;
    for (int i = 0; i < p->n && split->microbatches > 1; i++) {
        ir_type t = p->types[i];
        int axis = t && ir_is_tensor(t) ? train_split_axis(split, p->names[i], t) : -1;
        ir_expr dims[TCC_MAX_RANK];
        bool again = false;
        if (axis < 0 || axis >= t->rank)
            continue;
        for (int k = 0; k < done.n; k++)
            again |= done.at[k] == t->dim[axis] && !ir_is_const(t->dim[axis], NULL);
        if (again) /* another input has the symbol too */
            continue;
        VEC_PUSH(p->ctx, done, t->dim[axis]);
        memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
        ok &= divide(p, split, i, &dims[axis]);
        p->types[i] = ir_tensor_type(p->ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
    }
    return ok;
}

/* The size of a cache that the session will hold is bounded by its capacity. */
static void bound_cache(struct pinner *p, const char *spec, int input)
{
    struct frontend_pins now = {.n = p->from.n, .from = p->from.at, .to = p->to.at};
    ir_type t = frontend_pinned_type(p->ctx, &now, p->types[input]);
    int axis, symbolic = -1, n = 0;
    int64_t capacity = t && t->kind == IR_T_TENSOR ? pass_state_capacity(p->ctx, spec, p->names[input], &axis) : -1;
    for (int i = 0; capacity > 0 && i < t->rank; i++)
        if (t->dim[i]->kind == IR_X_SYM && (axis < 0 || axis == i)) {
            symbolic = i;
            n++;
        }
    for (int i = 0; n == 1 && i < p->from.n; i++)
        n += p->from.at[i] == t->dim[symbolic];
    if (n == 1 && pass_position_symbol(p->ctx, t->dim[symbolic], capacity) != t->dim[symbolic])
        add_pin(p, spec, t->dim[symbolic], pass_position_symbol(p->ctx, t->dim[symbolic], capacity));
}

bool frontend_pin(struct ir_ctx *ctx, const struct frontend_options *o, int n, const char *const *names, ir_type *types,
                  struct frontend_pins *pins)
{
    struct pinner p = {.ctx = ctx, .n = n, .names = names, .types = types};
    bool ok = true;

    *pins = (struct frontend_pins){0};
    for (int i = 0; o && o->dims && o->dims[i]; i++)
        ok &= pin_dim(&p, o, i, true);
    p.nlisted = p.from.n;
    for (int i = 0; o && o->dims && o->dims[i]; i++)
        ok &= pin_dim(&p, o, i, false);
    for (int i = 0; o && o->shapes && o->shapes[i]; i++)
        ok &= pin_shape(&p, o->shapes[i]);
    for (int i = 0; ok && o && o->states && o->states[i]; i++)
        for (int k = 0; k < n; k++)
            bound_cache(&p, o->states[i], k);
    if (o && o->split)
        ok &= divide_batches(&p, o->split);
    struct frontend_pins common = {.n = p.from.n - p.nlisted};
    if (common.n) {
        common.from = p.from.at + p.nlisted;
        common.to = p.to.at + p.nlisted;
    }
    ir_type *general = IR_NEWN(ctx, n + 1, ir_type);
    *pins = (struct frontend_pins){p.from.n, p.from.at, p.to.at, p.guards.n, p.guards.at, general};
    for (int i = 0; i < n; i++) {
        general[i] = frontend_pinned_type(ctx, &common, types[i]);
        types[i] = frontend_pinned_type(ctx, pins, types[i]);
    }
    return ok;
}

ir_type frontend_pinned_type(struct ir_ctx *ctx, const struct frontend_pins *pins, ir_type t)
{
    ir_expr dims[TCC_MAX_RANK];

    if (!t || !pins->n)
        return t;
    if (t->kind == IR_T_SEQUENCE)
        return ir_sequence_type(ctx, frontend_pinned_type(ctx, pins, t->elem));
    if (t->kind == IR_T_OPTIONAL)
        return ir_optional_type(ctx, frontend_pinned_type(ctx, pins, t->elem));
    if (t->rank <= 0)
        return t;
    for (int i = 0; i < t->rank; i++)
        dims[i] = ir_subst(ctx, t->dim[i], pins->n, pins->from, pins->to);
    return ir_tensor_type(ctx, t->dtype, t->rank, dims);
}
