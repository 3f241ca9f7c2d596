/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - what all of tccc-train ask: what a failed call of the run-time library is to the command line, and the
 * step's own variables (train.*) as numbers. It calls none of the other files of tccc-train.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/train/train_int.h"

int trainer_code(int status)
{
    return status == TCC_EENV ? EXIT_ENVIRONMENT : status == TCC_EBUG ? EXIT_BUG : EXIT_DATA;
}

bool ranks_lost(const struct trainer *t, int code)
{
    return t->elastic && code == EXIT_ENVIRONMENT && t->world && tccrt_comm_broken(t->world) != TCC_OK;
}

int trainer_status(const struct trainer *t, int status)
{
    if (ranks_lost(t, trainer_code(status))) /* the others go on without it */
        return trainer_code(status);
    return tool_error(t->o, trainer_code(status), "%s", tccrt_error());
}

bool trainer_state_scalar(struct trainer *t, const char *name, struct tcc_tensor *out)
{
    return tccrt_state_get(t->m.session, name, out) == TCC_OK && out->rank == 0;
}

double trainer_scalar(struct trainer *t, const char *name, double otherwise)
{
    struct tcc_tensor s;
    return trainer_state_scalar(t, name, &s) ? tcc_load_f64((enum tcc_dtype)s.dtype, s.data) : otherwise;
}

bool trainer_set_scalar(struct trainer *t, const char *name, double value)
{
    struct tcc_tensor s;
    if (!trainer_state_scalar(t, name, &s))
        return false;
    tcc_store_f64((enum tcc_dtype)s.dtype, s.data, value);
    return tccrt_state_set(t->m.session, name, &s) == TCC_OK;
}

bool train_is_folded(const struct trainer *t)
{
    const char *sim = option_text(t->o, OPT_nc_sim, getenv("TCCC_SIM"));
    return sim && strstr(sim, ",ranks=");
}
