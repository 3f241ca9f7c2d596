/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest.c - "did you mean": the known name with the least edit distance to a mistyped one. Insertions, deletions,
 * substitutions and swaps of neighbours count one each (optimal string alignment: Damerau, "A technique for computer
 * detection and correction of spelling errors", 1964); letters that differ only in case count nothing, since no two
 * names differ by case alone.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ir/ir.h"

#define LONGEST 63 /* longer words get no suggestion */

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, int m, const char *b, int n)
{
    int row[3][LONGEST + 2], *before = row[0], *last = row[1], *now = row[2];

    for (int j = 0; j <= n; j++)
        last[j] = j;
    for (int i = 1; i <= m; i++) {
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[n];
}

void ir_nearest_try(struct ir_nearest *s, const char *name)
{
    size_t n = strlen(name);

    if (!s->length)
        s->length = strlen(s->word);
    if (!n || s->length < 2 || s->length > LONGEST || n > LONGEST)
        return;
    int limit = 1 + (int)s->length / 4, d = distance(s->word, (int)s->length, name, (int)n);
    if (d <= limit && d < (int)s->length && d < (int)n && (!s->best || d < s->distance)) {
        s->best = name;
        s->distance = d;
    }
}

const char *ir_did_you_mean(struct ir_ctx *ctx, const struct ir_nearest *s)
{
    return s->best ? ir_internf(ctx, ": did you mean '%s'?", s->best) : "";
}

void ir_known_add(struct ir_known *k, const char *name)
{
    char quoted[84];

    snprintf(quoted, sizeof quoted, "'%.80s'", name ? ir_shown(name) : "");
    size_t length = strlen(quoted);
    if (!name || strstr(k->list, quoted))
        return;
    ir_nearest_try(&k->near, name);
    k->n++;
    if (k->listed != k->n - 1 || k->used + length + 3 >= sizeof k->list)
        return;
    k->used += (size_t)snprintf(k->list + k->used, sizeof k->list - k->used, "%s%s", k->listed ? ", " : "", quoted);
    k->listed++;
}

const char *ir_known_text(struct ir_known *k)
{
    char more[24] = "";

    if (k->n > k->listed)
        snprintf(more, sizeof more, " and %d more", k->n - k->listed);
    if (!k->n)
        return "; it has none";
    if (k->near.best)
        snprintf(k->text, sizeof k->text, ": did you mean '%.63s'? It has %.299s%s", ir_shown(k->near.best), k->list,
                 more);
    else
        snprintf(k->text, sizeof k->text, "; it has %.299s%s", k->list, more);
    return k->text;
}
