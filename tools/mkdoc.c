/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkdoc: a program of the build. Writes what is made of tables to standard output:
 *   mkdoc man TOOL, mkdoc completion, mkdoc passes (doc/passes.md), mkdoc ops (doc/ops.md),
 *   mkdoc onnx (doc/onnx.md),
 *   mkdoc environment (doc/environment.md)
 *   mkdoc gradients (doc/gradients.md; its figures: tests/train/gradients.def, which the test writes)
 */
#include "passes/grad/grad.h"
#include "passes/pass.h"
#include "tools/options_int.h"

#include <stdlib.h>
#include <string.h>

/* Text for a cell of a table. */
static void cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void write_passes(FILE *out)
{
    int n;
    const struct pass *passes = pass_table(&n);

    fprintf(out, "# Passes\n\nMade of `passes/*.def` by `make update-docs`; don't edit.\n\n"
                 "| pass | IR level | what it does |\n| --- | --- | --- |\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | %d | %s |\n", passes[i].name, passes[i].level, passes[i].help);
    fprintf(out, "\n## Pipelines\n\n| name | passes |\n| --- | --- |\n");
    const struct pass_pipeline_row *rows = pass_pipeline_table(&n);
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | `%s` |\n", rows[i].name, rows[i].passes);
    fprintf(out, "\n## Order\n\nWhere a pipeline holds both, the first stands before the second.\n\n"
                 "| first | then | because |\n| --- | --- | --- |\n");
    const struct pass_order_row *orders = pass_order_table(&n);
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | `%s` | %s |\n", orders[i].first, orders[i].then, orders[i].reason);
}

static void write_op_row(FILE *out, enum ir_op op)
{
    const struct ir_op_info *info = ir_op_info(op);

    fprintf(out, "| `%s` | ", info->name);
    if (info->nin_max < 0)
        fprintf(out, "%d or more", info->nin_min);
    else if (info->nin_min == info->nin_max)
        fprintf(out, "%d", info->nin_min);
    else
        fprintf(out, "%d to %d", info->nin_min, info->nin_max);
    fprintf(out, " | ");
    for (const enum ir_attr_key *key = info->attrs; *key != IR_ATTR_NONE; key++)
        fprintf(out, "%s`%s`", key == info->attrs ? "" : ", ", ir_attr_name(*key));
    fputs(" | ", out);
    cell(out, info->doc);
    fputs(" |\n", out);
}

static void write_ops(FILE *out)
{
    fprintf(out, "# Ops of level 1\n\nMade of `ir/ops.def` and `ir/scalar.def` by `make update-docs`; don't edit. "
                 "`doc/ir.md` says what "
                 "nodes, types and attributes are.\n");
    for (int kind = 0; kind < IR_NKINDS; kind++) {
        bool open = false;
        for (int op = IR_OP_NONE + 1; op < IR_NOPS; op++) {
            if (ir_op_info((enum ir_op)op)->kind != (enum ir_kind)kind)
                continue;
            if (!open)
                fprintf(out, "\n## %s\n\n| op | operands | attributes | meaning |\n| --- | --- | --- | --- |\n",
                        ir_kind_name((enum ir_kind)kind));
            open = true;
            write_op_row(out, (enum ir_op)op);
        }
    }
}

/* -- doc/gradients.md */

static const struct {
    enum ir_op op;
    int inputs, power;
} checked[] = {
#define CHECKED(op, inputs, power) {IR_##op, inputs, power},
#include "tests/train/gradients.def"
#undef CHECKED
};

static void write_check(FILE *out, const struct grad_row *row)
{
    for (size_t i = 0; row->checked && i < sizeof checked / sizeof *checked; i++)
        if (checked[i].op == row->op) {
            fprintf(out, "finite differences, %d inputs: below 1e%d; compiled", checked[i].inputs, checked[i].power);
            return;
        }
    fprintf(out, row->checked ? "**not checked**" : "-");
}

static void write_formulas(FILE *out, enum ir_op op)
{
    static const char *const names[] = {"x", "y", "z"};
    bool any = false;
    for (int i = 0; i < ir_op_info(op)->nin_max && i < 3; i++) {
        const char *text = grad_text(op, i);
        if (!text || !*text)
            continue;
        fprintf(out, "%s%s: `", any ? "; " : "", names[i]);
        cell(out, text);
        fputc('`', out);
        any = true;
    }
}

static void write_gradients(FILE *out)
{
    struct grad_row row;

    fprintf(
        out,
        "# Gradients\n\nMade of `passes/grad/grad.def` and `tests/train/gradients.def` by `make update-docs`; don't "
        "edit.\n\n"
        "`passes/grad/grad.h` says what differentiation is given and what it builds. In formulas `x`, `y`, `z` are the "
        "operands, `r` is the\nresult, `d` the result's gradient, `sum` goes over the axes along which the "
        "operand is broadcast (elsewhere that is\ndone last). Where a function has a corner or jumps, the value "
        "is PyTorch's.\n\n"
        "*Checked*: in f64, against central differences of the reference interpreter (the largest difference, "
        "relative to the\nlargest element or 1), and in f32 compiled against interpreted, to 1e-5; by "
        "`tests/train/gradients`,\nalso for the models of one operator each that `tests/train/importer_grads.py` "
        "writes, as the ONNX importer reads them.\n");
    for (int map = 1; map >= 0; map--) {
        fprintf(out, map ? "\n## Elementwise ops\n\n" : "\n## Other ops\n\n");
        fprintf(out, "| op | gradient | checked |\n| --- | --- | --- |\n");
        for (int i = 0; grad_table_row(i, &row); i++) {
            if ((ir_op_info(row.op)->kind == IR_K_MAP) != map)
                continue;
            fprintf(out, "| `%s` | ", ir_op_info(row.op)->name);
            if (!row.checked)
                fprintf(out, "none: %s", row.how);
            else if (row.text)
                cell(out, row.text);
            else
                write_formulas(out, row.op);
            fputs(" | ", out);
            write_check(out, &row);
            fputs(" |\n", out);
        }
    }
    fprintf(out, "\n## Library ops\n\nWith gradients (by the first operand, `grid_sample` by both):");
    for (const char *const *name = grad_libs(); *name; name++)
        fprintf(out, "%s `%s`", name == grad_libs() ? "" : ",", *name);
    fprintf(out, ". A loss that depends on a parameter through any other library op is an error that\nnames the source "
                 "model's node.\n");
}

/* -- ONNX operators: the rows of the importer's table. */

static const struct onnx_row {
    const char *domain, *op;
    int since, until;
    bool any;
} onnx_rows[] = {
#define AI "ai.onnx"
#define MS "com.microsoft"
#define ML "ai.onnx.ml"
#define PREVIEW "ai.onnx.preview"
#define TRAIN "ai.onnx.preview.training"
#define OPAQUE(function)
#define ROW(domain, op, since, until, function, arg) {domain, op, since, until, false},
#define ANY(domain, op, since, until, function, arg) {domain, op, since, until, true},
#include "compiler/onnx/ops.def"
};
enum { NONNX = sizeof onnx_rows / sizeof *onnx_rows };

static int by_name(const void *a, const void *b)
{
    const struct onnx_row *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    order = order ? order : strcmp(x->op, y->op);
    return order ? order : x->since - y->since;
}

static bool same_op(const struct onnx_row *a, const struct onnx_row *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->domain, b->domain) == 0;
}

/* The line of the operator whose first row is `row`; returns its last row. */
static const struct onnx_row *write_onnx_op(FILE *out, const struct onnx_row *row, const struct onnx_row *end)
{
    const struct onnx_row *r = row;
    bool any = false;

    fprintf(out, "| `%s` | ", row->op);
    for (; r < end && same_op(r, row); r++) {
        any = any || r->any;
        fprintf(out, "%s%d", r > row ? ", " : "", r->since);
        if (!r->until)
            fputs(" and later", out);
        else if (r->until != r->since)
            fprintf(out, " to %d", r->until);
    }
    fprintf(out, " | %s |\n", any ? "any" : "");
    return r - 1;
}

static void write_onnx(FILE *out)
{
    struct onnx_row rows[NONNX], *end = rows + NONNX;
    int n = 0;

    memcpy(rows, onnx_rows, sizeof rows);
    qsort(rows, NONNX, sizeof *rows, by_name);
    for (const struct onnx_row *r = rows; r < end; r++)
        n += r == rows || !same_op(r, r - 1);
    fprintf(
        out,
        "# ONNX operators\n\nMade of `compiler/onnx/ops.def` by `make update-docs`; don't edit.\n\n"
        "These %d operators are imported, at the opsets named; model-local functions are expanded. Operands are ranked "
        "tensors of\nnumbers; where *any* stands, strings, sequences, optionals and tensors of unknown rank as well. "
        "What is not supported of an\noperator is said when compiling, in one message for all nodes concerned.\n",
        n);
    for (const struct onnx_row *r = rows; r < end; r++) {
        if (r == rows || strcmp(r->domain, r[-1].domain) != 0)
            fprintf(out, "\n## %s\n\n| operator | opsets | operands |\n| --- | --- | --- |\n", r->domain);
        r = write_onnx_op(out, r, end);
    }
}

/* -- doc/environment.md */

static void write_environment(FILE *out)
{
    static const struct {
        const char *name, *values, *meaning;
    } rows[] =
        {
#define ENV(name, kind, values, meaning) {#name, values, meaning},
#include "runtime/env.def"
#undef ENV
        },
      neuron[] = {
#define VARIABLE(name, answer, text) {#name, #answer, text},
#include "tools/neuron_env.def"
#undef VARIABLE
      };

    fprintf(out, "# Environment variables\n\nMade of `runtime/env.def` by `make update-docs`; don't edit.\n\n"
                 "| variable | values | meaning |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fprintf(out, "| `%s` | `", rows[i].name);
        cell(out, rows[i].values);
        fputs("` | ", out);
        cell(out, rows[i].meaning);
        fputs(" |\n", out);
    }
    fprintf(out, "\n## Neuron's\n\nVariables of the vendor's runtime, compiler and PyTorch integration "
                 "(`tools/neuron_env.def`). Those that are not read are answered: a tool that "
                 "finds one set says in a warning what does\nthe same. Any other NEURON_RT_ variable is a warning, "
                 "too.\n\n| variable | read | |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof neuron / sizeof *neuron; i++)
        fprintf(out, "| `%s` | %s | %s |\n", neuron[i].name, strcmp(neuron[i].values, "READ") ? "no" : "yes",
                neuron[i].meaning);
    fprintf(out, "\nAn unknown value is an error: exit status 2 of every tool, `TCC_EUSAGE` with a message of "
                 "`tccrt_comm_init()` and\n"
                 "`trace_new()`. An empty variable is as one that is not set. `TMPDIR` says where temporary files go; "
                 "which process is which\n"
                 "rank is read from the variables of the launcher ([distributed.md](distributed.md)).\n");
}

static const struct {
    const char *name;
    void (*write)(FILE *out);
} documents[] = {
    {"completion", options_completion}, {"passes", write_passes},           {"ops", write_ops}, {"onnx", write_onnx},
    {"gradients", write_gradients},     {"environment", write_environment},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "man") == 0) {
        for (int i = 0; i < NTOOLS; i++) {
            if (strcmp(argv[2], tool_table[i].name) == 0) {
                options_man(stdout, (enum tool)i);
                return 0;
            }
        }
    }
    for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof *documents; i++) {
        if (strcmp(argv[1], documents[i].name) == 0) {
            documents[i].write(stdout);
            return 0;
        }
    }
    fprintf(stderr, "usage: mkdoc man TOOL | completion | passes | ops | onnx | gradients | environment\n");
    return 2;
}
