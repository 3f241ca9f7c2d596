/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_pipe.c - text of pipelines: entry points that are run by stages (pipe.h, doc/ir.md). They stand behind the
 * functions, and the plan, that they call. What is read passes pipe_verify.
 */
#include "ir/text/kernel_words_int.h"
#include "ir/text/parse_int.h"

struct reader {
    struct parser *p;
    struct pipe *pipe;
    VEC(struct pipe_input) inputs;
    VEC(struct pipe_output) outputs;
    VEC(struct pipe_value) values;
    VEC(struct pipe_call) calls;
    VEC(int) early;
    int stages; /* met */
};

static bool take_number(struct parser *p, int64_t lo, int *out)
{
    int64_t v;
    if (!lex_small(p, lo, INT32_MAX, &v))
        return false;
    *out = (int)v;
    return true;
}

/* The number that the next thing of a list must have. */
static bool take_next(struct parser *p, const char *what, int number)
{
    struct token at = p->tok;
    int n;
    return take_number(p, 0, &n) && (n == number || parse_error(p, &at, "expected %s %d", what, number));
}

static bool take_word(struct parser *p, const char *const *words, const char *what, int *out)
{
    struct token at = p->tok;
    const char *word;
    if (!lex_ident(p, &word))
        return false;
    *out = kn_word(words, word);
    return *out >= 0 || parse_error(p, &at, "unknown %s '%s'", what, word);
}

static bool take_state(struct parser *p, struct ir_state **s)
{
    struct token at = p->tok;
    const char *name;
    if (!lex_global(p, &name))
        return false;
    *s = ir_state_by_name(p->module, name);
    return *s || parse_error(p, &at, "unknown state variable @%s", name);
}

/* (0, 3) */
static bool take_values(struct parser *p, int **out, int *n)
{
    VEC(int) v = {0};
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        int i;
        if ((v.n && !lex_expect(p, ',')) || !take_number(p, 0, &i))
            return false;
        VEC_PUSH(p->ctx, v, i);
    }
    lex_next(p);
    *out = v.at;
    *n = v.n;
    return true;
}

/* input "x" f32[N, 4] axis 0 */
static bool parse_input(struct reader *r)
{
    struct pipe_input in = {.axis = -1};
    if (!lex_string(r->p, &in.name) || !parse_type(r->p, &in.type) ||
        (lex_take_word(r->p, "axis") && !take_number(r->p, 0, &in.axis)))
        return false;
    VEC_PUSH(r->p->ctx, r->inputs, in);
    return true;
}

/* value 1 slots 2 f32[N, 8] name "h" device */
static bool parse_value(struct reader *r)
{
    struct pipe_value v = {.slots = 1};
    int space;
    if (!take_next(r->p, "value", r->values.n) || !take_word(r->p, pipe_space_words, "kind of value", &space))
        return false;
    v.space = (enum tcc_pipe_space)space;
    if (space != TCC_PIPE_DIMS &&
        !take_number(r->p, space == TCC_PIPE_SLOT, space == TCC_PIPE_SLOT ? &v.slots : &v.input))
        return false;
    if (!parse_type(r->p, &v.type) || !lex_expect_word(r->p, "name") || !lex_string(r->p, &v.name))
        return false;
    v.on_device = space == TCC_PIPE_SLOT && lex_take_word(r->p, "device");
    VEC_PUSH(r->p->ctx, r->values, v);
    return true;
}

/* call 0 @step.forward0 stage 0 (0) -> (1) */
static bool parse_call(struct reader *r)
{
    struct pipe_call c = {0};
    if (!take_next(r->p, "call", r->calls.n) || !lex_global(r->p, &c.name) || !lex_expect_word(r->p, "stage") ||
        !take_number(r->p, 0, &c.stage) || !take_values(r->p, &c.in, &c.nin) || !lex_expect(r->p, P_ARROW) ||
        !take_values(r->p, &c.out, &c.nout))
        return false;
    c.func = ir_func_by_name(r->p->module, c.name);
    VEC_PUSH(r->p->ctx, r->calls, c);
    return true;
}

/* output "loss" f32[] mean of 3 stage 1 */
static bool parse_output(struct reader *r)
{
    struct pipe_output o = {0};
    int how;
    if (!lex_string(r->p, &o.name) || !parse_type(r->p, &o.type) ||
        !take_word(r->p, pipe_reduce_words, "way to combine microbatches", &how))
        return false;
    o.how = (enum tcc_pipe_reduce)how;
    if (how == TCC_PIPE_CONCAT && !take_number(r->p, 0, &o.axis))
        return false;
    if (!lex_expect_word(r->p, "of") || !take_number(r->p, 0, &o.value) || !lex_expect_word(r->p, "stage") ||
        !take_number(r->p, 0, &o.stage))
        return false;
    VEC_PUSH(r->p->ctx, r->outputs, o);
    return true;
}

static bool parse_task(struct reader *r, struct pipe_task *t)
{
    int kind;
    *t = (struct pipe_task){0};
    if (!take_word(r->p, pipe_task_words, "task", &kind) || !take_number(r->p, 0, &t->what))
        return false;
    t->kind = (enum tcc_task_kind)kind;
    if (kind == TCC_TASK_GATHER)
        return lex_expect_word(r->p, "in") && take_number(r->p, 0, &t->peer);
    if (!lex_expect_word(r->p, "micro") || !take_number(r->p, 0, &t->micro))
        return false;
    bool send = kind == TCC_TASK_SEND;
    return (!send && kind != TCC_TASK_RECV) ||
           (lex_expect_word(r->p, send ? "to" : "from") && take_number(r->p, 0, &t->peer));
}

static bool parse_stage(struct reader *r)
{
    struct token at = r->p->tok;
    if (!take_next(r->p, "stage", r->stages))
        return false;
    if (r->stages == r->pipe->stages)
        return parse_error(r->p, &at, "stage %d of %d", r->stages, r->pipe->stages);
    struct pipe_tasks *tasks = &r->pipe->tasks[r->stages++];
    if (!lex_expect(r->p, '{'))
        return false;
    while (!lex_is(r->p, '}')) {
        struct pipe_task t;
        if (!parse_task(r, &t))
            return false;
        VEC_PUSH(r->p->ctx, *tasks, t);
    }
    lex_next(r->p);
    return true;
}

/* accumulates counter @train.micro early @mean, @var last 5 */
static bool parse_head(struct reader *r)
{
    struct ir_state *s;
    r->pipe->accumulates = lex_take_word(r->p, "accumulates");
    if (lex_take_word(r->p, "counter")) {
        if (!take_state(r->p, &s))
            return false;
        r->pipe->counter = s;
    }
    if (lex_take_word(r->p, "early"))
        do {
            if (!take_state(r->p, &s))
                return false;
            VEC_PUSH(r->p->ctx, r->early, s->index);
        } while (lex_take(r->p, ','));
    return !lex_take_word(r->p, "last") || take_number(r->p, 0, &r->pipe->last);
}

static bool parse_line(struct reader *r)
{
    return lex_take_word(r->p, "input")    ? parse_input(r)
           : lex_take_word(r->p, "value")  ? parse_value(r)
           : lex_take_word(r->p, "call")   ? parse_call(r)
           : lex_take_word(r->p, "output") ? parse_output(r)
           : lex_take_word(r->p, "stage")  ? parse_stage(r)
                                           : parse_expected(r->p, "input, value, call, output or stage");
}

bool parse_pipe(struct parser *p)
{
    enum { MOST = 65536 };
    struct pipe *x = IR_NEW(p->ctx, struct pipe);
    struct reader r = {.p = p, .pipe = x};
    struct token at = p->tok;
    x->last = -1;
    if (!lex_string(p, &x->name))
        return false;
    if (pipe_by_name(p->module, x->name))
        return parse_error(p, &at, "the stages of '%s' are given twice", x->name);
    at = p->tok;
    if (!take_number(p, 1, &x->stages) || !lex_expect_word(p, "micros") || !take_number(p, 1, &x->micros))
        return false;
    if (x->stages > MOST || x->micros > MOST)
        return parse_error(p, &at, "at most %d stages and %d microbatches", MOST, MOST);
    x->tasks = IR_NEWN(p->ctx, x->stages + 1, struct pipe_tasks);
    if (!parse_head(&r) || !lex_expect(p, '{'))
        return false;
    while (!lex_is(p, '}'))
        if (!parse_line(&r))
            return false;
    lex_next(p);
    x->inputs = r.inputs.at, x->ninputs = r.inputs.n;
    x->outputs = r.outputs.at, x->noutputs = r.outputs.n;
    x->values = r.values.at, x->nvalues = r.values.n;
    x->calls = r.calls.at, x->ncalls = r.calls.n;
    x->early = r.early.at, x->nearly = r.early.n;
    struct pipe **end = &p->module->pipes;
    while (*end)
        end = &(*end)->next;
    *end = x;
    return true;
}
