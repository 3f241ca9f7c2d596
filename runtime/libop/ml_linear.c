/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml: linear models and support vector machines. Sums in doubles; scores are f32. */
#include <math.h>

#include "runtime/libop/libop_int.h"

/* x as rows of `width` numbers. */
static int need_rows(struct tcc_lib_call *call, const struct tcc_tensor **x, int64_t *rows, int64_t *width)
{
    int status = lib_need(call, 0, -1, LIB_NUMBER, x);

    *rows = *width = 0;
    if (status)
        return status;
    if ((*x)->rank < 1 || (*x)->rank > 2 || (*x)->dtype == TCC_STRING)
        return LIB_FAIL(call, "x must be [n, c]");
    *width = (*x)->dims[(*x)->rank - 1];
    *rows = (*x)->rank == 2 ? (*x)->dims[0] : 1;
    return TCC_OK;
}

static double dot_row(const struct tcc_tensor *x, int64_t row, int64_t width, const struct tcc_attr *c, int64_t at)
{
    double sum = 0;

    for (int64_t i = 0; i < width; i++)
        sum += lib_get(x, row * width + i) * lib_list_value(c, at + i);
    return sum;
}

/* x attrs coefficients, intercepts, targets (default 1), post_transform -> [n, targets] */
int tccrt_lib_linear_regressor(struct tcc_lib_call *call)
{
    const struct tcc_attr *c = lib_list(call, "coefficients"), *b = lib_list(call, "intercepts");
    int64_t targets = lib_int(call, "targets", 1), rows, width, dims[2];
    const struct tcc_tensor *x;
    double *row;
    float *y;
    int status = need_rows(call, &x, &rows, &width);

    if (status)
        return status;
    if (targets < 1 || lib_list_size(c) != targets * width || (b && lib_list_size(b) != targets))
        return LIB_FAIL(call, "coefficients or intercepts do not fit %lld columns and %lld targets", (long long)width,
                        (long long)targets);
    dims[0] = rows;
    dims[1] = targets;
    if (!(y = lib_out(call, 0, TCC_F32, 2, dims)))
        return TCC_EENV;
    if (!(row = malloc((size_t)targets * sizeof *row)))
        return LIB_NO_MEMORY(call);
    for (int64_t r = 0; r < rows && !status; r++) {
        for (int64_t t = 0; t < targets; t++)
            row[t] = dot_row(x, r, width, c, t * width) + (b ? lib_list_value(b, t) : 0);
        status = lib_post_transform(call, lib_text(call, "post_transform", "NONE"), row, targets);
        for (int64_t t = 0; t < targets; t++)
            y[r * targets + t] = (float)row[t];
    }
    free(row);
    return status;
}

/* One row of a linear classifier: scores (2 when a single score stands for two classes) and its class. */
static int classify_row(struct tcc_lib_call *call, double *row, int64_t scores, int64_t out, int64_t *class)
{
    const char *post = lib_text(call, "post_transform", "NONE");
    int status;

    if (out == 2 && scores == 1) {
        row[1] = row[0];
        row[0] = -row[0];
    }
    status = lib_post_transform(call, post, row, out);
    *class = out > 1 ? lib_largest(row, out) : row[0] >= (strcmp(post, "NONE") == 0 ? 0 : 0.5) ? 0 : -1;
    return status;
}

/* x attrs coefficients, intercepts, classlabels_ints or classlabels_strings, post_transform -> labels, scores f32[n,
 * classes]. With a single class, rows below the threshold get label 0. */
int tccrt_lib_linear_classifier(struct tcc_lib_call *call)
{
    const struct tcc_attr *c = lib_list(call, "coefficients"), *b = lib_list(call, "intercepts");
    int64_t rows, width, scores, dims[2], class;
    const struct tcc_tensor *x;
    struct lib_labels labels;
    double *row;
    float *y;
    int status = need_rows(call, &x, &rows, &width);

    if (status || (status = lib_labels_begin(call, "classlabels_ints", "classlabels_strings", rows, &labels)))
        return status;
    scores = width ? lib_list_size(c) / width : 0;
    if (scores < 1 || lib_list_size(c) % width || (b && lib_list_size(b) != scores))
        return LIB_FAIL(call, "coefficients or intercepts do not fit %lld columns", (long long)width);
    dims[0] = rows;
    dims[1] = scores == 1 && lib_labels_count(&labels) == 2 ? 2 : scores;
    if (!(y = lib_out(call, 1, TCC_F32, 2, dims)))
        return TCC_EENV;
    if (!(row = malloc(((size_t)dims[1] + 1) * sizeof *row)))
        return LIB_NO_MEMORY(call);
    for (int64_t r = 0; r < rows && !status; r++) {
        for (int64_t s = 0; s < scores; s++)
            row[s] = dot_row(x, r, width, c, s * width) + (b ? lib_list_value(b, s) : 0);
        status = classify_row(call, row, scores, dims[1], &class);
        for (int64_t s = 0; s < dims[1]; s++)
            y[r * dims[1] + s] = (float)row[s];
        if (!status && class < 0 && !labels.strings)
            ((int64_t *)labels.out)[r] = 0;
        else if (!status)
            status = lib_labels_put(call, &labels, r, class);
    }
    free(row);
    return status;
}

/* -- Support vector machines --------------------------------------------------------------------------------------- */

struct svm {
    const struct tcc_tensor *x;
    const struct tcc_attr *coefficients, *vectors, *rho, *prob_a, *prob_b, *per_class;
    int64_t rows, width, nvectors, classes;
    char kernel; /* L, P, R, S: linear, poly, rbf, sigmoid */
    double gamma, coef0, degree;
};

static int read_svm(struct tcc_lib_call *call, struct svm *s)
{
    const struct tcc_attr *p = lib_list(call, "kernel_params");
    int status = need_rows(call, &s->x, &s->rows, &s->width);

    if (status)
        return status;
    s->coefficients = lib_list(call, "coefficients");
    s->vectors = lib_list(call, "support_vectors");
    s->rho = lib_list(call, "rho");
    s->prob_a = lib_list(call, "prob_a");
    s->prob_b = lib_list(call, "prob_b");
    s->per_class = lib_list(call, "vectors_per_class");
    s->kernel = lib_text(call, "kernel_type", "LINEAR")[0];
    s->gamma = lib_list_size(p) > 0 ? lib_list_value(p, 0) : 0;
    s->coef0 = lib_list_size(p) > 1 ? lib_list_value(p, 1) : 0;
    s->degree = lib_list_size(p) > 2 ? lib_list_value(p, 2) : 0;
    if (!s->coefficients || !s->rho || !strchr("LPRS", s->kernel))
        return LIB_FAIL(call, "coefficients and rho are needed, and a kernel that is known");
    return TCC_OK;
}

/* Kernel of a row and `width` numbers of a list. */
static double kernel(const struct svm *s, char kind, int64_t row, const struct tcc_attr *v, int64_t at)
{
    double sum = 0;

    if (kind != 'R') {
        sum = dot_row(s->x, row, s->width, v, at);
        return kind == 'L'   ? sum
               : kind == 'P' ? pow(sum * s->gamma + s->coef0, s->degree)
                             : tanh(sum * s->gamma + s->coef0);
    }
    for (int64_t i = 0; i < s->width; i++) {
        double d = lib_get(s->x, row * s->width + i) - lib_list_value(v, at + i);

        sum += d * d;
    }
    return exp(-s->gamma * sum);
}

/* x attrs as ONNX's SVMRegressor; one_class: 1 or -1 by the sign -> [n, 1] */
int tccrt_lib_svm_regressor(struct tcc_lib_call *call)
{
    int64_t dims[2] = {0, 1}, n = lib_int(call, "n_supports", 0);
    struct svm s = {0};
    float *y;
    int status = read_svm(call, &s);

    if (status)
        return status;
    if (n < 0 || (n ? lib_list_size(s.vectors) != n * s.width || lib_list_size(s.coefficients) != n
                    : lib_list_size(s.coefficients) != s.width))
        return LIB_FAIL(call, "support vectors and coefficients do not fit %lld columns", (long long)s.width);
    dims[0] = s.rows;
    if (!(y = lib_out(call, 0, TCC_F32, 2, dims)))
        return TCC_EENV;
    for (int64_t r = 0; r < s.rows; r++) {
        double sum = lib_list_value(s.rho, 0);

        for (int64_t k = 0; k < n; k++)
            sum += lib_list_value(s.coefficients, k) * kernel(&s, s.kernel, r, s.vectors, k * s.width);
        sum += n ? 0 : kernel(&s, 'L', r, s.coefficients, 0);
        sum = lib_int(call, "one_class", 0) ? (sum > 0 ? 1 : -1) : sum;
        if ((status = lib_post_transform(call, lib_text(call, "post_transform", "NONE"), &sum, 1)))
            return status;
        y[r] = (float)sum;
    }
    return TCC_OK;
}

/* One-against-one: a score for each pair of classes, and votes. */
static void pair_scores(const struct svm *s, const double *kernels, double *scores, double *votes)
{
    int64_t pair = 0, at_i = 0;

    memset(votes, 0, (size_t)s->classes * sizeof *votes);
    for (int64_t i = 0; i < s->classes; i++) {
        int64_t n_i = s->per_class->ints[i], at_j = at_i + n_i;

        for (int64_t j = i + 1; j < s->classes; j++, pair++) {
            int64_t n_j = s->per_class->ints[j];
            double sum = lib_list_value(s->rho, pair);

            for (int64_t k = at_i; k < at_i + n_i; k++)
                sum += lib_list_value(s->coefficients, (j - 1) * s->nvectors + k) * kernels[k];
            for (int64_t k = at_j; k < at_j + n_j; k++)
                sum += lib_list_value(s->coefficients, i * s->nvectors + k) * kernels[k];
            scores[pair] = sum;
            votes[sum > 0 ? i : j]++;
            at_j += n_j;
        }
        at_i += n_i;
    }
}

/* Probabilities of k classes from pairwise ones (Wu, Lin and Weng, JMLR 5, 2004, second method), as libsvm does. q: k *
 * k, qp: k. */
static void couple(int64_t k, const double *r, double *q, double *qp, double *p)
{
    for (int64_t t = 0; t < k; t++) {
        p[t] = 1.0 / (double)k;
        q[t * k + t] = 0;
        for (int64_t j = 0; j < k; j++) {
            if (j == t)
                continue;
            q[t * k + t] += r[j * k + t] * r[j * k + t];
            q[t * k + j] = -r[j * k + t] * r[t * k + j];
        }
    }
    for (int64_t iteration = 0; iteration < (k > 100 ? k : 100); iteration++) {
        double pqp = 0, worst = 0;

        for (int64_t t = 0; t < k; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < k; j++)
                qp[t] += q[t * k + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < k; t++)
            worst = fmax(worst, fabs(qp[t] - pqp));
        if (worst < 0.005 / (double)k)
            return;
        for (int64_t t = 0; t < k; t++) {
            double d = (pqp - qp[t]) / q[t * k + t];

            p[t] += d;
            pqp = (pqp + d * (d * q[t * k + t] + 2 * qp[t])) / (1 + d) / (1 + d);
            for (int64_t j = 0; j < k; j++) {
                qp[j] = (qp[j] + d * q[t * k + j]) / (1 + d);
                p[j] /= 1 + d;
            }
        }
    }
}

/* room: classes * (2 * classes + 1) */
static void probabilities(const struct svm *s, const double *scores, double *out, double *room)
{
    int64_t k = s->classes, pair = 0;

    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = i + 1; j < k; j++, pair++) {
            double v = scores[pair] * lib_list_value(s->prob_a, pair) + lib_list_value(s->prob_b, pair);

            v = fmin(fmax(1 - 1 / (1 + exp(-v)), 1e-7), 1 - 1e-7);
            room[i * k + j] = v;
            room[j * k + i] = 1 - v;
        }
    }
    couple(k, room, room + k * k, room + 2 * k * k, out);
}

static int check_classes(struct tcc_lib_call *call, struct svm *s)
{
    int64_t k = s->classes, pairs = k * (k - 1) / 2;

    if (s->per_class && (s->per_class->kind != TCC_ATTR_INTS || s->per_class->n != k))
        return LIB_FAIL(call, "vectors_per_class must have %lld values", (long long)k);
    for (int64_t i = 0; s->per_class && i < k; i++) {
        if (s->per_class->ints[i] < 0 || s->per_class->ints[i] > lib_list_size(s->vectors))
            return LIB_FAIL(call, "vectors_per_class[%lld] is %lld", (long long)i, (long long)s->per_class->ints[i]);
        s->nvectors += s->per_class->ints[i];
    }
    if (s->nvectors == 0)
        return lib_list_size(s->coefficients) == k * s->width ? TCC_OK : LIB_FAIL(call, "coefficients do not fit");
    if (lib_list_size(s->vectors) != s->nvectors * s->width ||
        lib_list_size(s->coefficients) != (k - 1) * s->nvectors || lib_list_size(s->rho) < pairs ||
        (s->prob_a && (lib_list_size(s->prob_a) < pairs || lib_list_size(s->prob_b) < pairs)))
        return LIB_FAIL(call, "support vectors, coefficients, rho or probabilities do not fit");
    return TCC_OK;
}

/* A row's scores (n of them; room for two more) after its class is known: a single one is written as two. */
static int finish_scores(struct tcc_lib_call *call, const struct svm *s, double *v, int64_t *n)
{
    const char *post = lib_text(call, "post_transform", "NONE");

    if (*n == 1 && s->classes == 2 && strcmp(post, "PROBIT") != 0) {
        v[1] = v[0];
        v[0] = -v[0];
        *n = 2;
    }
    return lib_post_transform(call, post, v, *n);
}

struct svm_room {
    double *kernels, *scores, *votes, *proba, *coupling;
};

static int svm_row(struct tcc_lib_call *call, const struct svm *s, int64_t r, const struct svm_room *m, double **out,
                   int64_t *n, int64_t *class)
{
    *n = s->classes;
    *out = m->scores;
    if (s->nvectors == 0) {
        for (int64_t k = 0; k < s->classes; k++)
            m->scores[k] = lib_list_value(s->rho, 0) + kernel(s, 'L', r, s->coefficients, k * s->width);
        *class = lib_largest(m->scores, s->classes);
    } else {
        for (int64_t k = 0; k < s->nvectors; k++)
            m->kernels[k] = kernel(s, s->kernel, r, s->vectors, k * s->width);
        pair_scores(s, m->kernels, m->scores, m->votes);
        *class = lib_largest(m->votes, s->classes);
        *n = s->classes * (s->classes - 1) / 2;
        if (s->prob_a) {
            probabilities(s, m->scores, m->proba, m->coupling);
            *out = m->proba;
            *n = s->classes;
        }
    }
    return finish_scores(call, s, *out, n);
}

/* x attrs as ONNX's SVMClassifier -> labels, scores f32[n, classes or pairs] */
int tccrt_lib_svm_classifier(struct tcc_lib_call *call)
{
    struct lib_labels labels;
    struct svm s = {0};
    struct svm_room m;
    int64_t dims[2], pairs, n, class, k;
    float *y = NULL;
    double *room, *row;
    int status;

    if ((status = read_svm(call, &s)) ||
        (status = lib_labels_begin(call, "classlabels_ints", "classlabels_strings", s.rows, &labels)))
        return status;
    k = s.classes = lib_labels_count(&labels) ? lib_labels_count(&labels) : 1;
    if ((status = check_classes(call, &s)))
        return status;
    pairs = k * (k - 1) / 2;
    dims[0] = s.rows;
    dims[1] = s.nvectors && !s.prob_a
                  ? (pairs == 1 && k == 2 && strcmp(lib_text(call, "post_transform", "NONE"), "PROBIT") ? 2 : pairs)
                  : k;
    if (!(y = lib_out(call, 1, TCC_F32, 2, dims)))
        return TCC_EENV;
    room = calloc((size_t)(s.nvectors + pairs + 3 * k + 8 + 2 * k * k + k), sizeof *room);
    if (!room)
        return LIB_NO_MEMORY(call);
    m = (struct svm_room){room, room + s.nvectors, room + s.nvectors + pairs + k + 4, NULL, NULL};
    m.proba = m.votes + k;
    m.coupling = m.proba + k + 2;
    for (int64_t r = 0; r < s.rows && !status; r++) {
        if ((status = svm_row(call, &s, r, &m, &row, &n, &class)))
            break;
        for (int64_t i = 0; i < dims[1]; i++)
            y[r * dims[1] + i] = (float)row[i];
        status = lib_labels_put(call, &labels, r, class);
    }
    free(room);
    return status;
}
