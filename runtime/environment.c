/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - environment variables, as tccrt.h offers them (base/env.c reads them). */
#include "base/env.h"
#include "runtime/rt_int.h"

int tccrt_env_check(void)
{
    char message[512];

    tcr_clear_error();
    return tcr_env_check(message, sizeof message) ? TCC_OK : tcr_fail(TCC_EUSAGE, "%s", message);
}

const char *tccrt_env_text(const char *name)
{
    return tcr_env_text(name);
}

double tccrt_env_seconds(const char *name, double otherwise)
{
    return tcr_env_seconds(name, otherwise);
}

bool tccrt_env_has(const char *name, const char *word)
{
    return tcr_env_has(name, word);
}
