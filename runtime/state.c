/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - a session's state variables as their user sees them: read, set, reset, bound to memory of his own, the
 * host's or the device's; the random generator's place.
 */
#include <string.h>

#include "runtime/rt_int.h"

void tccrt_random_get(const struct tccrt_session *s, uint64_t *seed, int64_t *runs)
{
    if (seed)
        *seed = s ? s->seed : 0;
    if (runs)
        *runs = s ? s->runs : 0;
}

void tccrt_random_set(struct tccrt_session *s, uint64_t seed, int64_t runs)
{
    if (!s)
        return;
    s->seed = seed;
    s->runs = runs;
}

int tcr_no_state(const struct tccrt_session *s, const char *name)
{
    char names[300] = "";

    for (uint32_t i = 0; i < s->m->plan->states.count; i++)
        tcr_list_name(names, sizeof names, tcr_string(s->m, s->m->states[i].name));
    return tcr_fail(TCC_EUSAGE, "model '%s' has no state variable '%s'; it has %s", s->m->desc->name, name,
                    *names ? names : "none");
}

int tcr_find_state(const struct tccrt_session *s, const char *name)
{
    for (uint32_t i = 0; i < s->m->plan->states.count; i++)
        if (strcmp(tcr_string(s->m, s->m->states[i].name), name) == 0)
            return (int)i;
    tcr_no_state(s, name);
    return -1;
}

static int describe_state(struct tccrt_session *s, const char *name, int *i, struct tcc_tensor *out)
{
    struct tccrt_value_info info;

    *i = tcr_find_state(s, name);
    if (*i < 0)
        return TCC_EUSAGE;
    int status = tcr_states_make(s);
    if (status || !tcr_has_stage(s, s->m->states[*i].owner_stage))
        return status ? status : tcr_state_absent(s, (uint32_t)*i);
    if ((status = tcr_state_make(s, (uint32_t)*i)))
        return status;
    tccrt_state_info(s->m, *i, &info);
    *out = (struct tcc_tensor){.data = s->states[*i], .dtype = info.dtype, .rank = info.rank};
    memcpy(out->dims, info.dims, sizeof out->dims);
    return TCC_OK;
}

/* A device's variable is copied to where the host can look at it. */
int tccrt_state_get(struct tccrt_session *s, const char *name, struct tcc_tensor *out)
{
    int i, status;

    if (!s || !name || !out)
        return tcr_fail(TCC_EUSAGE, "state: a session, a name and a place for the value are required, got NULL");
    if ((status = describe_state(s, name, &i, out)))
        return status;
    if (!tcr_has_state(s, (uint32_t)i))
        return tcr_state_absent(s, (uint32_t)i);
    if (!s->states[i])
        out->data = s->mirrors[i];
    if (!s->discrete || !s->states[i])
        return TCC_OK;
    if ((status = tcr_mirror(s, (uint32_t)i, &out->data)))
        return status;
    return tcr_state_read(s, (uint32_t)i, 0, s->m->states[i].bytes, out->data);
}

static int check_value(const char *name, int dtype, int rank, const int64_t *dims, const struct tcc_tensor *value)
{
    char want[256], found[256];

    if (dtype == value->dtype && rank == value->rank && memcmp(dims, value->dims, (size_t)rank * sizeof *dims) == 0)
        return TCC_OK;
    return tcr_fail(TCC_EINPUT, "state variable '%s': expected %s%s, got %s%s", name, tcr_dtype_name(dtype),
                    tcr_dims_text(want, rank, dims), tcr_dtype_name(value->dtype),
                    tcr_dims_text(found, value->rank, value->dims));
}

static int set_state(struct tccrt_session *s, const char *name, const struct tcc_tensor *value)
{
    struct tcc_tensor t;
    int i,
        status = name ? describe_state(s, name, &i, &t) : tcr_fail(TCC_EUSAGE, "state: a name is required, got NULL");
    int64_t n;

    if (!status && !value)
        status = tcr_fail(TCC_EUSAGE, "state variable '%s': a value is required, got NULL", name);
    if (!status)
        status = check_value(name, t.dtype, t.rank, t.dims, value);
    if (status)
        return status;
    n = tcr_elements(t.dtype, t.rank, t.dims);
    if (n > 0 && !value->data)
        return tcr_fail(TCC_EINPUT, "state variable '%s': its data is NULL", name);
    return n > 0 ? tcr_state_write(s, (uint32_t)i, value->data) : TCC_OK;
}

int tccrt_state_set(struct tccrt_session *s, const char *name, const struct tcc_tensor *value)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, set_state(s, name, value));
}

static int reset_state(struct tccrt_session *s, const char *name)
{
    int only = name ? tcr_find_state(s, name) : -1, status = TCC_OK;

    if (name && only < 0)
        return TCC_EUSAGE;
    status = tcr_states_make(s);
    for (uint32_t i = 0; i < s->m->plan->states.count && !status; i++) {
        const struct tcc_pstate *p = &s->m->states[i];

        if (!tcr_has_stage(s, p->owner_stage) || (name && i != (uint32_t)only) || p->flags & TCCRT_STATE_LOCAL ||
            (!s->states[i] && !tcr_is_elsewhere(s, i)))
            continue;
        status = p->init == ~(uint64_t)0 ? tcr_state_zero(s, i) : tcr_state_write_whole(s, i, s->m->weights + p->init);
    }
    return status;
}

int tccrt_state_reset(struct tccrt_session *s, const char *name)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, reset_state(s, name));
}

/* That the caller gives for a variable. */
static int check_memory(struct tccrt_session *s, int i, const struct tcc_tensor *memory, struct tccrt_value_info *info)
{
    int status = tccrt_state_info(s->m, i, info);

    if (!status && !memory)
        status = tcr_fail(TCC_EUSAGE, "state variable '%s': memory is required, got NULL", info->name);
    if (!status)
        status = check_value(info->name, info->dtype, info->rank, info->dims, memory);
    if (!status && (((uintptr_t)memory->data & (TCR_ALIGN - 1)) || !memory->data))
        status =
            tcr_fail(TCC_EUSAGE, "state variable '%s': memory aligned to %d bytes expected", info->name, TCR_ALIGN);
    return status;
}

static int bind_state(struct tccrt_session *s, int i, const struct tcc_tensor *memory)
{
    struct tccrt_value_info info;
    int status = check_memory(s, i, memory, &info);

    if (status || (status = tcr_state_make(s, (uint32_t)i)))
        return status;
    if (tcr_is_elsewhere(s, (uint32_t)i))
        return tcr_state_absent(s, (uint32_t)i);
    if (s->discrete && s->placed_states[i])
        return tcr_fail(TCC_EUSAGE, "state variable '%s' lies in the device's memory that it was bound to", info.name);
    if (!s->discrete) { /* else it stays where it is, and is copied before and after each run */
        if (!s->borrowed[i])
            tcr_state_free(s, &s->m->states[i], s->states[i]);
        s->states[i] = memory->data;
    }
    s->borrowed[i] = memory->data;
    s->any_lent = true;
    return TCC_OK;
}

static int bind_on_device(struct tccrt_session *s, int i, const struct tcc_tensor *memory)
{
    struct tccrt_value_info info;
    int status;

    if (!s->discrete)
        return bind_state(s, i, memory);
    if ((status = tcr_settle(s)) || (status = check_memory(s, i, memory, &info)) ||
        (status = tcr_state_make(s, (uint32_t)i)))
        return status;
    if (tcr_is_elsewhere(s, (uint32_t)i))
        return tcr_state_absent(s, (uint32_t)i);
    if (tcr_state_stays(s, (uint32_t)i))
        return tcr_fail(TCC_EUSAGE, "state variable '%s' lies with the host (--offload=optimizer)", info.name);
    if (!s->placed_states[i])
        tcr_state_free(s, &s->m->states[i], s->states[i]);
    s->placed_states[i] = true;
    s->borrowed[i] = NULL;
    s->states[i] = memory->data;
    return TCC_OK;
}

int tccrt_state_bind_on_device(struct tccrt_session *s, int i, const struct tcc_tensor *memory)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, bind_on_device(s, i, memory));
}

int tccrt_state_bind(struct tccrt_session *s, int i, const struct tcc_tensor *memory)
{
    int status = tcr_enter(s);

    return status ? status : tcr_leave(s, bind_state(s, i, memory));
}
