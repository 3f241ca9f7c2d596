/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifact.c - the artifact's own object file: descriptor (struct tcc_model), plan, table of kernels, weights. Nothing
 * of it goes through a code generator, weights are written from where they lie.
 */
#include "compiler/artifact/artifact_int.h"
#include "compiler/custom_int.h"
#include "compiler/artifact/elf_int.h"
#include "base/safe.h"

#include <math.h>
#include <string.h>
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
    if (options->shared && strcmp(options->symbol, "tccc") != 0)
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
