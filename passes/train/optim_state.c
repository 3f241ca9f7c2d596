/* SPDX-License-Identifier: Apache-2.0 */
/* optim_state.c - state variables of an optimizer: step, loss scale, slots, master weights, averages; their names. */
#include "passes/train/optim_int.h"

static struct ir_state *new_state(struct ir_module *m, const char *name, ir_type type, struct ir_tensor *init)
{
    struct ir_state *s = ir_state_by_name(m, name);
    if (s) {
        ir_tensor_unref(init);
        return s;
    }
    return ir_state_new(m, name, type, init, IR_STATE_OPTIMIZER);
}

static bool new_scalar(struct ir_module *m, const char *name, enum tcc_dtype dtype, double init)
{
    struct ir_tensor *t = NULL;
    if (init != 0)
        t = tcc_is_float(dtype) ? ir_tensor_scalar_f(dtype, init) : ir_tensor_scalar_i(dtype, (int64_t)init);
    if (init != 0 && !t)
        ir_no_memory(m->ctx);
    return new_state(m, name, ir_scalar_type(m->ctx, dtype), t) != NULL;
}

const char *optim_slot_name(struct ir_ctx *ctx, const struct optim_slot *slot, const char *parameter)
{
    return ir_internf(ctx, "optimizer.%s.%s", slot->name, parameter);
}

/* The type that a parameter is updated in: what is narrower than f32 is widened. */
enum tcc_dtype optim_update_type(const struct ir_state *parameter)
{
    return tcc_wide_float(parameter->type->dtype);
}

bool optim_has_master(const struct optim_config *c, const struct ir_state *parameter)
{
    return c->master && tcc_dtype_bytes((enum tcc_dtype)parameter->type->dtype) < 4;
}

bool optim_needs_norm(const struct optim_config *c)
{
    return c->clip_norm != 0 || c->kind == OPTIM_lamb;
}

bool optim_waits(const struct optim_config *c, int group)
{
    return c->groups[group].value[OPT_from] != 0;
}

const char *optim_waited_name(struct ir_ctx *ctx, int group)
{
    return ir_internf(ctx, "train.waited.%d", group);
}

const char *optim_average_name(struct ir_ctx *ctx, const struct ir_state *parameter)
{
    return ir_internf(ctx, "ema.%s", parameter->name);
}

/* owner: of what belongs to the parameter; NULL: all have it. */
static bool new_slots(struct ir_module *m, const struct optim_config *c, const struct ir_state *parameter,
                      ir_expr owner)
{
    const struct optim_group *group = optim_group_of(c, parameter->name);
    enum tcc_dtype dtype = optim_update_type(parameter);

    for (int i = 0; i < optim_nslots; i++) {
        const struct optim_slot *slot = &optim_slots[i];
        bool like = slot->shape == SLOT_LIKE;
        enum tcc_dtype type = like && dtype == TCC_F32 ? c->slot_type : dtype;
        double first = group->value[OPT_initial_accumulator_value];
        struct ir_tensor *init = NULL;
        uint64_t element = 0;

        if (slot->optimizer != c->kind || (slot->option != OPT_lr && group->value[slot->option] == 0))
            continue;
        if (like && first != 0) {
            int64_t dims[TCC_MAX_RANK];
            ir_static_dims(parameter->type, dims);
            tcc_store_f64(type, &element, first);
            init = ir_tensor_splat(type, parameter->type->rank, dims, &element);
            if (!init)
                ir_no_memory(m->ctx);
        }
        struct ir_state *s =
            new_state(m, optim_slot_name(m->ctx, slot, parameter->name),
                      like ? ir_with_dtype(m->ctx, parameter->type, type) : ir_scalar_type(m->ctx, type), init);
        if (!s)
            return false;
        s->owner = owner;
    }
    return true;
}

/* The f32 copy starts from the parameter's first value. */
static bool new_master(struct ir_module *m, const struct ir_state *parameter, ir_expr owner)
{
    const struct ir_tensor *from = parameter->init;
    struct ir_tensor *init = NULL;

    if (from) {
        init = ir_tensor_new(TCC_F32, from->rank, from->dims);
        if (!init)
            ir_no_memory(m->ctx);
        for (int64_t i = 0; i < from->nelems; i++)
            ((float *)init->data)[i] = (float)tcc_load_f64((enum tcc_dtype)from->dtype, ir_tensor_at(from, i));
    }
    struct ir_state *s = new_state(m, ir_internf(m->ctx, "master.%s", parameter->name),
                                   ir_with_dtype(m->ctx, parameter->type, TCC_F32), init);
    if (s)
        s->owner = owner;
    return s != NULL;
}

bool optim_states(struct ir_module *m, const struct train_options *o, int n, struct ir_state *const *params)
{
    const struct optim_config *c = optim_parse(m->ctx, o);

    if (!c || !new_scalar(m, "train.step", TCC_I64, 0) || !new_scalar(m, "train.epoch", TCC_I64, 0) ||
        !new_scalar(m, "train.rate", TCC_F32, c->groups[0].value[OPT_lr]) ||
        !new_scalar(m, "train.scheduled", TCC_I32, 1) || !new_scalar(m, "train.skipped", TCC_I64, 0) ||
        !new_scalar(m, "train.lr", TCC_F32, 0))
        return false;
    if (optim_needs_norm(c) && !new_scalar(m, "train.norm", TCC_F32, 0))
        return false;
    if (c->scaler.init != 0 && !new_scalar(m, "train.scale", TCC_F32, c->scaler.init))
        return false;
    if (c->scaler.dynamic && !new_scalar(m, "train.growth", TCC_I32, 0))
        return false;
    if (c->rounding && (!new_scalar(m, "train.rounding", TCC_I32, 1) || !new_scalar(m, "train.seed", TCC_I64, 0)))
        return false;
    for (int g = 0; g < c->ngroups; g++)
        if (optim_waits(c, g) && !new_scalar(m, optim_waited_name(m->ctx, g), TCC_I64, 0))
            return false;
    for (int i = 0; i < n; i++) {
        ir_type type = ir_with_dtype(m->ctx, params[i]->type, optim_update_type(params[i]));
        ir_expr owner = train_zero_has(o, 1) ? train_zero_symbol(m->ctx, params[i]->name) : NULL;
        struct ir_state *average = c->ema != 0 ? new_state(m, optim_average_name(m->ctx, params[i]), type, NULL) : NULL;
        if (!new_slots(m, c, params[i], owner) ||
            (optim_has_master(c, params[i]) && !new_master(m, params[i], owner)) || (c->ema != 0 && !average))
            return false;
        if (average)
            average->owner = owner;
        params[i]->owner = train_zero_has(o, 3) ? owner : NULL;
    }
    return true;
}
