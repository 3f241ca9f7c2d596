/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - see objects.h. LLVM's functions are members of one struct (compiler/llvm_int.h), so two of them are
 * replaced: the one that runs passes waits until an object is asked for, and that is looked for by the digest of the
 * module as bitcode, the passes, and the machine. What is compiled by other functions runs as ever. Two functions of
 * the compiler are wrapped by the linker (Makefile.inc): of artifacts that differ in the options that they tell only,
 * one is linked.
 */
#include "tests/sizes/objects.h"

#include "base/xxh3.h"
#include "compiler/artifact/artifact_int.h"
#include "compiler/artifact/link_int.h"
#include "compiler/llvm_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What llvm.def does not list. */
static struct {
    LLVMMemoryBufferRef (*bitcode)(LLVMModuleRef);
    char *(*cpu)(LLVMTargetMachineRef), *(*features)(LLVMTargetMachineRef);
    const char *(*start)(LLVMMemoryBufferRef), *(*triple)(LLVMModuleRef);
    size_t (*size)(LLVMMemoryBufferRef);
    void (*dispose)(LLVMMemoryBufferRef);
} more;

static __typeof__(LLVMRunPasses) run_passes;
static __typeof__(LLVMTargetMachineEmitToFile) emit_to_file;
static __typeof__(LLVMTargetMachineOptionsSetCodeGenOptLevel) set_level;
static char folder[900];
static uint64_t *linked; /* shared with children */

/* Passes that wait, of this process's one module. */
static struct {
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    LLVMPassBuilderOptionsRef options;
    const char *passes;
} waiting;

static LLVMErrorRef passes_wait(LLVMModuleRef module, const char *passes, LLVMTargetMachineRef machine,
                                LLVMPassBuilderOptionsRef options)
{
    if (waiting.module || strncmp(more.triple(module), "x86_64-", 7))
        return run_passes(module, passes, machine, options);
    waiting.module = module;
    waiting.machine = machine;
    waiting.options = options;
    waiting.passes = passes;
    return NULL;
}

static void object_path(LLVMTargetMachineRef machine, LLVMModuleRef module, char *path, size_t size)
{
    LLVMMemoryBufferRef code = more.bitcode(module);
    const char *texts[] = {waiting.module == module ? waiting.passes : "", more.cpu(machine), more.features(machine)};
    struct tcr_xxh3 x;

    tcr_xxh3_begin(&x);
    for (int i = 0; i < 3; i++)
        tcr_xxh3_add(&x, texts[i], strlen(texts[i]) + 1);
    tcr_xxh3_add(&x, more.start(code), more.size(code));
    snprintf(path, size, "%s/%016llx-%zu.o", folder, (unsigned long long)tcr_xxh3_end(&x), more.size(code));
    more.dispose(code);
}

/* Objects are linked to, not copied: nobody writes into one. */
static LLVMBool emit_once(LLVMTargetMachineRef machine, LLVMModuleRef module, const char *path,
                          LLVMCodeGenFileType type, char **error)
{
    char object[1000];

    object_path(machine, module, object, sizeof object);
    unlink(path);
    if (type == LLVMObjectFile && link(object, path) == 0)
        return false;
    if (waiting.module == module) {
        LLVMErrorRef failed = run_passes(module, waiting.passes, waiting.machine, waiting.options);

        waiting.module = NULL;
        if (failed) {
            *error = LLVMGetErrorMessage(failed);
            return true;
        }
    }
    if (emit_to_file(machine, module, path, type, error))
        return true;
    if (type == LLVMObjectFile && link(path, object) != 0)
        return false; /* another was faster, or it stays unshared */
    return false;
}

static void not_optimised(LLVMTargetMachineOptionsRef o, LLVMCodeGenOptLevel level)
{
    (void)level;
    set_level(o, LLVMCodeGenLevelNone);
}

const char *objects_share(const char *in, bool quick)
{
    static const struct {
        void **to;
        const char *name;
    } wanted[] = {
        {(void **)&more.bitcode, "LLVMWriteBitcodeToMemoryBuffer"},
        {(void **)&more.cpu, "LLVMGetTargetMachineCPU"},
        {(void **)&more.features, "LLVMGetTargetMachineFeatureString"},
        {(void **)&more.start, "LLVMGetBufferStart"},
        {(void **)&more.size, "LLVMGetBufferSize"},
        {(void **)&more.dispose, "LLVMDisposeMemoryBuffer"},
        {(void **)&more.triple, "LLVMGetTarget"},
    };
    const char *why = llvm_load();
    Dl_info info;
    void *library = NULL;

    if (why)
        return why;
    if (dladdr((const void *)(size_t)LLVMRunPasses, &info))
        library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return "LLVM's library is not found again";
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].to = dlsym(library, wanted[i].name)))
            return "LLVM's library lacks a function";
    snprintf(folder, sizeof folder, "%s", in);
    run_passes = LLVMRunPasses;
    emit_to_file = LLVMTargetMachineEmitToFile;
    LLVMRunPasses = passes_wait;
    LLVMTargetMachineEmitToFile = emit_once;
    set_level = LLVMTargetMachineOptionsSetCodeGenOptLevel;
    if (quick)
        LLVMTargetMachineOptionsSetCodeGenOptLevel = not_optimised;
    return NULL;
}

/* -- Artifacts ---------------------------------------------------------------------------------------------- */

bool objects_begin(void)
{
    linked = mmap(NULL, sizeof *linked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return linked != MAP_FAILED;
}

uint64_t objects_linked(void)
{
    uint64_t digest = *linked;

    *linked = 0;
    return digest;
}

/* An archive by its size and age. */
static bool add_archive(struct tcr_xxh3 *x, const char *path)
{
    struct stat s;
    bool there = stat(path, &s) == 0;
    int64_t is[] = {there ? s.st_size : 0, there ? s.st_mtim.tv_sec : 0, there ? s.st_mtim.tv_nsec : 0};

    tcr_xxh3_add(x, is, sizeof is);
    return there;
}

static bool add_file(struct tcr_xxh3 *x, const char *path)
{
    FILE *f = fopen(path, "r");
    char bytes[1 << 14];
    size_t n;

    while (f && (n = fread(bytes, 1, sizeof bytes, f)))
        tcr_xxh3_add(x, bytes, n);
    return f && fclose(f) == 0;
}

__typeof__(artifact_object) __real_artifact_object, __wrap_artifact_object;
__typeof__(link_shared) __real_link_shared, __wrap_link_shared;

bool __wrap_artifact_object(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *o,
                            const char *path, const char *weights)
{
    struct artifact_options same = *o;

    if (*folder)
        same.source = "";
    return __real_artifact_object(ctx, p, &same, path, weights);
}

bool __wrap_link_shared(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output, int nobjects,
                        const char *const *objects, int narchives, const char *const *archives, int nexports,
                        const char *const *exports, int *status)
{
    struct tcr_xxh3 x;
    char artifact[1000];
    bool fine = *folder && linked;

    tcr_xxh3_begin(&x);
    for (int i = 0; fine && i < nobjects; i++)
        fine = add_file(&x, objects[i]);
    for (int i = 0; fine && i < narchives; i++)
        fine = add_archive(&x, archives[i]);
    if (fine) {
        *linked = tcr_xxh3_end(&x);
        snprintf(artifact, sizeof artifact, "%s/%016llx.so", folder, (unsigned long long)*linked);
        if (link(artifact, output) == 0)
            return true;
    }
    if (!__real_link_shared(ctx, isa, output, nobjects, objects, narchives, archives, nexports, exports, status))
        return false;
    if (fine && link(output, artifact) != 0)
        return true; /* another was faster, or it stays unshared */
    return true;
}
