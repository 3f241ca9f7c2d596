/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cubin.c - PTX assembled for its machine by ptxas, where that is installed: a driver then has nothing to translate when an artifact is
 * opened. All kernels of a program are one file, as one module is loaded. Where ptxas fails (an old one does not know each machine), the
 * artifact has PTX alone, and a warning says why.
 */
#include "compiler/child_int.h"
#include "compiler/cuda/cuda_int.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *target_ptxas(void)
{
    const char *given = getenv("TCCC_PTXAS");
    if (given && *given)
        return strcmp(given, "none") ? given : NULL;
#ifdef TCCC_PTXAS
    return access(TCCC_PTXAS, X_OK) == 0 ? TCCC_PTXAS : NULL;
#else
    return NULL;
#endif
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wx");
    bool ok = file && fputs(text, file) >= 0;
    return file && !fclose(file) && ok;
}

const void *cuda_cubin(struct ir_ctx *ctx, const struct target_options *o, const char *ptx, const char *name,
                       const char *folder, size_t *size)
{
    const char *program = target_ptxas(), *from = ir_internf(ctx, "%s/%s.assemble.ptx", folder, name),
               *to = ir_internf(ctx, "%s/%s.cubin", folder, name);
    char *argv[] = {
        (char *)program, (char *)ir_internf(ctx, "-arch=%s", o->arch), "-o", (char *)to, (char *)from, NULL};
    char text[1500] = "its input can't be written";
    void *bytes = NULL;
    if (!program || !o->assemble || !strstr(ptx, ".entry"))
        return NULL;
    int code = write_text(from, ptx) ? child_program(argv, text, sizeof text) : 1;
    struct ir_file *file = code ? NULL : ir_file_get(ctx, to, text, sizeof text);
    if (file) {
        *size = (size_t)ir_file_size(file);
        bytes = IR_NEWN(ctx, *size, char);
        memcpy(bytes, ir_file_data(file), *size);
        ir_file_unref(file);
    } else
        ir_diag(ctx, NULL, IR_D_WARNING, "no cubin for %s: %s: %s", o->arch, program,
                code < 0 || code == 127 ? "it can't be started" : text);
    unlink(from);
    unlink(to);
    return bytes;
}
