/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - random operands of a kernel, for its code and for its meaning, and what the two leave in them. */
#include "tools/prove/parts_int.h"

#include "base/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool prove_size_of(void *user, ir_expr sym, int64_t *out)
{
    const struct prove_lookup *l = user;
    for (int i = 0; i < l->k->nsizes; i++)
        if (l->k->sizes[i] == sym) {
            *out = l->sizes[i];
            return true;
        }
    return false;
}

/* Floats between -1 and 1, small whole numbers (which are counts and indexes, too), truths. */
static void fill(enum tcc_dtype d, void *data, int64_t n, int whole, uint64_t *state)
{
    int bytes = tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++) {
        void *at = (char *)data + i * bytes;
        uint64_t r = tcr_draw_next(state) >> 11;
        if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
            memset(at, (int)(r & 15), (size_t)bytes);
        else if (tcc_is_float(d))
            tcc_store_f64(d, at, (double)r * 0x1p-52 - 1);
        else
            tcc_store_i64(d, at, d == TCC_BOOL ? (int64_t)(r & 1) : (int64_t)(r % (uint64_t)whole));
    }
}

/* Error allowed for values of the size of the largest: half the bits of a sum's type, a rounding of a small one. */
static double allowed(enum tcc_dtype d)
{
    switch (tcc_dtype_bytes(d)) {
    case 8: return 1e-9;
    case 4: return 2e-5;
    case 2: return d == TCC_F16 ? 4e-3 : 2e-2;
    default: return 0.3;
    }
}

bool prove_is_untouched(const void *p, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (((const unsigned char *)p)[i] != UNTOUCHED)
            return false;
    return true;
}

/* Is that element to be compared? */
static bool is_of_sample(const void *want, const void *got, int bytes, int64_t *compared)
{
    if (!compared)
        return true;
    bool both = !prove_is_untouched(want, bytes) && !prove_is_untouched(got, bytes);
    *compared += both;
    return both;
}

/* error: of values of the size of the largest. compared: those that both have written count, and are counted; NULL:
 * all. */
static bool equal(enum tcc_dtype d, double error, const void *want, const void *got, int64_t n, int64_t *where,
                  int64_t *compared)
{
    int bytes = tcc_dtype_bytes(d);
    double most = 0;
    if (!tcc_is_float(d)) {
        for (*where = 0; *where < n; ++*where)
            if (is_of_sample((const char *)want + *where * bytes, (const char *)got + *where * bytes, bytes,
                             compared) &&
                memcmp((const char *)want + *where * bytes, (const char *)got + *where * bytes, (size_t)bytes))
                return false;
        return true;
    }
    for (int64_t i = 0; i < n; i++) {
        double w = fabs(tcc_load_f64(d, (const char *)want + i * bytes));
        if (isfinite(w) && w > most)
            most = w;
    }
    for (*where = 0; *where < n; ++*where) {
        double w = tcc_load_f64(d, (const char *)want + *where * bytes),
               g = tcc_load_f64(d, (const char *)got + *where * bytes);
        if (is_of_sample((const char *)want + *where * bytes, (const char *)got + *where * bytes, bytes, compared) &&
            !(w == g || (isnan(w) && isnan(g)) || fabs(w - g) <= error * most))
            return false;
    }
    return true;
}

void prove_release(struct prove_operands *o)
{
    for (int i = 0; i < o->n; i++) {
        free(o->want[i]);
        free(o->got[i]);
    }
    free(o);
}

/* NULL: they are too many or too large, or a size is none. */
struct prove_operands *prove_allocate(const struct kn_kernel *k, const int64_t *sizes, int64_t most, int whole,
                                      uint64_t seed)
{
    struct prove_operands *o = calloc(1, sizeof *o);
    struct prove_lookup l = {k, sizes};
    for (int i = 0; o && i < k->noperands; i++) {
        const struct kn_operand *p = &k->operands[i];
        int64_t n = 1, d;
        bool ok = o->n < MOST_ARGS;
        for (int j = 0; j < p->rank && ok; j++) {
            ok = ir_eval(p->dims[j], prove_size_of, &l, &d) && d >= 0 && (d == 0 || n <= most / d);
            n = ok ? n * d : 0;
        }
        if (p->use == KN_LOCAL && ok)
            continue;
        if (ok) {
            o->uses[o->n] = p->use;
            o->dtype[o->n] = p->dtype;
            o->elements[o->n] = n;
            o->bytes[o->n] = (size_t)n * (size_t)tcc_dtype_bytes(p->dtype);
            o->want[o->n] = calloc(1, o->bytes[o->n] + 1);
            o->got[o->n] = calloc(1, o->bytes[o->n] + 1);
            ok = o->want[o->n] && o->got[o->n];
            o->n++;
        }
        if (!ok) {
            prove_release(o);
            return NULL;
        }
        if (p->use != KN_OUT)
            fill(p->dtype, o->want[o->n - 1], n, whole, &seed);
        memcpy(o->got[o->n - 1], o->want[o->n - 1], o->bytes[o->n - 1]);
    }
    return o;
}

/* Of an operand's values. Weights of attention are rounded to the type that they are multiplied in, whatever the
 * result's. */
static double error_of(const struct kn_kernel *k, enum tcc_dtype d)
{
    double error = allowed(d);
    for (int i = 0; i < k->ninsns && k->kind == IR_K_ATTENTION; i++) {
        enum tcc_dtype own = (enum tcc_dtype)k->insns[i].dtype;
        if (k->insns[i].code == KN_LOAD && (own == TCC_F16 || own == TCC_BF16) && allowed(own) > error)
            error = allowed(own);
    }
    return error;
}

/* compared: as of equal(). */
bool prove_compare(const struct kn_kernel *k, const struct prove_operands *o, const struct tcc_env *env, int status,
                   int64_t *compared, char *error)
{
    if (env->fault != status) {
        snprintf(error, PROVE_TEXT, "expected status %d, found %d", status, env->fault);
        return false;
    }
    for (int i = 0, n = 0; i < k->noperands && !status; i++) {
        int64_t at;
        if (k->operands[i].use == KN_LOCAL)
            continue;
        if (k->operands[i].use != KN_IN &&
            !equal(o->dtype[n], error_of(k, o->dtype[n]), o->want[n], o->got[n], o->elements[n], &at, compared)) {
            char want[64] = "other bits", got[64] = "";
            int bytes = tcc_dtype_bytes(o->dtype[n]);
            if (tcc_is_float(o->dtype[n])) {
                snprintf(want, sizeof want, "%.9g", tcc_load_f64(o->dtype[n], (char *)o->want[n] + at * bytes));
                snprintf(got, sizeof got, ", found %.9g", tcc_load_f64(o->dtype[n], (char *)o->got[n] + at * bytes));
            }
            snprintf(error, PROVE_TEXT, "operand %d ('%s'), element %lld of %lld: expected %s%s", i,
                     ir_shown(k->operands[i].name), (long long)at, (long long)o->elements[n], want, got);
            return false;
        }
        n++;
    }
    return true;
}
