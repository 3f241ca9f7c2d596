/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - how a process that generates code ends: messages go to its pipe, LLVM's fatal errors too. */
#include "compiler/emit/emit.h"

#include <string.h>
#include <unistd.h>

static int report_to = -1;

static void report(const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t done = write(report_to, text, n);
        if (done <= 0)
            break;
        text += done;
        n -= (size_t)done;
    }
}

_Noreturn void em_give_up(const char *what, const char *text)
{
    report(what);
    report(text ? text : "");
    _exit(1);
}

static void on_fatal_error(const char *reason)
{
    em_give_up("LLVM: ", reason);
}

void em_child(int to)
{
    report_to = to;
    LLVMInstallFatalErrorHandler(on_fatal_error);
}

void em_verify(LLVMModuleRef mod)
{
    char *error = NULL;
    if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &error))
        em_give_up("invalid LLVM IR: ", error);
}

void em_run_passes(LLVMModuleRef mod, LLVMTargetMachineRef tm, const char *passes)
{
    LLVMErrorRef failed = LLVMRunPasses(mod, passes, tm, LLVMCreatePassBuilderOptions());
    if (failed)
        em_give_up("LLVM: ", LLVMGetErrorMessage(failed));
}
