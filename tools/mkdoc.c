/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkdoc: a program of the build. Writes what is made of tables to standard output:
 *   mkdoc man TOOL, mkdoc bash|zsh|fish (completion), mkdoc passes (doc/passes.md), mkdoc ops (doc/ops.md),
 *   mkdoc onnx (doc/onnx.md), mkdoc pt2 (doc/pt2.md),
 *   mkdoc environment (doc/environment.md)
 *   mkdoc gradients (doc/gradients.md; its figures: tests/train/gradients.def, which the test writes)
 */
#include "passes/grad/grad.h"
#include "passes/pass.h"
#include "compiler/fields.h"
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
    fprintf(out, "\n## Library ops\n\nWith gradients (by the first operand, `grid_sample`, `solve` and "
                 "`triangular_solve` by both, `stft` by "
                 "signal and window, `lu_solve` by factors and right-hand sides):");
    for (const char *const *name = grad_libs(); *name; name++)
        fprintf(out, "%s `%s`", name == grad_libs() ? "" : ",", *name);
    fputs(". Of a singular matrix `det` has one of NaNs, and so have `eigh` and `svd` by their vectors where two "
          "values are equal. A loss that depends on a parameter through any other library "
          "op is "
          "an error that\nnames the source model's node. Those that are smooth but have none:\n\n"
          "| ops | why |\n| --- | --- |\n"
          "| `deform_conv` | not written; of `resize` neither cropping nor keeping the aspect ratio |\n"
          "| `feature_vectorizer`, `imputer`, `linear_*`, `normalizer`, `scaler`, `svm_*` | models that were fitted by "
          "other "
          "means, which are not trained further |\n"
          "| `dyn_*` but `dyn_reverse_sequence` | of tensors whose rank is known only at run time |\n"
          "| sequences, optionals | objects that are put together at run time, or in a loop: where what they hold is "
          "known when "
          "compiling, a model from ONNX has tensors in their place, and their gradients |\n",
          out);
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
#define TF "ai.onnx.converters.tensorflow"
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

/* -- Programs of torch.export: how they are read, and the rows of that importer's table. */

static const struct aten_doc {
    const char *name;
    int flags;
} aten_rows[] = {
#define CORE 1
#define VIEW 0
#define GRAPHS 0
#define STATISTICS 0
#define PAIRS 0
#define SHARES 0
#define COPIES 0
#define KEEPS 0
#define PASSES 0
#define CUTS 0
#define STORAGE 0
#define CALLS 0
#define LOWERS 0
#define ATEN(name, flags, function, arg) {name, flags},
#include "compiler/pt2/aten.def"
};

static const struct {
    const char *patterns, *words;
} absent[] = {
#define ABSENT(patterns, words) {patterns, words},
#include "compiler/pt2/absent.def"
};

static const char pt2_intro[] =
    "# Programs of torch.export\n\nMade of `compiler/pt2/aten.def` by `make update-docs`; don't edit.\n\n`tccc "
    "model.pt2 -o model.so` compiles what `torch.export.save` of PyTorch 2.8 and later writes, as "
    "`torch.export.export` gives it (training IR)\nor after `run_decompositions()` (core ATen); so do `tccc-run`, "
    "`tccc-bench` and `tccc-train`. Weights stay ranges of the file. Nothing that is\npickled is read: archives of "
    "PyTorch 2.7 and older, and tensor subclasses, are refused.\n\n* **Sizes.** Dynamic dims are symbols by "
    "PyTorch's names (`s77`; `tccc-run` prints them), with the ranges that the program was exported for; `--dim "
    "s77=8`\n  and `--shape x=8x3` fix them. PyTorch's file does not say what `Dim` called them: `tccc.compile` and "
    "`tccc.train` of a module know it,\n  and `torch.export.save(program, FILE, extra_files=tccc.dim_names(program, "
    "dynamic_shapes))` writes it for `tccc`. Integers that the data decides (`item`, `nonzero`) become symbols when "
    "they are known.\n  What the export took for granted of sizes (`guards_code`: a branch taken, a rounded part of a "
    "size) "
    "is checked at each call, as PyTorch's own\n  module does (`guard of the export: ...`); one that can't be read is "
    "told of when compiling.\n* **Memory.** A buffer that the program writes to is a state variable of the session: it "
    "lasts "
    "from run to run. What the program writes to of an input\n  is one more result, named INPUT.after. Writes in "
    "place, to views too, and tied weights mean what they mean in PyTorch.\n  What a program asserts of values\n  "
    "(`torch._assert_async`, `one_hot` under torch.compile) is checked at each call.\n* **Training.** With `--train` "
    "the "
    "parameters that require gradients are trained; others are kept, and saved with them. What the module was when "
    "it was\n  exported stays: after `model.train()`, Dropout drops and BatchNorm uses and updates statistics (and "
    "`predict` and `eval` infer); after `model.eval()`\n  both are frozen. Export the module without its loss, and "
    "name that with `--loss`. `detach` and `torch.no_grad()` stop gradients (of one\n  inside `torch.autocast` "
    "PyTorch writes nothing: put it outside); regions of `torch.autocast` have the products that they have in "
    "PyTorch;\n  `run_decompositions()` leaves them in the nodes' metadata only, by which core programs are\n  "
    "trained ([exporting.md](exporting.md)): train what `export` gives.\n* **Joint programs** of "
    "`_export_forward_backward` give the loss and a result grad.PARAMETER each.\n* **Complex tensors** (transforms "
    "of `torch.fft`, `torch.stft`) are pairs of floats inside; what ops do with them says "
    "`compiler/pt2/complex.def`, others refuse them.\n  As inputs, results, "
    "parameters and buffers they have one "
    "more axis, the last, of real and imaginary part: what `torch.view_as_real` gives. They are written to in place "
    "as others are, by way of `real`, `imag` and `view_as_real` too; not through a conjugated one. Graphs inside a "
    "graph neither take nor give them. `--train` differentiates them, transforms too (tests/pt2/grads.py); under "
    "torch.compile PyTorch's own gradient is compiled, where no complex value is kept for it.\n* **Linear algebra**: "
    "`torch.linalg`'s solvers, factors, eigenvalues of symmetric matrices and singular values are library ops, for "
    "small dense matrices: in doubles, with one thread. A matrix that is singular, or not positive definite, is an "
    "error of the run where PyTorch checks it. What is not there of it is said below.\n* **Random numbers** are "
    "other ones than PyTorch's, of the same distribution.\n\nAn argument "
    "that an op does not read here refuses the "
    "node; all that is refused is said in one message, with the line of the Python program.\n";

static int by_aten_name(const void *a, const void *b)
{
    return strcmp(((const struct aten_doc *)a)->name, ((const struct aten_doc *)b)->name);
}

static void write_aten_names(FILE *out, const struct aten_doc *rows, size_t n, int core)
{
    size_t width = 0;
    for (size_t k = 0; k < n; k++) {
        if (rows[k].flags != core)
            continue;
        width += strlen(rows[k].name) + 3;
        fprintf(out, "%s`%s`", width == strlen(rows[k].name) + 3 ? "" : width > 150 ? "\n" : " ", rows[k].name);
        width = width > 150 ? strlen(rows[k].name) + 4 : width;
    }
    fputc('\n', out);
}

static void write_pt2(FILE *out)
{
    struct aten_doc rows[sizeof aten_rows / sizeof *aten_rows];
    size_t n = sizeof aten_rows / sizeof *aten_rows;

    memcpy(rows, aten_rows, sizeof rows);
    qsort(rows, n, sizeof *rows, by_aten_name);
    fputs(pt2_intro, out);
    fputs("\n## Core ATen\n\n", out);
    write_aten_names(out, rows, n, 1);
    fputs("\n## Others\n\n", out);
    write_aten_names(out, rows, n, 0);
    fputs("\n## What is not there\n\nMade of `compiler/pt2/absent.def`, whose words a refused node is told too; each "
          "op of ATen "
          "that PyTorch has stands here or above\n(`tests/pt2/absent.py`). `*` stands for any letters.\n\n| ops | why, "
          "or what to do "
          "|\n| --- | --- |\n",
          out);
    for (size_t k = 0; k < sizeof absent / sizeof *absent; k++) {
        fputs("| ", out);
        for (const char *at = absent[k].patterns; *at; at += strspn(at, " ")) {
            int length = (int)strcspn(at, " ");
            fprintf(out, "%s`%.*s`", at == absent[k].patterns ? "" : " ", length, at);
            at += length;
        }
        fprintf(out, " | %s |\n", absent[k].words);
    }
}

/* -- doc/environment.md */

enum { OPT_NONE = NOPTIONS };

/* An option of the vendor's compiler, and what becomes of it. */
static void write_flag(FILE *out, const char *name, const char *action, int id, const char *text)
{
    const struct option_row *row = id < NOPTIONS ? &option_table[id] : NULL;
    const char *option = !row ? "" : *row->long_name ? row->long_name : "-O";

    fprintf(out, "| `--%s` | ", name);
    if (!strcmp(action, "PASS"))
        fprintf(out, "`%s%s`", *option == '-' ? "" : "--", option);
    else if (!strcmp(action, "OFF"))
        fprintf(out, "takes `--%s` back", option);
    else if (!strcmp(action, "NOTHING"))
        fprintf(out, "changes nothing, with a warning: %s", text);
    else
        fprintf(out, "%s", *text ? text : "must be what `--target` says");
    fputs(" |\n", out);
}

static void write_neuron_environment(FILE *out)
{
    static const struct {
        const char *name, *action;
        int option;
        const char *text;
    } flags[] = {
#define FLAG(name, short_name, argument, action, option, text) {name, #action, OPT_##option, text},
#include "tools/neuron/cc.def"
    };
    static const struct {
        const char *name, *values, *meaning;
    } neuron[] = {
#define VARIABLE(name, answer, text) {#name, #answer, text},
#include "tools/neuron/env.def"
    };

    fprintf(out, "\n## Neuron's\n\nVariables of the vendor's runtime, compiler and PyTorch integration "
                 "(`tools/neuron/env.def`). Those that are not read are answered: a tool that "
                 "finds one set says in a warning what does\nthe same. Any other NEURON_RT_ variable is a warning, "
                 "too. *Compiling*: tools that compile with `--target=neuron:...` read it.\n\n"
                 "| variable | read | |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof neuron / sizeof *neuron; i++)
        fprintf(out, "| `%s` | %s | %s |\n", neuron[i].name,
                !strcmp(neuron[i].values, "READ")       ? "yes"
                : !strcmp(neuron[i].values, "COMPILED") ? "compiling"
                                                        : "no",
                neuron[i].meaning);
    fputs("\nOf `NEURON_CC_FLAGS`, by `tools/neuron/cc.def`:\n\n| option | here |\n| --- | --- |\n", out);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        write_flag(out, flags[i].name, flags[i].action, flags[i].option, flags[i].text);
}

static void write_environment(FILE *out)
{
    static const struct {
        const char *name, *values, *meaning;
    } rows[] =
        {
#define ENV(name, kind, values, meaning) {#name, values, meaning},
#include "base/env.def"
        },
      theirs[] = {
#define ENV(name, kind, values, meaning)
#define THEIRS(name, whose, meaning) {#name, whose, meaning},
#include "base/env.def"
      };

    fprintf(out, "# Environment variables\n\nMade of `base/env.def` by `make update-docs`; don't edit.\n\n"
                 "| variable | values | meaning |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fprintf(out, "| `%s` | `", rows[i].name);
        cell(out, rows[i].values);
        fputs("` | ", out);
        cell(out, rows[i].meaning);
        fputs(" |\n", out);
    }
    fputs(
        "\n## Others'\n\nOf launchers, libraries and the system: which process is which rank "
        "([distributed.md](distributed.md)), where files go.\n\n| variable | whose | meaning |\n| --- | --- | --- |\n",
        out);
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        fprintf(out, "| `%s` | %s | ", theirs[i].name, theirs[i].values);
        cell(out, theirs[i].meaning);
        fputs(" |\n", out);
    }
    write_neuron_environment(out);
    fprintf(out, "\nAn unknown value is an error: exit status 2 of every tool, `TCC_EUSAGE` with a message of "
                 "`tccrt_comm_init()` and\n"
                 "`trace_new()`. An empty variable is as one that is not set.\n");
}

/* Has the function in Python a parameter of its own for it, which takes more than the option's text? */
static bool has_parameter(const char *name)
{
    static const char *const names[] = {"dims", "shapes", "loss", "optimizer"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* For type checkers: the keyword arguments of tccc.compile() and tccc.train() that are options, and those of load(),
 * which they take too. */
static void write_python(FILE *out)
{
    static const char *const types[] = {
        [TCCC_TEXT] = "str",   [TCCC_LIST] = "Sequence[str]", [TCCC_FLAG] = "bool",
        [TCCC_INT] = "int",    [TCCC_LONG] = "int",           [TCCC_SIZE] = "int",
        [TCCC_REAL] = "float", [TCCC_LIMIT] = "float",        [TCCC_SET] = "Union[bool, str]"};

    fputs("# SPDX-License-Identifier: Apache-2.0\n"
          "# Made of base/options.def.\n"
          "from typing import Optional, Sequence, Union\n"
          "from typing_extensions import TypedDict\n\n"
          "class LoadOptions(TypedDict, total=False):\n"
          "    threads: int\n"
          "    device: Optional[str]\n"
          "    seed: int\n"
          "    sim: Optional[str]\n"
          "    rounding: Optional[str]\n"
          "    profile: bool\n\n"
          "class Options(LoadOptions, total=False):\n"
          "    reproducer: Optional[str]\n"
          "    group: Optional[str]\n",
          out);
    for (int i = 0; i < tccc_nfields; i++)
        if (tccc_fields[i].uses & TCCC_ARGUMENT && !has_parameter(tccc_fields[i].name))
            fprintf(out, "    %s: Optional[%s]\n", tccc_fields[i].name, types[tccc_fields[i].type]);
}

static const struct {
    const char *name;
    void (*write)(FILE *out);
} documents[] = {
    {"bash", options_bash},
    {"zsh", options_zsh},
    {"fish", options_fish},
    {"passes", write_passes},
    {"ops", write_ops},
    {"onnx", write_onnx},
    {"pt2", write_pt2},
    {"gradients", write_gradients},
    {"environment", write_environment},
    {"python", write_python},
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
    fprintf(stderr, "usage: mkdoc man TOOL | bash | zsh | fish | passes | ops | onnx | pt2 | gradients | environment | "
                    "python\n");
    return 2;
}
