/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - words of the text form that printers share: identifiers and quoted strings. */
#include <ctype.h>

#include "ir/ir_int.h"

bool
ir_is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.')
            return false;
    }
    return true;
}

void
ir_print_bytes(FILE *out, const char *s, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void
ir_print_string(FILE *out, const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    ir_print_bytes(out, s, n);
}
