/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifact.c - the artifact's own object file: descriptor (struct tcc_model), plan, table of kernels, weights; and the
 * C header of -H. Nothing of it goes through a code generator, weights are written from where they lie.
 */
#include "compiler/artifact/artifact_int.h"
#include "compiler/custom_int.h"
#include "compiler/artifact/elf_int.h"
#include "base/safe.h"
#include "runtime/tccdata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* -- Weights ------------------------------------------------------------------------------------------ */

/* A weight's physical bytes: where they lie, or a copy. `keep` is released after writing (NULL: nothing). */
struct weight {
    const void *data;
    uint64_t size;
    struct ir_tensor *keep;
};

/* All elements of a splat. */
static struct ir_tensor *dense_copy(const struct ir_tensor *t)
{
    struct ir_tensor *to = ir_tensor_new(t->dtype, t->rank, t->dims);
    size_t size = (size_t)tcc_dtype_bytes(t->dtype);
    for (int64_t i = 0; to && i < to->nelems; i++)
        memcpy((char *)to->data + size * (size_t)i, t->data, size);
    return to;
}

static bool weight_bytes(const struct kn_buffer *b, struct weight *out)
{
    const struct ir_tensor *t = b->weight;
    out->keep = NULL;
    out->size = (uint64_t)ir_const_or(b->bytes, 0);
    if (b->layout) {
        t = out->keep = kn_relayout(t, b->layout);
        if (!t)
            return false;
    }
    if (t->splat) {
        struct ir_tensor *dense = dense_copy(t);
        ir_tensor_unref(out->keep);
        t = out->keep = dense;
        if (!t)
            return false;
    }
    out->data = t->data;
    return true;
}

/* `lasts`: the data stay where they are for as long as the program does. */
typedef bool (*weight_sink)(void *user, enum tcc_dtype dtype, const void *data, uint64_t size, uint64_t padding,
                            bool lasts);

static bool each_weight(struct ir_ctx *ctx, const struct kn_program *p, weight_sink sink, void *user)
{
    uint64_t at = 0;
    for (int i = kn_next_weight(p, -1); i < p->nbuffers; i = kn_next_weight(p, i)) {
        const struct kn_buffer *b = &p->buffers[i];
        struct weight w;
        if (!weight_bytes(b, &w))
            ir_no_memory(ctx);
        uint64_t offset = (uint64_t)ir_const_or(b->offset, 0);
        bool ok = sink(user, b->dtype, w.data, w.size, offset - at, !w.keep);
        at = offset + w.size;
        if (w.keep)
            ir_tensor_cool(b->weight);
        ir_tensor_unref(w.keep);
        if (!ok)
            return false;
    }
    return true;
}

struct embed {
    struct elf *elf;
    int section;
    XXH3_state_t *digest;
};

static bool sink_embed(void *user, enum tcc_dtype dtype, const void *data, uint64_t size, uint64_t padding, bool lasts)
{
    (void)dtype;
    struct embed *e = user;
    static const uint8_t zeros[64];
    XXH3_64bits_update(e->digest, zeros, padding);
    XXH3_64bits_update(e->digest, data, size);
    (lasts ? elf_data : elf_copy)(e->elf, e->section, data, size, 64);
    return true;
}

/* Records of weights that are made when the artifact is opened (struct tcc_prandom): large ones of floats by their mean
 * and deviation, all others as they are. What has elements beyond what weights have is a mask. */
struct random_sink {
    struct elf *elf;
    int section;
    uint64_t at, written;
    XXH3_state_t *digest;
};
enum { RANDOM_ELEMENTS = 1024, RANDOM_LIMIT = 10000 };

static bool is_random(enum tcc_dtype dtype, const void *data, int64_t n, struct tcc_prandom *r)
{
    double sum = 0, squares = 0;
    if (!TCC_RANDOM_TYPE(dtype) || n < RANDOM_ELEMENTS)
        return false;
    for (int64_t i = 0; i < n; i++) {
        double v = tcc_load_f64(dtype, (const char *)data + i * tcc_dtype_bytes(dtype));
        if (!(v >= -RANDOM_LIMIT && v <= RANDOM_LIMIT))
            return false;
        sum += v;
        squares += v * v;
    }
    r->mean = sum / (double)n;
    squares = squares / (double)n - r->mean * r->mean;
    r->deviation = squares > 0 ? sqrt(squares) : 0;
    return r->deviation > 0;
}

static void put_record(struct random_sink *s, const void *data, uint64_t size)
{
    elf_copy(s->elf, s->section, data, size, 8);
    XXH3_64bits_update(s->digest, data, size);
    s->written += (size + 7) / 8 * 8;
}

static bool sink_random(void *user, enum tcc_dtype dtype, const void *data, uint64_t size, uint64_t padding, bool lasts)
{
    (void)lasts;
    struct random_sink *s = user;
    struct tcc_prandom r = {.offset = s->at + padding, .bytes = size, .dtype = dtype};
    int bytes = tcc_dtype_bytes(dtype);
    r.given = !is_random(dtype, data, bytes > 0 ? (int64_t)size / bytes : 0, &r);
    s->at += padding + size;
    put_record(s, &r, sizeof r);
    if (r.given && size)
        put_record(s, data, size);
    return true;
}

struct file_sink {
    FILE *file;
    uint64_t written;
    XXH3_state_t *digest;
};

static bool sink_file(void *user, enum tcc_dtype dtype, const void *data, uint64_t size, uint64_t padding, bool lasts)
{
    (void)dtype;
    (void)lasts;
    struct file_sink *f = user;
    static const uint8_t zeros[64];
    XXH3_64bits_update(f->digest, zeros, padding);
    XXH3_64bits_update(f->digest, data, size);
    f->written += padding + size;
    return fwrite(zeros, 1, padding, f->file) == padding && fwrite(data, 1, size, f->file) == size;
}

/* The sidecar; false after a diagnostic, and then there is no file. */
static bool write_sidecar(struct ir_ctx *ctx, const struct kn_program *p, const char *path, XXH3_state_t *digest)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, TCR_SAVE_STREAM);
    struct file_sink sink = {open ? save.stream : NULL, 0, digest};
    bool ok = open && each_weight(ctx, p, sink_file, &sink);
    ok = ok && sink_file(&sink, TCC_U8, "", 0, p->weight_bytes - sink.written, true); /* their end is aligned too */
    if (open && !ok)
        tcr_save_drop(&save);
    ok = ok && !tcr_save_commit(&save);
    if (!ok) {
        struct ir_where where = {.file = path};
        ir_error(ctx, &where, "cannot write the weights: %m");
    }
    return ok;
}

/* -- The object ------------------------------------------------------------------------------------------ */

struct object {
    struct ir_ctx *ctx;
    struct elf *elf;
    int rodata, relro, strings; /* sections */
};

/* The 8 bytes at relro + offset point to `text`. */
static void point_to_text(struct object *o, uint64_t offset, const char *text)
{
    if (!text)
        return;
    uint64_t at = elf_copy(o->elf, o->rodata, text, strlen(text) + 1, 1);
    int sym = elf_symbol(o->elf, ir_internf(o->ctx, ".L%llu", (unsigned long long)at), o->rodata, at, strlen(text) + 1,
                         ELF_LOCAL);
    elf_pointer(o->elf, o->relro, offset, sym, 0);
}

static int local(struct object *o, const char *name, int section, uint64_t offset, uint64_t size)
{
    return elf_symbol(o->elf, name, section, offset, size, ELF_LOCAL);
}

/* Table of n pointers to functions, some of which may be NULL. */
static int function_table(struct object *o, const char *name, int n, const char *const *functions)
{
    uint64_t at = elf_zeros(o->elf, o->relro, 8 * (uint64_t)(n ? n : 1), 8);
    for (int i = 0; i < n; i++)
        if (functions[i])
            elf_pointer(o->elf, o->relro, at + 8 * (uint64_t)i,
                        elf_symbol(o->elf, functions[i], 0, 0, 0, ELF_GLOBAL | ELF_HIDDEN | ELF_FUNC), 0);
    return local(o, name, o->relro, at, 8 * (uint64_t)(n ? n : 1));
}

static int versions_table(struct object *o, const struct kn_program *p, const struct artifact_options *options)
{
    int *tables = IR_NEWN(o->ctx, options->nversions + 1, int);
    const char **names = IR_NEWN(o->ctx, p->nkernels + 1, const char *);
    for (int v = 0; v < options->nversions; v++) {
        for (int i = 0; i < p->nkernels; i++)
            names[i] =
                options->on_host && !options->on_host[i] ? NULL : ir_internf(o->ctx, "%sk%d", options->prefixes[v], i);
        tables[v] = function_table(o, ir_internf(o->ctx, ".Lkernels%d", v), p->nkernels, names);
    }
    uint64_t size = sizeof(struct tcc_version) * (uint64_t)options->nversions,
             at = elf_zeros(o->elf, o->relro, size, 8);
    for (int v = 0; v < options->nversions; v++) {
        uint64_t entry = at + sizeof(struct tcc_version) * (uint64_t)v;
        point_to_text(o, entry + offsetof(struct tcc_version, isa), options->isas[v]);
        elf_pointer(o->elf, o->relro, entry + offsetof(struct tcc_version, kernels), tables[v], 0);
    }
    return local(o, ".Lversions", o->relro, at, size);
}

static int images_table(struct object *o, const struct artifact_options *options)
{
    uint64_t size = 8 * (uint64_t)options->nimages, at = elf_zeros(o->elf, o->relro, size, 8);
    for (int i = 0; i < options->nimages; i++) {
        const struct target_image *image = &options->images[i];
        uint64_t bytes = elf_copy(o->elf, o->rodata, image->bytes, image->size, 64);
        elf_pointer(o->elf, o->relro, at + 8 * (uint64_t)i,
                    local(o, ir_internf(o->ctx, ".Limage%d", i), o->rodata, bytes, image->size), 0);
    }
    return local(o, ".Limages", o->relro, at, size);
}

static int libops_table(struct object *o, const struct artifact_plan *plan)
{
    const char **names = IR_NEWN(o->ctx, plan->nlibs + 1, const char *);
    for (int i = 0; i < plan->nlibs; i++)
        names[i] = ir_is_custom(plan->libs[i]) ? custom_symbol(o->ctx, plan->libs[i])
                                               : ir_internf(o->ctx, "tccrt_lib_%s", plan->libs[i]);
    return function_table(o, ".Llibops", plan->nlibs, names);
}

/* Its symbol. */
static int descriptor(struct object *o, const struct kn_program *p, const struct artifact_options *options,
                      const struct artifact_plan *plan, int weights, uint64_t digest)
{
    struct tcc_model model = {.magic = TCC_MODEL_MAGIC,
                              .abi_version = TCC_ABI_VERSION,
                              .nversions = (uint32_t)options->nversions,
                              .nimages = (uint32_t)options->nimages,
                              .nothers = (uint32_t)options->nothers,
                              .weights_size = p->weight_bytes,
                              .weights_digest = digest};
    int versions = versions_table(o, p, options), libops = libops_table(o, plan);
    int images = options->nimages ? images_table(o, options) : -1;
    uint64_t bytes = elf_copy(o->elf, o->rodata, plan->bytes, plan->size, 64);
    int block = local(o, ".Lplan", o->rodata, bytes, plan->size);
    uint64_t at = elf_copy(o->elf, o->relro, &model, sizeof model, 64);
    elf_pointer(o->elf, o->relro, at + offsetof(struct tcc_model, plan), block, 0);
    elf_pointer(o->elf, o->relro, at + offsetof(struct tcc_model, versions), versions, 0);
    elf_pointer(o->elf, o->relro, at + offsetof(struct tcc_model, libops), libops, 0);
    if (images >= 0)
        elf_pointer(o->elf, o->relro, at + offsetof(struct tcc_model, images), images, 0);
    if (images >= 0 && options->device) /* not used here: the linker takes it out of the archive */
        elf_symbol(o->elf, options->device, 0, 0, 0, ELF_GLOBAL | ELF_HIDDEN | ELF_FUNC);
    if (weights >= 0)
        elf_pointer(o->elf, o->relro, at + offsetof(struct tcc_model, weights), weights, 0);
    point_to_text(o, at + offsetof(struct tcc_model, name), options->name);
    point_to_text(o, at + offsetof(struct tcc_model, sidecar), options->sidecar);
    point_to_text(o, at + offsetof(struct tcc_model, source), options->source);
    for (int i = 0; i < options->nothers; i++)
        elf_pointer(
            o->elf, o->relro, elf_zeros(o->elf, o->relro, 8, 8),
            elf_symbol(o->elf, ir_internf(o->ctx, "%s_model", options->others[i]), 0, 0, 0, ELF_GLOBAL | ELF_HIDDEN),
            0);
    uint64_t size = sizeof model + 8 * (uint64_t)options->nothers;
    if (options->shared)
        elf_symbol(o->elf, "tccc_model", o->relro, at, size, ELF_GLOBAL);
    return elf_symbol(o->elf, ir_internf(o->ctx, "%s_model", options->symbol), o->relro, at, size,
                      ELF_GLOBAL | (options->hidden ? ELF_HIDDEN : 0));
}

bool artifact_object(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *options,
                     const char *path, const char *sidecar_path)
{
    struct artifact_plan plan = artifact_plan(ctx, p);
    struct object o = {.ctx = ctx, .elf = elf_new(options->isa)};
    XXH3_state_t *digest = XXH3_createState();
    char error[256];
    int weights = -1; /* symbol */
    bool ok = o.elf && digest;
    if (!ok)
        ir_no_memory(ctx);
    XXH3_64bits_reset(digest);
    o.rodata = elf_section(o.elf, ".rodata.tccc", ELF_RODATA, 64);
    o.relro = elf_section(o.elf, ".data.rel.ro.tccc", ELF_RELRO, 64);
    if (options->sidecar && !strncmp(options->sidecar, TCC_RANDOM_WEIGHTS, strlen(TCC_RANDOM_WEIGHTS))) {
        struct random_sink s = {o.elf, elf_section(o.elf, ".rodata.tccc.weights", ELF_RODATA, 64), 0, 0, digest};
        static const struct tcc_prandom end = {.offset = ~(uint64_t)0};
        ok = each_weight(ctx, p, sink_random, &s);
        put_record(&s, &end, sizeof end);
        weights = local(&o, ".Lweights", s.section, 0, s.written);
    } else if (options->sidecar) {
        ok = write_sidecar(ctx, p, sidecar_path, digest);
    } else if (p->weight_bytes) {
        bool large = p->weight_bytes > (UINT64_C(1) << 30);
        struct embed e = {o.elf,
                          elf_section(o.elf, large ? ".lrodata.tccc" : ".rodata.tccc.weights",
                                      large ? ELF_LARGE_RODATA : ELF_RODATA, 64),
                          digest};
        ok = each_weight(ctx, p, sink_embed, &e);
        weights = local(&o, ".Lweights", e.section, 0, p->weight_bytes);
    }
    if (ok) {
        int model = descriptor(&o, p, options, &plan, weights, XXH3_64bits_digest(digest));
        ok = !options->entries || artifact_entries(ctx, p, options, o.elf, model);
    }
    if (ok && !elf_write(o.elf, path, error, sizeof error))
        ok = ir_error(ctx, NULL, "%s", error);
    XXH3_freeState(digest);
    elf_free(o.elf);
    return ok;
}

/* -- The header --------------------------------------------------------------------------------------------- */

/* Names are the model's author's: none ends the comment or the line, or begins another comment or a trigraph. */
static void put_comment(FILE *f, const char *name)
{
    for (const char *s = ir_shown(name); *s; s++)
        fputs((char[]){*s,
                       (*s == '*' && s[1] == '/') || (*s == '/' && s[1] == '*') || (*s == '?' && s[1] == '?') ? ' '
                                                                                                              : '\0',
                       '\0'},
              f);
}

static void put_c_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        fprintf(f, *s == '"' || *s == '\\' || *s == '?' || *s < ' ' || *s > '~' ? "\\%03o" : "%c", (unsigned char)*s);
    fputc('"', f);
}

static void value_comment(FILE *f, struct ir_ctx *ctx, const char *what, int i, const char *name, ir_type t)
{
    fprintf(f, " *   %s[%d]  ", what, i);
    put_comment(f, name);
    fputs(": ", f);
    put_comment(f, ir_type_text(ctx, t));
    fputc('\n', f);
}

/* The words that elements of an input or output stand for. */
static void label_comment(FILE *f, const struct ir_module *m, const char *name)
{
    const struct ir_labels *labels = ir_labels_of(m, name);
    for (int i = 0; labels && i < labels->n; i++) {
        fprintf(f, " *           [%d]: ", i);
        put_comment(f, labels->at[i]);
        fputc('\n', f);
    }
}

/* Types of an entry point in stages are those of a microbatch. */
static void staged_values(FILE *f, struct ir_ctx *ctx, const struct kn_staged *p)
{
    fprintf(f, " * %d microbatches a call; of one of them:\n", p->micros);
    for (int i = 0; i < p->ninputs; i++)
        value_comment(f, ctx, "in", i, p->inputs[i].name, p->inputs[i].type);
    for (int i = 0; i < p->noutputs; i++)
        value_comment(f, ctx, "out", i, p->outputs[i].name, p->outputs[i].type);
}

/* Inputs behind those of @main that need not be given, and those that can't be. */
static void default_values(FILE *f, struct ir_ctx *ctx, const struct ir_func *main)
{
    const struct ir_module *m = main->module;
    const struct ir_func *given = ir_entry_by_name(main->module, IR_GIVEN);
    for (int i = 0, at = main->body->nparams; i < m->ndefaults && given; i++) {
        if (!m->defaults[i].value)
            continue;
        value_comment(f, ctx, "in", at, given->input_names[at],
                      given->version ? given->version->inputs[at] : given->body->params[at]->type);
        fputs(" *           (need not be given: it has a value of its own)\n", f);
        at++;
    }
    for (int i = 0; i < m->ndefaults; i++) {
        if (m->defaults[i].value)
            continue;
        fputs(" *   compiled in: ", f);
        put_comment(f, m->defaults[i].input);
        fputc('\n', f);
    }
}

/* How many inputs of the entry point need not be given. */
static int ndefaults(const struct kn_entry *e)
{
    int n = 0;
    for (int i = 0; e && !strcmp(ir_entry_name(e->func), "main") && i < e->func->module->ndefaults; i++)
        n += e->func->module->defaults[i].value != NULL;
    return n;
}

static void func_values(FILE *f, struct ir_ctx *ctx, const struct ir_func *fn)
{
    const struct ir_version *v = fn->version;
    for (int i = 0; i < fn->body->nparams; i++) {
        value_comment(f, ctx, "in", i, fn->input_names[i], v ? v->inputs[i] : fn->body->params[i]->type);
        label_comment(f, fn->module, fn->input_names[i]);
    }
    if (!strcmp(ir_entry_name(fn), "main"))
        default_values(f, ctx, fn);
    for (int i = 0; i < fn->body->last->nin; i++) {
        value_comment(f, ctx, "out", i, ir_output_name(fn, i), ir_entry_result(fn, i, ir_sym(ctx, "?")));
        label_comment(f, fn->module, ir_output_name(fn, i));
    }
    for (const struct ir_func *g = fn->module->funcs; v && g; g = g->next)
        if (g->version && !strcmp(g->version->entry, v->entry))
            fprintf(f, " *   version for %s\n", ir_guards_text(ctx, g->version->nguards, g->version->guards));
}

/* -- Pictures, of the header */

/* What the input takes, in *p: with what is known of pictures. False: none, or (*why) others. */
static bool picture_of(struct ir_ctx *ctx, const char *name, ir_type t, const struct tccdata_picture *given,
                       struct tccdata_picture *p, const char **why)
{
    struct tccrt_value_info info = {.name = name,
                                    .kind = t->kind == IR_T_TENSOR ? TCC_OBJ_TENSOR : TCC_OBJ_NONE,
                                    .dtype = t->dtype,
                                    .rank = t->rank};

    for (int k = 0; t->kind == IR_T_TENSOR && k < t->rank; k++)
        if (!ir_is_const(t->dim[k], &info.dims[k]))
            info.dims[k] = -1;
    *why = NULL;
    if (tccdata_picture_for(&info, p))
        return false;
    if ((given->channels && given->channels != p->channels) ||
        (given->height && p->height && given->height != p->height) ||
        (given->width && p->width && given->width != p->width)) {
        *why = ir_internf(ctx, "input '%s' takes pictures as %s; training's had %d x %d pixels of %d channels (0: any)",
                          ir_shown(name), ir_type_text(ctx, t), given->height, given->width, given->channels);
        return false;
    }
    p->height = p->height ? p->height : given->height;
    p->width = p->width ? p->width : given->width;
    p->resize = given->resize;
    memcpy(p->mean, given->mean, sizeof p->mean);
    memcpy(p->std, given->std, sizeof p->std);
    if (!tccdata_bytes(p))
        *why = !p->height || !p->width
                   ? ir_internf(ctx, "how large are the pictures of input '%s'? Add size=N", ir_shown(name))
                   : ir_internf(ctx, "input '%s': %s", ir_shown(name), tccdata_error());
    return !*why;
}

bool artifact_takes_pictures(struct ir_ctx *ctx, const struct ir_func *fn, const struct tccdata_picture *given)
{
    struct ir_where where = {0};
    struct tccdata_picture p;
    bool any = false;

    for (int i = 0; i < fn->body->nparams; i++) {
        const char *why;
        any |= picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why);
        if (why)
            return ir_error(ctx, &where, "--image-decode: %s", why);
    }
    return any || ir_error(ctx, &where,
                           "--image-decode: no input takes pictures: expected floats or bytes of [samples, "
                           "1 or 3, height, width]");
}

static void put_floats(FILE *f, const float *x)
{
    for (int i = 0; i < 3; i++)
        fprintf(f, "%s(float)%.9g", i ? ", " : "{", (double)x[i]);
    fputc('}', f);
}

/* Of each input; all zeros for one that takes no pictures. */
static void picture_array(FILE *f, struct ir_ctx *ctx, const char *prefix, const struct ir_func *fn,
                          const struct tccdata_picture *given)
{
    struct tccdata_picture p;
    const char *why;
    bool any = false;

    for (int i = 0; i < fn->body->nparams; i++)
        any |= picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why);
    if (!any)
        return;
    const char *entry = artifact_identifier(ctx, ir_entry_name(fn));
    fprintf(f,
            "/* What tccdata_read() and tccdata_decode() make of a picture for in[i]; zeros: it takes none. */\n"
            "static const struct tccdata_picture %s_%s_picture[%d] = {\n",
            prefix, entry, fn->body->nparams);
    for (int i = 0; i < fn->body->nparams; i++) {
        if (!picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why)) {
            fputs("    {0, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}},\n", f);
            continue;
        }
        fprintf(f, "    {%d, %d, %d, %d, %d, %s, ", p.channels, p.height, p.width, p.resize, p.last,
                p.dtype == TCC_U8 ? "TCC_U8" : "TCC_F32");
        put_floats(f, p.mean);
        fputs(", ", f);
        put_floats(f, p.std);
        fputs("},\n", f);
    }
    fputs("};\n", f);
}

/* The one or the other is there. */
static void entry_text(FILE *f, struct ir_ctx *ctx, const char *prefix, const struct kn_entry *e,
                       const struct kn_staged *p)
{
    const char *name = e ? ir_entry_name(e->func) : p->name, *entry = artifact_identifier(ctx, name);
    int ninputs = e ? e->ninputs : p->ninputs, noutputs = e ? e->noutputs : p->noutputs;
    char upper[128];
    snprintf(upper, sizeof upper, "%s_%s", prefix, entry);
    for (char *c = upper; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c += 'A' - 'a';
    fputs("\n/*\n * Entry point \"", f);
    put_comment(f, name);
    fputs("\".\n", f);
    if (e)
        func_values(f, ctx, e->func);
    else
        staged_values(f, ctx, p);
    fprintf(f,
            " * Returns a tcc_status; tccrt_error() has the message. %s_%s() keeps a session of its own: out[i] must "
            "have dtype, dims and\n"
            " * memory; it may be called from several threads. %s_%s_run() runs a session of the caller's: out[i].data "
            "NULL gives the\n"
            " * session's memory, good until its next run.\n */\n",
            prefix, entry, prefix, entry);
    fprintf(f, "#define %s_INPUTS %d\n#define %s_OUTPUTS %d\n", upper, ninputs, upper, noutputs);
    fprintf(f, "int %s_%s(const struct tcc_tensor *in, struct tcc_tensor *out);\n", prefix, entry);
    fprintf(f,
            "static inline int %s_%s_run(struct tccrt_session *session, const struct tcc_tensor *in, struct tcc_tensor "
            "*out)\n"
            "{\n    return tccrt_run(session, ",
            prefix, entry);
    put_c_string(f, name);
    fprintf(f, ", %d, in, %d, out);\n}\n", ninputs, noutputs);
    if (!ndefaults(e))
        return;
    fprintf(f,
            "/* The same with the inputs that need not be given, behind the others; one of type 0 is not given. */\n"
            "#define %s_DEFAULTS %d\nstatic inline int %s_%s_run_with(struct tccrt_session *session, const struct "
            "tcc_tensor *in, struct tcc_tensor *out)\n{\n    return tccrt_run(session, ",
            upper, ndefaults(e), prefix, entry);
    put_c_string(f, name);
    fprintf(f, ", %d, in, %d, out);\n}\n", ninputs + ndefaults(e), noutputs);
}

bool artifact_header(struct ir_ctx *ctx, const struct kn_program *p, const char *name, const char *source,
                     const struct tccdata_picture *pictures, const char *path)
{
    struct tcr_save save;
    struct ir_where where = {.file = path};
    FILE *f = tcr_save_open(&save, path, TCR_SAVE_STREAM) ? NULL : save.stream;
    if (!f)
        return ir_error(ctx, &where, "cannot write the header: %m");
    fprintf(f, "/* Written by tccc. The model \"%s\": link NAME.o or NAME.a and libtccrt, or open NAME.so. */\n", name);
    unsigned id = (unsigned)XXH3_64bits(source, strlen(source));
    fprintf(
        f,
        "#ifdef %s_MODEL_H\n#if %s_MODEL_H != 0x%08x\n#error \"two models of the name '%s': compile one of them with "
        "another --name\"\n#endif\n#else\n#define %s_MODEL_H 0x%08x\n\n#include <%s.h>\n\n",
        name, name, id, name, name, id, pictures ? "tccdata" : "tccrt");
    fprintf(f, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    fprintf(f, "/* The model, for tccrt_open_linked(). */\nextern const struct tcc_model %s_model;\n", name);
    for (const struct kn_staged *q = p->module->staged; q; q = q->next)
        entry_text(f, ctx, name, NULL, q);
    for (int i = 0; i < artifact_nentries(p) && !p->module->staged; i++) {
        entry_text(f, ctx, name, artifact_entry(p, i), NULL);
        if (pictures)
            picture_array(f, ctx, name, artifact_entry(p, i)->func, pictures);
    }
    fprintf(f, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    if (tcr_save_commit(&save))
        return ir_error(ctx, &where, "cannot write the header: %m");
    return true;
}
