/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts into stages: of random costs, and of networks of the size and shape of a 24-layer GPT, ResNet-50 and a
 * translation network with tied embeddings, against an independent exhaustive search (top-down, memoised) over the same
 * costs. A cut takes well under two seconds. Tied weights are in one stage, and maps place what they name. The tree
 * method of SageMaker's library, by module scopes, never gives a faster slowest stage; with the argument --table the
 * program prints both (doc/partitions.md has the table).
 */
#include "passes/pass.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct ir_ctx *ctx;

static void setup(void)
{
    ctx = ir_ctx_new();
}

static void teardown(void)
{
    ir_ctx_free(ctx);
}

/* -- The other search ------------------------------------------------------------------------------------------- */

struct search {
    int n;
    const double *cost;
    const bool *may_cut;
    double *memo; /* by part left and first item; < 0: not known */
};

/* The dearest of k parts of the items from `first` on, at best. */
static double search(struct search *s, int first, int k)
{
    double *known = &s->memo[(size_t)k * (size_t)(s->n + 1) + (size_t)first], part = 0, best = INFINITY;
    if (*known >= 0)
        return *known;
    for (int i = first; i <= s->n; i++) {
        if (i > first)
            part += s->cost[i - 1];
        if (k == 1 ? i < s->n : i < s->n && i > 0 && !s->may_cut[i])
            continue;
        double rest = k > 1 ? search(s, i, k - 1) : 0;
        double here = part > rest ? part : rest;
        best = here < best ? here : best;
        if (part >= best)
            break;
    }
    return *known = best;
}

static double exhaustive(int n, const double *cost, const bool *may_cut, int k)
{
    struct search s = {n, cost, may_cut, malloc((size_t)(k + 1) * (size_t)(n + 1) * sizeof(double))};
    for (size_t i = 0; i < (size_t)(k + 1) * (size_t)(n + 1); i++)
        s.memo[i] = -1;
    double best = search(&s, 0, k);
    free(s.memo);
    return best;
}

START_TEST(random_costs)
{
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        double cost[60], crossing[61];
        bool may_cut[61];
        int n = 1 + round % 60, k = 1 + round % 9, *first = IR_NEWN(ctx, k + 1, int);
        for (int i = 0; i <= n; i++) {
            seed = seed * 1664525 + 1013904223;
            cost[i < n ? i : 0] = seed >> 16 & 15 ? (seed >> 8) % 1000 : 5000;
            crossing[i] = (seed >> 12) % 100;
            may_cut[i] = seed >> 20 & 3;
        }
        double best = exhaustive(n, cost, may_cut, k);
        ck_assert_double_eq_tol(partition_cut(ctx, n, cost, may_cut, NULL, k, 0, first), best, 1e-6);
        double slack = partition_cut(ctx, n, cost, may_cut, crossing, k, 0.05, first);
        ck_assert_double_le(slack, best * 1.05 + 1e-6);
        ck_assert_int_eq(first[0], 0);
        ck_assert_int_eq(first[k], n);
        for (int j = 1; j <= k; j++) {
            ck_assert_int_ge(first[j], first[j - 1]);
            ck_assert(first[j] == n || first[j] == 0 || may_cut[first[j]]);
        }
    }
}
END_TEST

/* -- Networks ------------------------------------------------------------------------------------------------------ */

struct text {
    char *at;
    size_t size;
    FILE *f, *states;
    char *state_text;
    size_t state_size;
    int next;       /* value number */
    char scope[64]; /* of the nodes to come: "/h.3/attn" */
};

static void begin(struct text *t)
{
    memset(t, 0, sizeof *t);
    t->f = open_memstream(&t->at, &t->size);
    t->states = open_memstream(&t->state_text, &t->state_size);
}

static struct ir_func *end(struct text *t, const char *signature, int result, const char *type)
{
    fclose(t->f);
    fclose(t->states);
    char *all = ir_alloc(ctx, t->size + t->state_size + 400);
    int n =
        sprintf(all, "%sfunc @main%s -> (%s) {\n%s  return(%%v%d)\n}\n", t->state_text, signature, type, t->at, result);
    struct ir_module *m = ir_parse(ctx, "network.tcir", all, (size_t)n);
    for (int i = 0; !m && i < ir_nmessages(ctx); i++)
        ir_print_message(stderr, ir_message(ctx, i));
    ck_assert_ptr_nonnull(m);
    free(t->at);
    free(t->state_text);
    return ir_func_by_name(m, "main");
}

/* Ends the line of a node. */
static void name_node(struct text *t, const char *op, int v)
{
    fprintf(t->f, " loc(\"%s/%s%d\", \"%s\", 20)\n", t->scope, op, v, op);
}

static void enter(struct text *t, const char *format, int i)
{
    snprintf(t->scope, sizeof t->scope, format, i);
}

/* x[8,64,rows] w[rows,columns] */
static int linear(struct text *t, int x, int rows, int columns)
{
    int v = t->next;
    t->next += 2;
    fprintf(t->states, "state @w%d: f32[%d,%d] param\n", v, rows, columns);
    fprintf(t->f, "  %%p%d = state_read() {name = \"w%d\"} : f32[%d,%d]\n", v, v, rows, columns);
    fprintf(t->f, "  %%v%d = matmul(%%v%d, %%p%d) {trans_a = 0, trans_b = 0, to = f32} : f32[8,64,%d]", v, x, v,
            columns);
    name_node(t, "MatMul", v);
    return v;
}

static int unary(struct text *t, const char *op, int x, int width)
{
    int v = t->next++;
    fprintf(t->f, "  %%v%d = %s(%%v%d) : f32[8,64,%d]", v, op, x, width);
    name_node(t, op, v);
    return v;
}

static int binary(struct text *t, const char *op, int x, int y, int width)
{
    int v = t->next++;
    fprintf(t->f, "  %%v%d = %s(%%v%d, %%v%d) : f32[8,64,%d]", v, op, x, y, width);
    name_node(t, op, v);
    return v;
}

static int embed(struct text *t, const char *table, const char *ids, int words, int width)
{
    int v = t->next++;
    fprintf(t->f, "  %%t%d = state_read() {name = \"%s\"} : f32[%d,%d]\n", v, table, words, width);
    fprintf(t->f, "  %%v%d = gather(%%t%d, %%%s) {axis = 0} : f32[8,64,%d] loc(\"/embed\", \"Gather\", 20)\n", v, v,
            ids, width);
    return v;
}

static int head(struct text *t, const char *table, int x, int words, int width)
{
    int v = t->next++;
    fprintf(t->f, "  %%t%d = state_read() {name = \"%s\"} : f32[%d,%d]\n", v, table, words, width);
    fprintf(t->f, "  %%u%d = transpose(%%t%d) {perm = [1, 0]} : f32[%d,%d]\n", v, v, width, words);
    fprintf(t->f,
            "  %%v%d = matmul(%%v%d, %%u%d) {trans_a = 0, trans_b = 0, to = f32} : f32[8,64,%d] loc(\"/head\", "
            "\"MatMul\", 20)\n",
            v, x, v, words);
    return v;
}

/* A block of a transformer, attention as elementwise stand-ins of its size. other: what a decoder attends to, or -1. */
static int block(struct text *t, const char *scope, int number, int x, int other, int width)
{
    char path[40];
    snprintf(path, sizeof path, "%s.%d", scope, number);
    snprintf(t->scope, sizeof t->scope, "%s/attn", path);
    int q = linear(t, x, width, width), k = linear(t, x, width, width), v = linear(t, x, width, width);
    int a = unary(t, "exp", binary(t, "mul", q, k, width), width);
    int h = linear(t, binary(t, "mul", a, v, width), width, width);
    snprintf(t->scope, sizeof t->scope, "%s", path);
    x = binary(t, "add", x, h, width);
    if (other >= 0) {
        snprintf(t->scope, sizeof t->scope, "%s/cross", path);
        h = linear(t, binary(t, "mul", x, other, width), width, width);
        snprintf(t->scope, sizeof t->scope, "%s", path);
        x = binary(t, "add", x, h, width);
    }
    snprintf(t->scope, sizeof t->scope, "%s/mlp", path);
    h = unary(t, "tanh", linear(t, x, width, 4 * width), 4 * width);
    h = linear(t, h, 4 * width, width);
    snprintf(t->scope, sizeof t->scope, "%s", path);
    return binary(t, "add", x, h, width);
}

static struct ir_func *gpt(int layers, bool tied)
{
    struct text t;
    begin(&t);
    fprintf(t.states, "state @table: f32[8192,256] param\nstate @other: f32[8192,256] param\n");
    int x = embed(&t, "table", "ids", 8192, 256);
    for (int i = 0; i < layers; i++)
        x = block(&t, "/h", i, x, -1, 256);
    enter(&t, "/ln_f", 0);
    x = unary(&t, "tanh", x, 256);
    return end(&t, "(%ids: i64[8,64])", head(&t, tied ? "table" : "other", x, 8192, 256), "f32[8,64,8192]");
}

static struct ir_func *translation(void)
{
    struct text t;
    begin(&t);
    fprintf(t.states, "state @table: f32[4000,256] param\n");
    int x = embed(&t, "table", "source", 4000, 256);
    for (int i = 0; i < 4; i++)
        x = block(&t, "/encoder/layers", i, x, -1, 256);
    int y = embed(&t, "table", "target", 4000, 256);
    for (int i = 0; i < 4; i++)
        y = block(&t, "/decoder/layers", i, y, x, 256);
    return end(&t, "(%source: i64[8,64], %target: i64[8,64])", head(&t, "table", y, 4000, 256), "f32[8,64,4000]");
}

static int convolve(struct text *t, int x, int in, int out, int kernel, int size, int stride)
{
    int v = t->next++, before = kernel / 2, after = stride == 1 || kernel == 1 ? kernel / 2 : kernel / 2;
    fprintf(t->states, "state @w%d: f32[%d,%d,%d,%d] param\n", v, out, in, kernel, kernel);
    fprintf(t->f, "  %%p%d = state_read() {name = \"w%d\"} : f32[%d,%d,%d,%d]\n", v, v, out, in, kernel, kernel);
    fprintf(t->f,
            "  %%v%d = conv(%%v%d, %%p%d) {strides = [%d, %d], dilations = [1, 1], before = [%d, %d], after = [%d, "
            "%d], groups = 1, to = "
            "f32} : f32[8,%d,%d,%d]",
            v, x, v, stride, stride, before, before, after, after, out, size, size);
    name_node(t, "Conv", v);
    return v;
}

static int map4(struct text *t, const char *op, int x, int y, int channels, int size)
{
    int v = t->next++;
    if (y < 0)
        fprintf(t->f, "  %%v%d = %s(%%v%d) : f32[8,%d,%d,%d]", v, op, x, channels, size, size);
    else
        fprintf(t->f, "  %%v%d = %s(%%v%d, %%v%d) : f32[8,%d,%d,%d]", v, op, x, y, channels, size, size);
    name_node(t, op, v);
    return v;
}

static struct ir_func *resnet50(void)
{
    static const int blocks[] = {3, 4, 6, 3};
    struct text t;
    int size = 56, in = 64;
    begin(&t);
    fprintf(t.f, "  %%v0 = tanh(%%x) : f32[8,64,56,56]\n");
    t.next = 1;
    int x = 0;
    for (int g = 0; g < 4; g++) {
        int width = 64 << g, out = 4 * width;
        for (int b = 0; b < blocks[g]; b++) {
            int stride = g && !b ? 2 : 1, after = size / stride;
            snprintf(t.scope, sizeof t.scope, "/layer%d.%d", g + 1, b);
            int h = map4(&t, "relu", convolve(&t, x, in, width, 1, size, 1), -1, width, size);
            h = map4(&t, "relu", convolve(&t, h, width, width, 3, after, stride), -1, width, after);
            h = convolve(&t, h, width, out, 1, after, 1);
            if (!b)
                x = convolve(&t, x, in, out, 1, after, stride);
            x = map4(&t, "relu", map4(&t, "add", x, h, out, after), -1, out, after);
            in = out;
            size = after;
        }
    }
    return end(&t, "(%x: f32[8,64,56,56])", x, "f32[8,2048,7,7]");
}

/* -- Cuts of networks ---------------------------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The dearest stage, from what each item costs. */
static double dearest(const struct partition *p)
{
    double *stage = IR_NEWN(ctx, p->o.stages, double), most = 0;
    for (int i = 0; i < p->n; i++) {
        ck_assert_int_ge(p->items[i].stage, 0);
        ck_assert_int_lt(p->items[i].stage, p->o.stages);
        ck_assert_int_eq(p->items[i].segment % p->o.stages, p->items[i].stage);
        stage[p->items[i].stage] += p->items[i].cost;
    }
    for (int s = 0; s < p->o.stages; s++)
        most = stage[s] > most ? stage[s] : most;
    return most;
}

static void check_order(const struct partition *p)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->items[i].node->nin; k++) {
            const struct ir_value *v = p->items[i].node->in[k].value;
            int from = v && v->def ? p->item_of[v->def->id] : -1;
            if (from >= 0)
                ck_assert_int_le(p->items[from].segment, p->items[i].segment);
        }
}

static void check_network(const struct ir_func *f, const char *tied)
{
    for (int k = 2; k <= 8; k *= 2)
        for (int memory = 0; memory < 2; memory++) {
            struct partition_options o = {
                .stages = k, .training = true, .memory_weight = memory ? 0.8 : 0.2, .default_stage = -1};
            double start = seconds();
            struct partition *p = partition_analyse(f, &o);
            ck_assert(partition_place(p));
            ck_assert_double_lt(seconds() - start, 2);
            ck_assert_double_le(dearest(p), 1.05 * exhaustive(p->n, p->load, p->may_cut, k) + 1e-9);
            check_order(p);
            int home = -1;
            for (int i = 0; tied && i < p->n; i++)
                for (int j = 0; j < p->items[i].node->nin; j++) {
                    const struct ir_state *s = partition_state_of(p->items[i].node->in[j].value);
                    if (!s || strcmp(s->name, tied))
                        continue;
                    ck_assert(home < 0 || home == p->items[i].stage);
                    home = p->items[i].stage;
                }
            ck_assert(!tied || home >= 0);
        }
}

START_TEST(a_gpt)
{
    check_network(gpt(24, false), NULL);
}
END_TEST

START_TEST(a_gpt_with_tied_weights)
{
    check_network(gpt(24, true), "table");
}
END_TEST

START_TEST(a_resnet)
{
    check_network(resnet50(), NULL);
}
END_TEST

START_TEST(a_translation_network)
{
    check_network(translation(), "table");
}
END_TEST

/* -- The tree method ----------------------------------------------------------------------------------------------- */

/*
 * Karakus et al., "Amazon SageMaker Model Parallelism" (2021, arXiv 2111.05972), as its open re-implementation has it:
 * the tree of modules is walked from the root; a module's devices are divided among contiguous segments of its children
 * by the D'Hondt method, and what a module computes itself is on the first of its devices.
 */
struct scope {
    char name[64];
    double own, cost; /* of its own nodes; of all below */
    struct scope *child[64];
    int nchildren, ndevices, device[8];
};

static struct scope *child_of(struct scope *parent, const char *name, int length)
{
    for (int i = 0; i < parent->nchildren; i++)
        if ((int)strlen(parent->child[i]->name) == length && !strncmp(parent->child[i]->name, name, (size_t)length))
            return parent->child[i];
    ck_assert_int_lt(parent->nchildren, 64);
    struct scope *s = parent->child[parent->nchildren++] = IR_NEW(ctx, struct scope);
    snprintf(s->name, sizeof s->name, "%.*s", length, name);
    return s;
}

/* "/encoder/layers.3/attn/MatMul5": encoder, layers, 3, attn; a node of no module is one. */
static void add_item(struct scope *root, const char *name, double cost)
{
    struct scope *s = root;
    root->cost += cost;
    for (const char *at = name ? name : "/other"; *at;) {
        at++;
        int n = (int)strcspn(at, "/.");
        bool last = !strchr(at, '/');
        if (last && s != root)
            break;
        s = child_of(s, at, n);
        s->cost += cost;
        at += last ? (int)strlen(at) : n;
    }
    s->own += cost;
}

/* l contiguous segments of at least one module each, the dearest as cheap as can be: first[l + 1]. */
static void segments(int n, struct scope *const *q, int l, int *first)
{
    double best[9][65];
    int cut[9][65];
    for (int k = 0; k <= l; k++)
        for (int i = 0; i <= n; i++)
            best[k][i] = k || i ? INFINITY : 0;
    for (int k = 1; k <= l; k++)
        for (int i = k; i <= n; i++) {
            double part = 0;
            for (int j = i - 1; j >= k - 1; j--) {
                part += q[j]->cost;
                double c = best[k - 1][j] > part ? best[k - 1][j] : part;
                if (c < best[k][i]) {
                    best[k][i] = c;
                    cut[k][i] = j;
                }
            }
        }
    first[l] = n;
    for (int k = l; k > 0; k--)
        first[k - 1] = cut[k][first[k]];
}

static void give(struct scope *s, int n, const int *device)
{
    s->ndevices = n;
    memcpy(s->device, device, (size_t)n * sizeof *device);
}

static void assign(int np, const int *p, int nq, struct scope *const *q, int parent)
{
    int l = np < nq ? np : nq, first[9], seats[8] = {0}, owned[8][8];
    double cost[8] = {0};
    segments(nq, q, l, first);
    for (int i = 0; i < l; i++)
        for (int k = first[i]; k < first[i + 1]; k++)
            cost[i] += q[k]->cost;
    for (int d = 0; d < np; d++) {
        int best = 0;
        for (int i = 1; i < l; i++)
            if (cost[i] / (seats[i] + 1) > cost[best] / (seats[best] + 1))
                best = i;
        owned[best][seats[best]++] = p[d];
    }
    for (int i = 0; i < l; i++) {
        int size = first[i + 1] - first[i];
        if (seats[i] > 1 && size > 1) {
            assign(seats[i], owned[i], size, q + first[i], parent);
            continue;
        }
        for (int k = first[i]; k < first[i + 1]; k++)
            give(q[k], seats[i] ? seats[i] : 1, seats[i] ? owned[i] : &parent);
    }
}

static void divide(struct scope *s, double *load)
{
    load[s->device[0]] += s->own;
    if (s->nchildren && s->ndevices > 1)
        assign(s->ndevices, s->device, s->nchildren, s->child, s->device[0]);
    for (int i = 0; i < s->nchildren; i++) {
        if (s->ndevices == 1)
            give(s->child[i], 1, s->device);
        divide(s->child[i], load);
    }
}

/* The dearest of k stages by the tree method on the same costs; tied modules count where the first of them is. */
static double dearest_of_tree(const struct partition *p, int k)
{
    struct scope *root = IR_NEW(ctx, struct scope);
    double load[8] = {0}, most = 0;
    for (int i = 0; i < p->n; i++)
        add_item(root, p->items[i].node->where.node, p->load[i]);
    root->ndevices = k;
    for (int i = 0; i < k; i++)
        root->device[i] = i;
    divide(root, load);
    double all = 0;
    for (int i = 0; i < k; i++) {
        most = load[i] > most ? load[i] : most;
        all += load[i];
    }
    ck_assert_double_eq_tol(all, root->cost, 1e-9);
    return most;
}

static bool table;

static void compare(const char *name, const struct ir_func *f)
{
    for (int k = 2; k <= 8; k *= 2) {
        struct partition_options o = {.stages = k, .training = true, .memory_weight = 0.2, .default_stage = -1};
        struct partition *p = partition_analyse(f, &o);
        ck_assert(partition_place(p));
        double ours = dearest(p), tree = dearest_of_tree(p, k);
        if (table)
            printf("| %s | %d | %.1f %% | %.1f %% | %.2f |\n", name, k, (ours * k - 1) * 100, (tree * k - 1) * 100,
                   tree / ours);
        ck_assert_double_le(ours, tree * (1 + 1e-9));
    }
}

START_TEST(the_tree_method)
{
    compare("24-layer GPT", gpt(24, false));
    compare("the same, tied", gpt(24, true));
    compare("ResNet-50", resnet50());
    compare("encoder-decoder", translation());
}
END_TEST

static const struct pass_cost *slow_to_launch(const struct pass_machine *m)
{
    static const struct pass_cost c = {.flops = 1e15, .bandwidth = 1e15, .launch = 1};
    (void)m;
    return &c;
}

/* Times are those of the machine's cost table: where a launch is all that counts, a product takes what an addition
 * does. */
START_TEST(time_of_the_machine)
{
    const struct pass_machine launcher = {.name = "launcher", .cost = slow_to_launch};
    struct partition_options o = {.stages = 2, .default_stage = -1, .machine = &launcher}, plain = o;
    const struct ir_func *f = gpt(2, false);
    struct partition *p = partition_analyse(f, &o), *q;
    double least = INFINITY, most = 0;
    plain.machine = NULL;
    q = partition_analyse(f, &plain);
    for (int i = 0; i < p->n; i++) {
        double seconds = p->items[i].time;
        ck_assert(pass_is_free(p->items[i].node) ? seconds == 0 : fabs(seconds - 1) < 1e-3);
        if (!pass_is_free(p->items[i].node)) {
            least = q->items[i].time < least ? q->items[i].time : least;
            most = q->items[i].time > most ? q->items[i].time : most;
        }
    }
    ck_assert_double_gt(most, 10 * least);
}
END_TEST

/* Bytes that the cache holds move at its rate; a kernel takes the larger of operations and bytes, and a launch. */
START_TEST(seconds_by_the_table)
{
    const struct pass_cost c = {
        .flops = 100, .half_flops = 200, .bandwidth = 10, .cache = 50, .cache_bandwidth = 100, .launch = 1};
    ck_assert_double_eq(pass_move_seconds(&c, 50), 0.5);
    ck_assert_double_eq(pass_move_seconds(&c, 60), 6);
    ck_assert_double_eq(pass_seconds(&c, 400, 20, false), 5);
    ck_assert_double_eq(pass_seconds(&c, 400, 20, true), 3);
    ck_assert_double_eq(pass_seconds(&c, 400, 60, true), 7);
}
END_TEST

/* The batch is the inputs' leading symbol, whatever its name: costs don't depend on how symbols are called. */
START_TEST(sizes_by_place)
{
    static const char *const names[] = {"N", "q", "batch_size", "s77"};
    struct partition_options o = {.stages = 2, .default_stage = -1};
    double first[3] = {0};

    for (int k = 0; k < 4; k++) {
        const char *text = ir_internf(ctx,
                                      "state @w : f32[32,32] param = f32[32,32] splat(0)\nfunc @main(%%x: "
                                      "f32[%s,T,32]) -> (f32[%s,T,32]) {\n  %%a = relu(%%x)\n"
                                      "  %%w = state_read() {name = \"w\"} : f32[32,32]\n  %%m = matmul(%%a, %%w)\n"
                                      "  %%e = exp(%%m)\n  return(%%e)\n}\n",
                                      names[k], names[k]);
        struct ir_module *m = ir_parse(ctx, "sizes.tcir", text, strlen(text));
        ck_assert_msg(m != NULL, "%s", ir_nmessages(ctx) ? ir_message(ctx, ir_nmessages(ctx) - 1)->text : "");
        struct partition *p = partition_analyse(m->funcs, &o);
        ck_assert_int_eq(p->n, 3);
        for (int i = 0; i < 3; i++) {
            first[i] = k ? first[i] : p->items[i].time;
            ck_assert_double_eq(p->items[i].time, first[i]);
        }
        ck_assert_double_eq(p->items[0].activations, 8 * 64 * 32 * 4);
    }
}
END_TEST

/* What a map names goes there; what it leaves out goes to the default stage, or is listed. */
START_TEST(maps)
{
    const struct ir_func *f = gpt(2, false);
    struct partition_options o = {.stages = 2, .map = "1 /head # last\n\n", .map_name = "a.map", .default_stage = 0};
    struct partition *p = partition_analyse(f, &o);
    ck_assert(partition_place(p));
    for (int i = 0; i < p->n; i++) {
        const char *name = p->items[i].node->where.node;
        ck_assert_int_eq(p->items[i].stage, name && !strcmp(name, "/head"));
    }
    o.default_stage = -1;
    ck_assert(!partition_place(partition_analyse(f, &o)));
    ck_assert_int_eq(ir_message(ctx, ir_nmessages(ctx) - 1)->kind, IR_D_USAGE);
    o.map = "2 /head\n";
    ck_assert(!partition_map_check(ctx, &o));
    o.map = "1\n";
    ck_assert(!partition_map_check(ctx, &o));
}
END_TEST

/* A parameter that a map would put into two stages is refused by name. */
START_TEST(a_map_that_tears_a_parameter)
{
    struct partition_options o = {.stages = 2, .map = "1 /head\n0 *\n", .map_name = "a.map", .default_stage = 0};
    ck_assert(!partition_place(partition_analyse(gpt(1, true), &o)));
    ck_assert_ptr_nonnull(strstr(ir_message(ctx, ir_nmessages(ctx) - 1)->text, "'table'"));
}
END_TEST

int main(int argc, char **argv)
{
    table = argc > 1 && !strcmp(argv[1], "--table");
    TCase *c = tcase_create("partition");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, random_costs);
    tcase_add_test(c, a_gpt);
    tcase_add_test(c, a_gpt_with_tied_weights);
    tcase_add_test(c, a_resnet);
    tcase_add_test(c, a_translation_network);
    tcase_add_test(c, the_tree_method);
    tcase_add_test(c, maps);
    tcase_add_test(c, sizes_by_place);
    tcase_add_test(c, time_of_the_machine);
    tcase_add_test(c, seconds_by_the_table);
    tcase_add_test(c, a_map_that_tears_a_parameter);
    tcase_set_timeout(c, 120);
    Suite *s = suite_create("partition");
    suite_add_tcase(s, c);
    return run_tests(s);
}
