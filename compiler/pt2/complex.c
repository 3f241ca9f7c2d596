/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Complex tensors. The IR has none: each is a tensor of floats with one more axis, the last, of real and imaginary
 * part.
 *
 * Most ops need not know. One that moves or adds elements is built twice, with the real parts of its operands and with
 * the imaginary ones; a product once for each pair of parts; complex.def says which are of which kind, and what is in
 * no row refuses complex operands. While parts are built, p->part says which part of a complex operand pt2_t() and its
 * like give.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

enum way { LINEAR, BILINEAR, LEFT, FILLED, BOTH, WHOLE };

static const struct complex_row {
    const char *name;
    enum way way;
    bool (*build)(struct pt2 *p);
} rows[] = {
#define COMPLEX(name, way) {name, way, NULL},
#define COMPLEX_BY(name, way, function) {name, way, function},
#include "compiler/pt2/complex.def"
};

bool pt2_meta_complex(const json_t *meta)
{
    return meta && pt2_part_type(meta) != TCC_NONE;
}

static json_t *argument(const struct pt2 *p, size_t k)
{
    return json_object_get(json_array_get(js_array(p->at.node, "inputs"), k), "arg");
}

static bool named_complex(struct pt2 *p, const char *name)
{
    struct pt2_value *v = name ? pt2_lookup(p, name) : NULL;
    return v && v->complex;
}

static bool names_complex(struct pt2 *p, json_t *argument)
{
    return named_complex(p, pt2_name_of(argument));
}

/* Is this argument, or an element of this list, complex? */
static bool is_complex(struct pt2 *p, json_t *argument)
{
    json_t *value, *item;
    size_t k;
    const char *kind = js_union(argument, &value);
    bool any = names_complex(p, argument) || (kind && !strcmp(kind, "as_complex"));
    if (kind && json_is_array(value)) {
        json_array_foreach(value, k, item) any =
            any || named_complex(p, js_string(item, "name")) || names_complex(p, item);
    }
    return any;
}

bool pt2_is_complex(struct pt2 *p, const char *name)
{
    json_t *inputs = js_array(p->at.node, "inputs"), *input;
    size_t k;
    json_array_foreach(inputs, k, input)
    {
        const char *called = js_string(input, "name");
        if (called && !strcmp(called, name))
            return is_complex(p, json_object_get(input, "arg"));
    }
    return false;
}

bool pt2_out_complex(struct pt2 *p, int k)
{
    const char *name = pt2_out_name(p, k);
    return name && pt2_meta_complex(pt2_meta(p, name));
}

bool pt2_reads_complex(struct pt2 *p)
{
    size_t n = json_array_size(js_array(p->at.node, "inputs"));
    bool any = false;
    for (size_t k = 0; k < n; k++)
        any = any || is_complex(p, argument(p, k));
    return any;
}

struct ir_value *pt2_operand_part(struct pt2 *p, struct ir_value *v, bool complex, int position)
{
    enum pt2_part part = p->part[position > 0];
    if (!v || part == PT2_WHOLE)
        return v;
    if (complex)
        return pt2_part(p, v, part == PT2_IMAGINARY);
    if (!p->zeros || part != PT2_IMAGINARY)
        return v;
    return imp_expand(p->im, imp_like(p->im, v, 0), imp_rank(v), v->type->dim);
}

static const struct complex_row *find(const struct aten_row *row)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t n = strlen(rows[k].name);
        if (!strncmp(row->name, rows[k].name, n) && (!row->name[n] || row->name[n] == '.'))
            return &rows[k];
    }
    return NULL;
}

/* The results of the op on these parts of its first operand and of the others. NULL after a message. */
static struct ir_value **build_parts(struct pt2 *p, const struct aten_row *row, enum pt2_part first,
                                     enum pt2_part others)
{
    struct ir_value **outs = p->at.outs, **made = IR_NEWN(p->ctx, p->nouts + 1, struct ir_value *);
    p->part[0] = first;
    p->part[1] = others;
    p->at.outs = made;
    bool fine = row->build(p);
    p->at.outs = outs;
    p->part[0] = p->part[1] = PT2_WHOLE;
    return fine ? made : NULL;
}

static bool set_pairs(struct pt2 *p, struct ir_value **re, struct ir_value **im)
{
    bool fine = re && im;
    for (int k = 0; fine && k < p->nouts; k++) {
        if (re[k] && im[k] && !pt2_out_complex(p, k))
            return imp_unsupported(p->im, "a conversion from complex numbers to real ones");
        if (re[k] && im[k])
            fine = (p->at.outs[k] = pt2_pair(p, re[k], im[k])) != NULL;
    }
    return fine;
}

/* (a + bi)(c + di) = ac - bd + (ad + bc)i; with one real operand only two of the products are there. */
static bool build_product(struct pt2 *p, const struct aten_row *row)
{
    bool equation = pt2_is_complex(p, "tensors"); /* einsum: one list */
    json_t *value, *item;
    size_t k, n = 0, first_complex = 0, others_complex = 0;
    if (equation) {
        json_t *list = argument(p, 1);
        js_union(list, &value);
        json_array_foreach(value, k, item)
        {
            bool complex = named_complex(p, js_string(item, "name"));
            first_complex |= complex && k == 0;
            others_complex += complex && k > 0;
            n++;
        }
        if (n > 2)
            return imp_unsupported(p->im, "a product of more than two complex tensors");
    } else {
        first_complex = is_complex(p, argument(p, 0));
        others_complex = is_complex(p, argument(p, 1));
    }
    if (!first_complex || !others_complex) {
        enum pt2_part re = PT2_REAL, im = PT2_IMAGINARY;
        struct ir_value **a = build_parts(p, row, re, re);
        return a && set_pairs(p, a, build_parts(p, row, first_complex ? im : re, others_complex ? im : re));
    }
    struct ir_value **ac = build_parts(p, row, PT2_REAL, PT2_REAL),
                    **bd = ac ? build_parts(p, row, PT2_IMAGINARY, PT2_IMAGINARY) : NULL;
    struct ir_value **ad = bd ? build_parts(p, row, PT2_REAL, PT2_IMAGINARY) : NULL,
                    **bc = ad ? build_parts(p, row, PT2_IMAGINARY, PT2_REAL) : NULL;
    if (!bc || !ac[0] || !bd[0] || !ad[0] || !bc[0])
        return false;
    struct ir_value *sum = imp_bin(p->im, IR_add, ad[0], bc[0]);
    p->at.outs[0] = pt2_pair(p, imp_bin(p->im, IR_sub, ac[0], bd[0]), sum);
    return p->at.outs[0] != NULL;
}

bool pt2_parts_of(struct pt2 *p, const char *name, struct ir_value *part[2])
{
    int n = pt2_is_complex(p, name) ? 2 : 1;
    bool number, fine = true;
    part[1] = NULL;
    for (int k = 0; k < n && fine; k++) {
        p->part[0] = p->part[1] = n == 1 ? PT2_WHOLE : k ? PT2_IMAGINARY : PT2_REAL;
        part[k] = pt2_operand(p, name, &number);
        part[k] = part[k] ? imp_cast(p->im, part[k], pt2_out_type(p, 0)) : NULL;
        fine = part[k] != NULL;
    }
    p->part[0] = p->part[1] = PT2_WHOLE;
    return fine;
}

/* (a + bi) / (c + di) = (ac + bd + (bc - ad)i) / (cc + dd), b NULL: 0. All are divided by the larger of |c| and |d|
 * first, so that squares neither overflow nor vanish. */
static bool divide(struct pt2 *p, struct ir_value *a, struct ir_value *b, struct ir_value *c, struct ir_value *d)
{
    struct imp *im = p->im;
    struct ir_value *most = imp_formula(im, "max(abs(x), abs(y))", c, d);
    a = imp_bin(im, IR_div, a, most);
    b = b ? imp_bin(im, IR_div, b, most) : NULL;
    c = imp_bin(im, IR_div, c, most);
    d = imp_bin(im, IR_div, d, most);
    struct ir_value *imaginary =
        imp_formula(im, b ? "(y * z - x * u) / (z * z + u * u)" : "-(x * u) / (z * z + u * u)", a, b, c, d);
    p->at.outs[0] = pt2_pair(
        p, imp_formula(im, b ? "(x * z + y * u) / (z * z + u * u)" : "x * z / (z * z + u * u)", a, b, c, d), imaginary);
    return p->at.outs[0] != NULL;
}

bool aten_complex_div(struct pt2 *p)
{
    struct ir_value *a[2], *b[2];
    return pt2_parts_of(p, "self", a) && pt2_parts_of(p, "other", b) && divide(p, a[0], a[1], b[0], b[1]);
}

bool aten_complex_reciprocal(struct pt2 *p)
{
    struct ir_value *x[2];
    return pt2_parts_of(p, "self", x) && divide(p, imp_like(p->im, x[0], 1), NULL, x[0], x[1]);
}

bool pt2_complex_build(struct pt2 *p, const struct aten_row *row)
{
    const struct complex_row *c = find(row);
    enum way way = c ? c->way : LINEAR;
    json_t *value;
    const char *kind;
    if (!c && !(row->flags & ATEN_VIEW))
        return imp_unsupported(p->im, "complex operands");
    if (way == WHOLE)
        return c->build(p);
    if (way == BILINEAR)
        return build_product(p, row);
    if (way == LEFT && is_complex(p, argument(p, 1)))
        return c->build(p);
    value = way == FILLED ? pt2_arg(p, "value", &kind) : NULL;
    if (value && !(json_is_number(value) && json_number_value(value) == 0))
        return imp_unsupported(p->im, "a fill value of complex tensors");
    p->zeros = way == LINEAR || way == FILLED || way == BOTH;
    struct ir_value **re = build_parts(p, row, PT2_REAL, PT2_REAL),
                    **im = re ? build_parts(p, row, PT2_IMAGINARY, PT2_IMAGINARY) : NULL;
    p->zeros = false;
    if (way == BOTH)
        return im && pt2_out(p, 0, imp_bin(p->im, row->arg == IR_ne ? IR_or : IR_and, re[0], im[0]));
    return set_pairs(p, re, im);
}
