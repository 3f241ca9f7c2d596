/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.c - tccc --emit: what an artifact holds for devices, each image as files beside it: NAME.MACHINE.ptx and .cubin
 * as they lie in the artifact (.1.cubin and so on where there are several),
 * NAME.MACHINE.launches with a line for each launch of each kernel. With these and doc/cuda.md a program of its own can
 * run the kernels.
 */
#include "compiler/tccc.h"
#include "runtime/abi.h"
#include "base/safe.h"
#include "tools/run/model_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const void *part(const struct tcc_pimage *m, struct tcc_range r)
{
    return (const char *)m + r.first;
}

static const char *string_of(const struct tcc_pimage *m, uint32_t at)
{
    return (const char *)part(m, m->strings) + at;
}

/* `at` as text; `otherwise` for none. */
static void put_expr(FILE *out, const struct tcc_pimage *m, uint32_t at, const char *otherwise)
{
    static const char *const ops[] = {[TCC_EX_ADD] = "+", [TCC_EX_MUL] = "*",   [TCC_EX_FLOORDIV] = "/",
                                      [TCC_EX_MOD] = "%", [TCC_EX_MIN] = "min", [TCC_EX_MAX] = "max"};
    const struct tcc_pexpr *x = (const struct tcc_pexpr *)part(m, m->exprs) + at;

    if (at == TCC_NO) {
        fputs(otherwise, out);
    } else if (x->op == TCC_EX_CONST) {
        fprintf(out, "%lld", (long long)x->k);
    } else if (x->op == TCC_EX_SYM) {
        fprintf(out, "s%lld", (long long)x->k);
    } else {
        fputc('(', out);
        put_expr(out, m, x->a, "");
        fprintf(out, " %s ", ops[x->op]);
        put_expr(out, m, x->b, "");
        fputc(')', out);
    }
}

static void put_three(FILE *out, const struct tcc_pimage *m, const char *word, const uint32_t e[3])
{
    fprintf(out, " %s", word);
    for (int i = 0; i < 3; i++) {
        fputc(i ? ',' : ' ', out);
        put_expr(out, m, e[i], "1");
    }
}

static void put_launch(FILE *out, const struct tcc_pimage *m, uint32_t kernel, const struct tcc_plaunch *l)
{
    fprintf(out, "%u %s", kernel, string_of(m, l->symbol));
    put_three(out, m, "grid", l->grid);
    put_three(out, m, "block", l->block);
    if (l->cluster[0] != TCC_NO)
        put_three(out, m, "cluster", l->cluster);
    fputs(" shared ", out);
    put_expr(out, m, l->shared, "0");
    fputs(" scratch ", out);
    put_expr(out, m, l->scratch, "0");
    fputs(l->flags & TCC_LAUNCH_ROWS ? " rows\n" : l->flags & TCC_LAUNCH_RESIDENT ? " resident\n" : "\n", out);
}

static void put_launches(FILE *out, const struct tcc_pimage *m)
{
    const struct tcc_range *kernels = part(m, m->kernels);
    const struct tcc_plaunch *launches = part(m, m->launches);

    fputs(
        "# kernel symbol: grid, threads of a block, cluster, bytes of dynamic shared memory and of scratch. sK: size "
        "K of the\n"
        "# kernel; the last: the number of tiles. Parameters: operands, sizes, scratch, control block, tiles, values.\n"
        "# rows: of several launches as one, by a table (TCC_LAUNCH_ROWS in abi.h); resident: no more blocks than "
        "there are "
        "multiprocessors\n",
        out);
    for (uint32_t k = 0; k < m->kernels.count; k++) {
        uint32_t end = kernels[k].first + kernels[k].count;

        for (uint32_t i = kernels[k].first; i < end; i++)
            put_launch(out, m, k, &launches[i]);
        if (kernels[k].count && end < m->launches.count && launches[end].flags & TCC_LAUNCH_ROWS)
            put_launch(out, m, k, &launches[end]);
    }
}

/* which: of several modules, from 1. */
static int write_file(const struct options *o, const char *output, const struct tcc_model *model,
                      const struct tcc_pimage *m, const char *suffix, uint32_t which)
{
    const struct tcc_range *modules = part(m, m->code);
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%.*s.%s.%s", (int)(dot ? (size_t)(dot - output) : strlen(output)), output,
                     string_of(m, m->machine), suffix),
        code = EXIT_FINE;
    struct tcr_save save;
    FILE *out = n > 0 && n < PATH_MAX && !tcr_save_open(&save, path, TCR_SAVE_STREAM) ? save.stream : NULL;

    if (!out)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    if (!strcmp(suffix, "neff"))
        code = emit_neff(o, model, m, out);
    else if (!strcmp(suffix, "launches"))
        put_launches(out, m);
    else if (which)
        fwrite((const char *)part(m, m->code) + modules[which].first, 1, modules[which].count, out);
    else
        fwrite(part(m, m->code), 1, m->code.count - !strcmp(suffix, "ptx"), out); /* text ends with a zero in images */
    if (code != EXIT_FINE)
        tcr_save_drop(&save);
    else if (tcr_save_commit(&save))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    return code;
}

/* Images of NeuronCores are written as NEFF only, others as what they are. */
static int write_image(const struct options *o, const char *output, const struct tcc_model *model,
                       const struct tcc_pimage *m, bool neff)
{
    int code = EXIT_FINE;

    if (neff != !strcmp(string_of(m, m->format), "neuron"))
        return EXIT_FINE;
    if (neff)
        return write_file(o, output, model, m, "neff", 0);
    if (!strcmp(string_of(m, m->format), "cubins")) {
        const struct tcc_range *modules = part(m, m->code);
        char suffix[24];

        for (uint32_t k = 1; k < modules->count && code == EXIT_FINE; k++) {
            snprintf(suffix, sizeof suffix, "%u.cubin", k);
            code = write_file(o, output, model, m, suffix, k);
        }
    } else {
        code = write_file(o, output, model, m, string_of(m, m->format), 0);
    }
    return code == EXIT_FINE ? write_file(o, output, model, m, "launches", 0) : code;
}

int emit_images(const struct options *o, const struct tccc_options *c)
{
    char path[PATH_MAX];
    int code = EXIT_FINE;
    bool neff = !strcmp(option_text(o, OPT_emit, ""), "neff"), any = false;

    void *handle = realpath(c->output, path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct tcc_model *m = handle ? dlsym(handle, "tccc_model") : NULL;
    if (!m)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot open '%s'", c->output);
    for (uint32_t i = 0; i < m->nimages && code == EXIT_FINE; i++) {
        any |= neff == !strcmp(string_of(m->images[i], m->images[i]->format), "neuron");
        code = write_image(o, c->output, m, m->images[i], neff);
    }
    if (!any)
        code = tool_error(o, EXIT_DATA, "--emit=%s: the artifact has no code for %s", neff ? "neff" : "ptx",
                          neff ? "NeuronCores (--target=neuron:...)" : "a device (--target=cuda:...)");
    dlclose(handle);
    return code;
}
