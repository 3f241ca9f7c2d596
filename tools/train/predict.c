/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-train predict STEP.so: the entry point `predict`, or an artifact's only one, over all samples, and of each what
 * people ask: its file, the most probable classes under the names that training's data had (they are in the
 * checkpoint), and how probable they are. Scores become probabilities by a softmax, unless they are some already; by
 * a sigmoid where the artifact says that its loss took them so (train.loss). Where the target of training was of
 * floats, its numbers are given in the units that its data had.
 */
#include "tools/train/predict_int.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safe.h"
#include "tools/html/html_int.h"

struct predicting {
    const struct options *o;
    const struct tccrt_model *artifact;
    int64_t top;
    const char *entry;
    struct tccrt_comm *world; /* NULL: this process alone */
};

const char *predict_sample(const struct predictions *p, int64_t sample, char *to)
{
    const char *name = data_set_name(p->results->data, sample);

    snprintf(to, 64, "%" PRId64, data_set_row(p->results->data, sample) + 1);
    return name ? name : to;
}

bool predict_pads(const struct predictions *p, int64_t row)
{
    int64_t at = row % p->tokens, used = p->used[row / p->tokens];

    return p->pads_left ? at < p->tokens - used : at >= used;
}

const char *predict_class(const struct predicted *x, char *to)
{
    snprintf(to, 64, "%" PRId64, x->class);
    return x->name ? x->name : to;
}

/* -- What the numbers are ------------------------------------------------------------ */

static bool predicts_from(const struct predicting *g, const char *name)
{
    struct tccrt_value_info x;

    for (int k = 0; k < tccrt_ninputs(g->artifact, g->entry); k++)
        if (tccrt_input(g->artifact, g->entry, k, &x) == TCC_OK && !strcmp(x.name, name))
            return true;
    return false;
}

/* What is predicted: what training had for the input that the entry point lacks (NULL: not known), and its type; false:
 * nothing says that there is one. */
static bool find_target(const struct predicting *g, const struct data_tables *all, const struct data_table **table,
                        enum tcc_dtype *dtype)
{
    struct tccrt_value_info x;

    *table = NULL;
    for (int i = 0; i < tccrt_ninputs(g->artifact, "eval"); i++)
        if (tccrt_input(g->artifact, "eval", i, &x) == TCC_OK && !predicts_from(g, x.name)) {
            *table = data_table_find(all, x.name);
            *dtype = (enum tcc_dtype)x.dtype;
            return true;
        }
    for (int i = 0; i < all->n; i++)
        if (all->at[i]->closed && !predicts_from(g, all->at[i]->input)) {
            *table = all->at[i];
            *dtype = all->at[i]->dtype;
            return all->at[i]->read;
        }
    return false;
}

/* The names of training's classes: of the target's column that has some. */
static const struct data_column *class_names(const struct data_table *target)
{
    for (int c = 0; target && c < target->ncolumns; c++)
        if (target->columns[c].nclasses)
            return &target->columns[c];
    return NULL;
}

void predict_head(const struct predictions *p, int k, char *to)
{
    char number[16] = "";

    *to = '\0';
    if (p->target && !p->classes)
        data_table_name(p->target, k, to, PREDICT_TEXT);
    if (p->each > 1)
        snprintf(number, sizeof number, "%d", k + 1);
    if (!*to)
        snprintf(to, PREDICT_TEXT, "%s%s", p->classes ? "class" : p->sigmoid ? "probability" : "value", number);
}

/* Are these probabilities already? */
static bool sums_to_one(const double *row, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!(row[i] >= 0))
            return false;
        sum += row[i];
    }
    return fabs(sum - 1) < 1e-3;
}

static void softmax(double *row, int64_t n)
{
    double most = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - most);
    for (int64_t i = 0; i < n; i++)
        row[i] /= sum;
}

/* Does the loss take the sigmoid of that output? train.loss has lines KIND HOLDS OUTPUT (passes/train/losses.def). */
static bool takes_sigmoid(const struct tccrt_model *m, const char *output)
{
    static const char holds[] = " sigmoid ";
    size_t n = strlen(output), skip = sizeof holds - 1;

    for (const char *s = tccrt_meta(m, "train.loss"); s && *s; s += strcspn(s, "\n"), s += *s == '\n') {
        const char *word = s + strcspn(s, " \n");
        if (!strncmp(word, holds, skip) && !strncmp(word + skip, output, n) && word[skip + n] == '\n')
            return true;
    }
    return false;
}

/* Of two classes the loss gives the second one's probability alone. */
static void sigmoids(double *row, int64_t n, bool pair)
{
    for (int64_t i = 0; i < (pair ? 1 : n); i++)
        row[i] = 1 / (1 + exp(-row[i]));
    if (pair) {
        row[1] = row[0];
        row[0] = 1 - row[1];
    }
}

/* The most probable classes first; of equals the lower one. */
static void choose(const double *row, int64_t n, const struct data_column *names, int each, struct predicted *out)
{
    for (int k = 0; k < each; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++) {
            bool taken = false;
            for (int j = 0; j < k; j++)
                taken |= out[j].class == i;
            if (!taken && (best < 0 || row[i] > row[best]))
                best = i;
        }
        out[k] = (struct predicted){best, names && best < names->nclasses ? names->classes[best] : NULL, row[best]};
    }
}

/* Row i of the output, n numbers. */
static void load_row(const struct tcc_tensor *t, int64_t i, int64_t n, double *row)
{
    size_t size = (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype);

    for (int64_t k = 0; k < n; k++)
        row[k] = tcc_load_f64((enum tcc_dtype)t->dtype, (const char *)t->data + (size_t)(i * n + k) * size);
}

/* Rows of the output, n numbers each; wide: as many as are told of, 2 where the one decides between two classes. */
static int fill(struct predictions *p, const struct tcc_tensor *t, int64_t wide, const struct data_column *names)
{
    int64_t n = t->rank > 1 ? t->dims[t->rank - 1] : 1, rows = p->samples * p->tokens;
    double *row = calloc((size_t)wide + 1, sizeof *row);
    bool probable = true;

    p->at = calloc((size_t)(rows * p->each) + 1, sizeof *p->at);
    if (!row || !p->at) {
        free(row);
        return tool_error(p->o, EXIT_ENVIRONMENT, "no memory");
    }
    for (int64_t s = 0; s < rows && probable; s++) {
        load_row(t, s, n, row);
        probable = sums_to_one(row, n);
    }
    for (int64_t s = 0; s < rows; s++) {
        load_row(t, s, n, row);
        if (p->sigmoid)
            sigmoids(row, n, wide > n);
        else if (p->classes && !probable)
            softmax(row, n);
        if (p->classes)
            choose(row, wide, names, p->each, p->at + s * p->each);
        for (int64_t k = 0; !p->classes && k < n; k++)
            p->at[s * n + k] =
                (struct predicted){.class = k, .value = p->target ? data_table_decode(p->target, k, row[k]) : row[k]};
    }
    free(row);
    return EXIT_FINE;
}

/* The input of text that has a token for each row of a sample; -1: there is none. */
static int text_of(const struct run_results *r, int64_t tokens)
{
    for (int i = 0; i < r->data->n; i++) {
        const struct data_table *t = data_table_find(r->tables, r->data->inputs[i].name);

        if (t && t->row[0] == tokens && (t->row[2] & TEXT_WHAT) == TEXT_TOKENS &&
            tcc_is_int((enum tcc_dtype)r->data->inputs[i].dtype))
            return i;
    }
    return -1;
}

/* Rows of each sample that are told of: not those of the padding behind its text. */
static int find_padding(struct predictions *p)
{
    int text = p->tokens > 1 ? text_of(p->results, p->tokens) : -1;
    const struct tccrt_value_info *input = text < 0 ? NULL : &p->results->data->inputs[text];
    const struct data_table *table = input ? data_table_find(p->results->tables, input->name) : NULL;
    enum tcc_dtype type = input ? (enum tcc_dtype)input->dtype : TCC_NONE;
    size_t size = input ? (size_t)tcc_dtype_bytes(type) : 0;
    char *row = calloc((size_t)p->tokens + 1, size + 1), error[ERROR_SIZE] = "";
    int code = row && (p->used = calloc((size_t)p->samples + 1, sizeof *p->used))
                   ? EXIT_FINE
                   : tool_error(p->o, EXIT_ENVIRONMENT, "no memory");

    p->pads_left = table && table->row[2] & TEXT_PADS_LEFT;
    for (int64_t s = 0; code == EXIT_FINE && s < p->samples; s++) {
        struct data_fill f = {.set = p->results->data, .n = 1, .rows = &s};
        int64_t n = p->tokens;

        if (input && !data_fill(&f, text, row, error))
            code = tool_error(p->o, EXIT_DATA, "%s", error);
        while (table && n > 1 &&
               (int64_t)tcc_load_f64(type, row + (size_t)(p->pads_left ? p->tokens - n : n - 1) * size) ==
                   table->row[1])
            n--;
        p->used[s] = n;
    }
    free(row);
    return code;
}

/* -- Tables ------------------------------------------------------------ */

/* RFC 4180: in quotes where it must be. */
static void csv_field(FILE *out, const char *text)
{
    bool quoted = text[strcspn(text, ",\"\r\n")];

    if (quoted)
        fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    if (quoted)
        fputc('"', out);
}

static void write_csv(FILE *out, const struct predictions *p)
{
    char text[PREDICT_TEXT];

    fputs(p->tokens > 1 ? "sample,token" : "sample", out);
    for (int k = 0; k < p->each; k++) {
        predict_head(p, k, text);
        fputc(',', out);
        csv_field(out, text);
        if (p->classes)
            fprintf(out, ",probability%s", text + strlen("class"));
    }
    fputc('\n', out);
    for (int64_t i = 0; i < p->samples * p->tokens; i++) {
        if (predict_pads(p, i))
            continue;
        csv_field(out, predict_sample(p, i / p->tokens, text));
        if (p->tokens > 1)
            fprintf(out, ",%" PRId64, i % p->tokens + 1);
        for (int k = 0; k < p->each; k++) {
            const struct predicted *x = &p->at[i * p->each + k];
            fputc(',', out);
            if (p->classes) {
                csv_field(out, predict_class(x, text));
                fputc(',', out);
            }
            fprintf(out, p->classes ? "%.6g" : "%.7g", x->value);
        }
        fputc('\n', out);
    }
}

static void write_jsonl(FILE *out, const struct predictions *p)
{
    char text[64];

    for (int64_t i = 0; i < p->samples * p->tokens; i++) {
        if (predict_pads(p, i))
            continue;
        json_t *line = json_object(), *list = json_array();
        json_object_set_new(line, "sample", html_text(predict_sample(p, i / p->tokens, text)));
        if (p->tokens > 1)
            json_object_set_new(line, "token", json_integer(i % p->tokens + 1));
        for (int k = 0; k < p->each; k++) {
            const struct predicted *x = &p->at[i * p->each + k];
            json_array_append_new(list, !p->classes
                                            ? html_number(x->value)
                                            : json_pack("{s:o, s:o}", "class", html_text(predict_class(x, text)),
                                                        "probability", html_number(x->value)));
        }
        json_object_set_new(line, p->classes ? "classes" : "values", list);
        json_dumpf(line, out, JSON_COMPACT | JSON_REAL_PRECISION(7));
        fputc('\n', out);
        json_decref(line);
    }
}

static const struct {
    const char *name;
    void (*write)(FILE *out, const struct predictions *p);
} formats[] = {{"csv", write_csv}, {"jsonl", write_jsonl}, {"html", predict_page}};

static int format_of(const struct options *o)
{
    const char *name = option_text(o, OPT_predict_format, "csv");

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name))
            return (int)i;
    return -1;
}

static int put(const struct predictions *p)
{
    const char *path = option_text(p->o, OPT_output, NULL);
    struct tcr_save save;

    if (!path) {
        formats[format_of(p->o)].write(stdout, p);
        return fflush(stdout) ? tool_error(p->o, EXIT_ENVIRONMENT, "cannot write standard output: %m") : EXIT_FINE;
    }
    if (tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return tool_error(p->o, EXIT_ENVIRONMENT, "%s: cannot write: %m", path);
    formats[format_of(p->o)].write(save.stream, p);
    return tcr_save_commit(&save) ? tool_error(p->o, EXIT_ENVIRONMENT, "%s: cannot write: %m", path) : EXIT_FINE;
}

/* -- The run ------------------------------------------------------------ */

/* The first output that has a number, or a row of them, a sample; else a row a token. */
static int output_of(const struct run_results *r)
{
    int found = -1;

    for (int k = r->n - 1; k >= 0; k--) {
        const struct tcc_tensor *t = &r->values[k]->t;
        bool rows = r->axes[k] == 0 && t->rank >= 1 && t->rank <= 3 && tcc_is_float((enum tcc_dtype)t->dtype);

        rows = rows && (t->rank < 3 || t->dims[1] > 0);
        if (rows && (t->rank < 3 || found < 0 || r->values[found]->t.rank == 3))
            found = k;
    }
    return found;
}

static int tell(void *user, const struct run_results *r)
{
    const struct predicting *g = user;
    struct predictions p = {.o = g->o, .samples = r->data->samples, .results = r};
    const struct data_table *table;
    enum tcc_dtype target = TCC_NONE;
    int k = output_of(r);

    if (k < 0)
        return tool_error(g->o, EXIT_DATA,
                          "predict: no output has one number or a row of numbers a sample or a token; tccc-run "
                          "--entry predict --data writes any");
    const struct tcc_tensor *t = &r->values[k]->t;
    int64_t n = t->rank > 1 ? t->dims[t->rank - 1] : 1;
    p.tokens = t->rank == 3 ? t->dims[1] : 1;
    bool known = find_target(g, r->tables, &table, &target);
    const struct data_column *names = class_names(table);
    p.target = table && (!table->ncolumns || data_table_width(table) == n) ? table : NULL;
    p.output = r->names[k];
    p.sigmoid = takes_sigmoid(g->artifact, p.output);
    bool pair = n == 1 && p.sigmoid && names && names->nclasses == 2;
    p.classes = pair || (n > 1 && (names || !known || tcc_is_int(target)));
    if (n < 1 || n > INT_MAX)
        return tool_error(g->o, EXIT_DATA, "predict: output '%s' has %" PRId64 " numbers a sample", p.output, n);
    int64_t wide = n + pair;
    p.each = (int)(p.classes && g->top < wide ? g->top : wide);
    int code = fill(&p, t, wide, names);
    if (code == EXIT_FINE)
        code = find_padding(&p);
    if (code == EXIT_FINE && (!g->world || !tccrt_comm_rank(g->world)))
        code = put(&p);
    free(p.used);
    free(p.at);
    return code;
}

/* STEP.so, or a checkpoint, beside whose file lies .step.so; of a folder it is the last one, which is written into
 * last[PATH_MAX]. */
static int find_files(const struct options *o, char *artifact, char *last, const char **load)
{
    const char *given = o->words[1];
    struct stat st;

    if (stat(given, &st) == 0 && S_ISDIR(st.st_mode)) {
        size_t n = strlen(given);
        while (n > 1 && given[n - 1] == '/')
            n--;
        snprintf(last, PATH_MAX, "%.*s/last.safetensors", (int)n, given);
        given = last;
    }
    const char *slash = strrchr(given, '/'), *dot = strrchr(given, '.');
    *load = option_text(o, OPT_load, NULL);
    if (!dot || strcmp(dot, ".safetensors")) {
        snprintf(artifact, PATH_MAX, "%s", given);
        return EXIT_FINE;
    }
    if (*load)
        return usage_error(o, "predict: '%s' is a checkpoint, and --load another one", given);
    *load = given;
    snprintf(artifact, PATH_MAX, "%.*s.step.so", slash ? (int)(slash - given) + 1 : 0, given);
    if (access(given, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "%s: %m", given);
    return access(artifact, R_OK) == 0 ? EXIT_FINE
                                       : tool_error(o, EXIT_DATA,
                                                    "%s: there is no '%s', the step that it is of: predict STEP.so "
                                                    "--load %s",
                                                    given, artifact, given);
}

/* Processes that hold parts of its tensors: all see the same samples, and the first one tells. */
static int join_parts(const struct options *o, struct model *m, struct predicting *g)
{
    int parts = tccrt_tensor_parts(m->artifact);

    if (parts < 2)
        return EXIT_FINE;
    int code = model_world(o, false, &g->world);
    if (code == EXIT_FINE && tccrt_comm_size(g->world) != parts)
        code = tool_error(o, EXIT_DATA, "%s: it has %d parts of tensors: start %d processes, not %d", o->words[1],
                          parts, parts, tccrt_comm_size(g->world));
    m->tensor = code == EXIT_FINE ? 1 + tccrt_comm_rank(g->world) : 0;
    return code;
}

static int predict_with(const struct options *o, const char *path, const char *load, struct predicting *g)
{
    struct model m = {0};
    int64_t threads = 0;

    if (!option_int(o, OPT_threads, 1, 4096, &threads))
        return EXIT_USAGE;
    int code = model_open(o, path, &m, NULL);
    g->entry = m.entry;
    if (code == EXIT_FINE)
        code = join_parts(o, &m, g);
    if (code == EXIT_FINE)
        code = model_session(o, &m, (int)threads, NULL);
    if (code == EXIT_FINE && g->world && tccrt_session_group(m.session, "tp", g->world) != TCC_OK)
        code = tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    if (code == EXIT_FINE && load && tccrt_checkpoint_load(m.session, load, TCCRT_CHECKPOINT_WEIGHTS) != TCC_OK)
        code = tool_error(o, EXIT_DATA, "%s", tccrt_error());
    g->artifact = m.artifact;
    if (code == EXIT_FINE)
        code = run_data_with(o, &m, &(struct run_wish){.data = OPT_data, .load = load, .done = tell, .user = g});
    model_close(&m);
    if (g->world && tccrt_comm_finalize(g->world, code == EXIT_FINE ? NULL : tool_last_error()) && code == EXIT_FINE)
        code = tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    return code;
}

int predict_run(const struct options *o)
{
    struct predicting g = {.o = o, .top = 1};
    char path[PATH_MAX], last[PATH_MAX];
    const char *load;

    if (o->nwords != 2)
        return usage_error(o, "predict: expected STEP.so or a checkpoint, got %d files", o->nwords - 1);
    if (!option_int(o, OPT_predict_top, 1, 1000, &g.top))
        return EXIT_USAGE;
    if (format_of(o) < 0)
        return usage_error(o, "--format=%s: expected csv, jsonl or html", option_text(o, OPT_predict_format, ""));
    if (!option_set(o, OPT_data))
        return usage_error(o, "predict: no data: --data FILE");
    int code = find_files(o, path, last, &load);
    return code == EXIT_FINE ? predict_with(o, path, load, &g) : code;
}
