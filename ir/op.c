/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - the op table, from ops.def and scalar.def, and the attribute keys, from attrs.def. */
#include <string.h>

#include "ir/ir_int.h"

#define A(x) IR_ATTR_##x
#define AT0 NONE_LIST
#define AT1(a) LIST(A(a))
#define AT2(a, b) LIST(A(a), A(b))
#define AT3(a, b, c) LIST(A(a), A(b), A(c))
#define AT4(a, b, c, d) LIST(A(a), A(b), A(c), A(d))
#define AT5(a, b, c, d, e) LIST(A(a), A(b), A(c), A(d), A(e))
#define AT6(a, b, c, d, e, f) LIST(A(a), A(b), A(c), A(d), A(e), A(f))
#define AT7(a, b, c, d, e, f, g) LIST(A(a), A(b), A(c), A(d), A(e), A(f), A(g))
#define AT8(a, b, c, d, e, f, g, h) LIST(A(a), A(b), A(c), A(d), A(e), A(f), A(g), A(h))
#define NONE_LIST              \
    (const enum ir_attr_key[]) \
    {                          \
        IR_ATTR_NONE           \
    }
#define LIST(...)                 \
    (const enum ir_attr_key[])    \
    {                             \
        __VA_ARGS__, IR_ATTR_NONE \
    }

#define OP(name, kind, nmin, nmax, nout, attrs, infer, interp, flags, doc) \
    bool infer_##infer(struct ir_ctx *ctx, struct ir_node *n);
#include "ir/ops.def"
bool infer_map(struct ir_ctx *ctx, struct ir_node *n);

/* Only `cast` has attributes among the scalar ops. */
#define MAP_ATTRS_SAME NONE_LIST
#define MAP_ATTRS_FLOAT NONE_LIST
#define MAP_ATTRS_COMPARE NONE_LIST
#define MAP_ATTRS_TEST NONE_LIST
#define MAP_ATTRS_LOGIC NONE_LIST
#define MAP_ATTRS_SELECT NONE_LIST
#define MAP_ATTRS_CAST AT3(to, saturate, round_mode)

static const struct ir_op_info table[IR_NOPS] = {
    [IR_OP_NONE] = {.name = "none", .attrs = NONE_LIST},
#define OP(name, kind, nmin, nmax, nout, attrs, infer, interp, flags, doc) \
    [IR_##name] = {#name, IR_K_##kind, nmin, nmax, nout, attrs, infer_##infer, flags, doc},
#include "ir/ops.def"
#define SCALAR(name, nargs, types, flags, body, doc) \
    [IR_##name] = {#name, IR_K_MAP, nargs, nargs, 1, MAP_ATTRS_##types, infer_map, flags, doc},
#include "ir/scalar.def"
};

static const struct {
    const char *name;
    enum ir_attr_kind kind;
} keys[IR_NATTRS] = {
    [IR_ATTR_NONE] = {"none", IR_A_INT},
#define ATTR(name, kind, doc) [IR_ATTR_##name] = {#name, IR_A_##kind},
#include "ir/attrs.def"
};

const struct ir_op_info *ir_op_info(enum ir_op op)
{
    return &table[(unsigned)op < IR_NOPS ? op : IR_OP_NONE];
}

enum ir_op ir_op_by_name(const char *name)
{
    for (int op = 1; op < IR_NOPS; op++) {
        if (strcmp(table[op].name, name) == 0)
            return op;
    }
    return IR_OP_NONE;
}

const char *ir_kind_name(enum ir_kind kind)
{
    static const char *const names[] = {
#define X(k) #k,
        IR_KINDS(X)
#undef X
    };
    return (unsigned)kind < IR_NKINDS ? names[kind] : "?";
}

bool ir_operand_optional(enum ir_op op, int i)
{
    if (op == IR_lib || (op == IR_loop && i < 2))
        return true;
    return table[op].nin_max >= 0 && i >= table[op].nin_min;
}

bool ir_attr_allowed(enum ir_op op, enum ir_attr_key key)
{
    for (const enum ir_attr_key *k = table[op].attrs; *k != IR_ATTR_NONE; k++) {
        if (*k == key)
            return true;
    }
    return false;
}

const char *ir_attr_name(enum ir_attr_key key)
{
    return keys[key].name;
}

enum ir_attr_kind ir_attr_key_kind(enum ir_attr_key key)
{
    return keys[key].kind;
}

enum ir_attr_key ir_attr_by_name(const char *name)
{
    for (int k = 1; k < IR_NATTRS; k++) {
        if (strcmp(keys[k].name, name) == 0)
            return k;
    }
    return IR_ATTR_NONE;
}

const char *ir_attr_kind_name(enum ir_attr_kind kind)
{
    static const char *const names[] = {
        [IR_A_INT] = "int",       [IR_A_FLOAT] = "float",   [IR_A_INTS] = "ints",       [IR_A_EXPR] = "expr",
        [IR_A_EXPRS] = "exprs",   [IR_A_STRING] = "string", [IR_A_STRINGS] = "strings", [IR_A_FLOATS] = "floats",
        [IR_A_TENSOR] = "tensor", [IR_A_DTYPE] = "dtype",   [IR_A_TYPES] = "types"};
    return names[kind];
}
