/* SPDX-License-Identifier: Apache-2.0 */
/* roles_int.h - the table of forms (roles.c), for those in ir/ that go over it. */
#ifndef TCC_ROLES_INT_H
#define TCC_ROLES_INT_H

#include "ir/ir_int.h"

/* Where a role stands in struct kn_roles, in ints, and how many of it there are. The last row has no name. */
struct kn_role_row { enum kn_role_kind kind; const char *name; int at, n; };
struct kn_form_row {
    const char *name;
    const struct kn_role_row *roles;
    /* Is the kernel of the form? Then it fills in the roles, all of which are -1. */
    bool (*find)(const struct kn_kernel *k, struct kn_roles *r);
};
extern const struct kn_form_row kn_forms[KN_NFORMS];     /* that of KN_NO_FORM is empty */

/* Do two loads or stores access the same element of the same operand, guards aside? */
bool kn_same_element(const struct kn_insn *a, const struct kn_insn *b);
/* What the instruction is a cast of, or it. */
int kn_without_casts(const struct kn_kernel *k, int insn);
int *kn_role(struct kn_roles *r, const struct kn_role_row *row, int i);
/* Is the part played, by that number, or by any of that set? */
bool kn_role_is_played(const struct kn_role_row *row, int is);

bool kn_find_contraction(const struct kn_kernel *k, struct kn_roles *r);        /* contraction.c */
bool kn_find_attention(const struct kn_kernel *k, struct kn_roles *r);          /* attention.c */
bool kn_find_attention_grad(const struct kn_kernel *k, struct kn_roles *r);
bool kn_find_winograd(const struct kn_kernel *k, struct kn_roles *r);           /* winograd.c */
bool kn_find_scatter(const struct kn_kernel *k, struct kn_roles *r);            /* scatter.c */
bool kn_find_reduction(const struct kn_kernel *k, struct kn_roles *r);
bool kn_find_softmax(const struct kn_kernel *k, struct kn_roles *r);            /* softmax.c */

#endif
