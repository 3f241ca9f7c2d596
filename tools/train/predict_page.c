/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-train predict --format=html: one page that needs no other file; pictures are in it as they lie on the disk. */
#include "tools/train/predict_int.h"

#include <string.h>

#include "tools/html/html_int.h"

enum { MOST_SAMPLES = 2000, MOST_PICTURE = 256 << 10, MOST_PICTURES = 20 << 20 };

static const char style[] =
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222}h1{font-size:1.3em}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #ddd;padding:4px 10px;"
    "text-align:left;vertical-align:middle}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "img{max-width:96px;max-height:96px;display:block}.b{background:#4a7;height:4px}";

/* What browsers show, by the file's first bytes. */
static const char *media_type(const struct data_file *f)
{
    static const struct {
        const char *begin, *type;
        size_t n;
    } types[] = {{"\xff\xd8\xff", "image/jpeg", 3},
                 {"\x89PNG", "image/png", 4},
                 {"BM", "image/bmp", 2},
                 {"RIFF", "image/webp", 4}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (f->size > types[i].n && !memcmp(f->bytes, types[i].begin, types[i].n))
            return types[i].type;
    return NULL;
}

static void base64(FILE *out, const unsigned char *s, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)s[i] << 16 | (i + 1 < n ? (unsigned)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0);
        fputc(digits[v >> 18], out);
        fputc(digits[v >> 12 & 63], out);
        fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', out);
        fputc(i + 2 < n ? digits[v & 63] : '=', out);
    }
}

/* Of a file that is small enough for a page, and of which browsers know the kind. */
static void picture(FILE *out, const char *path, size_t *left)
{
    char error[ERROR_SIZE];
    struct data_file *f = path ? data_map(path, error) : NULL;
    const char *type = f ? media_type(f) : NULL;

    fputs("<td>", out);
    if (type && f->size <= MOST_PICTURE && f->size <= *left) {
        *left -= f->size;
        fprintf(out, "<img alt=\"\" src=\"data:%s;base64,", type);
        base64(out, f->bytes, f->size);
        fputs("\">", out);
    }
    fputs("</td>", out);
    if (f)
        data_unref(f);
}

static void row(FILE *out, const struct predictions *p, int64_t i, bool pictures, size_t *left)
{
    int64_t sample = i / p->tokens;
    char text[64];

    fputs("<tr>", out);
    if (pictures)
        picture(out, data_set_name(p->results->data, sample), left);
    fputs("<td>", out);
    html_escape(out, predict_sample(p, sample, text));
    fputs("</td>", out);
    if (p->tokens > 1)
        fprintf(out, "<td class=\"n\">%lld</td>", (long long)(i % p->tokens + 1));
    for (int k = 0; k < p->each; k++) {
        const struct predicted *x = &p->at[i * p->each + k];
        if (p->classes) {
            fputs("<td>", out);
            html_escape(out, predict_class(x, text));
            fprintf(out, "</td><td class=\"n\">%.1f %%<div class=\"b\" style=\"width:%.0fpx\"></div></td>",
                    100 * x->value, 60 * x->value);
        } else {
            fprintf(out, "<td class=\"n\">%.7g</td>", x->value);
        }
    }
    fputs("</tr>\n", out);
}

void predict_page(FILE *out, const struct predictions *p)
{
    int64_t most = p->tokens < MOST_SAMPLES ? MOST_SAMPLES / p->tokens : 1;
    int64_t shown = p->samples < most ? p->samples : most;
    bool pictures = data_set_name(p->results->data, 0) != NULL;
    size_t left = MOST_PICTURES;
    char text[PREDICT_TEXT];

    fprintf(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Predictions</title><style>%s</style>"
        "</head><body>\n<h1>Predictions</h1>\n<p>%lld samples%s</p>\n<table><tr>%s<th>sample</th>%s",
        style, (long long)p->samples, shown < p->samples ? "; the first ones are shown" : "",
        pictures ? "<th></th>" : "", p->tokens > 1 ? "<th>token</th>" : "");
    for (int k = 0; k < p->each; k++) {
        fputs("<th>", out);
        predict_head(p, k, text);
        html_escape(out, text);
        fputs(p->classes ? "</th><th>probability</th>" : "</th>", out);
    }
    fputs("</tr>\n", out);
    for (int64_t i = 0; i < shown * p->tokens; i++)
        if (!predict_pads(p, i))
            row(out, p, i, pictures, &left);
    fputs("</table>\n</body></html>\n", out);
}
