/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: reports. The input is JSON that is taken for a whole report, for a compiler's facts and for a Chrome
 * trace. Whatever it says, the page is bounded, has one script, and no text in it opens or closes an element.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/html/html_int.h"

enum { MOST_BYTES = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const char *page, size_t size)
{
    const char *style = strstr(page, "<style>"), *body = strstr(page, "</style>"), *script = strstr(page, "<script");
    size_t open = 0, closed = 0;

    if (size > MOST_BYTES || !style || !body || !script || strlen(page) != size || strstr(script + 1, "<script"))
        abort();
    for (const char *c = body; c < script; c++) {
        open += *c == '<';
        closed += *c == '>';
        if (open < closed || open > closed + 1)
            abort(); /* text was taken for markup */
    }
}

static void write_page(const json_t *report)
{
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);

    if (!out)
        return;
    html_page(out, report);
    if (fclose(out) == 0)
        look(page, size);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *x = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);

    if (!x)
        return 0;
    write_page(x);
    json_t *compiled = html_compiled((const char *)data, size), *other = html_report("run", "trace", NULL);
    if (compiled)
        write_page(compiled);
    html_trace(html_section(other, "timeline", "Timeline", NULL), "Timeline", x);
    write_page(other);
    json_decref(compiled);
    json_decref(other);
    json_decref(x);
    return 0;
}
