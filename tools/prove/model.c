/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - tccc --prove-kernels: the artifact that was just written beside the kernels of its plan, which come as text
 * from a second compilation up to code generation. What is proved are the bytes in the file.
 */
#include "compiler/tccc.h"
#include "tools/run/model_int.h"
#include "tools/prove/prove_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* As text (--dump-ir). */
static char *kernels_text(const struct options *o, const struct tccc_options *c, bool plan, size_t *size, int *code)
{
    const char *const dumps[] = {"kernels", plan ? "plan" : NULL, NULL};
    struct tccc_options text = *c;
    char *to = NULL;
    text.output = text.header = text.cache_dir = text.reproducer = NULL;
    text.report = NULL;
    text.time_passes = text.depends = false;
    text.dumps = dumps;
    text.dump_to = open_memstream(&to, size);
    if (!text.dump_to) {
        *code = tool_error(o, EXIT_ENVIRONMENT, "%s", strerror(errno));
        return NULL;
    }
    *code = tccc_compile(&text);
    fclose(text.dump_to);
    return to;
}

struct ir_module *model_kernels(const struct options *o, const struct tccc_options *c, bool plan, struct ir_ctx **ctx,
                                int *code)
{
    size_t size;
    char *text = kernels_text(o, c, plan, &size, code);
    *ctx = *code == EXIT_FINE ? ir_ctx_new() : NULL;
    if (*ctx)
        ir_allow_files(*ctx, "/"); /* our own text */
    struct ir_module *module = *ctx ? ir_parse(*ctx, "kernels", text, size) : NULL;
    if (*code == EXIT_FINE && !module)
        *code = tool_error(o, EXIT_BUG, "the text of the kernels does not parse: %s",
                           *ctx && ir_nmessages(*ctx) ? ir_message(*ctx, 0)->text : "no memory");
    free(text);
    return module;
}

int prove_model(const struct options *o, const struct tccc_options *c)
{
    char path[PATH_MAX];
    int64_t most = PROVE_MOST;
    int code;
    if (*option_text(o, OPT_prove_kernels, "") && !option_int(o, OPT_prove_kernels, 1, INT64_MAX, &most))
        return EXIT_USAGE;
    if (c->kind != TCCC_SO)
        return usage_error(o, "--prove-kernels requires a shared object (.so)");
    void *handle = realpath(c->output, path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct tcc_model *m = handle ? dlsym(handle, "tccc_model") : NULL;
    if (!m)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot open '%s'", c->output);
    struct ir_ctx *ctx;
    struct ir_module *module = model_kernels(o, c, false, &ctx, &code);
    if (code == EXIT_FINE && module->program &&
        !prove_artifact(m, module->program->nkernels, module->program->kernels, most, c->report, stdout))
        code = EXIT_BUG;
    if (ctx)
        ir_ctx_free(ctx);
    dlclose(handle);
    return code;
}
