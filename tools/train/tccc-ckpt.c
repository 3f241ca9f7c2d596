/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-ckpt: lists, compares, converts and averages checkpoints, and writes trained weights back into an ONNX model. */
#include "tools/train/ckpt_tool_int.h"
#include "tools/train/peft_int.h"

#include "base/safe.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const struct tcc_tensor *t)
{
    return tcc_elements(t->rank, t->dims);
}

static size_t bytes_of(const struct tcc_tensor *t)
{
    return (size_t)count_of(t) * (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);
}

static double element(const struct tcc_tensor *t, int64_t i)
{
    int bytes = tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    uint64_t v[2] = {0};
    memcpy(v, (const char *)t->data + i * bytes, (size_t)bytes); /* files of others align nothing */
    return tcc_load_f64((enum tcc_dtype)t->dtype, v);
}

/* -- Files ------------------------------------------------------------------------------------------------ */

static bool wanted(const struct options *o, const char *name)
{
    const char *const *patterns = o->given[OPT_only].at;
    for (int i = 0; i < o->given[OPT_only].n; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return o->given[OPT_only].n == 0;
}

static int write_tensors(const struct options *o, const struct tensors *t)
{
    const char *path = option_text(o, OPT_output, NULL);
    struct tccrt_named *list = calloc((size_t)t->n + 1, sizeof *list);
    struct tccrt_pair *meta = calloc((size_t)t->nmeta + 1, sizeof *meta);
    char error[ERROR_SIZE];
    int n = 0, nmeta = 0, code = list && meta ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "no memory");

    for (int i = 0; code == EXIT_FINE && i < t->n; i++)
        if (wanted(o, t->at[i].name))
            list[n++] = t->at[i];
    for (int i = 0; code == EXIT_FINE && i < t->nmeta; i++)
        if (strcmp(t->meta[i].key, "tccc.digest") && strcmp(t->meta[i].key, "tccc.format"))
            meta[nmeta++] = t->meta[i];
    if (code == EXIT_FINE && npz_is(path)) {
        if (!npz_write(path, n, list, error))
            code = tool_error(o, EXIT_ENVIRONMENT, "%s", error);
    } else if (code == EXIT_FINE) {
        int status = tccrt_tensors_write(path, n, list, nmeta, meta);
        if (status != TCC_OK)
            code = tool_error(o, status == TCC_EENV ? EXIT_ENVIRONMENT : EXIT_DATA, "%s", tccrt_error());
    }
    free(list);
    free(meta);
    return code;
}

/* -- list ------------------------------------------------------------------------------------------------- */

static void type_text(const struct tcc_tensor *t, char *to, size_t room)
{
    size_t used = (size_t)snprintf(to, room, "%s[", tcc_dtype_name((enum tcc_dtype)t->dtype));
    for (int i = 0; i < t->rank && used < room - 24; i++)
        used += (size_t)snprintf(to + used, room - used, "%s%" PRId64, i ? "," : "", t->dims[i]);
    snprintf(to + used, room - used, "]");
}

static double norm_of(const struct tcc_tensor *t)
{
    double sum = 0;
    int64_t n = count_of(t);
    for (int64_t i = 0; i < n; i++) {
        double v = element(t, i);
        sum += v * v;
    }
    return sqrt(sum);
}

static void print_tensor(const struct options *o, const struct tccrt_named *x)
{
    char type[256];
    double norm = norm_of(&x->t);
    type_text(&x->t, type, sizeof type);
    if (!option_set(o, OPT_json)) {
        printf("%-48s %-24s %12.6g\n", ir_shown(x->name), type, norm);
        return;
    }
    printf("{\"name\":");
    tcr_print_json(stdout, x->name);
    printf(",\"type\":\"%s\",\"bytes\":%zu,\"norm\":", type, bytes_of(&x->t));
    printf(isfinite(norm) ? "%.9g}\n" : "null}\n", norm);
}

static int list(const struct options *o)
{
    struct tensors t;
    size_t bytes = 0;
    int shown = 0, code = tensors_open(o, o->words[1], &t);

    if (code != EXIT_FINE)
        return code;
    if (!option_set(o, OPT_json))
        printf("%-48s %-24s %12s\n", "name", "type", "norm");
    for (int i = 0; i < t.n; i++) {
        if (!wanted(o, t.at[i].name))
            continue;
        print_tensor(o, &t.at[i]);
        bytes += bytes_of(&t.at[i].t);
        shown++;
    }
    if (!option_set(o, OPT_json)) {
        printf("%d tensors, %zu bytes\n", shown, bytes);
        for (int i = 0; i < t.nmeta; i++)
            printf("%s: %s\n", ir_shown(t.meta[i].key), ir_shown(t.meta[i].value));
    }
    tensors_close(&t);
    return EXIT_FINE;
}

/* -- diff -------------------------------------------------------------------------------------------------- */

static const struct tccrt_named *find(const struct tensors *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

/* Prints how the two differ; true if they do. */
static bool differ(const struct tccrt_named *a, const struct tccrt_named *b, double rtol, double atol)
{
    const struct tolerance t = {.rtol = rtol, .atol = atol, .absolute = true};
    char left[256], right[256], why[ERROR_SIZE];

    type_text(&a->t, left, sizeof left);
    type_text(&b->t, right, sizeof right);
    if (strcmp(left, right)) {
        printf("%s: %s against %s\n", ir_shown(a->name), left, right);
        return true;
    }
    if (memcmp(a->t.data, b->t.data, bytes_of(&a->t)) == 0)
        return false;
    if (tensor_equal(&a->t, &b->t, &t, NULL, why))
        return false;
    printf("%s: %s\n", ir_shown(a->name), ir_shown(why));
    return true;
}

static int diff(const struct options *o)
{
    struct tensors a, b;
    double rtol = 0, atol = 0;
    int n = 0, code;

    if (!option_float(o, OPT_ckpt_rtol, &rtol) || !option_float(o, OPT_ckpt_atol, &atol))
        return EXIT_USAGE;
    if ((code = tensors_open(o, o->words[1], &a)) != EXIT_FINE)
        return code;
    if ((code = tensors_open(o, o->words[2], &b)) != EXIT_FINE) {
        tensors_close(&a);
        return code;
    }
    for (int i = 0; i < a.n; i++) {
        const struct tccrt_named *other = find(&b, a.at[i].name);
        if (!wanted(o, a.at[i].name))
            continue;
        if (!other)
            printf("%s: only in %s\n", ir_shown(a.at[i].name), o->words[1]);
        n += !other || differ(&a.at[i], other, rtol, atol);
    }
    for (int i = 0; i < b.n; i++) {
        if (!wanted(o, b.at[i].name) || find(&a, b.at[i].name))
            continue;
        printf("%s: only in %s\n", ir_shown(b.at[i].name), o->words[2]);
        n++;
    }
    if (!n)
        printf("no differences\n");
    tensors_close(&a);
    tensors_close(&b);
    return n ? EXIT_DATA : EXIT_FINE;
}

/* -- convert, average --------------------------------------------------------------------------------------- */

static enum tcc_dtype float_option(const struct options *o, int *code)
{
    static const struct {
        const char *word;
        enum tcc_dtype dtype;
    } words[] = {{"f32", TCC_F32},   {"float32", TCC_F32},   {"f16", TCC_F16}, {"float16", TCC_F16},
                 {"bf16", TCC_BF16}, {"bfloat16", TCC_BF16}, {"f64", TCC_F64}, {"float64", TCC_F64}};
    const char *text = option_text(o, OPT_dtype, NULL);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].word) == 0)
            return words[i].dtype;
    *code = text ? usage_error(o, "--dtype=%s: expected f32, f16, bf16 or f64", text) : EXIT_FINE;
    return TCC_NONE;
}

/* Tensor i becomes one of another element type, in memory of its own. */
static bool retype(struct tensors *t, int i, enum tcc_dtype to)
{
    struct tcc_tensor *x = &t->at[i].t;
    int64_t n = count_of(x);
    size_t size = (size_t)tcc_dtype_bytes(to);
    char *data = malloc((size_t)n * size + 1);
    if (!data)
        return false;
    for (int64_t k = 0; k < n; k++)
        tcc_store_f64(to, data + (size_t)k * size, element(x, k));
    free(t->owned[i]);
    t->owned[i] = data;
    x->data = data;
    x->dtype = to;
    return true;
}

static int convert_all(const struct options *o, struct tensors *t)
{
    int code = EXIT_FINE;
    enum tcc_dtype to = float_option(o, &code);
    bool npz = npz_is(option_text(o, OPT_output, ""));

    if (!t->owned && !(t->owned = calloc((size_t)t->n + 1, sizeof *t->owned)))
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; code == EXIT_FINE && i < t->n; i++) {
        enum tcc_dtype from = (enum tcc_dtype)t->at[i].t.dtype, want = tcc_is_float(from) && to ? to : from;
        if (npz && tcc_is_float(want) && want != TCC_F16 && want != TCC_F64)
            want = TCC_F32; /* numpy knows no others */
        if (want != from && !retype(t, i, want))
            code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    }
    return code;
}

static int convert(const struct options *o)
{
    struct tensors t;
    int code = tensors_open(o, o->words[1], &t);
    if (code != EXIT_FINE)
        return code;
    code = convert_all(o, &t);
    if (code == EXIT_FINE)
        code = write_tensors(o, &t);
    tensors_close(&t);
    return code;
}

/* Adds the floats of `t` to sums; the first file says which tensors there are, and another has no more. */
static int add(const struct options *o, const struct tensors *first, const struct tensors *t, const char *path,
               double **sums)
{
    for (int i = 0; i < first->n; i++) {
        const struct tccrt_named *x = find(t, first->at[i].name);
        char left[256], right[256] = "none";
        type_text(&first->at[i].t, left, sizeof left);
        if (x)
            type_text(&x->t, right, sizeof right);
        if (strcmp(left, right))
            return tool_error(o, EXIT_DATA, "%s: '%s': expected %s, got %s", path, first->at[i].name, left, right);
        for (int64_t k = 0; sums[i] && k < count_of(&x->t); k++)
            sums[i][k] += element(&x->t, k);
    }
    for (int i = 0; i < t->n; i++)
        if (!find(first, t->at[i].name))
            return tool_error(o, EXIT_DATA, "%s: '%s' is not in %s", path, t->at[i].name, o->words[1]);
    return EXIT_FINE;
}

static int average_into(const struct options *o, struct tensors *first, double **sums)
{
    int files = o->nwords - 1, code = EXIT_FINE;

    first->owned = calloc((size_t)first->n + 1, sizeof *first->owned);
    for (int i = 0; first->owned && i < first->n; i++)
        if (tcc_is_float((enum tcc_dtype)first->at[i].t.dtype) &&
            (!(sums[i] = calloc((size_t)count_of(&first->at[i].t) + 1, sizeof(double))) ||
             !retype(first, i, (enum tcc_dtype)first->at[i].t.dtype)))
            return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (!first->owned)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int f = 0; f < files && code == EXIT_FINE; f++) {
        struct tensors t;
        code = tensors_open(o, o->words[1 + f], &t);
        if (code == EXIT_FINE) {
            code = add(o, first, &t, o->words[1 + f], sums);
            tensors_close(&t);
        }
    }
    for (int i = 0; code == EXIT_FINE && i < first->n; i++) {
        enum tcc_dtype dtype = (enum tcc_dtype)first->at[i].t.dtype;
        for (int64_t k = 0; sums[i] && k < count_of(&first->at[i].t); k++)
            tcc_store_f64(dtype, (char *)first->at[i].t.data + k * tcc_dtype_bytes(dtype), sums[i][k] / files);
    }
    return code;
}

static int average(const struct options *o)
{
    struct tensors first;
    int code = tensors_open(o, o->words[1], &first);
    if (code != EXIT_FINE)
        return code;
    double **sums = calloc((size_t)first.n + 1, sizeof *sums);
    code = sums ? average_into(o, &first, sums) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE)
        code = write_tensors(o, &first);
    for (int i = 0; sums && i < first.n; i++)
        free(sums[i]);
    free(sums);
    tensors_close(&first);
    return code;
}

static int export(const struct options *o)
{
    struct tensors t;
    int replaced = 0, code = tensors_open(o, o->words[1], &t);
    if (code != EXIT_FINE)
        return code;
    code = onnx_export(o, &t, o->words[2], option_text(o, OPT_output, NULL), &replaced);
    tensors_close(&t);
    if (code == EXIT_FINE)
        printf("%d tensors replaced\n", replaced);
    return code;
}

static int adapter(const struct options *o)
{
    struct tensors t;
    int code = tensors_open(o, o->words[1], &t);
    if (code != EXIT_FINE)
        return code;
    code = peft_write(o, option_text(o, OPT_output, NULL), t.n, t.at);
    tensors_close(&t);
    return code;
}

static const struct {
    const char *name;
    int least, most; /* files */
    bool output;
    int (*run)(const struct options *o);
} commands[] = {{"list", 1, 1, false, list},      {"diff", 2, 2, false, diff},
                {"convert", 1, 1, true, convert}, {"average", 1, 1 << 20, true, average},
                {"export", 2, 2, true, export},   {"adapter", 1, 1, true, adapter}};

static int run(struct options *o)
{
    const char *name = o->nwords ? o->words[0] : "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name))
            continue;
        if (o->nwords - 1 < commands[i].least || o->nwords - 1 > commands[i].most)
            return usage_error(o, "%s: %d files given", name, o->nwords - 1);
        if (commands[i].output != option_set(o, OPT_output))
            return usage_error(o, commands[i].output ? "%s: -o FILE is missing" : "%s: it writes no file (-o)", name);
        return commands[i].run(o);
    }
    return usage_error(o, "'%s': expected list, diff, convert, average, export or adapter", name);
}

int main(int argc, char **argv)
{
    return options_run(TOOL_K, argc, argv, run);
}
