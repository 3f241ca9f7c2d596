/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --metrics: what an evaluation says besides loss and accuracy. Everything is a sum over samples, so that ranks add
 * theirs up (all of them in one vector); the ROC curve alone needs every sample's score, which stands at the sample's
 * number, and is 0 on all other ranks.
 */
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum metric {
#define METRIC(name, kind, text) METRIC_##name,
#include "tools/train/metrics.def"
    NMETRICS
};
enum kind { KIND_CLASSES, KIND_RANKED, KIND_VALUES, KIND_SCORES, KIND_LOSS };

static const struct {
    const char *name;
    enum kind kind;
} table[] = {
#define METRIC(name, kind, text) {#name, KIND_##kind},
#include "tools/train/metrics.def"
};

enum { MOST_TOPS = METRICS_MOST - NMETRICS, MOST_CLASSES = 4096, PER_COLUMN = 4 };

struct metrics {
    struct trainer *t;
    unsigned wanted; /* 1 << enum metric */
    int ntops, tops[MOST_TOPS];
    /* The sums, parts of one vector; found with the first batch. */
    bool laid_out;
    int64_t classes, columns, samples;
    int target, output; /* of values */
    size_t n, matrix, hits, values, scores;
    double *sums;
};

static bool wants(const struct metrics *m, enum kind kind)
{
    for (int i = 0; i < NMETRICS; i++)
        if (m->wanted >> i & 1 && table[i].kind == kind)
            return true;
    return false;
}

/* -- --metrics=A,B ------------------------------------------------------------------------------------------------- */

static bool read_name(struct metrics *m, const char *name, size_t n)
{
    if (n > 3 && !strncmp(name, "top", 3) && m->ntops < MOST_TOPS) {
        char *end;
        long k = strtol(name + 3, &end, 10);
        m->tops[m->ntops++] = (int)k;
        m->wanted |= 1u << METRIC_topk;
        return end == name + n && k >= 1 && k <= MOST_CLASSES;
    }
    for (int i = 1; i < NMETRICS; i++)
        if (strlen(table[i].name) == n && !strncmp(table[i].name, name, n)) {
            m->wanted |= 1u << i;
            return true;
        }
    return false;
}

int metrics_new(struct trainer *t, struct metrics **out)
{
    struct metrics *m = *out = calloc(1, sizeof *m);
    char known[200] = "topK";

    if (!m)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    m->t = t;
    for (const char *s = option_text(t->o, OPT_metrics, ""); *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if (memchr(s, ':', n)) { /* an address, of tools/train/serve.c */
            s += n;
            continue;
        }
        if (!read_name(m, s, n)) {
            for (int i = 1; i < NMETRICS; i++)
                snprintf(known + strlen(known), sizeof known - strlen(known), ", %s", table[i].name);
            if (m->ntops == MOST_TOPS && n > 3 && !strncmp(s, "top", 3))
                return usage_error(t->o, "--metrics: at most %d of topK", MOST_TOPS);
            return usage_error(t->o, "--metrics: unknown metric '%.*s'; expected %s", (int)n, s, known);
        }
        s += n;
    }
    if (option_set(t->o, OPT_confusion))
        m->wanted |= 1u << METRIC_confusion;
    if (m->wanted && !t->evaluates)
        return usage_error(t->o, "--%s requires --eval-data or --split",
                           option_set(t->o, OPT_metrics) ? "metrics" : "confusion");
    return EXIT_FINE;
}

void metrics_begin(struct metrics *m)
{
    if (m->sums)
        memset(m->sums, 0, m->n * sizeof *m->sums);
}

void metrics_free(struct metrics *m)
{
    if (m)
        free(m->sums);
    free(m);
}

/* -- Where things are ---------------------------------------------------------------------------------------------- */

/* Is it an input of the model itself, and no target? */
static bool is_models(const struct metrics *m, int input)
{
    struct tccrt_model *model = m->t->m.artifact;
    int n = tccrt_ninputs(model, "predict");
    bool is = false;

    for (int i = 0; i < n && !is; i++) {
        struct tccrt_value_info info;
        tccrt_input(model, "predict", i, &info);
        is = !strcmp(info.name, m->t->eval.in[input].name);
    }
    return is;
}

/* The target of floats whose shape an output has. */
static bool find_values(struct metrics *m, const struct tcc_tensor *in, const struct tcc_tensor *out)
{
    for (m->target = m->t->eval.nin - 1; m->target >= 0; m->target--)
        for (m->output = 1; m->output < m->t->eval.nout; m->output++) {
            const struct tcc_tensor *x = &in[m->target], *y = &out[m->output];
            if (!is_models(m, m->target) && tcc_is_float((enum tcc_dtype)x->dtype) &&
                tcc_is_float((enum tcc_dtype)y->dtype) && x->rank >= 1 && x->rank == y->rank &&
                !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims))
                return true;
        }
    return false;
}

static int lacks(const struct metrics *m, enum kind kind, const char *what)
{
    for (int i = 0; i < NMETRICS; i++)
        if (m->wanted >> i & 1 && table[i].kind == kind)
            return tool_error(m->t->o, EXIT_DATA, "--metrics=%s: %s", i == METRIC_topk ? "topK" : table[i].name, what);
    return EXIT_FINE;
}

static size_t part(struct metrics *m, int64_t n)
{
    size_t at = m->n;
    m->n += (size_t)n;
    return at;
}

static int lay_out(struct metrics *m, const struct metrics_batch *b)
{
    bool classes = b->classes > 0;

    if (!classes && wants(m, KIND_CLASSES))
        return lacks(m, KIND_CLASSES, "'eval' has no output of class scores for labels");
    if (!classes && wants(m, KIND_RANKED))
        return lacks(m, KIND_RANKED, "'eval' has no output of class scores for labels");
    if (wants(m, KIND_VALUES) && !find_values(m, b->in, b->out))
        return lacks(m, KIND_VALUES, "'eval' has no output of the shape of a target of floats");
    if (wants(m, KIND_SCORES) && (b->classes != 2 || b->labels->rank != 1))
        return lacks(m, KIND_SCORES, "expected a label a sample, and scores of two classes");
    if (classes && b->classes > MOST_CLASSES && wants(m, KIND_CLASSES))
        return lacks(m, KIND_CLASSES, "more than 4096 classes");
    m->classes = b->classes;
    m->samples = m->t->eval_data.samples;
    m->columns = wants(m, KIND_VALUES) ? tcc_elements(b->in[m->target].rank - 1, b->in[m->target].dims + 1) : 0;
    m->matrix = part(m, wants(m, KIND_CLASSES) ? m->classes * m->classes : 0);
    m->hits = part(m, m->ntops + 1);
    m->values = part(m, PER_COLUMN * m->columns + 1);
    m->scores = part(m, wants(m, KIND_SCORES) ? 2 * m->samples : 0);
    m->sums = calloc(m->n + 1, sizeof *m->sums);
    m->laid_out = true;
    return m->sums ? EXIT_FINE : tool_error(m->t->o, EXIT_ENVIRONMENT, "no memory");
}

/* -- Sums ---------------------------------------------------------------------------------------------------------- */

static double value_at(const struct tcc_tensor *x, int64_t i)
{
    return tcc_load_f64((enum tcc_dtype)x->dtype,
                        (const char *)x->data + i * tcc_dtype_bytes((enum tcc_dtype)x->dtype));
}

static void add_label(struct metrics *m, const struct metrics_batch *b, int64_t i, int64_t label, int64_t inner)
{
    int64_t first = i / inner * b->classes * inner + i % inner, best = 0, above = 0;
    double own = value_at(b->scores, first + label * inner), most = -INFINITY;

    for (int64_t c = 0; c < b->classes; c++) {
        double v = value_at(b->scores, first + c * inner);
        best = v > most ? c : best;
        most = v > most ? v : most;
        above += v > own || (v == own && c < label);
    }
    if (wants(m, KIND_CLASSES))
        m->sums[m->matrix + (size_t)(label * b->classes + best)] += 1;
    for (int k = 0; k < m->ntops; k++)
        m->sums[m->hits + (size_t)k] += above < m->tops[k];
    m->sums[m->hits + (size_t)m->ntops] += 1;
    if (wants(m, KIND_SCORES)) {
        int64_t sample = b->order[i];
        m->sums[m->scores + (size_t)(2 * sample)] = value_at(b->scores, first + inner) - value_at(b->scores, first);
        m->sums[m->scores + (size_t)(2 * sample) + 1] = 1 + (double)label;
    }
}

static void add_labels(struct metrics *m, const struct metrics_batch *b)
{
    int64_t inner = 1, each;

    for (int i = b->axis + 1; i < b->scores->rank; i++)
        inner *= b->scores->dims[i];
    each = tcc_elements(b->labels->rank - 1, b->labels->dims + 1);
    for (int64_t i = 0; i < b->rows * each; i++) {
        int64_t label =
            tcc_load_i64((enum tcc_dtype)b->labels->dtype,
                         (const char *)b->labels->data + i * tcc_dtype_bytes((enum tcc_dtype)b->labels->dtype));
        if (label >= 0 && label < b->classes)
            add_label(m, b, i, label, inner);
    }
}

static void add_values(struct metrics *m, const struct metrics_batch *b)
{
    const struct tcc_tensor *x = &b->in[m->target], *y = &b->out[m->output];

    for (int64_t i = 0; i < b->rows * m->columns; i++) {
        double wanted = value_at(x, i), d = value_at(y, i) - wanted,
               *s = m->sums + m->values + 1 + (size_t)(i % m->columns * PER_COLUMN);
        s[0] += wanted;
        s[1] += wanted * wanted;
        s[2] += d * d;
        s[3] += fabs(d);
    }
    m->sums[m->values] += (double)b->rows;
}

int metrics_add(struct metrics *m, const struct metrics_batch *b)
{
    int code = m->laid_out || !m->wanted ? EXIT_FINE : lay_out(m, b);

    if (code != EXIT_FINE || !m->wanted)
        return code;
    if (m->classes)
        add_labels(m, b);
    if (m->columns)
        add_values(m, b);
    return EXIT_FINE;
}

/* A rank that had no samples knows no layout: it adds zeros. Rank 0, which reports, has the first batch. */
int metrics_share(struct metrics *m)
{
    int64_t n = (int64_t)m->n;
    struct tcc_tensor most = {&n, TCC_I64, 0, {0}};

    if (!m->wanted)
        return EXIT_FINE;
    if (tccrt_comm_all_reduce(m->t->dp, TCCRT_MAX, 1, 1, &most, &most, NULL) != TCC_OK)
        return trainer_status(m->t, TCC_EENV);
    double *zeros = m->laid_out ? NULL : calloc((size_t)n + 1, sizeof *zeros);
    if (!m->laid_out && !zeros)
        return tool_error(m->t->o, EXIT_ENVIRONMENT, "no memory");
    struct tcc_tensor sums = {m->laid_out ? m->sums : zeros, TCC_F64, 1, {n}};
    int status = tccrt_comm_all_reduce(m->t->dp, TCCRT_SUM, 1, 1, &sums, &sums, NULL);
    free(zeros);
    return status == TCC_OK ? EXIT_FINE : trainer_status(m->t, TCC_EENV);
}

/* -- Results ------------------------------------------------------------------------------------------------------- */

static double matrix_at(const struct metrics *m, int64_t row, int64_t column)
{
    return m->sums[m->matrix + (size_t)(row * m->classes + column)];
}

/* precision, recall or f1 over the classes that labels or predictions have. */
static double macro(const struct metrics *m, enum metric which)
{
    double sum = 0, n = 0;

    for (int64_t c = 0; c < m->classes; c++) {
        double right = matrix_at(m, c, c), labels = 0, predicted = 0;
        for (int64_t k = 0; k < m->classes; k++) {
            labels += matrix_at(m, c, k);
            predicted += matrix_at(m, k, c);
        }
        double below = which == METRIC_precision ? predicted
                       : which == METRIC_recall  ? labels
                                                 : (labels + predicted) / 2;
        sum += below > 0 ? right / below : 0;
        n += labels + predicted > 0;
    }
    return n > 0 ? sum / n : NAN;
}

static double of_values(const struct metrics *m, bool r2)
{
    double n = m->sums[m->values], sum = 0;

    for (int64_t k = 0; k < m->columns; k++) {
        const double *s = m->sums + m->values + 1 + k * PER_COLUMN;
        double spread = s[1] - s[0] * s[0] / n;
        sum += r2 ? (spread > 0 ? 1 - s[2] / spread : s[2] == 0) : s[3] / n;
    }
    return sum / (double)m->columns;
}

static int by_score(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Mann and Whitney: pairs of a 1 above a 0, ties half. */
static double area(struct metrics *m)
{
    double *pairs = malloc((size_t)m->samples * 2 * sizeof *pairs), below = 0, ones = 0, zeros = 0, sum = 0;

    if (!pairs)
        return NAN;
    memcpy(pairs, m->sums + m->scores, (size_t)m->samples * 2 * sizeof *pairs);
    qsort(pairs, (size_t)m->samples, 2 * sizeof *pairs, by_score);
    for (int64_t i = 0, j; i < m->samples; i = j) {
        double same_ones = 0, same_zeros = 0;
        for (j = i; j < m->samples && pairs[2 * j] == pairs[2 * i]; j++) {
            same_ones += pairs[2 * j + 1] == 2;
            same_zeros += pairs[2 * j + 1] == 1; /* 0: the label does not count */
        }
        sum += same_ones * (below + same_zeros / 2);
        below += same_zeros;
        ones += same_ones;
        zeros += same_zeros;
    }
    free(pairs);
    return ones > 0 && zeros > 0 ? sum / (ones * zeros) : NAN;
}

static double result(struct metrics *m, int which, double loss)
{
    switch (which) {
    case METRIC_precision:
    case METRIC_recall:
    case METRIC_f1: return macro(m, (enum metric)which);
    case METRIC_mae: return of_values(m, false);
    case METRIC_r2: return of_values(m, true);
    case METRIC_auc: return area(m);
    default: return exp(loss);
    }
}

static void print_matrix(const struct metrics *m, FILE *out, bool json)
{
    fputs(json ? ",\"eval_confusion\":[" : "\nconfusion (rows: labels, columns: predictions)", out);
    for (int64_t r = 0; r < m->classes; r++) {
        fprintf(out, json ? "%s[" : "%s", json ? (r ? "," : "") : "\n");
        for (int64_t c = 0; c < m->classes; c++)
            fprintf(out, json ? "%s%.0f" : "%s%6.0f", json && c ? "," : "", matrix_at(m, r, c));
        fputs(json ? "]" : "", out);
    }
    fputs(json ? "]" : "", out);
}

int metrics_scalars(struct metrics *m, double loss, struct train_scalar *to)
{
    int n = 0;

    if (!m->laid_out)
        return 0;
    for (int k = 0; k < m->ntops; k++, n++) {
        snprintf(to[n].name, sizeof to[n].name, "eval/top%d", m->tops[k]);
        to[n].value = m->sums[m->hits + (size_t)k] / m->sums[m->hits + (size_t)m->ntops];
    }
    for (int i = 1; i < NMETRICS; i++)
        if (m->wanted >> i & 1 && i != METRIC_confusion) {
            snprintf(to[n].name, sizeof to[n].name, "eval/%s", table[i].name);
            to[n++].value = result(m, i, loss);
        }
    return n;
}

void metrics_print(struct metrics *m, FILE *out, bool json, double loss)
{
    struct train_scalar list[METRICS_MOST];
    int n = metrics_scalars(m, loss, list);

    for (int i = 0; i < n; i++) {
        const char *name = strchr(list[i].name, '/') + 1;
        if (!json)
            fprintf(out, ", %s %.4f", name, list[i].value);
        else if (isfinite(list[i].value))
            fprintf(out, ",\"eval_%s\":%.9g", name, list[i].value);
        else
            fprintf(out, ",\"eval_%s\":null", name);
    }
    if (m->laid_out && m->wanted >> METRIC_confusion & 1)
        print_matrix(m, out, json);
}

const double *metrics_matrix(const struct metrics *m, int64_t *classes)
{
    *classes = m->classes;
    return m->laid_out && m->wanted >> METRIC_confusion & 1 ? m->sums + m->matrix : NULL;
}

int metrics_draw(struct metrics *m)
{
    const char *path = option_text(m->t->o, OPT_confusion, NULL);

    return path && m->laid_out ? confusion_draw(m->t, path, m->classes, m->sums + m->matrix) : EXIT_FINE;
}
