/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.c - what Scalar has a function for, and a kernel spells out, becomes that function: GELU, its derivative, SiLU
 * and others (words.def). The kernel is written anew: the last instruction of such an expression becomes the function
 * of x (op IR_NOPS + its number: ops.c), and what nobody reads any more a number, of which nothing is made.
 *
 * The function rounds once where the expression does several times.
 */
#include "compiler/neuron/ops_int.h"

enum { MOST_TERMS = 32 };
enum kind { A_NUMBER, AN_X, A_CALL };
struct term {
    enum kind kind;
    enum ir_op op;
    double number;
    int n;
    const struct term *arg[2];
};
struct text {
    struct term term[MOST_TERMS];
    int n;
};

static struct term *add(struct text *t, struct term term)
{
    if (t->n == MOST_TERMS)
        return NULL;
    t->term[t->n] = term;
    return &t->term[t->n++];
}

static void *a_number(void *user, double v)
{
    return add(user, (struct term){.kind = A_NUMBER, .number = v});
}

static void *a_name(void *user, char c)
{
    return c == 'x' ? add(user, (struct term){.kind = AN_X}) : NULL;
}

static void *a_call(void *user, const char *word, int n, void *const *args)
{
    struct term t = {.kind = A_CALL, .op = ir_op_by_name(word), .n = n};
    for (int i = 0; i < n; i++)
        if (n > 2 || !(t.arg[i] = args[i]))
            return NULL;
    return add(user, t);
}

/* What a cast to float32 of 16 bits gives is what it is given. */
static int uncast(const struct kn_kernel *k, int insn)
{
    const struct kn_insn *n = &k->insns[insn];
    while (kn_is_cast(n) && n->dtype == TCC_F32 && tcc_is_half((enum tcc_dtype)k->insns[n->arg[0]].dtype))
        n = &k->insns[insn = n->arg[0]];
    return insn;
}

static bool matches(const struct kn_kernel *k, const struct term *t, int insn, int *x)
{
    const struct kn_insn *n = &k->insns[insn];
    int old = *x;
    if (t->kind == AN_X) {
        *x = old < 0 ? insn : old;
        int a = uncast(k, *x), b = uncast(k, insn);
        return n->dtype == TCC_F32 && (a == b || nk_loads_same(k, a < b ? a : b, a < b ? b : a));
    }
    if (t->kind == A_NUMBER) {
        n = &k->insns[uncast(k, insn)];
        return n->code == KN_CONST && tcc_is_float((enum tcc_dtype)n->dtype) && (float)n->fvalue == (float)t->number;
    }
    if (n->code != KN_SCALAR || n->dtype != TCC_F32 || n->op != t->op || n->nargs != t->n)
        return false;
    bool commutes = n->nargs == 2 && (ir_op_info(t->op)->flags & IR_F_COMMUTES);
    for (int swapped = 0; swapped <= commutes; swapped++) {
        bool all = true;
        *x = old;
        for (int i = 0; all && i < t->n; i++)
            all = matches(k, t->arg[i], n->arg[swapped ? t->n - 1 - i : i], x);
        if (all)
            return true;
    }
    return false;
}

static bool is_read(const struct kn_kernel *k, int insn)
{
    for (int i = insn + 1; i < k->ninsns; i++)
        for (int a = 0; a < k->insns[i].nargs; a++)
            if (k->insns[i].arg[a] == insn)
                return true;
    return false;
}

const struct kn_kernel *nk_with_words(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    static const struct {
        enum neuron_func f;
        const char *text;
    } words[] = {
#define WORD(f, text) {NEURON_FUNC_##f, text},
#include "compiler/neuron/words.def"
    };
    struct kn_kernel *to = NULL;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        struct text text = {.n = 0};
        const struct term *whole =
            ir_read_formula(&(struct ir_reading){&text, a_number, a_name, a_call}, words[w].text);
        for (int i = (to ? to : k)->ninsns - 1; whole && i >= 0; i--) {
            int x = -1;
            if (!matches(to ? to : k, whole, i, &x))
                continue;
            if (!to)
                to = nk_copy_kernel(ctx, k);
            to->insns[i] = (struct kn_insn){.code = KN_SCALAR,
                                            .dtype = TCC_F32,
                                            .op = (uint16_t)(IR_NOPS + words[w].f),
                                            .nargs = 1,
                                            .arg = {x, -1, -1}};
        }
    }
    for (int i = to ? to->ninsns - 1 : -1; i >= 0; i--)
        if (to->insns[i].code == KN_SCALAR && !is_read(to, i))
            to->insns[i] = (struct kn_insn){.code = KN_CONST, .dtype = to->insns[i].dtype, .arg = {-1, -1, -1}};
    return to ? to : k;
}
