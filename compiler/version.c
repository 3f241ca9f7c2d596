/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - what this compiler is and knows, for --version. */
#include "compiler/import/frontend.h"
#include "compiler/llvm_int.h"
#include "compiler/target.h"
#include "compiler/tccc.h"

#include <pthread.h>

static char build[1024];

const char *tccc_version(void)
{
    return PACKAGE_VERSION;
}

static void write_build(void)
{
    size_t at = 0;

    at += (size_t)snprintf(build, sizeof build, "LLVM " LLVM_VERSION_STRING "\nONNX opsets %d to %d\n", ONNX_MIN_OPSET,
                           ONNX_MAX_OPSET);
    for (int i = 0; target_at(i) && at < sizeof build; i++)
        at += (size_t)snprintf(build + at, sizeof build - at, "target %s: %s\n", target_at(i)->name,
                               target_at(i)->machines);
}

const char *tccc_build(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, write_build);
    return build;
}
