/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error message. */
#include <stdio.h>
#include <string.h>

#include "runtime/rt_int.h"
#include "base/index.h"
#include "base/safe.h"

static _Thread_local char message[1024];

/* The message of the calling thread's last failed call, "" when its last call succeeded. Valid until its next call. */
const char *tccrt_error(void)
{
    return message;
}

void tcr_clear_error(void)
{
    message[0] = 0;
}

/* Sets the message, `prefix` in front, and returns status. Arguments may point into the old message. */
int tcr_vfail(int status, const char *prefix, const char *format, va_list args)
{
    char text[sizeof message];
    int n = snprintf(text, sizeof text, "%s", prefix);

    if (n < 0 || n >= (int)sizeof text)
        n = 0;
    vsnprintf(text + n, sizeof text - n, format, args);
    tcr_show(message, sizeof message, text, false);
    return status;
}

int tcr_bad_index(const char *checks, const struct tcc_env *met)
{
    const char *end = strchr(checks, '\n');

    for (int64_t i = 0; end && end[1] && i < met->check; i++) {
        checks = end + 1;
        end = strchr(checks, '\n');
    }
    int n = end ? (int)strcspn(checks, "\t") : (int)strlen(checks), op = end ? (int)strcspn(checks + n + 1, "\t\n") : 0;
    char which[80] = "index out of range";
    if (met->extent >= 0)
        snprintf(which, sizeof which, "index %lld is outside an axis of %lld", (long long)tcc_index_told(met->index),
                 (long long)met->extent);
    return tcr_fail(TCC_EINDEX, "node '%.*s'%s%.*s%s: %s", n, checks, op > 0 ? " (" : "", op > 0 ? op : 0,
                    checks + n + (op > 0), op > 0 ? ")" : "", which);
}

/* The length of "node 'NAME'" at the beginning of the message, where that is the step's node and its operator isn't
 * there yet; 0: it isn't. */
static size_t says_node(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *name = tcr_string(s->m, p->node), *op = p->op ? tcr_string(s->m, p->op - 1) : "";
    char text[sizeof message], shown[sizeof message];
    int n = *op ? snprintf(text, sizeof text, "node '%s': ", name) : 0;

    if (n <= 0 || n >= (int)sizeof text)
        return 0;
    tcr_show(shown, sizeof shown, text, false);
    return strncmp(message, shown, strlen(shown)) ? 0 : strlen(shown) - strlen(": ");
}

void tcr_say_operator(const struct tccrt_session *s)
{
    size_t n = 0;
    char rest[sizeof message];

    for (uint32_t i = 0; i < s->m->plan->steps.count && !n; i++)
        if ((n = says_node(s, &s->m->steps[i]))) {
            snprintf(rest, sizeof rest, " (%s)%s", tcr_string(s->m, s->m->steps[i].op - 1), message + n);
            tcr_show(message + n, sizeof message - n, rest, false);
        }
}

int tcr_fail(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tcr_vfail(status, "", format, args);
    va_end(args);
    return status;
}
