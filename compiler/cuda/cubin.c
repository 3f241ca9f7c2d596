/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cubin.c - PTX assembled for its machine by ptxas, where that is installed: a driver then has nothing to translate
 * when an artifact is opened. Of many kernels there are several parts, whose number follows from the kernels' alone
 * (the bytes are not those of -j), each a module of its own: so many processes of ptxas work at once as -j says. What a
 * part became is kept in --cache-dir, under the digest of its text, the architecture and the assembler: a model whose
 * weights are new, or another with the same kernels, finds it there. Where ptxas fails (an old one does not know each
 * machine), the artifact has PTX alone, and a warning says why.
 */
#include "compiler/cache_int.h"
#include "compiler/child_int.h"
#include "compiler/cuda/cuda_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ENTRIES = 50 }; /* a part's: a process costs as much as ten kernels */

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

/* -- Parts of a text ------------------------------------------------------------------------------------------ */

struct text {
    const char *at;
    size_t size;
};

static bool begins(const char *line, const char *with)
{
    return !strncmp(line, with, strlen(with));
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* Lines that all kernels share, but for the one that they need: what else a module declares would be another variable
 * in each part. */
static bool is_shared(const char *line)
{
    static const char *const may[] = {".version", ".target", ".address_size", ".extern .shared", "//", "\t//", "\n"};
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (begins(line, may[i]))
            return true;
    return !*line;
}

/* Where each entry begins; their number, 0: the text is not to be cut. The list is the caller's to release. */
static int find_entries(const char *ptx, const char ***list)
{
    int n = 0, room = 0;
    bool inside = false, whole = false;
    *list = NULL;
    for (const char *line = ptx; *line && !whole; line = next_line(line)) {
        if (begins(line, ".visible .entry") || begins(line, ".entry")) {
            if (n == room)
                *list = realloc(*list, (size_t)(room = 2 * room + 64) * sizeof **list);
            if (!*list)
                return 0;
            (*list)[n++] = line;
            inside = true;
        } else if (!inside)
            whole = !is_shared(line);
        inside = inside && *line != '}';
    }
    return whole ? 0 : n;
}

/* The text's parts, in their order, zero-terminated; all of it, where nothing is to be cut. */
static int cut(struct ir_ctx *ctx, const char *ptx, struct text **parts)
{
    const char **entries;
    int n = find_entries(ptx, &entries), count = n > 0 ? (n + MOST_ENTRIES - 1) / MOST_ENTRIES : 1;
    *parts = IR_NEWN(ctx, count, struct text);
    if (count == 1)
        (*parts)[0] = (struct text){ptx, strlen(ptx)};
    for (int i = 0; i < count && count > 1; i++) {
        const char *from = entries[(int64_t)n * i / count],
                   *to = i == count - 1 ? ptx + strlen(ptx) : entries[(int64_t)n * (i + 1) / count];
        size_t head = (size_t)(entries[0] - ptx), body = (size_t)(to - from);
        char *text = IR_NEWN(ctx, head + body + 1, char);
        memcpy(text, ptx, head);
        memcpy(text + head, from, body);
        (*parts)[i] = (struct text){text, head + body};
    }
    free(entries);
    return count;
}

/* -- Assembling ----------------------------------------------------------------------------------------------- */

static bool write_text(const char *path, const struct text *text)
{
    FILE *file = fopen(path, "wx");
    bool ok = file && fwrite(text->at, 1, text->size, file) == text->size;
    return file && !fclose(file) && ok;
}

struct part {
    const char *from, *to;
    struct cache kept;
    bool keeps, there; /* is there a cache; did it have the part */
};

/* What the assembler is: another one makes other bytes. */
static const char *identity(struct ir_ctx *ctx, const char *program, const char *arch)
{
    struct stat st = {0};
    if (stat(program, &st)) /* found by PATH */
        st.st_size = -1;
    return ir_internf(ctx, "ptxas %s %s %lld %lld.%09ld", arch, program, (long long)st.st_size,
                      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* Makes the parts' files; false, with what went wrong. */
static bool assemble(struct ir_ctx *ctx, const struct target_options *o, const char *program, const struct text *texts,
                     struct part *parts, int n, const char **why)
{
    struct child_program *programs = IR_NEWN(ctx, n + 1, struct child_program);
    int *of = IR_NEWN(ctx, n + 1, int), wanted = 0;
    const char *by = identity(ctx, program, o->arch);
    for (int i = 0; i < n; i++) {
        parts[i].keeps = cache_part(&parts[i].kept, o->cache, by, texts[i].at, texts[i].size, "cubin");
        parts[i].there = parts[i].keeps && cache_fetch(&parts[i].kept, ctx, parts[i].to, NULL);
        if (parts[i].there)
            continue;
        if (!write_text(parts[i].from, &texts[i])) {
            *why = "its input can't be written";
            return false;
        }
        char *const argv[] = {(char *)program,
                              (char *)ir_internf(ctx, "-arch=%s", o->arch),
                              "-o",
                              (char *)parts[i].to,
                              (char *)parts[i].from,
                              NULL};
        programs[wanted].argv = memcpy(IR_NEWN(ctx, 6, char *), argv, sizeof argv);
        of[wanted++] = i;
    }
    child_programs(programs, wanted, o->jobs);
    ir_tick(ctx);
    for (int i = 0; i < wanted; i++) {
        const struct child_program *p = &programs[i];
        if (p->code) {
            *why = p->code < 0 || p->code == 127 ? "it can't be started" : p->text;
            return false;
        }
        if (parts[of[i]].keeps)
            cache_store(&parts[of[i]].kept, ctx, parts[of[i]].to, NULL, ir_nmessages(ctx));
    }
    return true;
}

/* The modules as an image's code: the file's bytes, or the files' behind a table (abi.h), each with a zero behind
 * it. */
static struct cuda_cubin gather(struct ir_ctx *ctx, struct ir_file **files, int n)
{
    struct cuda_cubin code = {.format = n > 1 ? "cubins" : "cubin"};
    struct tcc_range *table = IR_NEWN(ctx, n + 1, struct tcc_range);
    table[0].count = (uint32_t)n + 1;
    size_t at = n > 1 ? (size_t)(n + 1) * sizeof *table : 0;
    for (int i = 0; i < n; i++) {
        at = (at + 63) / 64 * 64;
        table[i + 1] = (struct tcc_range){(uint32_t)at, (uint32_t)ir_file_size(files[i])};
        at += ir_file_size(files[i]) + (n > 1);
    }
    uint8_t *bytes = IR_NEWN(ctx, at + 1, uint8_t);
    if (n > 1)
        memcpy(bytes, table, (size_t)(n + 1) * sizeof *table);
    for (int i = 0; i < n; i++)
        memcpy(bytes + table[i + 1].first, ir_file_data(files[i]), table[i + 1].count);
    code.bytes = bytes;
    code.size = at;
    return code;
}

struct cuda_cubin cuda_assemble(struct ir_ctx *ctx, const struct target_options *o, const char *ptx, const char *name,
                                const char *folder)
{
    const char *program = target_ptxas(), *why = NULL;
    struct cuda_cubin code = {0};
    char text[1500];
    struct text *texts;
    if (!program || !o->assemble || !strstr(ptx, ".entry"))
        return code;
    int n = cut(ctx, ptx, &texts), read = 0;
    struct part *parts = IR_NEWN(ctx, n, struct part);
    struct ir_file **files = IR_NEWN(ctx, n, struct ir_file *);
    for (int i = 0; i < n; i++) {
        parts[i].from = ir_internf(ctx, "%s/%s.%d.assemble.ptx", folder, name, i);
        parts[i].to = ir_internf(ctx, "%s/%s.%d.cubin", folder, name, i);
    }
    bool ok = assemble(ctx, o, program, texts, parts, n, &why);
    for (; ok && read < n && (files[read] = ir_file_get(ctx, parts[read].to, text, sizeof text)); read++)
        ;
    if (ok && read == n)
        code = gather(ctx, files, n);
    else
        ir_diag(ctx, NULL, IR_D_WARNING, "no cubin for %s: %s: %s", o->arch, program, ok ? text : why);
    for (int i = 0; i < read; i++)
        ir_file_unref(files[i]);
    for (int i = 0; i < n; i++) {
        unlink(parts[i].from);
        unlink(parts[i].to);
    }
    return code;
}
