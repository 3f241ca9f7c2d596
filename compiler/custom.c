/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom.c - --custom-op=DOMAIN:NAME=FILE. A file is compiled once, by the system's C compiler, to an object. Linked by
 * itself it is loaded here, for shape(), and for run() in the interpreter; the same object goes into the artifact,
 * beside a few lines of C that call it as a library op. For another processor its cross compiler makes a second one.
 */
#include "compiler/custom_int.h"
#include "compiler/child_int.h"
#include "base/safe.h"
#include "runtime/tccc_custom.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char custom_header[] =
#include "compiler/custom_header.inc"
    ;

/* A file that has been loaded. */
struct file {
    const char *path;
    bool cuda;
    void *handle;
    char *object; /* its bytes */
    size_t size;
    struct custom_paths sources; /* the file, and what it includes */
};

/* -- The C compiler ------------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 64, SAYS = 4000 };

/* Runs the C compiler: `cross` for another processor, NULL: $TCCC_CC, else the first of the usual ones that can be
 * started. False after a diagnostic about `path`, which shows what it said. */
static bool run_cc(struct ir_ctx *ctx, const char *path, const char *cross, const char *const *args)
{
    static const char *const usual[] = {"cc", "gcc", "clang", "clang-19", NULL};
    const char *given = cross ? cross : getenv("TCCC_CC");
    const char *const own[] = {given, NULL}, *const *try = given && *given ? own : usual;
    struct ir_where where = {.file = path};
    char *text = IR_NEWN(ctx, SAYS, char);
    for (; *try; try++) {
        const char *argv[MOST_WORDS + 1];
        int n = 0;
        char *words = ir_strdup(ctx, *try), *save;
        for (char *w = strtok_r(words, " \t", &save); w && n < MOST_WORDS / 2; w = strtok_r(NULL, " \t", &save))
            argv[n++] = w;
        for (int i = 0; args[i] && n < MOST_WORDS; i++)
            argv[n++] = args[i];
        argv[n] = NULL;
        int code = child_program((char *const *)argv, text, SAYS);
        if (code == 0)
            return true;
        if (code < 0 || code == 127)
            continue;
        const char *message = ir_internf(ctx, "the C compiler (%s) refuses it:", argv[0]);
        char *lines = text;
        for (char *line; (line = strsep(&lines, "\n"));)
            if (*line)
                message = ir_internf(ctx, "%s\n  %s", message, ir_shown(line));
        return ir_diag(ctx, &where, child_lacked(text) ? IR_D_ENVIRONMENT : IR_D_UNSUPPORTED, "%s", message);
    }
    return ir_diag(ctx, &where, IR_D_ENVIRONMENT, "no C compiler found%s%s; a custom operator requires one%s",
                   given && *given ? ": " : "", given && *given ? given : "", cross ? "" : " (TCCC_CC names it)");
}

static bool write_text(struct ir_ctx *ctx, const char *path, const char *text)
{
    FILE *f = fopen(path, "wxe");
    bool ok = f && fputs(text, f) >= 0;
    ok = f && !fclose(f) && ok;
    struct ir_where where = {.file = path};
    if (!ok)
        ir_diag(ctx, &where, IR_D_ENVIRONMENT, "cannot write: %s", strerror(errno));
    return ok;
}

/* -- Loading -------------------------------------------------------------------------------------------------- */

/* The paths of a make rule as compilers write it, but for those in `folder`. */
static void read_rule(struct ir_ctx *ctx, const char *rule, const char *folder, struct custom_paths *paths)
{
    size_t n = strlen(folder);
    const char *at = strchr(rule, ':');
    char *word = IR_NEWN(ctx, strlen(rule) + 1, char);
    for (at = at ? at + 1 : ""; *at;) {
        size_t k = 0;
        while (*at && (isspace((unsigned char)*at) || (at[0] == '\\' && at[1] == '\n')))
            at++;
        while (*at && !isspace((unsigned char)*at)) {
            if (at[0] == '\\' && (at[1] == ' ' || at[1] == '#' || at[1] == '\\'))
                at++;
            else if (at[0] == '$' && at[1] == '$')
                at++;
            else if (at[0] == '\\' && at[1] == '\n')
                break;
            word[k++] = *at++;
        }
        word[k] = 0;
        if (k && strncmp(word, folder, n) != 0)
            VEC_PUSH(ctx, *paths, ir_strdup(ctx, word));
    }
}

static char *read_whole(struct ir_ctx *ctx, const char *path, size_t *size)
{
    char error[512];
    struct ir_file *file = ir_file_get(ctx, path, error, sizeof error);
    if (!file)
        return ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "%s", error), NULL;
    *size = (size_t)ir_file_size(file);
    char *bytes = IR_NEWN(ctx, *size + 1, char);
    memcpy(bytes, ir_file_data(file), *size);
    ir_file_unref(file);
    return bytes;
}

/* FILE compiled to `object`, with the header in `folder`; what it includes goes into `rule`. */
static bool compile_object(struct ir_ctx *ctx, const char *path, const char *cross, const char *folder,
                           const char *rule, const char *object)
{
    return run_cc(ctx, path, cross,
                  (const char *const[]){"-std=gnu17", "-O2", "-fPIC", "-fvisibility=hidden", "-MMD", "-MF", rule,
                                        ir_internf(ctx, "-I%s", folder), "-c", "-x", "c", path, "-o", object, NULL});
}

/* FILE compiled in `folder`, linked by itself, and loaded. */
static bool compile_file(struct ir_ctx *ctx, struct file *f, const char *folder)
{
    const char *object = ir_internf(ctx, "%s/op.o", folder), *shared = ir_internf(ctx, "%s/op.so", folder),
               *rule = ir_internf(ctx, "%s/op.d", folder);
    struct ir_where where = {.file = f->path};
    size_t size;
    if (!write_text(ctx, ir_internf(ctx, "%s/tccc_custom.h", folder), custom_header) ||
        !compile_object(ctx, f->path, NULL, folder, rule, object) ||
        !run_cc(ctx, f->path, NULL,
                (const char *const[]){"-shared", "-Wl,-z,defs", "-o", shared, object, "-lm", "-lpthread", NULL}))
        return false;
    const char *text = read_whole(ctx, rule, &size);
    if (!text || !(f->object = read_whole(ctx, object, &f->size)))
        return false;
    read_rule(ctx, text, folder, &f->sources);
    f->handle = dlopen(shared, RTLD_NOW | RTLD_LOCAL);
    if (!f->handle)
        ir_diag(ctx, &where, IR_D_ENVIRONMENT, "cannot be loaded: %s", dlerror());
    return f->handle != NULL;
}

static struct file *load_file(struct ir_ctx *ctx, const char *path, bool cuda)
{
    struct file *f = IR_NEW(ctx, struct file);
    struct ir_where where = {.file = path};
    struct tcr_scratch folder;
    *f = (struct file){.path = ir_strdup(ctx, path), .cuda = cuda};
    if (access(path, R_OK) != 0)
        return ir_error(ctx, &where, "%s", strerror(errno)), NULL;
    if (tcr_scratch_make(&folder, NULL, "tccc-custom-"))
        return ir_diag(ctx, &where, IR_D_ENVIRONMENT, "cannot make a folder in '%s': %s", tcr_temporary(),
                       strerror(errno)),
               NULL;
    bool ok = compile_file(ctx, f, folder.path);
    tcr_scratch_remove(&folder);
    return ok ? f : NULL;
}

static struct file *file_of(const struct ir_ctx *ctx, const char *path)
{
    for (struct ir_custom *x = ir_customs(ctx); x; x = x->next)
        for (int device = 0; device < 2; device++) {
            const struct file *f = device ? x->device_origin : x->origin;
            if (f && !strcmp(f->path, path))
                return (struct file *)(uintptr_t)f;
        }
    return NULL;
}

/* The operator's definition in the file; NULL: there is none. */
static const struct tccc_custom_op *definition(struct ir_ctx *ctx, const struct file *f, const char *identifier)
{
    return dlsym(f->handle, ir_internf(ctx, "tccc_custom_op_%s", identifier));
}

static bool fits(struct ir_ctx *ctx, const struct file *f, const char *identifier, const struct tccc_custom_op *op)
{
    struct ir_where where = {.file = f->path};
    if (op->version != TCCC_CUSTOM_VERSION)
        return ir_error(ctx, &where, "operator '%s' has version %u, expected .version = TCCC_CUSTOM_VERSION (%u)",
                        identifier, op->version, TCCC_CUSTOM_VERSION);
    bool code = f->cuda ? op->cuda.block > 0 : op->run != NULL;
    if (!code)
        ir_error(ctx, &where,
                 f->cuda ? "operator '%s' has no .cuda.block: how many threads a block of its device code has"
                         : "operator '%s' has no .run",
                 identifier);
    else if (op->cuda.block > 1024 || op->cuda.shared < 0) {
        ir_error(
            ctx, &where,
            "operator '%s' asks for blocks of %d threads and %d bytes of shared memory; a GPU has at most 1024 threads",
            identifier, op->cuda.block, op->cuda.shared);
        code = false;
    }
    return code;
}

/* The operator `name` is what `op` of the file says: a .cu adds its device code to a .c, and the other way round. */
static bool add(struct ir_ctx *ctx, const char *name, const struct file *f, const struct tccc_custom_op *op)
{
    struct ir_custom *x = ir_custom_find(ctx, name);
    if (x && (f->cuda ? x->device != NULL : ((const struct file *)x->origin)->cuda == false))
        return ir_diag(ctx, NULL, IR_D_USAGE, "--custom-op: operator '%s' has two files %s: '%s' and '%s'", name,
                       f->cuda ? "for GPUs" : "for the CPU",
                       ((const struct file *)(f->cuda ? x->device_origin : x->origin))->path, f->path);
    if (!x)
        x = ir_custom_add(ctx, name, op, f);
    if (!f->cuda) {
        x->op = op;
        x->origin = f;
    } else {
        x->device = op;
        x->device_origin = f;
    }
    return true;
}

static bool load_one(struct ir_ctx *ctx, const char *text)
{
    const char *equals = strchr(text, '='), *colon = NULL, *dot = equals ? strrchr(equals, '.') : NULL;
    for (const char *c = text; equals && c < equals; c++)
        colon = *c == ':' ? c : colon;
    bool cuda = dot && !strcmp(dot, ".cu"),
         good = colon && colon > text && colon + 1 < equals && (cuda || (dot && !strcmp(dot, ".c")));
    for (const char *c = good ? colon + 1 : text; good && c < equals; c++)
        good = isalnum((unsigned char)*c) || *c == '_';
    if (!good)
        return ir_diag(ctx, NULL, IR_D_USAGE,
                       "--custom-op=%s: expected DOMAIN:NAME=FILE.c or FILE.cu, NAME being an identifier", text);
    const char *name = ir_internf(ctx, "%.*s", (int)(equals - text), text),
               *identifier = ir_internf(ctx, "%.*s", (int)(equals - colon - 1), colon + 1);
    struct file *f = file_of(ctx, equals + 1);
    if (!f && !(f = load_file(ctx, equals + 1, cuda)))
        return false;
    const struct tccc_custom_op *op = definition(ctx, f, identifier);
    if (!op) {
        struct ir_where where = {.file = f->path};
        return ir_error(ctx, &where, "it does not define operator '%s': expected TCCC_CUSTOM_OP(%s) = {...}",
                        identifier, identifier);
    }
    const char *gradient = ir_internf(ctx, "%s_grad", identifier);
    const struct tccc_custom_op *grad = definition(ctx, f, gradient);
    return fits(ctx, f, identifier, op) && add(ctx, name, f, op) &&
           (!grad || (fits(ctx, f, gradient, grad) && add(ctx, ir_internf(ctx, "%s_grad", name), f, grad)));
}

bool custom_load(struct ir_ctx *ctx, const char *const *list)
{
    for (int i = 0; list && list[i]; i++)
        if (!load_one(ctx, list[i]))
            return false;
    return true;
}

void custom_sources(struct ir_ctx *ctx, struct custom_paths *paths)
{
    for (struct ir_custom *x = ir_customs(ctx); x; x = x->next)
        for (int device = 0; device < 2; device++) {
            const struct file *f = device ? x->device_origin : x->origin;
            for (int i = 0; f && i < f->sources.n; i++) {
                bool known = false;
                for (int k = 0; k < paths->n && !known; k++)
                    known = !strcmp(paths->at[k], f->sources.at[i]);
                if (!known)
                    VEC_PUSH(ctx, *paths, f->sources.at[i]);
            }
        }
}

const char *custom_device_file(const struct ir_custom *x)
{
    return x->device_origin ? ((const struct file *)x->device_origin)->path : NULL;
}

/* -- Into the artifact -------------------------------------------------------------------------------------------- */

const char *custom_symbol(struct ir_ctx *ctx, const char *name)
{
    char *to = IR_NEWN(ctx, 3 * strlen(name) + 1, char), *at = to;
    for (const char *c = name; *c; c++)
        if (isalnum((unsigned char)*c))
            *at++ = *c;
        else
            at += sprintf(at, "_%02x", (unsigned char)*c);
    return ir_internf(ctx, "tccc_custom_%s", to);
}

/* The operators that steps call. */
struct called {
    struct ir_ctx *ctx;
    VEC(struct ir_custom *) all;
};

static void find_called(struct called *c, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        struct ir_custom *x = s->kind == TCC_STEP_LIB ? ir_custom_find(c->ctx, s->lib) : NULL;
        for (int k = 0; x && k < c->all.n; k++)
            if (c->all.at[k] == x)
                x = NULL;
        if (x)
            VEC_PUSH(c->ctx, c->all, x);
        for (int r = 0; r < s->nregions; r++)
            find_called(c, &s->regions[r].steps);
    }
}

static const char *identifier_of(const char *name)
{
    return strrchr(name, ':') + 1;
}

/* Two of one identifier would be one symbol. */
static bool are_distinct(struct ir_ctx *ctx, const struct called *c)
{
    for (int i = 0; i < c->all.n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(identifier_of(c->all.at[i]->name), identifier_of(c->all.at[k]->name)) &&
                c->all.at[i]->op != c->all.at[k]->op)
                return ir_error(
                    ctx, NULL,
                    "custom operators '%s' and '%s' have the same name, and so one symbol: an artifact can't have both",
                    c->all.at[k]->name, c->all.at[i]->name);
    return true;
}

static bool write_object(struct ir_ctx *ctx, const char *path, const struct file *f)
{
    FILE *out = fopen(path, "wxe");
    bool ok = out && fwrite(f->object, 1, f->size, out) == f->size;
    ok = out && !fclose(out) && ok;
    if (!ok)
        ir_diag(ctx, NULL, IR_D_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    return ok;
}

bool custom_objects(struct ir_ctx *ctx, int nprograms, const struct kn_program *const *programs, const char *cross,
                    const char *folder, struct custom_paths *objects)
{
    struct called c = {.ctx = ctx};
    VEC(const struct file *) files = {0};
    for (int i = 0; i < nprograms; i++)
        for (int e = 0; e < programs[i]->nentries; e++)
            find_called(&c, &programs[i]->entries[e].steps);
    if (!c.all.n)
        return true;
    if (!are_distinct(ctx, &c))
        return false;
    for (int i = 0; i < c.all.n; i++)
        if (!c.all.at[i]->op->run) {
            struct ir_where where = {.file = ((const struct file *)c.all.at[i]->origin)->path};
            return ir_error(
                ctx, &where, "custom operator '%s' runs on the CPU here%s, and has no .run: give a FILE.c for it too",
                c.all.at[i]->name,
                c.all.at[i]->device ? " (no GPU is the target, or its results have sizes that are known when it "
                                      "has run; --dim pins sizes)"
                                    : "");
        }
    const char *text = "struct tcc_lib_call;\nstruct tccc_custom_op;\n"
                       "int tccrt_custom_call(struct tcc_lib_call *, const struct tccc_custom_op *);\n";
    for (int i = 0; i < c.all.n; i++) {
        const struct ir_custom *x = c.all.at[i];
        const char *op = identifier_of(x->name), *symbol = custom_symbol(ctx, x->name);
        text = ir_internf(
            ctx,
            "%sextern const struct tccc_custom_op tccc_custom_op_%s;\nint %s(struct tcc_lib_call *call);\n"
            "int %s(struct tcc_lib_call *call)\n{\n    return tccrt_custom_call(call, &tccc_custom_op_%s);\n}\n",
            text, op, symbol, symbol, op);
        bool known = false;
        for (int k = 0; k < files.n && !known; k++)
            known = files.at[k] == x->origin;
        if (!known)
            VEC_PUSH(ctx, files, (const struct file *)x->origin);
    }
    if (cross && !write_text(ctx, ir_internf(ctx, "%s/tccc_custom.h", folder), custom_header))
        return false;
    for (int i = 0; i < files.n; i++) {
        const char *path = ir_internf(ctx, "%s/custom%d.o", folder, i), *rule = ir_internf(ctx, "%s/custom.d", folder);
        if (cross ? !compile_object(ctx, files.at[i]->path, cross, folder, rule, path)
                  : !write_object(ctx, path, files.at[i]))
            return false;
        VEC_PUSH(ctx, *objects, path);
    }
    const char *source = ir_internf(ctx, "%s/custom.c", folder), *object = ir_internf(ctx, "%s/custom.o", folder);
    VEC_PUSH(ctx, *objects, object);
    return write_text(ctx, source, text) &&
           run_cc(ctx, source, cross,
                  (const char *const[]){"-std=gnu17", "-O2", "-fPIC", "-fvisibility=hidden", "-c", source, "-o", object,
                                        NULL});
}
