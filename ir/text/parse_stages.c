/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_stages.c - text of entry points that run in stages (stages.h, doc/ir.md). They stand behind the functions, and
 * the plan, that they call. What is read passes kn_verify_staged(). Older texts name values instead of buffers, number
 * their calls, and have tasks for steps: they become the same.
 */

#include "ir/text/kernel_words_int.h"
#include "ir/text/parse_int.h"

struct reader {
    struct parser *p;
    struct kn_staged *x;
    VEC(struct kn_stage_input) inputs;
    VEC(struct kn_stage_output) outputs;
    VEC(struct kn_buffer) buffers;
    VEC(struct kn_step) calls; /* an older text's */
    VEC(int) early;
    int stages; /* met */
};

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

/* input "x" f32[N, 4] axis 0 */
static bool parse_input(struct reader *r)
{
    struct kn_stage_input in = {.axis = -1};
    if (!lex_string(r->p, &in.name) || !parse_type(r->p, &in.type) ||
        (lex_take_word(r->p, "axis") && !parse_number(r->p, 0, &in.axis)))
        return false;
    VEC_PUSH(r->p->ctx, r->inputs, in);
    return true;
}

/* output "loss" f32[] mean of 3 stage 1 */
static bool parse_output(struct reader *r)
{
    struct kn_stage_output o = {0};
    int how;
    if (!lex_string(r->p, &o.name) || !parse_type(r->p, &o.type) ||
        !take_word(r->p, kn_result_words, "way to combine microbatches", &how))
        return false;
    o.how = (enum tcc_combine)how;
    if (how == TCC_COMBINE_CONCAT && !parse_number(r->p, 0, &o.axis))
        return false;
    if (!lex_expect_word(r->p, "of") || !parse_number(r->p, 0, &o.buffer) || !lex_expect_word(r->p, "stage") ||
        !parse_number(r->p, 0, &o.stage))
        return false;
    VEC_PUSH(r->p->ctx, r->outputs, o);
    return true;
}

static bool parse_stage_buffer(struct reader *r)
{
    struct kn_buffer b = {0};
    if (!parse_buffer(r->p, &b, r->buffers.n))
        return false;
    VEC_PUSH(r->p->ctx, r->buffers, b);
    return true;
}

/* == Older texts == */

/* value 1 slots 2 f32[N, 8] name "h" device */
static bool parse_value(struct reader *r)
{
    static const char *const words[] = {"input", "slots", "sizes", NULL};
    static const enum tcc_space spaces[] = {TCC_SPACE_INPUT, TCC_SPACE_SLOT, TCC_SPACE_SIZES};
    struct kn_buffer b = {0};
    struct token at = r->p->tok;
    int space, n;
    if (!parse_number(r->p, 0, &n) ||
        (n != r->buffers.n && !parse_error(r->p, &at, "expected value %d", r->buffers.n)) ||
        !take_word(r->p, words, "kind of value", &space) || (space < 2 && !parse_number(r->p, space, &b.index)) ||
        !parse_type(r->p, &b.type) || !lex_expect_word(r->p, "name") || !lex_string(r->p, &b.name))
        return false;
    b.space = spaces[space];
    b.dtype = b.type->kind == IR_T_TENSOR ? (enum tcc_dtype)b.type->dtype : TCC_NONE;
    b.memory = lex_take_word(r->p, "device");
    VEC_PUSH(r->p->ctx, r->buffers, b);
    return true;
}

/* call 0 @step.forward0 stage 0 (0) -> (1) */
static bool parse_call(struct reader *r)
{
    struct kn_step c = {.kind = TCC_STEP_CALL};
    struct token at = r->p->tok;
    int number, stage, *in, *out, nout;
    if (!parse_number(r->p, 0, &number) ||
        (number != r->calls.n && !parse_error(r->p, &at, "expected call %d", r->calls.n)) ||
        !lex_global(r->p, &c.lib) || !lex_expect_word(r->p, "stage") || !parse_number(r->p, 0, &stage) ||
        !parse_numbers(r->p, &in, &c.nin) || !lex_expect(r->p, P_ARROW) || !parse_numbers(r->p, &out, &nout))
        return false;
    c.nargs = c.nin + nout;
    c.args = IR_NEWN(r->p->ctx, c.nargs + 1, int);
    for (int i = 0; i < c.nargs; i++)
        c.args[i] = i < c.nin ? in[i] : out[i - c.nin];
    VEC_PUSH(r->p->ctx, r->calls, c);
    return true;
}

/* Behind the word: 0 micro 1; 3 micro 1 to 0; 4 in 5. */
static bool parse_task(struct reader *r, const char *word, const struct token *at, struct kn_step *s)
{
    static const char *const words[] = {"call", "output", "send", "recv", "gather", NULL};
    static const enum tcc_step_kind kinds[] = {TCC_STEP_CALL, TCC_STEP_RESULT, TCC_STEP_SEND, TCC_STEP_RECV,
                                               TCC_STEP_COLLECTIVE};
    int task = kn_word(words, word), what;
    if (task < 0)
        return parse_error(r->p, at, "unknown task '%s'", word);
    if (!parse_number(r->p, 0, &what))
        return false;
    if ((task == 0 && what >= r->calls.n) || (task == 1 && what >= r->outputs.n))
        return parse_error(r->p, at, "there is no %s %d", word, what);
    *s = task == 0 ? r->calls.at[what] : (struct kn_step){.kind = kinds[task], .nin = task == 4};
    s->what = task == 1 ? what : task == 4 ? TCC_ALL_GATHER : 0;
    if (task) {
        s->nargs = 1 + (task == 4);
        s->args = IR_NEWN(r->p->ctx, 2, int);
        s->args[0] = task == 1 ? r->outputs.at[what].buffer : what;
    }
    if (task == 4)
        return lex_expect_word(r->p, "in") && parse_number(r->p, 0, &s->args[1]);
    if (!lex_expect_word(r->p, "micro") || !parse_number(r->p, 0, &s->micro))
        return false;
    return task < 2 || (lex_expect_word(r->p, task == 2 ? "to" : "from") && parse_number(r->p, 0, &s->peer));
}

/* == Lists == */

static bool parse_list(struct reader *r, struct kn_steps *steps)
{
    if (!lex_expect(r->p, '{'))
        return false;
    while (!lex_is(r->p, '}')) {
        struct kn_step s = {0};
        struct token at = r->p->tok;
        const char *word;
        if (!lex_ident(r->p, &word) ||
            !(r->p->tok.kind == T_NUMBER ? parse_task(r, word, &at, &s) : parse_step(r->p, word, &at, &s)))
            return false;
        VEC_PUSH(r->p->ctx, *steps, s);
    }
    lex_next(r->p);
    return true;
}

static bool parse_stage(struct reader *r)
{
    struct token at = r->p->tok;
    int number;
    if (!parse_number(r->p, 0, &number))
        return false;
    if (number != r->stages)
        return parse_error(r->p, &at, "expected stage %d", r->stages);
    if (r->stages == r->x->stages)
        return parse_error(r->p, &at, "stage %d of %d", r->stages, r->x->stages);
    return parse_list(r, &r->x->lists[r->stages++]);
}

/* accumulates counter @train.micro early @mean, @var */
static bool parse_head(struct reader *r)
{
    struct ir_state *s;
    r->x->accumulates = lex_take_word(r->p, "accumulates");
    if (lex_take_word(r->p, "counter")) {
        if (!take_state(r->p, &s))
            return false;
        r->x->counter = s;
    }
    if (lex_take_word(r->p, "early"))
        do {
            if (!take_state(r->p, &s))
                return false;
            VEC_PUSH(r->p->ctx, r->early, s->index);
        } while (lex_take(r->p, ','));
    return true;
}

static bool parse_line(struct reader *r)
{
    return lex_take_word(r->p, "input")    ? parse_input(r)
           : lex_take_word(r->p, "buffer") ? parse_stage_buffer(r)
           : lex_take_word(r->p, "output") ? parse_output(r)
           : lex_take_word(r->p, "stage")  ? parse_stage(r)
           : lex_take_word(r->p, "last")   ? parse_list(r, &r->x->lists[r->x->stages])
           : lex_take_word(r->p, "value")  ? parse_value(r)
           : lex_take_word(r->p, "call")   ? parse_call(r)
                                           : parse_expected(r->p, "input, buffer, output, stage or last");
}

static bool parse_body(struct reader *r)
{
    struct kn_staged *x = r->x;
    struct token at = r->p->tok;
    int last = -1;
    if (!parse_head(r) || (lex_take_word(r->p, "last") && !parse_number(r->p, 0, &last)) || !lex_expect(r->p, '{'))
        return false;
    while (!lex_is(r->p, '}'))
        if (!parse_line(r))
            return false;
    lex_next(r->p);
    if (last >= r->calls.n)
        return parse_error(r->p, &at, "there is no call %d to be the last", last);
    if (last >= 0)
        VEC_PUSH(r->p->ctx, x->lists[x->stages], r->calls.at[last]);
    for (int l = 0; l <= x->stages; l++)
        for (int i = 0; i < x->lists[l].n; i++) {
            struct kn_step *s = &x->lists[l].at[i];
            s->func = s->kind == TCC_STEP_CALL && s->lib ? ir_func_by_name(r->p->module, s->lib) : NULL;
        }
    x->inputs = r->inputs.at, x->ninputs = r->inputs.n;
    x->outputs = r->outputs.at, x->noutputs = r->outputs.n;
    x->buffers = r->buffers.at, x->nbuffers = r->buffers.n;
    x->early = r->early.at, x->nearly = r->early.n;
    return true;
}

bool parse_staged(struct parser *p)
{
    enum { MOST = 65536 };
    struct kn_staged *x = IR_NEW(p->ctx, struct kn_staged), **end = &p->module->staged;
    struct reader r = {.p = p, .x = x};
    struct token at = p->tok;
    if (!lex_string(p, &x->name))
        return false;
    if (kn_staged_by_name(p->module, x->name))
        return parse_error(p, &at, "the stages of '%s' are given twice", x->name);
    at = p->tok;
    if (!parse_number(p, 1, &x->stages) || !lex_expect_word(p, "micros") || !parse_number(p, 1, &x->micros))
        return false;
    if (x->stages > MOST || x->micros > MOST)
        return parse_error(p, &at, "at most %d stages and %d microbatches", MOST, MOST);
    x->lists = IR_NEWN(p->ctx, x->stages + 1, struct kn_steps);
    while (*end)
        end = &(*end)->next;
    return parse_body(&r) && (*end = x);
}
