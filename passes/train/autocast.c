/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which type each op runs in: autocast.def, and files of the user's.
 *
 * A file holds lines `lower|float32|promote NAME...`, blank lines, and comments from # on. A NAME is an operator of the
 * source model (Conv), an op (matmul), a kind (REDUCE), or node:PATTERN for nodes of the source model by name, * and ?
 * as in a shell. The first line that fits decides; what no line names goes by the table.
 */
#include "passes/train/autocast_int.h"
#include "base/safe.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct ir_where nowhere;

static bool known_name(const char *name)
{
    if (ir_op_by_name(name) != IR_OP_NONE)
        return true;
    for (int k = 0; k < IR_NKINDS; k++)
        if (!strcmp(ir_kind_name((enum ir_kind)k), name))
            return true;
    return isupper((unsigned char)name[0]); /* another model may have the operator */
}

static bool policy_by_name(const char *name, enum autocast_policy *policy)
{
    static const char *const names[] = {"promote", "lower", "float32"};
    for (int i = 0; i < 3; i++) {
        *policy = (enum autocast_policy)i;
        if (!strcmp(name, names[i]))
            return true;
    }
    return false;
}

struct rules {
    VEC(struct autocast_rule) at;
};

static bool read_line(struct ir_ctx *ctx, struct ir_where *where, char *line, struct rules *rules)
{
    char *save = NULL, *word;
    struct autocast_rule rule;

    line[strcspn(line, "#")] = '\0';
    word = strtok_r(line, " \t\r\n", &save);
    if (!word)
        return true;
    where->col = (int)(word - line) + 1;
    if (!policy_by_name(word, &rule.policy))
        return ir_error(ctx, where, "expected lower, float32 or promote, got '%s'", word);
    while ((word = strtok_r(NULL, " \t\r\n", &save))) {
        where->col = (int)(word - line) + 1;
        rule.node = !strncmp(word, "node:", 5);
        rule.name = ir_strdup(ctx, word + (rule.node ? 5 : 0));
        if (!rule.node && !known_name(word))
            return ir_error(ctx, where, "unknown op or category '%s'; nodes are named as node:PATTERN", word);
        VEC_PUSH(ctx, rules->at, rule);
    }
    return true;
}

static bool read_file(struct ir_ctx *ctx, const char *path, struct autocast *a)
{
    struct ir_where where = {.file = path, .line = 0};
    struct rules rules = {0};
    FILE *f = tcr_stream_input(path);
    char *line = NULL;
    size_t size = 0;
    bool good = true;

    if (!f)
        return ir_error(ctx, &nowhere, "--auto-cast=%s: expected matmul, all or a file: %s", path, strerror(errno));
    while (good && getline(&line, &size, f) > 0) {
        where.line++;
        good = read_line(ctx, &where, line, &rules);
    }
    free(line);
    fclose(f);
    VEC_GIVE(rules.at, a->rules, a->nrules);
    return good;
}

bool autocast_read(struct ir_ctx *ctx, const char *text, enum tcc_dtype type, struct autocast *a)
{
    static const char *const modes[] = {[AUTOCAST_LIST] = "list", [AUTOCAST_MATMUL] = "matmul", [AUTOCAST_ALL] = "all"};

    *a = (struct autocast){.type = type};
    if (!strcmp(text, AUTOCAST_MXFP8))
        text = modes[AUTOCAST_LIST];
    for (int i = 0; i < 3; i++) {
        a->mode = (enum autocast_mode)i;
        if (!strcmp(text, modes[i]))
            return true;
    }
    if (!strcmp(text, "matmult")) { /* as neuronx-cc spells it */
        a->mode = AUTOCAST_MATMUL;
        return true;
    }
    a->mode = AUTOCAST_LIST;
    return read_file(ctx, text, a);
}
