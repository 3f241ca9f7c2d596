/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients against finite differences: the gradient pass on f64 programs, run by the reference interpreter, against
 * central differences of the program itself; and the same programs in f32, gradients compiled against interpreted.
 *
 *   gradients [--compiled] [--write FILE] PROGRAM.tcir...
 *   gradients [--compiled] --imported MODEL.onnx...
 *   gradients --opened MODEL.onnx...         the same for whatever models (tests/sizes/gradients.py): those that have
 *   no gradient, or give no numbers at these sizes, are skipped
 *   gradients [--target=T [--device=D]] --stored FOLDER...      FOLDER/model.pt2 on FOLDER/test_data_set_0/input_K.pb as
 *   they are: gradients compiled for a target against interpreted; what leaves floats to the host there is told, what has
 *   no gradient or no sizes before it runs is skipped
 *   gradients --random SEED COUNT            COUNT random programs (tests/fuzz/random_graph.h) in f64 that have
 *   gradients, from SEED on
 *
 * Every MAP op is tried by itself, at two ways of broadcasting. The programs are functions @main over f64 with lines
 *   ; checks OP...        which ops' gradients it is a check of
 *   ; input NAME LO HI    where an input's values lie (default: +-1.5 but not near 0; integers: below HI)
 *   ; dim NAME VALUE...   a symbol's value; with several, the program is checked with the first of each symbol, the
 *   second, ...
 *   ; step H              of the differences, where 1e-5 would drown in an op's own rounding
 * Models are read by the importer, their lines from MODEL.notes (importer_grads.py writes both); every library op that
 * has a gradient must occur in one of them, as the importer makes it.
 *
 * A program's outputs are weighted by random seeds. Prints TAP. --write: the figures that doc/gradients.md shows, one
 * CHECKED(op, cases, error) an op. Exit status 0: all within bounds, and no op of the table goes unchecked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/grad/grad.h"
#include "runtime/tccrt.h"
#include "tests/fuzz/random_graph.h"
#include "tools/values/values_int.h"

enum { MOST_INPUTS = 300, MOST_RANGES = 300, MOST_DIMS = 64, MOST_SIZES = 10, TEXT = 1 << 16 };
#define BOUND 1e-5
#define REFUSED "gives no numbers at these sizes"

struct range {
    char name[64];
    double lo, hi;
};

struct program {
    const char *name;
    char *text;
    const char *stored; /* the folder of its inputs; NULL: they are made */
    char left[400];     /* what has floats and is the host's, as it was compiled */
    struct range ranges[MOST_RANGES], dims[MOST_DIMS];
    int nranges, ndims;
    double sizes[MOST_DIMS][MOST_SIZES]; /* dims in turn */
    int nsizes;
    bool random;  /* made of a seed: only some elements of each input are moved */
    bool opened;  /* it may refuse its sizes */
    bool refused; /* sizes that data say don't fit: as it turned out */
    double step;  /* of differences, relative to 1 or the element */
    char checks[16][32];
    int nchecks;
};

/* Per op: how many inputs were checked, the largest error. */
static struct {
    int cases;
    double error;
} figures[IR_NOPS];

enum { MOST_LIBS = 100 };
static bool lib_imported[MOST_LIBS]; /* as in grad_libs() */

static uint64_t random_state;

static double uniform(double lo, double hi)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * ((double)(random_state >> 11) * 0x1p-53);
}

/* -- Programs --------------------------------------------------------------------------------------- */

/* The values of a dim, on its line. */
static void read_dim(struct program *p, const char *values)
{
    double *to = p->sizes[p->ndims++];
    int length, n = 0;
    for (; n < MOST_SIZES && sscanf(values, "%*[ ]%lf%n", &to[n], &length) == 1; n++)
        values += length;
    p->nsizes = n > p->nsizes ? n : p->nsizes;
    p->dims[p->ndims - 1].lo = to[0];
}

static void read_notes(struct program *p, const char *text)
{
    int at_name;

    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        char rest[512];
        struct range r;
        if (p->nranges < MOST_RANGES && sscanf(at, "; input %63s %lf %lf", r.name, &r.lo, &r.hi) == 3)
            p->ranges[p->nranges++] = r;
        else if (p->ndims < MOST_DIMS && sscanf(at, "; dim %63s%n %lf", r.name, &at_name, &r.lo) == 2) {
            p->dims[p->ndims] = r;
            read_dim(p, at + at_name);
        } else if (sscanf(at, "; step %lf", &r.lo) == 1)
            p->step = r.lo;
        else if (sscanf(at, "; checks %511[^\n]", rest) == 1)
            for (char *word = strtok(rest, " "); word; word = strtok(NULL, " "))
                snprintf(p->checks[p->nchecks++], 32, "%s", word);
    }
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, TEXT);
    if (f && text && !fread(text, 1, TEXT - 1, f))
        *text = 0;
    if (f)
        fclose(f);
    return text;
}

/* Words of `text` that are `from` become `to`. The caller frees it. */
static char *renamed(const char *text, const char *from, const char *to)
{
    char *out = calloc(1, TEXT), *at = out;
    size_t length = strlen(from);
    for (; out && *text && at < out + TEXT - 64; text++) {
        if (strncmp(text, from, length) != 0) {
            *at++ = *text;
            continue;
        }
        at += sprintf(at, "%s", to);
        text += length - 1;
    }
    return out;
}

/* A random program of tests/fuzz in f64, with open dims. False: not one to differentiate (narrow floats, random
 * numbers, library ops, constants in hexadecimal digits). */
static bool make_program(uint64_t seed, struct program *p)
{
    static const char *const jumps[] = {"f16", "philox", "lib(", " hex "};
    static char name[40];
    struct random_graph g;
    struct ir_ctx *ctx = ir_ctx_new();
    char *text = NULL;
    size_t size = 0;
    snprintf(name, sizeof name, "random %llu", (unsigned long long)seed);
    *p = (struct program){.name = name, .random = true};
    enum random_form form = seed % 2 ? RANDOM_LOSS : RANDOM_FIXED;
    FILE *f = ctx && random_graph(ctx, seed, 6 + (int)(seed % 25), form, 0, &g) ? open_memstream(&text, &size) : NULL;
    if (f) {
        ir_print_module(f, g.module);
        fclose(f);
        for (int i = 0; i < 2; i++, p->nranges++) {
            p->ranges[i] = (struct range){
                .lo = 3, .hi = 3.5}; /* integers that sizes are taken from: what the program was made for */
            snprintf(p->ranges[i].name, sizeof p->ranges[i].name, "k%d", i);
        }
        for (int i = 0; i < GRAPH_SYMBOLS; i++, p->ndims++) {
            p->dims[i].lo = (double)g.sizes[0][i];
            snprintf(p->dims[i].name, sizeof p->dims[i].name, "%c", "NMP"[i]);
        }
    }
    ir_ctx_free(ctx);
    bool fine = text && size < TEXT / 2;
    for (size_t i = 0; fine && i < sizeof jumps / sizeof *jumps; i++)
        fine = !strstr(text, jumps[i]);
    p->text = fine ? renamed(text, "f32", "f64") : NULL;
    free(text);
    return p->text != NULL;
}

static bool read_program(const char *path, struct program *p)
{
    *p = (struct program){.name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, .text = read_text(path)};
    if (p->text)
        read_notes(p, p->text);
    return p->text && *p->text;
}

/* A model, as the text that the importer makes of it. one_version: for sizes that are equal where they meet; stored: its
 * inputs' folder, of one that is read to be trained. */
static bool import_program(const char *path, struct program *p, bool one_version, const char *stored)
{
    struct frontend_options o = {.one_version = one_version, .training = stored != NULL};
    char notes[1000];
    size_t size = 0;
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_module *m = ctx ? frontend_read(ctx, path, &o) : NULL;
    *p = (struct program){.name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, .stored = stored};
    if (!m && ctx && ir_nmessages(ctx) && !one_version)
        ir_print_message(stdout, ir_message(ctx, 0));
    FILE *f = m ? open_memstream(&p->text, &size) : NULL;
    if (f) {
        ir_print_module(f, m);
        fclose(f);
    }
    ir_ctx_free(ctx);
    snprintf(notes, sizeof notes, "%.*s.notes", (int)(strlen(path) - strlen(".onnx")), path);
    char *text = read_text(notes);
    if (text)
        read_notes(p, text);
    free(text);
    const char *const *libs = grad_libs();
    for (int i = 0; p->text && i < MOST_LIBS && libs[i]; i++) {
        char lib[100], op[100]; /* some stand for ops that have no kernel: the importer makes those */
        snprintf(lib, sizeof lib, "{name = \"%s\"", libs[i]);
        snprintf(op, sizeof op, " = %s(", libs[i]);
        lib_imported[i] |= strstr(p->text, lib) || strstr(p->text, op);
    }
    return p->text != NULL;
}

/* Where a word has its domain, and stays away from its corners; ranges per operand. */
static const struct {
    enum ir_op op;
    double range[3][2];
} domains[] = {{IR_log, {{0.2, 3}}},
               {IR_log1p, {{-0.5, 3}}},
               {IR_sqrt, {{0.2, 3}}},
               {IR_rsqrt, {{0.2, 3}}},
               {IR_asin, {{-0.9, 0.9}}},
               {IR_acos, {{-0.9, 0.9}}},
               {IR_atanh, {{-0.9, 0.9}}},
               {IR_acosh, {{1.2, 3}}},
               {IR_tan, {{-1.2, 1.2}}},
               {IR_pow, {{0.3, 2}, {-2, 2.5}}},
               {IR_mod, {{-3, 3}, {5, 7}}},
               {IR_fmod, {{-3, 3}, {1.1, 1.9}}},
               {IR_div, {{-2, 2}, {0.4, 2}}},
               {IR_clip, {{-2, 2}, {-1, -0.5}, {0.5, 1}}},
               {IR_hardsigmoid, {{-3, 3}, {0.2, 0.4}, {0.3, 0.6}}},
               {IR_hardswish, {{-5, 5}}},
               {IR_elu, {{-2, 2}, {0.5, 1.5}}},
               {IR_selu, {{-2, 2}, {0.5, 1.5}, {0.5, 1.5}}},
               {IR_celu, {{-2, 2}, {0.5, 1.5}}},
               {IR_thresholded_relu, {{-2, 2}, {0.5, 0.9}}},
               {IR_shrink, {{-2, 2}, {0.3, 0.6}, {0.1, 0.4}}}};

/* Does grad.def say what its gradient is? A word made of others must have a row: without one its differences are not
 * 0. */
static bool word_has_gradient(enum ir_op op)
{
    const struct ir_scalar_body *body = ir_op_info(op)->kind == IR_K_MAP ? ir_scalar_body(op) : NULL;
    bool any = false;
    for (int i = 0; body && i < body->nargs; i++) {
        const char *text = grad_text(op, i);
        any |= text ? *text != 0 : !body->primitive;
    }
    return any && op != IR_cast;
}

static void add_range(struct program *p, enum ir_op op, int i, const char *name)
{
    struct range *r = &p->ranges[p->nranges++];
    *r = (struct range){.lo = -2, .hi = 2};
    snprintf(r->name, sizeof r->name, "%s", name);
    for (size_t k = 0; k < sizeof domains / sizeof *domains; k++)
        if (domains[k].op == op && domains[k].range[i][0] < domains[k].range[i][1]) {
            r->lo = domains[k].range[i][0];
            r->hi = domains[k].range[i][1];
        }
}

/* A program of words [first, last): per word, operands of shapes [3,4] [4] [], then [1,5] [2,1] [2,5]. */
static void word_program(struct program *p, enum ir_op first, enum ir_op last)
{
    static const char *const shapes[2][3] = {{"3,4", "4", ""}, {"1,5", "2,1", "2,5"}};
    char *inputs = calloc(4, TEXT), *nodes = inputs + TEXT, *outs = nodes + TEXT, *types = outs + TEXT;
    int count = 0;
    *p = (struct program){.name = ir_op_info(first)->name, .text = calloc(3, TEXT)};
    for (int op = first; op < (int)last; op++) {
        for (int k = 0; k < 2 && word_has_gradient((enum ir_op)op); k++) {
            const char *word = ir_op_info((enum ir_op)op)->name;
            int nargs = ir_scalar_body((enum ir_op)op)->nargs;
            sprintf(nodes + strlen(nodes), "  %%o%d = %s(", count, word);
            for (int i = 0; i < nargs; i++) {
                char name[64];
                bool test = op == IR_select && i == 0;
                snprintf(name, sizeof name, "%s.%d.%d", word, i, k);
                sprintf(inputs + strlen(inputs), "%s%%%s: %s[%s]", *inputs ? ", " : "", name, test ? "bool" : "f64",
                        shapes[k][i]);
                sprintf(nodes + strlen(nodes), "%s%%%s", i ? ", " : "", name);
                add_range(p, (enum ir_op)op, i, name);
            }
            sprintf(nodes + strlen(nodes), ")\n");
            sprintf(outs + strlen(outs), "%s%%o%d", count ? ", " : "", count);
            sprintf(types + strlen(types), "%sf64[%s]", count ? ", " : "", k == 0 ? "3,4" : nargs == 1 ? "1,5" : "2,5");
            count++;
        }
    }
    sprintf(p->text, "func @main(%s) -> (%s) {\n%s  return(%s)\n}\n", inputs, types, nodes, outs);
    free(inputs);
}

/* The text with another float type. */
static char *as_type(const char *text, const char *type)
{
    char *copy = strdup(text);
    for (char *at = copy; copy && (at = strstr(at, "f64")) != NULL; at += 3)
        memcpy(at, type, 3);
    return copy;
}

/* -- Running ---------------------------------------------------------------------------------------- */

struct run {
    struct program *p;
    struct ir_ctx *ctx;
    struct ir_module *module;
    struct ir_func *func;
    int nin, nout;
    struct tcc_object *in[MOST_INPUTS], *out[MOST_INPUTS];
    char error[300];
    bool refused; /* by what the sizes must be */
};

static bool fail(struct run *r, const char *what)
{
    if (r->ctx && ir_nmessages(r->ctx))
        ir_print_message(stdout, ir_message(r->ctx, 0));
    snprintf(r->error + strlen(r->error), sizeof r->error - strlen(r->error), " %s", what);
    return false;
}

static struct tcc_object *read_input(const struct program *p, int k)
{
    char path[1000], why[ERROR_SIZE];
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%d.pb", p->stored, k);
    return value_read(path, VALUE_TENSOR, NULL, why);
}

/* The values of symbols that are dims of stored inputs. */
static void take_stored_sizes(struct program *p, const struct ir_func *f)
{
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        struct tcc_object *o = read_input(p, i);
        for (int k = 0; o && k < t->rank && k < o->t.rank && p->ndims < MOST_DIMS; k++)
            if (t->dim[k]->kind == IR_X_SYM) {
                struct range *to = &p->dims[p->ndims++];
                snprintf(to->name, sizeof to->name, "%s", t->dim[k]->name);
                to->lo = (double)o->t.dims[k];
            }
        tccrt_object_unref(o);
    }
}

static bool open_run(struct run *r, struct program *p, const char *text)
{
    *r = (struct run){.p = p, .ctx = ir_ctx_new()};
    if (r->ctx)
        ir_allow_files(r->ctx, ""); /* large constants of an imported model stay in its file */
    r->module = r->ctx ? ir_parse(r->ctx, p->name, text, strlen(text)) : NULL;
    r->func = r->module ? ir_func_by_name(r->module, "main") : NULL;
    struct ir_func *trained = r->func ? ir_func_by_name(r->module, "train") : NULL;
    if (trained) {
        ir_func_remove(r->func);
        r->func = trained;
    }
    if (!r->func)
        return fail(r, "does not parse");
    if (p->stored && !p->ndims)
        take_stored_sizes(p, r->func);
    r->nin = r->func->body->nparams;
    r->nout = r->func->body->last->nin;
    return (r->nin < MOST_INPUTS && r->nout < MOST_INPUTS) || fail(r, "has too many inputs");
}

static void drop_outputs(struct run *r)
{
    for (int i = 0; i < MOST_INPUTS; i++) {
        tccrt_object_unref(r->out[i]);
        r->out[i] = NULL;
    }
}

static void close_run(struct run *r)
{
    drop_outputs(r);
    for (int i = 0; i < MOST_INPUTS; i++)
        tccrt_object_unref(r->in[i]);
    ir_ctx_free(r->ctx);
}

static bool value_of(void *user, ir_expr sym, int64_t *out)
{
    const struct program *p = user;
    for (int i = 0; i < p->ndims; i++)
        if (!strcmp(p->dims[i].name, sym->name)) {
            *out = (int64_t)p->dims[i].lo;
            return true;
        }
    return false;
}

static int64_t count(const struct tcc_object *o)
{
    int64_t n = 1;
    for (int i = 0; i < o->t.rank; i++)
        n *= o->t.dims[i];
    return n;
}

static double get(const struct tcc_object *o, int64_t i)
{
    return tcc_load_f64((enum tcc_dtype)o->t.dtype,
                        (char *)o->t.data + i * tcc_dtype_bytes((enum tcc_dtype)o->t.dtype));
}

static void set(struct tcc_object *o, int64_t i, double v)
{
    tcc_store_f64((enum tcc_dtype)o->t.dtype, (char *)o->t.data + i * tcc_dtype_bytes((enum tcc_dtype)o->t.dtype), v);
}

/* A random input; the same values whatever the float type. */
static struct tcc_object *made_input(const struct program *p, const struct ir_value *v, const char *name)
{
    int64_t dims[TCC_MAX_RANK];
    const struct range *range = NULL;
    for (int i = 0; i < v->type->rank; i++)
        if (!ir_eval(v->type->dim[i], value_of, (void *)p, &dims[i]))
            return NULL;
    struct tcc_object *o = tccrt_object_tensor(v->type->dtype, v->type->rank, dims);
    for (int i = 0; i < p->nranges; i++)
        if (!strcmp(p->ranges[i].name, name))
            range = &p->ranges[i];
    for (int64_t i = 0; o && i < count(o); i++) {
        double x = range ? uniform(range->lo, range->hi) : uniform(0.1, 1.5);
        bool minus = uniform(0, 1) < 0.5;
        if (v->type->dtype == TCC_BOOL)
            set(o, i, minus);
        else if (!tcc_is_float((enum tcc_dtype)v->type->dtype))
            set(o, i, range ? floor(x) : 0);
        else
            set(o, i, (double)(float)(range ? x : minus ? -x : x));
    }
    return o;
}

static bool make_inputs(struct run *r, int first)
{
    for (int i = first; i < r->func->body->nparams; i++)
        if (r->p->stored && i < r->nin
                ? !(r->in[i] = read_input(r->p, i))
                : !(r->in[i] = made_input(r->p, r->func->body->params[i], r->func->input_names[i])))
            return fail(r, "has an input of unknown size");
    return true;
}

static bool interpret(struct run *r)
{
    struct ir_interp_state *state = ir_interp_state_new(r->module); /* each run begins with the first values */
    drop_outputs(r);
    int status = ir_interp(r->func, state, r->in, r->out, r->error, sizeof r->error);
    ir_interp_state_free(state);
    r->refused = status == TCC_EINPUT || status == TCC_EINDEX;
    return status == TCC_OK || fail(r, "does not run");
}

static bool carries(const struct ir_value *v)
{
    return v->type->kind == IR_T_TENSOR && v->type->rank >= 0 && tcc_is_float((enum tcc_dtype)v->type->dtype);
}

/* The function's float outputs, weighted by new inputs "seed.K", differentiated by its float inputs: the new
 * outputs. */
static bool differentiate(struct run *r)
{
    struct ir_func *f = r->func;
    struct ir_node *end = f->body->last;
    struct ir_value *ys[MOST_INPUTS], *seeds[MOST_INPUTS], *xs[MOST_INPUTS], *grads[MOST_INPUTS];
    int ny = 0, nx = 0;
    for (int i = 0; i < r->nin; i++)
        if (carries(f->body->params[i]))
            xs[nx++] = f->body->params[i];
    for (int k = 0; k < r->nout; k++) {
        ys[ny] = end->in[k].value;
        if (carries(ys[ny])) {
            seeds[ny] = ir_input_new(f, ys[ny]->type, ir_internf(r->ctx, "seed.%d", k));
            ny++;
        }
    }
    struct ir_builder b = {.ctx = r->ctx, .func = f, .block = f->body, .before = end};
    if (!grad_build(&b, ny, ys, seeds, nx, xs, grads))
        return fail(r, "has no gradient");
    for (int i = 0; i < nx; i++)
        if (!grads[i])
            grads[i] = ir_expand_to(&b, ir_constant_f(&b, (enum tcc_dtype)xs[i]->type->dtype, 0), xs[i]->type->rank,
                                    xs[i]->type->dim);
    for (int i = 0; i < nx; i++)
        if (grads[i]->type != xs[i]->type)
            return fail(r, "has a gradient of another type");
    b.before = NULL;
    ir_remove(end);
    f->output_names = NULL;
    r->nout = nx;
    if (!ir_build(&b, IR_return, nx, grads, NULL) || !ir_verify(r->module))
        return fail(r, "has a gradient that is not valid");
    return true;
}

/* -- Finite differences ----------------------------------------------------------------------------- */

/* Sum over the float outputs of <seed, output>, seeds being r's inputs from its own ones on. */
static double objective(const struct run *forward, const struct run *r)
{
    double total = 0;
    int seed = forward->nin;
    for (int k = 0; k < forward->nout; k++) {
        if (!tcc_is_float((enum tcc_dtype)forward->out[k]->t.dtype))
            continue;
        for (int64_t i = 0; i < count(forward->out[k]); i++)
            total += get(forward->out[k], i) * get(r->in[seed], i);
        seed++;
    }
    return total;
}

static void note(const struct program *p, const char *input, double error)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(input, "."), input);
    enum ir_op op = p->nchecks ? IR_OP_NONE : ir_op_by_name(word);
    for (int i = op == IR_OP_NONE ? 0 : -1; i < p->nchecks; i++) {
        op = i < 0 ? op : ir_op_by_name(p->checks[i]);
        figures[op].cases++;
        if (!(figures[op].error >= error))
            figures[op].error = error;
    }
}

static int64_t slopes; /* differences that were not 0 */

/* One input's gradient: the largest difference, as part of the largest element or 1. */
static bool difference(struct run *forward, struct run *r, int input, const struct tcc_object *gradient, double *error)
{
    double worst = 0, largest = 1;
    struct tcc_object *x = forward->in[input];
    int64_t every = forward->p->random ? 1 + count(x) / 8 : 1;
    for (int64_t i = 0; i < count(x); i += every) {
        double at = get(x, i), h = (forward->p->step > 0 ? forward->p->step : 1e-5) * fmax(1, fabs(at)), up, down;
        set(x, i, at + h);
        if (!interpret(forward))
            return false;
        up = objective(forward, r);
        set(x, i, at - h);
        if (!interpret(forward))
            return false;
        down = objective(forward, r);
        set(x, i, at);
        double expected = (up - down) / (2 * h);
        double d = fabs(get(gradient, i) - expected);
        worst = d <= worst ? worst : d; /* NaN stays */
        largest = fmax(largest, fabs(expected));
        slopes += expected != 0;
    }
    *error = worst / largest;
    return true;
}

/* Are the sizes of all results known before it runs? A seed has them, too. */
static bool known_sizes(const struct run *r)
{
    bool known = true;
    int64_t n;
    for (int k = 0; k < r->nout; k++) {
        ir_type t = r->func->body->last->in[k].value->type;
        for (int d = 0; t->kind == IR_T_TENSOR && d < t->rank; d++)
            known &= ir_eval(t->dim[d], value_of, r->p, &n);
    }
    return known;
}

/* Does the model itself run, and give numbers? */
static bool gives_numbers(struct program *p)
{
    struct run r = {.p = p};
    random_state = 1;
    bool good = open_run(&r, p, p->text) && known_sizes(&r) && make_inputs(&r, 0) && interpret(&r);
    for (int k = 0; good && k < r.nout; k++)
        for (int64_t i = 0; r.out[k]->kind == TCC_OBJ_TENSOR && i < count(r.out[k]); i++)
            good &= r.out[k]->t.dtype == TCC_STRING || isfinite(get(r.out[k], i));
    close_run(&r);
    return good;
}

static bool check_differences(struct program *p, char *why, size_t size)
{
    struct run forward = {.p = p}, r = {.p = p};
    if (p->opened && !gives_numbers(p)) {
        snprintf(why, size, "%s", REFUSED);
        return false;
    }
    bool good = open_run(&forward, p, p->text) && open_run(&r, p, p->text) && differentiate(&r);
    random_state = 1;
    good = good && make_inputs(&r, 0);
    for (int i = 0; good && i < forward.nin; i++)
        forward.in[i] = tccrt_object_ref(r.in[i]);
    good = good && interpret(&forward) && interpret(&r);
    for (int i = 0, k = 0; good && i < forward.nin; i++) {
        double error;
        if (!carries(forward.func->body->params[i]))
            continue;
        good = difference(&forward, &r, i, r.out[k++], &error);
        if (good) {
            note(p, forward.func->input_names[i], error);
            good = error <= BOUND;
            if (!good)
                snprintf(forward.error, sizeof forward.error, "by %s: error %.3g", forward.func->input_names[i], error);
        }
    }
    snprintf(why, size, "%s%s", forward.error, r.error);
    p->refused = forward.refused;
    close_run(&forward);
    close_run(&r);
    return good;
}

/* -- Compiled --------------------------------------------------------------------------------------- */

static void keep_message(void *user, int severity, const char *text)
{
    if (severity >= 2 && !*(char *)user)
        snprintf(user, 300, "%s", text);
}

static const char *target, *device; /* NULL: the CPU */

/* What the report says is left to the host; "" if nothing is. */
static void left_to_host(const char *report, struct program *p)
{
    static const char says[] = "floats on the host: ";
    *p->left = 0;
    for (const char *at = report; at && (at = strstr(at, says)) != NULL;) {
        at += strlen(says);
        size_t used = strlen(p->left);
        snprintf(p->left + used, sizeof p->left - used, " %.*s", (int)strcspn(at, ",\n"), at);
    }
}

static bool compile(struct run *r, struct tccrt_model **m)
{
    char path[] = "/tmp/gradients-XXXXXX", source[64], artifact[64];
    int fd = mkstemp(path);
    struct tccc_options o;
    char *said = NULL;
    size_t size;
    if (fd < 0)
        return fail(r, "no file");
    close(fd);
    snprintf(source, sizeof source, "%s.tcir", path);
    snprintf(artifact, sizeof artifact, "%s.so", path);
    FILE *f = fopen(source, "w");
    if (f) {
        ir_print_module(f, r->module);
        fclose(f);
    }
    tccc_options_init(&o);
    o.model = source;
    o.output = artifact;
    o.jobs = 1;
    o.verify = true;
    o.message = keep_message;
    o.user = r->error;
    o.target = target;
    o.report = open_memstream(&said, &size);
    bool good = tccc_compile(&o) == 0 || fail(r, "does not compile");
    if (o.report)
        fclose(o.report);
    left_to_host(said, r->p);
    free(said);
    good = good && (tccrt_open(artifact, m) == TCC_OK || fail(r, tccrt_error()));
    unlink(path);
    unlink(source);
    unlink(artifact);
    return good;
}

static bool close_enough(struct run *r, int k, const struct tcc_object *got)
{
    struct tolerance t = {.rtol = 1e-5, .atol = 1e-5 * tensor_largest(&r->out[k]->t) + 1e-7, .absolute = true};
    char why[ERROR_SIZE];
    if (tensor_equal(&got->t, &r->out[k]->t, &t, NULL, why))
        return true;
    snprintf(r->error, sizeof r->error, "gradient %d: %.250s", k, why);
    return false;
}

static bool check_compiled(struct program *p, char *why, size_t size)
{
    struct tcc_object *out[MOST_INPUTS] = {NULL};
    struct tccrt_options options = {.threads = 1, .device = device};
    struct tccrt_session *s = NULL;
    struct tccrt_model *m = NULL;
    char *text = p->stored ? strdup(p->text) : as_type(p->text, "f32");
    struct run r = {.p = p};
    if (p->stored && !gives_numbers(p)) {
        snprintf(why, size, "%s", REFUSED);
        return false;
    }
    bool good = open_run(&r, p, text) && differentiate(&r);
    random_state = 1;
    good = good && make_inputs(&r, 0) && interpret(&r) && compile(&r, &m);
    good = good && ((tccrt_session_new(m, &options, &s) == TCC_OK &&
                     tccrt_run_objects(s, ir_entry_name(r.func), r.func->body->nparams, r.in, r.nout, out) == TCC_OK) ||
                    fail(&r, tccrt_error()));
    for (int k = 0; good && k < r.nout; k++)
        good = close_enough(&r, k, out[k]);
    for (int k = 0; k < MOST_INPUTS; k++)
        tccrt_object_unref(out[k]);
    tccrt_session_free(s);
    tccrt_close(m);
    snprintf(why, size, "%s", r.error);
    close_run(&r);
    free(text);
    return good;
}

/* -- The whole -------------------------------------------------------------------------------------- */

static int number, failures;

static void report(bool good, const char *what, const char *name, const char *why)
{
    if (!good)
        printf("# %s\n", why);
    printf("%sok %d - %s %s\n", good ? "" : "not ", ++number, name, what);
    fflush(stdout);
    failures += !good;
}

/* Ops of the table that nothing has checked. */
static void check_coverage(void)
{
    struct grad_row row;
    char missing[2000] = "";
    for (int i = 0; grad_table_row(i, &row); i++)
        if (row.checked && !figures[row.op].cases)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", ir_op_info(row.op)->name);
    report(!*missing, "every op of the table is checked", "coverage:", missing);
}

/* ONNX has no operator for these: tests/train/grad/linalg.tcir and special.tcir have them. */
static bool is_of_pt2_alone(const char *lib)
{
    static const char *const names[] = {
        "check", "cholesky", "eig",     "eigh",  "lu",      "lu_solve", "matrix_exp",
        "pinv",  "qr",       "slogdet", "solve", "special", "svd",      "triangular_solve"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(names[k], lib))
            return true;
    return false;
}

/* Library ops with gradients that no model has. */
static void check_imported(void)
{
    char missing[2000] = "";
    const char *const *libs = grad_libs();
    for (int i = 0; i < MOST_LIBS && libs[i]; i++)
        if (!lib_imported[i] && !is_of_pt2_alone(libs[i]))
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", libs[i]);
    report(!*missing, "every library op with a gradient was imported", "coverage:", missing);
}

/* Errors as powers of ten from 1e-9 on, which rounding on another machine does not change. */
static void write_figures(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) {
        failures++;
        return;
    }
    fprintf(f, "/* SPDX-License-Identifier: Apache-2.0 */\n"
               "/* Made by tests/train/gradients --write: CHECKED(op, inputs checked, error is below 10^). */\n");
    for (int op = IR_OP_NONE + 1; op < IR_NOPS; op++)
        if (figures[op].cases)
            fprintf(f, "CHECKED(%s, %d, %d)\n", ir_op_info((enum ir_op)op)->name, figures[op].cases,
                    (int)fmax(-8, ceil(log10(fmax(figures[op].error, 1e-30)))));
    fclose(f);
}

/* `n` random programs that can be differentiated, from that seed on; one line for all that are right. */
static int check_random(uint64_t seed, int n)
{
    char why[700], name[200];
    struct program p;
    int good = 0;
    for (int i = 0; i < n; seed++) {
        if (!make_program(seed, &p))
            continue;
        bool right = check_differences(&p, why, sizeof why);
        i += !p.refused;
        if (right)
            good++;
        else if (!p.refused)
            report(false, "by finite differences", p.name, why);
        free(p.text);
    }
    snprintf(name, sizeof name, "%d random programs up to seed %llu, %lld slopes that are not 0:", n,
             (unsigned long long)seed - 1, (long long)slopes);
    report(good == n && slopes > n, "gradients by finite differences", name, "");
    printf("1..%d\n", number);
    return failures != 0;
}

/* Models of whatever operators, from the first argument on: most cannot be differentiated, and that is said; how many
 * were is the last line. */
static int check_opened(char **models)
{
    char why[700], name[200];
    struct program p;
    int checked = 0, skipped = 0;
    for (; *models; models++) {
        *why = 0;
        bool read = import_program(*models, &p, true, NULL);
        p.random = p.opened = true;
        bool good = read && check_differences(&p, why, sizeof why);
        checked += good;
        if (!read || (!good && (strstr(why, REFUSED) || strstr(why, "has no gradient"))))
            skipped++;
        else if (!good)
            report(false, "by finite differences", p.name, why);
        free(p.text);
    }
    snprintf(name, sizeof name,
             "%d models, and %d that have no gradient or give no numbers, %lld slopes that are not 0:", checked,
             skipped, (long long)slopes);
    report(failures == 0 && checked && slopes > checked, "gradients by finite differences", name, "");
    printf("1..%d\n", number);
    return failures != 0;
}

/* Stored cases, from the first argument on; those that have no gradient are counted in the last line. */
static int check_stored(char **folders)
{
    char why[700], name[1000], what[500];
    struct program p;
    int skipped = 0;
    for (; *folders; folders++) {
        *why = 0;
        snprintf(name, sizeof name, "%s/model.pt2", *folders);
        bool read = import_program(name, &p, false, *folders);
        p.name = strrchr(*folders, '/') ? strrchr(*folders, '/') + 1 : *folders;
        bool good = read && check_compiled(&p, why, sizeof why);
        snprintf(what, sizeof what, "compiled for %s%s%s", target ? target : "cpu", *p.left ? ", host:" : "", p.left);
        if (!read || (!good && (strstr(why, REFUSED) || strstr(why, "has no gradient"))))
            skipped++;
        else
            report(good, what, p.name, why);
        free(p.text);
    }
    snprintf(name, sizeof name, "%d that have no gradient or give no numbers,", skipped);
    report(number > failures, "gradients of others", name, "");
    printf("1..%d\n", number);
    return failures != 0;
}

/* The program with the values of its dims that a line has at place k; false: none has so many. */
static bool take_sizes(struct program *p, int k)
{
    for (int i = 0; i < p->ndims && k; i++)
        p->dims[i].lo = p->sizes[i][k];
    return k == 0 || k < p->nsizes;
}

int main(int argc, char **argv)
{
    bool (*check)(struct program *, char *, size_t) = check_differences;
    const char *write = NULL, *what = "by finite differences";
    char why[700], name[200];
    struct program p;
    bool imported = false;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (!strcmp(argv[first], "--compiled")) {
            check = check_compiled;
            what = "compiled";
        } else if (!strcmp(argv[first], "--imported")) {
            imported = true;
        } else if (!strncmp(argv[first], "--target=", 9)) {
            target = argv[first] + 9;
        } else if (!strncmp(argv[first], "--device=", 9)) {
            device = argv[first] + 9;
        } else if (!strcmp(argv[first], "--opened")) {
            return check_opened(argv + first + 1);
        } else if (!strcmp(argv[first], "--stored")) {
            return check_stored(argv + first + 1);
        } else if (!strcmp(argv[first], "--random") && first + 2 < argc) {
            return check_random(strtoull(argv[first + 1], NULL, 10), atoi(argv[first + 2]));
        } else if (!strcmp(argv[first], "--write") && first + 1 < argc) {
            write = argv[++first];
        }
    }
    for (int op = IR_add; op < IR_NOPS && !imported; op++) {
        bool compiled = check == check_compiled;
        if (!compiled && !word_has_gradient((enum ir_op)op))
            continue;
        int last = compiled ? op + 8 < IR_NOPS ? op + 8 : IR_NOPS : op + 1;
        word_program(&p, (enum ir_op)op, (enum ir_op)last);
        op = last - 1;
        if (p.nranges)
            report(check(&p, why, sizeof why), what, p.name, why);
        free(p.text);
    }
    for (int i = first; i < argc; i++) {
        bool good = imported ? import_program(argv[i], &p, false, NULL) : read_program(argv[i], &p);
        for (int k = 0; take_sizes(&p, k); k++) {
            *why = 0;
            snprintf(name, sizeof name, k ? "%s, sizes %d" : "%s", p.name, k);
            report(good && check(&p, why, sizeof why), what, name, why);
        }
        free(p.text);
    }
    if (imported)
        check_imported();
    else if (check == check_differences && first < argc)
        check_coverage();
    printf("1..%d\n", number);
    if (write)
        write_figures(write);
    return failures != 0;
}
