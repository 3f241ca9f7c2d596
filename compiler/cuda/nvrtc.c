/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.c - users' device code (--custom-op=...=FILE.cu) to PTX by NVRTC, which is opened when it is wanted: a file and
 * the calls of it are one program. What it makes is put behind our own text, as one module: the header lines are the
 * first's, with the higher version. (NVRTC's documentation, "User interface"; PTX ISA, "PTX Module Directives".)
 */
#include "compiler/cuda/cuda_int.h"
#include "compiler/custom_int.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *nvrtc_program;

/* What is used of nvrtc.h; results: 0 is success. */
struct nvrtc {
    void *handle;
    int (*create)(nvrtc_program *p, const char *source, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(nvrtc_program p, int n, const char *const *options);
    int (*log_size)(nvrtc_program p, size_t *size);
    int (*log)(nvrtc_program p, char *text);
    int (*ptx_size)(nvrtc_program p, size_t *size);
    int (*ptx)(nvrtc_program p, char *text);
    int (*destroy)(nvrtc_program *p);
    const char *(*error)(int result);
};

static bool find_functions(struct nvrtc *n)
{
    const struct {
        const char *name;
        void **to;
    } all[] = {{"nvrtcCreateProgram", (void **)&n->create},       {"nvrtcCompileProgram", (void **)&n->compile},
               {"nvrtcGetProgramLogSize", (void **)&n->log_size}, {"nvrtcGetProgramLog", (void **)&n->log},
               {"nvrtcGetPTXSize", (void **)&n->ptx_size},        {"nvrtcGetPTX", (void **)&n->ptx},
               {"nvrtcDestroyProgram", (void **)&n->destroy},     {"nvrtcGetErrorString", (void **)&n->error}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(*all[i].to = dlsym(n->handle, all[i].name)))
            return false;
    return true;
}

/* $TCCC_NVRTC_LIBRARY, else the newest that is found. It stays open: it is not made to be closed. */
static bool open_nvrtc(struct ir_ctx *ctx, const char *file, struct nvrtc *n)
{
    static const char *const usual[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};
    const char *given = getenv("TCCC_NVRTC_LIBRARY");
    const char *const own[] = {given, NULL}, *const *try = given && *given ? own : usual;
    struct ir_where where = {.file = file};
    for (; *try; try++)
        if ((n->handle = dlopen(*try, RTLD_NOW | RTLD_LOCAL))) {
            if (find_functions(n))
                return true;
            return ir_diag(ctx, &where, IR_D_ENVIRONMENT, "'%s' is not NVRTC: it lacks functions of it", *try);
        }
    return ir_diag(ctx, &where, IR_D_ENVIRONMENT,
                   "NVRTC, which compiles CUDA C++, was not found (%s): install it (libnvrtc.so.13 or .12, of the CUDA "
                   "toolkit) or name its "
                   "library with TCCC_NVRTC_LIBRARY",
                   given && *given ? given : "libnvrtc.so.13, .12");
}

/* What it said, as lines of a message. */
static void tell_log(struct ir_ctx *ctx, const struct nvrtc *n, nvrtc_program p, const char *file, int result)
{
    size_t size = 0;
    struct ir_where where = {.file = file};
    const char *message = ir_internf(ctx, "NVRTC refuses it (%s):", n->error(result));
    if (!n->log_size(p, &size) && size > 1) {
        char *text = IR_NEWN(ctx, size + 1, char), *save;
        if (!n->log(p, text))
            for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                message = ir_internf(ctx, "%s\n  %s", message, ir_shown(line));
    }
    ir_diag(ctx, &where, IR_D_UNSUPPORTED, "%s", message);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/*
 * Lines of the user's file as the simulator says them: .loc FILE LINE COLUMN and .file FILE "name". Numbers go on from
 * *files, since a module takes several texts; names lose their folders, which are not the artifact's business; what was
 * inlined into what, and the section of names for that, are left out. NVRTC's own names for the module's strings ($str)
 * get a number, too.
 */
static const char *own_places(struct ir_ctx *ctx, const char *ptx, int *files)
{
    char *to = IR_NEWN(ctx, 14 * strlen(ptx) + 64, char), *at = to;
    int most = *files;

    for (const char *line = ptx, *end; *line; line = end) {
        int number, row, column, name = 0;
        const char *word = line + strspn(line, " \t");
        end = strchrnul(line, '\n');
        end += *end == '\n';
        if (sscanf(word, ".loc %d %d %d", &number, &row, &column) == 3) {
            at += sprintf(at, "\t.loc\t%d %d %d\n", *files + number, row, column);
        } else if (sscanf(word, ".file %d \"%n", &number, &name) == 1 && name) {
            const char *quote = memchr(word + name, '"', (size_t)(end - word) - (size_t)name), *base = word + name;
            for (const char *c = base; quote && c < quote; c++)
                base = *c == '/' ? c + 1 : base;
            if (quote)
                at += sprintf(at, "\t.file\t%d \"%.*s\"\n", *files + number, (int)(quote - base), base);
            most = number + *files > most ? number + *files : most;
        } else if (!strncmp(word, ".section", 8)) {
            end = strchrnul(word, '}');
            end += *end == '}';
        } else {
            for (const char *c = line; c < end; c++) {
                *at++ = *c;
                at += *c == '$' && strncmp(c, "$L_", 3) != 0 ? sprintf(at, "c%d_", *files) : 0;
            }
        }
    }
    *at = '\0';
    *files = most;
    return to;
}

static const char *compile_text(struct ir_ctx *ctx, const char *file, const char *calls, const char *arch)
{
    struct nvrtc n;
    nvrtc_program p;
    char error[512], *ptx = NULL;
    size_t size = 0;
    struct ir_where where = {.file = file};
    if (!open_nvrtc(ctx, file, &n))
        return NULL;
    struct ir_file *f = ir_file_get(ctx, file, error, sizeof error);
    if (!f)
        return ir_error(ctx, NULL, "%s", error), NULL;
    const char *text = ir_internf(ctx, "%.*s", (int)ir_file_size(f), (const char *)ir_file_data(f));
    ir_file_unref(f);
    const char *source = ir_internf(ctx,
                                    "#include <tccc_custom.h>\n"
                                    "static __device__ constexpr bool tccc_same(const char *a, const char *b) "
                                    "{ return *a == *b && (!*a || tccc_same(a + 1, b + 1)); }\n"
                                    "#line 1 \"%s\"\n%s\n#line 1 \"calls of %s\"\n%s",
                                    base_of(file), text, base_of(file), calls);
    const char *options[] = {ir_internf(ctx, "--gpu-architecture=compute_%s", arch + 3), "--std=c++17",
                             "--generate-line-info",
                             ir_internf(ctx, "--include-path=%s", dirname(ir_strdup(ctx, file)))};
    int result = n.create(&p, source, "custom.cu", 1, (const char *const[]){custom_header},
                          (const char *const[]){"tccc_custom.h"});
    if (result)
        return ir_diag(ctx, &where, IR_D_ENVIRONMENT, "NVRTC: %s", n.error(result)), NULL;
    result = n.compile(p, (int)(sizeof options / sizeof *options), options);
    if (result)
        tell_log(ctx, &n, p, file, result);
    else if (!(result = n.ptx_size(p, &size))) {
        ptx = IR_NEWN(ctx, size + 1, char);
        if ((result = n.ptx(p, ptx)))
            ir_diag(ctx, &where, IR_D_ENVIRONMENT, "NVRTC: %s", n.error(result));
    }
    n.destroy(&p);
    return result ? NULL : ptx;
}

/* The version that a module's text asks for, times 10: 7.8 is 78; *at: where its line is. */
static int version_of(const char *ptx, const char **at)
{
    int major = 0, minor = 0;
    *at = strstr(ptx, ".version");
    return *at && sscanf(*at, ".version %d.%d", &major, &minor) == 2 ? 10 * major + minor : 0;
}

/* Behind the lines that a module begins with. */
static const char *behind_header(const char *ptx)
{
    const char *at = strstr(ptx, ".address_size");
    at = at ? strchr(at, '\n') : NULL;
    return at ? at + 1 : "";
}

static const char *join(struct ir_ctx *ctx, const char *ours, const char *theirs)
{
    const char *line, *other;
    int a = version_of(ours, &line), b = version_of(theirs, &other);
    if (!a || a >= b)
        return ir_internf(ctx, "%s\n%s", ours, behind_header(theirs));
    const char *end = strchr(line, '\n');
    return ir_internf(ctx, "%.*s.version %d.%d%s\n%s", (int)(line - ours), ours, b / 10, b % 10, end ? end : "",
                      behind_header(theirs));
}

const char *cuda_add_customs(struct ir_ctx *ctx, const struct kn_program *p, const char *arch, const char *prefix,
                             const char *ptx)
{
    bool *done = IR_NEWN(ctx, p->nkernels + 1, bool);
    int files = 0;
    for (int i = 0; i < p->nkernels && ptx; i++) {
        const struct kn_custom *c = p->kernels[i]->custom;
        const char *calls = "", *made;
        if (!c || done[i])
            continue;
        for (int k = i; k < p->nkernels; k++) {
            const struct kn_custom *other = p->kernels[k]->custom;
            if (!other || strcmp(other->file, c->file) != 0)
                continue;
            done[k] = true;
            calls = ir_internf(ctx, "%s%s", calls, custom_text(ctx, other, ir_internf(ctx, "%sk%d", prefix, k)));
        }
        made = compile_text(ctx, c->file, calls, arch);
        ptx = made ? join(ctx, ptx, own_places(ctx, made, &files)) : NULL;
    }
    return ptx;
}

struct image_kernel cuda_custom_launch(struct ir_ctx *ctx, const struct kn_custom *c, const char *symbol)
{
    ir_expr tiles = image_tiles(ctx), block = ir_const(ctx, c->block);
    struct image_launch l = {.symbol = symbol, .block = {block}};
    l.grid[0] =
        c->rows ? tiles : ir_min(ctx, ir_const(ctx, 65535), ir_floordiv(ctx, ir_addc(ctx, tiles, c->block - 1), block));
    l.shared = c->shared ? ir_const(ctx, c->shared) : NULL;
    return (struct image_kernel){.nlaunches = 1, .launches = {l}};
}
