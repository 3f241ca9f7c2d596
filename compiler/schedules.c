/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedules.c - a table of schedules (tccc --schedules, written by tccc --tune): a line a kernel, which a person may
 * read, change and commit.
 *
 *     # comment
 *     sm_90a 0123456789abcdef wgmma(threads=384, bm=128, bn=256, bk=64, stages=4)   # comment
 *
 * Machine, digest of the kernel (kn_digest_meaning, 16 hexadecimal digits), template and parameters as in
 * --dump-ir=kernels. Of two lines for one kernel the last counts.
 */
#include "compiler/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SCHEDULES = 1 << 16 };

static const char *word(struct ir_ctx *ctx, char **at)
{
    char *from = *at + strspn(*at, " \t"), *end = from;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    *at = end;
    return end > from ? ir_internf(ctx, "%.*s", (int)(end - from), from) : NULL;
}

static bool takes(char **at, char c)
{
    *at += strspn(*at, " \t");
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool number(char **at, int64_t *n)
{
    char *end;
    *at += strspn(*at, " \t");
    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *n = strtoll(*at, &end, 10);
    *at = end;
    return !errno;
}

/* (key=value, ...), or nothing. */
static bool read_params(struct ir_ctx *ctx, char **at, struct kn_schedule *s)
{
    if (!takes(at, '('))
        return true;
    while (!takes(at, ')')) {
        struct kn_param *p = &s->params[s->nparams];
        if (s->nparams == KN_MAX_PARAMS || (s->nparams && !takes(at, ',')) || !(p->key = word(ctx, at)) ||
            !takes(at, '=') || !number(at, &p->value))
            return false;
        s->nparams++;
    }
    return true;
}

static bool read_line(struct ir_ctx *ctx, char *line, struct pass_override *p)
{
    char *at = line, *end;
    const char *digest;
    *p = (struct pass_override){0};
    if (!(p->arch = word(ctx, &at)) || !(digest = word(ctx, &at)) || strlen(digest) != 16)
        return false;
    p->kernel = strtoull(digest, &end, 16);
    return !*end && (p->schedule.how = word(ctx, &at)) && read_params(ctx, &at, &p->schedule) &&
           !at[strspn(at, " \t\r\n")];
}

const struct pass_overrides *target_schedules(struct ir_ctx *ctx, const char *path)
{
    struct pass_overrides *list = IR_NEW(ctx, struct pass_overrides);
    VEC(struct pass_override) overrides = {0};
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return ir_error(ctx, NULL, "cannot open '%s': %s", ir_shown(path), strerror(errno)), NULL;
    bool ok = true;
    for (int n = 1; ok && getline(&line, &room, f) > 0; n++) {
        struct pass_override p;
        line[strcspn(line, "#")] = 0;
        if (!line[strspn(line, " \t\r\n")])
            continue;
        ok = read_line(ctx, line, &p) && overrides.n < MOST_SCHEDULES;
        if (!ok)
            ir_error(ctx, &(struct ir_where){.file = path, .line = n},
                     "expected MACHINE DIGEST TEMPLATE(key=value, ...), as tccc --tune writes it");
        else
            VEC_PUSH(ctx, overrides, p);
    }
    fclose(f);
    free(line);
    for (int i = 0; i < overrides.n / 2; i++) { /* the last of several is found first */
        struct pass_override p = overrides.at[i];
        overrides.at[i] = overrides.at[overrides.n - 1 - i];
        overrides.at[overrides.n - 1 - i] = p;
    }
    *list = (struct pass_overrides){overrides.n, overrides.at};
    return ok ? list : NULL;
}
