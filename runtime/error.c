/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error message. */
#include <stdio.h>
#include <string.h>

#include "runtime/rt_int.h"
#include "runtime/safe.h"

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

int tcr_fail(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tcr_vfail(status, "", format, args);
    va_end(args);
    return status;
}
