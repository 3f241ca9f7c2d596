/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optim.c - optimizers and the loss scaler, through the update that compiled steps have (passes/optim*.c).
 *
 * That update reads and writes state variables by name. While it is recorded the module holds variables of these
 * names; then each read is replaced by the tensor that stands for the variable, and each write becomes an assignment
 * to it. Rate, step count and scale are tensors like the moments: inputs of the graph, not constants.
 */
#include "base/grow.h"
#include "base/numbers.h"
#include "compiler/trace/trace_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor that stands for a state variable. */
struct slot {
    char *name;
    struct trace_tensor *t; /* retained */
};

struct trace_optimizer {
    struct trace_ctx *c;
    struct trace_optimizer *next;
    char *text, *schedule, *state, *group;
    double clip_norm, bucket_cap_mb;
    bool data_parallel;
    int n;
    struct slot *params;
    int nslots;
    struct slot *slots;
};

struct trace_scaler {
    struct trace_ctx *c;
    struct trace_scaler *next;
    struct slot slots[2]; /* train.scale, train.growth */
    char text[200];       /* of --loss-scale */
};

static const char *group_of(const struct trace_optimizer *o)
{
    return o->group ? o->group : "dp";
}

static struct train_options options_of(const struct trace_optimizer *o, const char *scale)
{
    return (struct train_options){.optimizer = o->text,
                                  .schedule = o->schedule,
                                  .optimizer_state = o->state,
                                  .clip_norm = o->clip_norm,
                                  .data_parallel = o->data_parallel,
                                  .bucket_cap_mb = o->bucket_cap_mb,
                                  .loss_scale = scale};
}

/* -- Making one --------------------------------------------------------------------------------------------- */

static struct trace_data *initial(const struct ir_state *s)
{
    int64_t dims[TCC_MAX_RANK];
    ir_static_dims(s->type, dims);
    struct trace_data *d = trace_data_new(s->type->dtype, s->type->rank, dims);
    size_t each = (size_t)tcc_dtype_bytes((enum tcc_dtype)s->type->dtype);
    for (int64_t i = 0; d && s->init && i < s->init->nelems; i++)
        memcpy((char *)d->o->t.data + (size_t)i * each, ir_tensor_at(s->init, i), each);
    return d;
}

/* Takes over the data. */
static struct trace_tensor *add_slot(struct trace_optimizer *o, const char *name, struct trace_data *data)
{
    struct slot slot = {ONE_MORE(o->slots, o->nslots) ? strdup(name) : NULL, NULL};
    if (slot.name)
        slot.t = trace_retain(trace_tensor_data(o->c, data));
    else
        trace_data_unref(data);
    if (!slot.t) {
        free(slot.name);
        return trace_no_memory(o->c), NULL;
    }
    slot.t->temporary = false;
    o->slots[o->nslots++] = slot;
    return slot.t;
}

/* Seed and number of the next execution, of which random numbers are a function: a resumed program needs them too. */
static void add_random(struct trace_optimizer *o)
{
    struct trace_tensor *t =
        o->c->status ? NULL : add_slot(o, "train.random", trace_data_new(TCC_I64, 1, (int64_t[]){2}));
    if (t)
        t->random = true;
}

static const char *first_error(const struct ir_ctx *ctx)
{
    for (int i = 0; i < ir_nmessages(ctx); i++)
        if (ir_message(ctx, i)->severity >= IR_ERROR)
            return ir_message(ctx, i)->text;
    return "the optimizer cannot be made";
}

/* The variables that the update will want, with their first values. */
static void make_slots(struct trace_optimizer *o, struct ir_ctx *ctx)
{
    struct train_options options = options_of(o, NULL);
    struct ir_module *m = ir_module_new(ctx, "optimizer");
    struct ir_state **params = IR_NEWN(ctx, (size_t)o->n + 1, struct ir_state *);
    for (int i = 0; i < o->n; i++) {
        const struct trace_tensor *t = o->params[i].t;
        if (ir_state_by_name(m, o->params[i].name)) {
            trace_fail(o->c, TCC_EUSAGE, "optimizer: two parameters have the name '%s'", o->params[i].name);
            return;
        }
        params[i] = ir_state_new(m, o->params[i].name,
                                 ir_tensor_type_i(ctx, (enum tcc_dtype)t->dtype, t->rank, t->dims), NULL, 0);
    }
    if (!train_update_states(m, &options, o->n, params)) {
        trace_fail(o->c, TCC_EUSAGE, "%s", first_error(ctx));
        return;
    }
    const struct ir_state *s = m->states;
    for (int i = 0; i < o->n; i++)
        s = s->next;
    for (; s && add_slot(o, s->name, initial(s)); s = s->next)
        ;
    add_random(o);
}

static void make_slots_in(struct trace_optimizer *o, struct ir_ctx *ctx)
{
    struct ir_protect frame;
    if (IR_PROTECT(ctx, &frame)) {
        make_slots(o, ctx);
        ir_unprotect(ctx);
    } else {
        trace_no_memory(o->c);
    }
}

static void slots_free(int n, struct slot *slots)
{
    for (int i = 0; i < n; i++) {
        free(slots[i].name);
        trace_release(slots[i].t);
    }
}

void trace_optimizer_free(struct trace_optimizer *o)
{
    if (!o)
        return;
    UNLINK(o->c->optimizers, o);
    slots_free(o->n, o->params);
    slots_free(o->nslots, o->slots);
    free(o->params);
    free(o->slots);
    free(o->text);
    free(o->schedule);
    free(o->state);
    free(o->group);
    free(o);
}

static bool take_params(struct trace_optimizer *o, int n, struct trace_tensor *const *params)
{
    o->params = calloc((size_t)n + 1, sizeof *o->params);
    for (int i = 0; o->params && i < n; i++) {
        char number[32];
        snprintf(number, sizeof number, "param%d", i);
        if (!params[i] || params[i]->c != o->c || !params[i]->param) {
            trace_fail(o->c, TCC_EUSAGE, "optimizer: tensor %d is no parameter of this context", i);
            return false;
        }
        o->params[i] = (struct slot){strdup(params[i]->name ? params[i]->name : number), trace_retain(params[i])};
        o->n++;
        if (!o->params[i].name)
            break;
    }
    if (!o->params || o->n < n || (n && !o->params[n - 1].name))
        return trace_no_memory(o->c), false;
    return true;
}

static bool take_options(struct trace_optimizer *o, const char *text, const struct trace_optimizer_options *options)
{
    static const struct trace_optimizer_options none;
    const struct trace_optimizer_options *from = options ? options : &none;
    o->text = text ? strdup(text) : NULL;
    o->schedule = from->schedule ? strdup(from->schedule) : NULL;
    o->state = from->state ? strdup(from->state) : NULL;
    o->clip_norm = from->clip_norm;
    o->group = from->group ? strdup(from->group) : NULL;
    o->data_parallel = from->data_parallel || from->group;
    o->bucket_cap_mb = from->bucket_cap_mb;
    if ((!text || o->text) && (!from->schedule || o->schedule) && (!from->state || o->state) &&
        (!from->group || o->group))
        return true;
    return trace_no_memory(o->c), false;
}

struct trace_optimizer *trace_optimizer(struct trace_ctx *c, const char *text, int n,
                                        struct trace_tensor *const *params,
                                        const struct trace_optimizer_options *options)
{
    if (c->status)
        return NULL;
    struct trace_optimizer *o = calloc(1, sizeof *o);
    struct ir_ctx *ctx = o ? ir_ctx_new() : NULL;
    if (!ctx) {
        free(o);
        return trace_no_memory(c), NULL;
    }
    o->c = c;
    o->next = c->optimizers;
    c->optimizers = o;
    if (take_options(o, text, options) && take_params(o, n, params))
        make_slots_in(o, ctx);
    if (!c->status && o->data_parallel && !trace_check_group(c, "optimizer", group_of(o)))
        trace_share_tensors(c, group_of(o), o->n, params);
    ir_ctx_free(ctx);
    if (!c->status)
        return o;
    trace_optimizer_free(o);
    return NULL;
}

/* -- One update ----------------------------------------------------------------------------------------------- */

struct step_work {
    struct trace_optimizer *o;
    struct trace_scaler *scaler;
    struct trace_tensor **tensors; /* by the number of their state variable */
};

static struct ir_state *declare(struct ir_module *m, const struct step_work *w, const char *name,
                                struct trace_tensor *t)
{
    ir_type type = ir_tensor_type_i(m->ctx, (enum tcc_dtype)t->dtype, t->rank, t->dims);
    struct ir_state *s = ir_state_new(m, name, type, NULL, 0);
    w->tensors[s->index] = t;
    return s;
}

/* Reads become the tensors' values, writes become assignments; what an update reads after it has written it, it gets
 * from there. */
static bool resolve(const struct step_work *w, struct ir_node *from)
{
    for (struct ir_node *n = from, *next; n; n = next) {
        next = n->next;
        if (n->op != IR_state_read && n->op != IR_state_write)
            continue;
        const struct ir_state *s = ir_state_of(n);
        struct ir_value *v = n->op == IR_state_read ? trace_value(w->tensors[s->index]) : n->in[0].value;
        if (!v)
            return false;
        if (n->op == IR_state_write)
            trace_become(w->tensors[s->index], v);
        else
            ir_replace_uses(n->out[0], v);
        struct ir_node *version = n->in[n->nin - 1].value->def;
        ir_remove(n);
        if (!ir_has_uses(version->out[0]))
            ir_remove(version);
    }
    return true;
}

/* The gradients' means over the copies, of each stage by itself: stages have buckets of their own. */
static bool reduce(struct trace_ctx *c, const struct train_options *options, int n, const int *stages,
                   struct ir_state *const *params, struct ir_value **grads)
{
    struct trace_graph *g = &c->graph;
    struct ir_state **some = IR_NEWN(g->ctx, (size_t)n + 1, struct ir_state *);
    struct ir_value **values = IR_NEWN(g->ctx, (size_t)n + 1, struct ir_value *);
    bool *done = IR_NEWN(g->ctx, (size_t)n + 1, bool);
    for (int first = 0; first < n; first++) {
        int count = 0;
        for (int i = first; i < n; i++)
            if (!done[i] && stages[i] == stages[first]) {
                some[count] = params[i];
                values[count++] = grads[i];
            }
        if (count && !train_parallel_gradients(&g->b, options, count, some, values))
            return false;
        for (int i = first, k = 0; k < count; i++)
            if (!done[i] && stages[i] == stages[first]) {
                grads[i] = values[k++];
                done[i] = true;
            }
    }
    g->effects = true;
    return true;
}

static void build_step(struct trace_ctx *c, void *arg)
{
    struct step_work *w = arg;
    const struct trace_optimizer *o = w->o;
    struct trace_graph *g = &c->graph;
    struct train_options options = options_of(o, w->scaler ? w->scaler->text : NULL);
    struct ir_state **params = IR_NEWN(g->ctx, (size_t)o->n + 1, struct ir_state *);
    struct ir_value **values = IR_NEWN(g->ctx, (size_t)o->n + 1, struct ir_value *);
    struct ir_value **grads = IR_NEWN(g->ctx, (size_t)o->n + 1, struct ir_value *);
    int n = 0, *stages = IR_NEWN(g->ctx, (size_t)o->n + 1, int);
    w->tensors = IR_NEWN(g->ctx, (size_t)(o->n + o->nslots + 2), struct trace_tensor *);
    for (int i = 0; i < o->n; i++) {
        struct trace_tensor *t = o->params[i].t;
        if (!t->grad)
            continue;
        params[n] = declare(g->module, w, o->params[i].name, t);
        values[n] = trace_value(t);
        grads[n] = trace_value(t->grad);
        stages[n] = trace_stage_of(t);
        if (!values[n] || !grads[n++])
            break;
        t->used_grad = true;
    }
    if (!n)
        trace_fail(c, TCC_EUSAGE, "optimizer: none of its parameters has a gradient");
    for (int i = 0; i < o->nslots; i++)
        declare(g->module, w, o->slots[i].name, o->slots[i].t);
    for (int i = 0; w->scaler && i < 2; i++)
        declare(g->module, w, w->scaler->slots[i].name, w->scaler->slots[i].t);
    g->b.where = (struct ir_where){.op = "optimizer"};
    bool together = o->data_parallel && trace_comm(c, group_of(o));
    uint32_t first = g->func->nnodes;
    bool fine = !c->status && (!together || reduce(c, &options, n, stages, params, grads));
    if (together)
        train_use_group(g->func->body, first, ir_intern(g->ctx, group_of(o)));
    struct ir_node *last = g->func->body->last;
    if (fine && train_update(&g->b, &options, n, params, values, grads))
        resolve(w, last ? last->next : g->func->body->first);
    g->module->states = g->module->last_state = NULL;
}

int trace_optimizer_step(struct trace_optimizer *o)
{
    struct step_work w = {.o = o};
    return o ? trace_do(o->c, build_step, &w) : TCC_EUSAGE;
}

void trace_zero_grad(struct trace_optimizer *o)
{
    for (int i = 0; o && i < o->n; i++)
        trace_forget_grad(o->params[i].t);
}

/* -- Settings --------------------------------------------------------------------------------------------------- */

struct trace_tensor *trace_optimizer_state(struct trace_optimizer *o, const char *name)
{
    for (int i = 0; o && i < o->nslots; i++)
        if (!strcmp(o->slots[i].name, name))
            return o->slots[i].t;
    return NULL;
}

const char *trace_optimizer_state_name(const struct trace_optimizer *o, int i)
{
    return o && i >= 0 && i < o->nslots ? o->slots[i].name : NULL;
}

int trace_set_rate(struct trace_optimizer *o, double rate)
{
    float value = (float)rate;
    const struct tcc_tensor host = {&value, TCC_F32, 0, {0}};
    if (!o)
        return TCC_EUSAGE;
    if (!(rate >= 0))
        return trace_fail(o->c, TCC_EUSAGE, "set_rate: the rate is %g; a number that is not negative is expected",
                          rate);
    return trace_set(trace_optimizer_state(o, "train.rate"), &host);
}

int trace_set_epoch(struct trace_optimizer *o, int64_t epoch)
{
    const struct tcc_tensor host = {&epoch, TCC_I64, 0, {0}};
    return o ? trace_set(trace_optimizer_state(o, "train.epoch"), &host) : TCC_EUSAGE;
}

/* -- The loss scaler ---------------------------------------------------------------------------------------------- */

/* The options' text, defaults left out; false: a number that can't be. */
static bool scaler_text(struct trace_scaler *s, const struct trace_scaler_options *o)
{
    bool ok = o->init >= 0 && isfinite(o->init) && (o->growth == 0 || (o->growth > 1 && isfinite(o->growth))) &&
              o->backoff >= 0 && o->backoff < 1 && o->interval >= 0 && o->interval <= INT32_MAX;
    size_t n = (size_t)snprintf(s->text, sizeof s->text, "dynamic");
    const struct {
        const char *name;
        double value;
    } given[] = {{"growth", o->growth}, {"backoff", o->backoff}, {"interval", (double)o->interval}};
    bool first = true;
    locale_t before = tcc_locale_plain();
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].value != 0) {
            n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%c%s=%.17g", first ? ':' : ',', given[i].name,
                                  given[i].value);
            first = false;
        }
    tcc_locale_back(before);
    return ok;
}

struct trace_scaler *trace_scaler_new(struct trace_ctx *c, const struct trace_scaler_options *options)
{
    static const char *const names[2] = {"train.scale", "train.growth"};
    static const struct trace_scaler_options defaults;
    const struct trace_scaler_options *o = options ? options : &defaults;
    if (c->status)
        return NULL;
    struct trace_scaler *s = calloc(1, sizeof *s);
    if (!s)
        return trace_no_memory(c), NULL;
    s->c = c;
    s->next = c->scalers;
    c->scalers = s;
    if (!scaler_text(s, o))
        trace_fail(
            c, TCC_EUSAGE,
            "scaler: init %g, growth %g, backoff %g, interval %lld: expected init > 0, growth > 1, 0 < backoff < 1, "
            "interval > 0",
            o->init, o->growth, o->backoff, (long long)o->interval);
    for (int i = 0; i < 2 && !c->status; i++) {
        double first = i ? 0 : o->init == 0 ? 65536 : o->init;
        s->slots[i].name = strdup(names[i]);
        s->slots[i].t = trace_retain(trace_from_number(c, i ? TCC_I32 : TCC_F32, first));
        if (!s->slots[i].name || !s->slots[i].t)
            trace_no_memory(c);
    }
    if (!c->status)
        return s;
    trace_scaler_free(s);
    return NULL;
}

struct trace_scaler *trace_scaler(struct trace_ctx *c, double scale)
{
    return trace_scaler_new(c, &(struct trace_scaler_options){.init = scale});
}

struct trace_tensor *trace_scaler_state(struct trace_scaler *s, const char *name)
{
    for (int i = 0; s && i < 2; i++)
        if (!strcmp(s->slots[i].name, name))
            return s->slots[i].t;
    return NULL;
}

const char *trace_scaler_state_name(const struct trace_scaler *s, int i)
{
    return s && i >= 0 && i < 2 ? s->slots[i].name : NULL;
}

void trace_scaler_free(struct trace_scaler *s)
{
    if (!s)
        return;
    UNLINK(s->c->scalers, s);
    slots_free(2, s->slots);
    free(s);
}

struct trace_tensor *trace_scaler_scale(struct trace_scaler *s, struct trace_tensor *loss)
{
    return s && loss ? trace_mul(loss, trace_cast(s->slots[0].t, loss->dtype)) : NULL;
}

int trace_scaler_step(struct trace_scaler *s, struct trace_optimizer *o)
{
    struct step_work w = {.o = o, .scaler = s};
    if (!s || !o)
        return TCC_EUSAGE;
    if (s->c != o->c)
        return trace_fail(s->c, TCC_EUSAGE, "scaler: the optimizer is of another context");
    return trace_do(o->c, build_step, &w);
}

struct trace_tensor *trace_scaler_value(struct trace_scaler *s)
{
    return s ? s->slots[0].t : NULL;
}

void trace_optimizers_free(struct trace_ctx *c)
{
    while (c->optimizers)
        trace_optimizer_free(c->optimizers);
    while (c->scalers)
        trace_scaler_free(c->scalers);
}
