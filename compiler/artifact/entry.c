/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.c - the artifact's C functions, one an entry point:
 *     int NAME_ENTRY(const struct tcc_tensor *in, struct tcc_tensor *out) { return tccrt_call(&NAME_model, number, in,
 *     out); }
 */
#include "compiler/artifact/artifact_int.h"
#include "compiler/child_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/llvm_int.h"

#include <string.h>
#include <unistd.h>

struct job {
    struct ir_ctx *ctx;
    const struct kn_program *p;
    const struct cpu_isa *isa;
    const char *name, *path;
    bool hidden;
};

const char *artifact_identifier(struct ir_ctx *ctx, const char *name)
{
    char *s = ir_strdup(ctx, name && *name ? name : "unnamed");
    for (char *c = s; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    return s;
}

static _Noreturn void give_up(int report, const char *text)
{
    if (text && write(report, text, strlen(text)) < 0)
        _exit(2);
    _exit(1);
}

static void define(const struct job *j, LLVMModuleRef mod, LLVMBuilderRef b, LLVMValueRef model, LLVMValueRef call,
                   LLVMTypeRef call_type, int entry)
{
    LLVMContextRef lc = LLVMGetModuleContext(mod);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(lc, 0), i32 = LLVMInt32TypeInContext(lc), params[] = {ptr, ptr};
    const char *name =
        ir_internf(j->ctx, "%s_%s", j->name, artifact_identifier(j->ctx, artifact_entry_name(j->p, entry)));
    LLVMValueRef fn = LLVMAddFunction(mod, name, LLVMFunctionType(i32, params, 2, 0));
    if (j->hidden)
        LLVMSetVisibility(fn, LLVMHiddenVisibility);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(lc, fn, "entry"));
    LLVMValueRef args[] = {model, LLVMConstInt(i32, (unsigned)entry, 0), LLVMGetParam(fn, 0), LLVMGetParam(fn, 1)};
    LLVMValueRef result = LLVMBuildCall2(b, call_type, call, args, 4, "");
    LLVMSetTailCall(result, 1);
    LLVMBuildRet(b, result);
}

static void child(void *jobs, int i, int report)
{
    const struct job *j = (const struct job *)jobs + i;
    char *error = NULL;
    LLVMTargetMachineRef tm =
        cpu_isa_llvm(j->isa, j->isa->base_cpu, j->isa->base_features ? j->isa->base_features : "", false, &error);
    if (!tm)
        give_up(report, error);
    LLVMContextRef lc = LLVMContextCreate();
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("entries", lc);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(lc);
    LLVMSetTarget(mod, j->isa->triple);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(lc, 0), i32 = LLVMInt32TypeInContext(lc),
                params[] = {ptr, i32, ptr, ptr};
    LLVMTypeRef call_type = LLVMFunctionType(i32, params, 4, 0);
    LLVMValueRef call = LLVMAddFunction(mod, "tccrt_call", call_type);
    LLVMValueRef model = LLVMAddGlobal(mod, LLVMInt8TypeInContext(lc), ir_internf(j->ctx, "%s_model", j->name));
    if (j->hidden)
        LLVMSetVisibility(model, LLVMHiddenVisibility);
    for (int e = 0; e < artifact_nentries(j->p); e++)
        define(j, mod, b, model, call, call_type, e);
    if (LLVMTargetMachineEmitToFile(tm, mod, (char *)j->path, LLVMObjectFile, &error))
        give_up(report, error);
    _exit(0);
}

bool artifact_entries(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *o,
                      const char *path)
{
    struct job j = {ctx, p, o->isa, o->name, path, o->hidden};
    return child_run(ctx, 1, 1, child, &j);
}
