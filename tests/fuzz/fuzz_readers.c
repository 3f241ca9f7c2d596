/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: every reader of data and settings but those of models: .npz, .npy, IDX, gzip and raw elements as
 * tccc-train reads them, tables, tar archives, HDF5, text and tokenizers, safetensors, images (BMP, PNM), cluster
 * files, partition maps, lists of types for --auto-cast, files of --sweep, adapters of PEFT (either of their files).
 * Each meets all inputs; what one takes must be readable to its last byte, what it refuses must come with a message.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/import/adapter.h"
#include "compiler/import/frontend.h"
#include "passes/parallel/partition.h"
#include "passes/cluster/cluster.h"
#include "runtime/ckpt/ckpt_int.h"
#include "base/safe.h"
#include "tools/data/data_int.h"
#include "tools/train/sweep_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sum; /* so that every byte is read */

static void read_all(const void *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)at)[i]);
}

/* -- tccc-train's files --------------------------------------------------------------------------------------- */

static void use_array(bool ok, struct data_array *a, const char *error)
{
    if (!ok && !*error)
        abort(); /* refused without a word */
    if (!ok)
        return;
    int64_t row = data_row_elements(a), bytes = tcc_dtype_bytes(a->dtype);
    for (int64_t k = 0; k < a->dims[0] && k < 64; k++)
        read_all(a->at + k * a->stride * bytes, (size_t)(row * bytes));
    if (a->dims[0] > 64)
        read_all(a->at + (a->dims[0] - 1) * a->stride * bytes, (size_t)(row * bytes));
    data_unref(a->file);
}

static void data_files(const char *path)
{
    static const struct tccrt_value_info info = {
        .name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 2, .dims = {-1, 4}};
    static const struct data_options ways[] = {{.scale = 1},
                                               {.scale = 1, .dtype = TCC_U16, .length = 3, .stride = 1, .offset = 2},
                                               {.scale = 2, .scaled = true, .limit = 5}};
    char error[ERROR_SIZE] = "";
    struct data_file *f = data_map(path, error);

    if (!f && !*error)
        abort();
    for (size_t i = 0; f && i < sizeof ways / sizeof *ways; i++) {
        struct data_array a = {0};
        bool found;
        error[0] = '\0';
        if (!data_zip_is(f)) {
            use_array(data_array_read("fuzz", f, &ways[i], &info, &a, error), &a, error);
            continue;
        }
        use_array(data_zip_array("fuzz", f, i ? NULL : "x", &ways[i], &info, &a, &found, error), &a, error);
        int n = 0;
        char **names = data_zip_names(f, &n);
        for (int k = 0; names && k < n; k++)
            free(names[k]);
        free(names);
    }
    data_unref(f);
}

/* -- Readers of samples ----------------------------------------------------------------------------------------- */

static void use_rows(struct data_array *a)
{
    char error[ERROR_SIZE];
    size_t bytes = (size_t)data_row_elements(a) * (size_t)tcc_dtype_bytes(a->dtype);
    unsigned char *row = bytes < 1 << 24 ? malloc(bytes + 1) : NULL;

    for (int64_t k = 0; row && a->source && k < a->dims[0] && k < 8; k++) {
        error[0] = '\0';
        if (a->source->row(a->source, k, &(struct data_draw){1, 2}, row, error))
            read_all(row, bytes);
        else if (!*error)
            abort();
    }
    for (int64_t k = 0; a->file && k < a->dims[0] && k < 8; k++)
        read_all(a->at + (size_t)(k * a->stride) * (size_t)tcc_dtype_bytes(a->dtype), bytes);
    free(row);
}

static void sample_files(const char *path)
{
    static const struct tccrt_value_info inputs[] = {
        {.name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 4, .dims = {-1, 3, 12, 12}},
        {.name = "target", .kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 1, .dims = {-1}},
        {.name = "v", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 2, .dims = {-1, -1}},
        {.name = "ids", .kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 2, .dims = {-1, 4}}};
    static const struct data_options ways[] = {
        {.scale = 1, .pad = -1, .augment = 7, .lenient = true, .missing = "mean"},
        {.scale = 1, .pad = -1, .categories = "a:x+y\\+;b:1+2", .columns = "a+b", .stride = 1},
        {.scale = 1,
         .pad = -1,
         .encode = "a:year+weekday+second+minmax;b:onehot+standard;c:log1p",
         .missing = "2020-02-29"},
        {.scale = 1, .pad = -1, .encode = "*:standard;*:onehot", .missing = "mean", .lenient = true},
        {.scale = 1, .tokens = "bytes", .columns = "b", .length = 4, .pad = 300, .lenient = true},
        {.scale = 1, .pad = -1, .tokens = "bytes", .as = "mask", .columns = "b", .length = 4, .lenient = true}};
    enum { NWAYS = sizeof ways / sizeof *ways, NREAD = 4, TRIES = 8 * NREAD };
    static const enum data_reader_id readers[NREAD] = {READER_tar, READER_csv, READER_text, READER_lines};
    char error[ERROR_SIZE];

    for (int k = 0; k < TRIES * NWAYS; k++) {
        enum data_reader_id reader = readers[k % NREAD];
        struct data_request q = {.path = path,
                                 .o = &ways[k / TRIES],
                                 .info = &inputs[k / NREAD % 4],
                                 .named = k / (4 * NREAD) % 2,
                                 .ninputs = 4,
                                 .inputs = inputs};
        if (q.o->encode && reader != READER_csv)
            continue;
        struct data_tables tables = {0};
        struct data_options own = *q.o;
        struct data_array a = {0};
        bool found;
        error[0] = '\0';
        own.table = data_table_of(&tables, q.info->name);
        q.o = &own;
        if (data_read(&q, (int)reader, &a, &found, error))
            use_rows(&a);
        else if (found && !*error)
            abort();
        data_release(&a);
        data_tables_free(&tables);
    }
}

/* What a checkpoint says of training's data: what is taken is written again, and is the same then. */
static void tables(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct data_tables first = {0}, second = {0};
    struct data_encoding e, same;
    char words[200], error[ERROR_SIZE];

    if (data_encoding_read(text, strlen(text), &e, error)) {
        data_encoding_text(&e, words, sizeof words);
        if (!data_encoding_read(words, strlen(words), &same, error) || memcmp(&e, &same, sizeof e))
            abort();
    }
    if (data_tables_parse(&first, text)) {
        char *again = data_tables_text(&first), *third;
        if (!data_tables_parse(&second, again) || !(third = data_tables_text(&second)) || strcmp(again, third))
            abort();
        free(third);
        free(again);
    }
    data_tables_free(&first);
    data_tables_free(&second);
    free(text);
}

/*
 * HDF5 is read by its library, whose own faults are not ours: in a child, which may be killed by them. What we make of
 * what the library says must hold.
 */
enum { OURS = 99, SECONDS = 10 };

static void hdf5_child(const char *path)
{
    static const struct tccrt_value_info inputs[] = {
        {.name = "x", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = 2, .dims = {-1, 3}},
        {.name = "target", .kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 1, .dims = {-1}},
        {.name = "u", .kind = TCC_OBJ_TENSOR, .dtype = TCC_U8, .rank = 2, .dims = {-1, -1}}};
    static const struct data_options plain = {.scale = 1};
    char error[ERROR_SIZE];

    alarm(SECONDS);
    for (int k = 0; k < 6; k++) {
        struct data_request q = {.path = path,
                                 .o = &plain,
                                 .info = &inputs[k % 3],
                                 .named = k < 3,
                                 .name = k == 0 ? "g/wide" : NULL,
                                 .ninputs = 3,
                                 .inputs = inputs};
        struct data_tables tables = {0};
        struct data_options own = plain;
        struct data_array a = {0};
        bool found;
        error[0] = '\0';
        own.table = data_table_of(&tables, q.info->name);
        q.o = &own;
        if (data_read(&q, READER_hdf5, &a, &found, error))
            use_rows(&a);
        else if (found && !*error)
            _exit(OURS);
        data_release(&a);
        data_tables_free(&tables);
    }
    _exit(0);
}

static void hdf5(const char *path, const uint8_t *data, size_t size)
{
    int status = 0;

    if (size < 8 || memcmp(data, "\x89HDF\r\n\x1a\n", 8) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        hdf5_child(path);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        abort(); /* a sanitizer's report, or refused without a word */
}

static void tokenizer(const char *path, const uint8_t *data, size_t size)
{
    static const char text[] = "The quick\n\n 123's caf\xc3\xa9<|end|> x";
    char error[ERROR_SIZE] = "";
    int code;
    struct data_bpe *b = data_bpe_open(path, error, &code);
    uint32_t *ids = NULL;
    size_t n = 0;

    if (!b && !*error)
        abort();
    if (b && data_bpe_encode(b, (const unsigned char *)text, sizeof text - 1, &ids, &n, error) && n > 3 * sizeof text)
        abort();
    if (b)
        data_bpe_encode(b, data, size < 4096 ? size : 4096, &ids, &n, error);
    free(ids);
    data_bpe_free(b);
}

/* -- safetensors, images ------------------------------------------------------------------------------------------ */

static void tensors(const uint8_t *data, size_t size)
{
    struct tccrt_tensors *f;
    int n;

    if (tcr_tensors_parse("fuzz", data, size, &f)) {
        if (!*tccrt_error())
            abort();
        return;
    }
    for (int i = 0; i < tccrt_tensors_count(f); i++) {
        const struct tccrt_named *x = tccrt_tensors_at(f, i);
        int64_t count = tcr_elements(x->t.dtype, x->t.rank, x->t.dims);
        read_all(x->t.data, (size_t)(count * tcr_dtype_bytes(x->t.dtype)));
        if (tccrt_tensors_find(f, x->name) != x)
            abort();
    }
    tccrt_tensors_check(f);
    tccrt_tensors_meta(f, &n);
    tccrt_tensors_close(f);
}

/* As a sample that is smaller than the picture or larger, grey or not, by channel or by pixel. */
static void images(const uint8_t *data, size_t size)
{
    static const struct tccdata_picture ways[] = {
        {.channels = 3, .height = 9, .width = 14, .dtype = TCC_F32, .std = {1, 2, 3}},
        {.channels = 1, .height = 40, .width = 31, .resize = 7, .last = 1, .dtype = TCC_U8}};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t n = tccdata_bytes(&ways[i]);
        unsigned char *sample = calloc(1, n);

        if (sample && !tccdata_decode(&ways[i], data, size, sample))
            read_all(sample, n);
        else if (sample && !*tccdata_error())
            abort();
        free(sample);
    }
}

/* -- Settings ------------------------------------------------------------------------------------------------------ */

static const char model[] = "func @main(%x: f32[4,8]) -> (f32[4,8]) {\n  %a = tanh(%x) : f32[4,8]\n  %b = exp(%a) : "
                            "f32[4,8]\n  return(%b)\n}\n";

static void settings(const char *text)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    struct plan_cluster cluster;

    if (ctx && IR_PROTECT(ctx, &frame)) {
        if (!plan_cluster_read(ctx, "fuzz.cluster", text, &cluster) && !ir_nerrors(ctx))
            abort();
        struct ir_module *m = ir_parse(ctx, "model.tcir", model, sizeof model - 1);
        struct partition_options o = {.stages = 2, .map = text, .map_name = "fuzz.map", .default_stage = 0};
        struct partition *p = m ? partition_analyse(m->funcs, &o) : NULL;
        int before = ir_nerrors(ctx);
        if (p && !partition_place(p) && ir_nerrors(ctx) == before)
            abort();
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
}

/* Trials are as many as the file says, and have a value for each option. */
static void sweep(const char *path)
{
    static const struct options o = {.tool = TOOL_T};
    struct sweep s = {.o = &o};

    if (sweep_read(&s, path) == EXIT_FINE && sweep_choose(&s, 1) == EXIT_FINE) {
        for (int k = 0; k < s.ntrials; k++)
            for (int i = 0; i < s.noptions; i++)
                read_all(s.trial[k].value[i], strlen(s.trial[k].value[i]));
    } else if (!*tool_last_error())
        abort();
    sweep_free(&s);
}

/* -- Adapters ------------------------------------------------------------------------------------------------------ */

static const char config[] =
    "{\"peft_type\": \"LORA\", \"lora_alpha\": 4, \"use_rslora\": true, \"alpha_pattern\": {\"a\": 2}}";
static const char header[] = "{\"base_model.model.a.lora_A.weight\": {\"dtype\": \"F16\", \"shape\": [1,2], "
                             "\"data_offsets\": [0,4]}, \"base_model.model.a.lora_B.weight\": {\"dtype\": \"F16\", "
                             "\"shape\": [2,1], \"data_offsets\": [4,8]}}";

static void read_tensor(const struct ir_tensor *t)
{
    read_all(t->data, (size_t)(t->nelems * tcc_dtype_bytes((enum tcc_dtype)t->dtype)));
}

static void use_adapter(const char *folder)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    struct train_lora l = {0};

    if (ctx && IR_PROTECT(ctx, &frame)) {
        bool taken = adapter_read(ctx, folder, &l);
        if (!taken && !ir_nerrors(ctx))
            abort();
        for (int i = 0; taken && i < l.n; i++) {
            read_tensor(l.at[i].a);
            read_tensor(l.at[i].b);
        }
        for (int i = 0; taken && i < l.nsaved; i++)
            read_tensor(l.saved[i].values);
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
}

/* --embed-meta, of a module without functions: what is taken is there. */
static void describe(const char *path)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;

    if (ctx && IR_PROTECT(ctx, &frame)) {
        struct ir_module *m = ir_module_new(ctx, "fuzz");
        if (frontend_describe(m, path) ? !m->nmetas : !ir_nerrors(ctx))
            abort();
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
}

static void put_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, n, 1, f) != 1) || fclose(f)) {
        perror(path);
        exit(2);
    }
}

/* A folder of two files, one of which is the input, while the other is as it should be. */
static void adapters(const uint8_t *data, size_t size)
{
    enum { LENGTH = sizeof header - 1 };
    char folder[4096], path[2][4200];
    unsigned char whole[8 + LENGTH + 8] = {LENGTH & 255, LENGTH >> 8};

    memcpy(whole + 8, header, LENGTH);
    snprintf(folder, sizeof folder, "%s/fuzz-adapter-XXXXXX", tcr_temporary());
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(2);
    }
    snprintf(path[0], sizeof path[0], "%s/adapter_config.json", folder);
    snprintf(path[1], sizeof path[1], "%s/adapter_model.safetensors", folder);
    put_file(path[0], data, size);
    put_file(path[1], whole, sizeof whole);
    use_adapter(folder);
    put_file(path[0], config, sizeof config - 1);
    put_file(path[1], data, size);
    use_adapter(folder);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", 0);
    char path[64], *text = malloc(size + 1);

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && text && write(fd, data, size) == (ssize_t)size) {
        memcpy(text, data, size);
        text[size] = '\0';
        data_files(path);
        sample_files(path);
        hdf5(path, data, size);
        tokenizer(path, data, size);
        tables(data, size);
        tensors(data, size);
        images(data, size);
        settings(text);
        sweep(path);
        adapters(data, size);
        describe(path);
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return 0;
}
