/* SPDX-License-Identifier: Apache-2.0 */
/* print_kernel.c - the text form of kernels (doc/ir.md). */
#include <inttypes.h>
#include <string.h>

#include "ir/roles/roles_int.h"
#include "ir/text/kernel_words_int.h"

const char *const kn_code_words[] = {"const", "expr",   "load",      "store", "scalar", "index",
                                     "env",   "reduce", "argreduce", "scan",  "sort",   NULL};
const char *const kn_use_words[] = {"in", "out", "inout", "local", "partial", NULL};
const char *const kn_operand_space_words[] = {"global", "shared", "registers", "scratch", NULL};
const char *const kn_env_words[] = {"seed", "run", NULL};
const char *const kn_reducer_words[] = {"sum", "prod", "max", "min", NULL};

int kn_word(const char *const *words, const char *name)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], name) == 0)
            return i;
    }
    return -1;
}

static void print_exprs(FILE *out, const char *open, int n, const ir_expr *e, const char *close)
{
    fputs(open, out);
    for (int i = 0; i < n; i++) {
        if (i)
            fputs(", ", out);
        ir_print_expr(out, e[i]);
    }
    fputs(close, out);
}

static void print_dim_set(FILE *out, const struct kn_kernel *k, uint32_t set)
{
    bool first = true;
    fputc('(', out);
    for (int d = 0; d < k->ndims; d++) {
        if (!(set >> d & 1))
            continue;
        if (!first)
            fputs(", ", out);
        ir_print_expr(out, k->dims[d].var);
        first = false;
    }
    fputc(')', out);
}

static void print_guards(FILE *out, const struct kn_insn *n)
{
    for (int g = 0; g < n->nguards; g++) {
        fputs(g ? ", " : " if ", out);
        ir_print_expr(out, n->guards[g].lo);
        fputs(" <= ", out);
        ir_print_expr(out, n->guards[g].e);
        fputs(" < ", out);
        ir_print_expr(out, n->guards[g].hi);
    }
}

static void print_access(FILE *out, const struct kn_insn *n)
{
    fprintf(out, "o%d", n->operand);
    print_exprs(out, "[", n->nindex, n->index, "]");
}

const char *const kn_answer_words[] = {"unknown", "proved", "checked", "guarded", NULL};

static void print_answer(FILE *out, const struct kn_insn *n)
{
    if (n->answer)
        fprintf(out, " %s", kn_answer_words[n->answer]);
}

static void print_args(FILE *out, const struct kn_insn *n)
{
    for (int i = 0; i < n->nargs; i++)
        fprintf(out, "%s%%%d", i ? ", " : " ", n->arg[i]);
}

static void print_const(FILE *out, const struct kn_insn *n)
{
    fputc(' ', out);
    if (tcc_is_float(n->dtype))
        ir_print_double(out, n->fvalue);
    else
        fprintf(out, "%" PRId64, n->ivalue);
}

static void print_insn(FILE *out, const struct kn_kernel *k, int i)
{
    const struct kn_insn *n = &k->insns[i];
    fputs("    ", out);
    if (n->code == KN_STORE) {
        fputs("store ", out);
        print_access(out, n);
        fprintf(out, " = %%%d", n->arg[0]);
        print_guards(out, n);
        print_answer(out, n);
        fputc('\n', out);
        return;
    }
    if (n->code == KN_SORT) {
        fprintf(out, "sort %s o%d o%" PRId64 "\n", kn_reducer_words[n->reducer], n->operand, n->ivalue);
        return;
    }
    fprintf(out, "%%%d = %s", i, n->code == KN_SCALAR ? ir_op_info(n->op)->name : kn_code_words[n->code]);
    if (n->code >= KN_REDUCE)
        fprintf(out, " %s", kn_reducer_words[n->reducer]);
    fprintf(out, " %s", tcc_dtype_name(n->dtype));
    switch ((enum kn_code)n->code) {
    case KN_CONST: print_const(out, n); break;
    case KN_EXPR:
        fputc(' ', out);
        ir_print_expr(out, n->expr);
        break;
    case KN_ENV: fprintf(out, " %s", kn_env_words[n->ivalue]); break;
    case KN_LOAD:
        fputc(' ', out);
        print_access(out, n);
        print_guards(out, n);
        if (n->nargs && n->arg[0] >= 0)
            fprintf(out, " else %%%d", n->arg[0]);
        print_answer(out, n);
        break;
    case KN_INDEX:
        print_args(out, n);
        fputs(" as ", out);
        ir_print_expr(out, n->expr);
        fputs(" < ", out);
        ir_print_expr(out, n->bound);
        break;
    default:
        print_args(out, n);
        if (n->ivalue && n->code == KN_ARGREDUCE)
            fputs(" last", out);
        if (n->ivalue && n->code == KN_SCAN)
            fputs(" exclusive", out);
        break;
    }
    fputc('\n', out);
}

static void print_operand(FILE *out, const struct kn_operand *o, int i)
{
    fprintf(out, "  %s", kn_use_words[o->use]);
    if (o->use == KN_LOCAL)
        fprintf(out, " %s", kn_operand_space_words[o->space]);
    fprintf(out, " o%d", i);
    if (o->name) {
        fputc(' ', out);
        ir_print_string(out, o->name);
    }
    fprintf(out, ": %s", tcc_dtype_name(o->dtype));
    print_exprs(out, "[", o->rank, o->dims, "]\n");
}

static void print_role(FILE *out, const struct kn_kernel *k, enum kn_role_kind kind, int number)
{
    if (kind == KN_ROLE_DIMS)
        print_dim_set(out, k, (uint32_t)number);
    else if (number < 0)
        fputc('-', out);
    else if (kind == KN_ROLE_DIM)
        ir_print_expr(out, k->dims[number].var);
    else if (kind == KN_ROLE_OPERAND)
        fprintf(out, "o%d", number);
    else
        fprintf(out, kind == KN_ROLE_INSN && k->insns[number].code != KN_STORE ? "%%%d" : "%d", number);
}

static void print_roles(FILE *out, const struct kn_kernel *k)
{
    struct kn_roles r = k->roles;
    const char *before = " (";
    if (!r.form) {
        if (k->schedule.how && kn_find_roles(k, &r)) /* a template that asks for none has forgotten them */
            fputs("  roles none\n", out);
        return;
    }
    fprintf(out, "  roles %s", kn_forms[r.form].name);
    for (const struct kn_role_row *row = kn_forms[r.form].roles; row->name; row++) {
        int n = row->n; /* without those at the end that nobody plays */
        while (n && !kn_role_is_played(row, *kn_role(&r, row, n - 1)))
            n--;
        if (!n)
            continue;
        fprintf(out, "%s%s=", before, row->name);
        for (int i = 0; i < n; i++) {
            fputs(i ? " " : "", out);
            print_role(out, k, row->kind, *kn_role(&r, row, i));
        }
        before = ", ";
    }
    fputs(")\n", out);
}

static void print_required(FILE *out, const struct kn_kernel *k)
{
    for (int i = 0; i < k->nrequired; i++) {
        const struct kn_requirement *r = &k->required[i];
        fputs("  requires ", out);
        ir_print_expr(out, r->a);
        fputs(" <= ", out);
        ir_print_expr(out, r->b);
        if (!ir_is_value(r->points, 1)) {
            fputs(" if ", out);
            ir_print_expr(out, r->points);
        }
        fprintf(out, " for o%d\n", r->operand);
    }
}

static void print_split(FILE *out, const struct kn_kernel *k)
{
    if (!k->split.combine)
        return;
    fputs("  split ", out);
    ir_print_expr(out, k->dims[k->split.dim].var);
    fputs(" step ", out);
    ir_print_expr(out, k->split.step);
    fputc('\n', out);
}

static void print_schedule(FILE *out, const struct kn_kernel *k)
{
    const struct kn_schedule *s = &k->schedule;
    if (!s->how)
        return;
    fprintf(out, "  schedule %s", s->how);
    for (int i = 0; i < s->nparams; i++)
        fprintf(out, "%s%s=%" PRId64 "%s", i ? ", " : "(", s->params[i].key, s->params[i].value,
                i + 1 == s->nparams ? ")" : "");
    int ntiles = 0;
    for (int d = 0; d < k->ndims; d++)
        ntiles = s->tile[d] ? d + 1 : ntiles;
    for (int d = 0; d < ntiles; d++)
        fprintf(out, "%s%" PRId64 "%s", d ? ", " : " tile (", s->tile[d], d + 1 == ntiles ? ")" : "");
    fputc('\n', out);
}

static void print_line(FILE *out, const char *word, ir_expr e)
{
    if (!e)
        return;
    fprintf(out, "  %s ", word);
    ir_print_expr(out, e);
    fputc('\n', out);
}

void kn_print_kernel(FILE *out, const struct kn_kernel *k)
{
    static const char *const roles[] = {"outer", "inner", "pieces"};
    fputs("kernel @", out);
    if (k->name && ir_is_identifier(k->name))
        fputs(k->name, out);
    else
        ir_print_string(out, k->name ? k->name : "");
    fprintf(out, " %s {\n", ir_kind_name(k->kind));
    for (int d = 0; d < k->ndims; d++) {
        fprintf(out, "  %s ", roles[k->dims[d].role]);
        ir_print_expr(out, k->dims[d].var);
        fputs(" < ", out);
        ir_print_expr(out, k->dims[d].extent);
        fputc('\n', out);
    }
    for (int i = 0; i < k->noperands; i++)
        print_operand(out, &k->operands[i], i);
    if (k->nsizes)
        print_exprs(out, "  sizes (", k->nsizes, k->sizes, ")\n");
    for (int s = 0; s < k->nstages; s++) {
        fputs(s && s == k->split.combine ? "  combine " : "  stage ", out);
        print_dim_set(out, k, k->stages[s].inner);
        if (k->stages[s].repeat) {
            fputs(" repeat ", out);
            print_dim_set(out, k, k->stages[s].repeat);
        }
        fputs(" {\n", out);
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            print_insn(out, k, i);
        fputs("  }\n", out);
    }
    print_required(out, k);
    print_roles(out, k);
    if (k->partial)
        fprintf(out, "  sums %s\n", tcc_dtype_name(k->partial));
    if (k->mx)
        fprintf(out, "  mx %s\n", tcc_dtype_name(k->mx));
    print_split(out, k);
    print_schedule(out, k);
    print_line(out, "tiles", k->tiles);
    print_line(out, "combining", k->combining);
    print_line(out, "scratch", k->scratch);
    print_line(out, "flops", k->flops);
    fputs("}\n", out);
}
