/* SPDX-License-Identifier: Apache-2.0 */
/* llvm.c - loads LLVM when something is compiled: see llvm_int.h. */
#include "compiler/llvm_int.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct llvm_functions llvm_functions;

#define F(name) #name,
static const char *const names[] = {
#include "compiler/llvm.def"
};
enum { NAMES = sizeof names / sizeof *names };
_Static_assert(sizeof llvm_functions == NAMES * sizeof(void *), "a member a name");

static char why[512];

static void load(void)
{
    void *found[NAMES], *library = dlopen(TCCC_LLVM_NAME, RTLD_LAZY);

    if (!library)
        library = dlopen(TCCC_LLVM_FOLDER "/" TCCC_LLVM_NAME, RTLD_LAZY);
    for (int i = 0; library && i < NAMES; i++)
        if (!(found[i] = dlsym(library, names[i])))
            library = NULL;
    if (!library)
        snprintf(why, sizeof why, "LLVM cannot be loaded: %s", dlerror());
    else
        memcpy(&llvm_functions, found, sizeof found);
}

const char *llvm_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return *why ? why : NULL;
}
