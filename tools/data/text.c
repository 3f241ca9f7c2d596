/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to train language models on: one list of bytes or of tokens, cut into samples by length=, stride= and offset=.
 * Bytes are used where they lie in the mapping; tokens are made when the file is opened, 4 bytes each. Without NAME=
 * the input 'target' gets the element after each.
 */
#include "tools/data/data_int.h"

#include <stdlib.h>
#include <string.h>

static bool bytes(struct data_request *q, const struct data_options *o, struct data_array *out, char *error)
{
    *out = (struct data_array){.scale = 1,
                               .std = 1,
                               .dtype = TCC_U8,
                               .rank = 1,
                               .dims = {(int64_t)q->file->size},
                               .windows = true,
                               .at = q->file->bytes};
    snprintf(out->name, sizeof out->name, "%.250s", q->path);
    if (!data_apply(q->path, o, q->info, out, error))
        return false;
    out->file = q->file;
    q->file->refs++;
    return true;
}

static bool tokens(struct data_request *q, const struct data_options *o, struct data_array *out, char *error)
{
    struct data_bpe *b = data_bpe_open(o->tokens, error, &q->code);
    uint32_t *ids = NULL;
    size_t n = 0;
    char why[ERROR_SIZE];
    bool ok = b && data_table_tokens(q->path, o->table, data_bpe_digest(b), o->tokens, error), fits = ok;

    if (ok && o->table)
        o->table->vocabulary = data_bpe_size(b);
    ok = ok && data_bpe_encode(b, q->file->bytes, q->file->size, &ids, &n, why);

    if (fits && !ok)
        snprintf(error, ERROR_SIZE, "%s: %.800s", q->path, why);
    data_bpe_free(b);
    if (!ok) {
        free(ids);
        return false;
    }
    *out =
        (struct data_array){.scale = 1, .std = 1, .dtype = TCC_U32, .rank = 1, .dims = {(int64_t)n}, .windows = true};
    snprintf(out->name, sizeof out->name, "%.250s", q->path);
    out->file = data_take((unsigned char *)ids, n * sizeof *ids, error);
    out->at = out->file ? out->file->bytes : NULL;
    if (out->file && data_apply(q->path, o, q->info, out, error))
        return true;
    data_release(out);
    return false;
}

bool data_open_text(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    struct data_options o = *q->o;

    *found = q->named || (q->info->rank == 2 && tcc_is_int((enum tcc_dtype)q->info->dtype));
    if (!*found)
        return false;
    if (!q->file)
        return put_error(error, "%s: a folder; expected a file of text", q->path);
    o.offset += !q->named && !strcmp(q->info->name, "target");
    if (o.tokens && strcmp(o.tokens, "bytes") != 0)
        return tokens(q, &o, out, error);
    if (o.table)
        o.table->vocabulary = 256;
    return data_table_tokens(q->path, o.table, NULL, NULL, error) && bytes(q, &o, out, error);
}
