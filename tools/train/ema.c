/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The averages of --ema in the parameters' place: the state variable ema.PARAM of a session (tccc-train evaluates with
 * them, and goes on with the parameters), or the tensor ema.PARAM of a checkpoint (tccc-run).
 */
#include "tools/run/model_int.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "ema.";

bool state_set_as(struct tccrt_session *s, const char *name, const struct tcc_tensor *from)
{
    struct tcc_tensor to;

    if (tccrt_state_get(s, name, &to) != TCC_OK)
        return false;
    int64_t n = tcc_elements(to.rank, to.dims);
    size_t size = (size_t)tcc_dtype_bytes((enum tcc_dtype)to.dtype),
           from_size = (size_t)tcc_dtype_bytes((enum tcc_dtype)from->dtype);
    if (from->rank != to.rank || memcmp(from->dims, to.dims, (size_t)to.rank * sizeof *to.dims))
        return false;
    char *own = malloc((size_t)n * size + 1);
    for (int64_t i = 0; own && i < n; i++) {
        uint64_t v[2] = {0};
        memcpy(v, (const char *)from->data + (size_t)i * from_size, from_size); /* files of others align nothing */
        if (from->dtype == to.dtype)
            memcpy(own + (size_t)i * size, v, size);
        else
            tcc_store_f64((enum tcc_dtype)to.dtype, own + (size_t)i * size,
                          tcc_load_f64((enum tcc_dtype)from->dtype, v));
    }
    to.data = own;
    bool ok = own && tccrt_state_set(s, name, &to) == TCC_OK;
    free(own);
    return ok;
}

/* State variable i, if it is ema.PARAM of a parameter that is here: PARAM. */
static const char *averaged(const struct model *m, int i)
{
    struct tccrt_value_info info;
    struct tcc_tensor x;

    tccrt_state_info(m->artifact, i, &info);
    if (strncmp(info.name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *name = info.name + sizeof prefix - 1;
    return tccrt_state_get(m->session, info.name, &x) == TCC_OK && tccrt_state_get(m->session, name, &x) == TCC_OK
               ? name
               : NULL;
}

bool ema_there(const struct model *m)
{
    for (int i = 0; i < tccrt_nstates(m->artifact); i++)
        if (averaged(m, i))
            return true;
    return false;
}

struct ema_kept {
    int n;
    struct tcc_tensor *values; /* by number of the average's variable; data NULL: none */
};

static bool take(struct model *m, struct tccrt_comm *group, int i, struct tcc_tensor *kept)
{
    const char *name = averaged(m, i);
    struct tccrt_value_info info;
    struct tcc_tensor x, own;

    if (!name)
        return true;
    tccrt_state_info(m->artifact, i, &info);
    if (tccrt_state_get(m->session, name, &own) != TCC_OK)
        return false;
    size_t bytes = (size_t)tcc_elements(own.rank, own.dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)own.dtype);
    void *copy = malloc(bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, own.data, bytes);
    *kept = own;
    kept->data = copy;
    /* --zero=1: rank 0 alone has collected all averages */
    if (tccrt_state_get(m->session, info.name, &x) != TCC_OK ||
        (group && tccrt_comm_broadcast(group, 0, 1, &x, NULL) != TCC_OK))
        return false;
    return state_set_as(m->session, name, &x);
}

bool ema_take(struct model *m, struct tccrt_comm *group, struct ema_kept **kept)
{
    int n = tccrt_nstates(m->artifact);
    struct ema_kept *k = *kept = calloc(1, sizeof *k);

    if (!k || !(k->values = calloc((size_t)n + 1, sizeof *k->values)))
        return false;
    k->n = n;
    for (int i = 0; i < n; i++)
        if (!take(m, group, i, &k->values[i]))
            return false;
    return true;
}

bool ema_give_back(struct model *m, struct ema_kept *k)
{
    bool ok = true;

    for (int i = 0; k && i < k->n; i++) {
        const char *name = k->values[i].data ? averaged(m, i) : NULL;
        ok &= !name || tccrt_state_set(m->session, name, &k->values[i]) == TCC_OK;
        free(k->values[i].data);
    }
    if (k)
        free(k->values);
    free(k);
    return ok;
}

int ema_load(const struct options *o, struct model *m, const char *path)
{
    struct tccrt_tensors *f;
    int taken = 0, code = EXIT_FINE;

    if (tccrt_tensors_open(path, &f) != TCC_OK)
        return tool_error(o, EXIT_DATA, "%s", tccrt_error());
    for (int i = 0; i < tccrt_tensors_count(f) && code == EXIT_FINE; i++) {
        const struct tccrt_named *x = tccrt_tensors_at(f, i);
        struct tcc_tensor own;
        const char *name = strncmp(x->name, prefix, sizeof prefix - 1) ? NULL : x->name + sizeof prefix - 1;
        if (!name || tccrt_state_get(m->session, name, &own) != TCC_OK)
            continue;
        if (!state_set_as(m->session, name, &x->t))
            code = tool_error(o, EXIT_DATA, "%s: '%s' cannot become parameter '%s'", path, x->name, name);
        taken++;
    }
    tccrt_tensors_close(f);
    if (code == EXIT_FINE && !taken)
        code = tool_error(o, EXIT_DATA, "%s: it holds no averages of the parameters (tccc --ema)", path);
    return code;
}
