/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of a schedule as a number, for programs that set train.rate themselves: the graph that a compiled-in
 * schedule would be (lr_schedule.c), run in the interpreter, so that both give the same rates.
 */
#include "passes/train/optim_int.h"

struct train_schedule {
    struct ir_func *f;
};

struct train_schedule *train_schedule_new(struct ir_ctx *ctx, const char *text)
{
    struct train_options o = {.schedule = text};
    const struct optim_config *c = optim_parse(ctx, &o);
    if (!c)
        return NULL;
    struct train_schedule *s = IR_NEW(ctx, struct train_schedule);
    struct ir_module *m = ir_module_new(ctx, "schedule");
    s->f = ir_func_new(m, "main");
    struct ir_value *base = ir_input_new(s->f, ir_scalar_type(ctx, TCC_F64), "base");
    struct ir_value *step = ir_input_new(s->f, ir_scalar_type(ctx, TCC_I64), "step");
    struct ir_value *epoch = ir_input_new(s->f, ir_scalar_type(ctx, TCC_I64), "epoch");
    struct ir_builder b = {.ctx = ctx, .func = s->f, .block = s->f->body};
    struct ir_value *rate = schedule_rate(&b, &c->schedule, base, step, epoch);
    return rate && ir_return(&b, 1, &rate, NULL) ? s : NULL;
}

bool train_schedule_rate(const struct train_schedule *s, double base, int64_t step, int64_t epoch, double *rate)
{
    struct tcc_object in[3] = {{.refs = -1, .kind = TCC_OBJ_TENSOR, .t = {&base, TCC_F64, 0, {0}}},
                               {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = {&step, TCC_I64, 0, {0}}},
                               {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = {&epoch, TCC_I64, 0, {0}}}};
    struct tcc_object *list[3] = {&in[0], &in[1], &in[2]}, *out = NULL;
    char error[256];
    if (ir_interp(s->f, NULL, list, &out, error, sizeof error) != TCC_OK)
        return false;
    *rate = *(const double *)out->t.data;
    tccrt_object_unref(out);
    return true;
}
