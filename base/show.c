/* SPDX-License-Identifier: Apache-2.0 */
/* Text from files as messages show it: nothing in it moves a cursor, begins a line or turns the writing direction. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/safe.h"

/* The character at s: its bytes, 0 where they are no UTF-8 (RFC 3629: no surrogates, no longer form than needed). */
static int decode(const unsigned char *s, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *s < 0x80 ? 1 : (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : (*s & 0xf8) == 0xf0 ? 4 : 0;

    *code = n == 1 ? *s : *s & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3f);
    }
    return n && *code >= least[n] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff) ? n : 0;
}

/* Marks that begin a line or turn the direction of what follows (Unicode 15.1, Bidi_Control; line and paragraph
 * separator). */
static bool is_mark(uint32_t c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           c == 0xfeff;
}

static int escape(char out[16], const unsigned char *s, int n, uint32_t code)
{
    if (n && (is_mark(code) || (code >= 0x80 && code < 0xa0)))
        return snprintf(out, 16, "\\u{%x}", (unsigned)code);
    if (*s == '\n' || *s == '\t' || *s == '\r')
        return snprintf(out, 16, "\\%c", *s == '\n' ? 'n' : *s == '\t' ? 't' : 'r');
    return snprintf(out, 16, "\\x%02x", *s);
}

bool tcr_unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        if (*s == '\\') {
            char hex[3] = {s[1] == 'x' ? s[2] : '\0', s[1] == 'x' && s[2] ? s[3] : '\0', '\0'}, *end;
            *to = (char)strtoul(hex, &end, 16);
            if (end != hex + 2 || !*to++)
                return false;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
    return true;
}

int tcr_plain(const char *s)
{
    uint32_t c;
    int n = decode((const unsigned char *)s, &c);

    return n && !is_mark(c) && c >= 0x20 && (c < 0x7f || c >= 0xa0) ? n : 0;
}

void tcr_print_json(FILE *out, const char *s)
{
    uint32_t c;

    fputc('"', out);
    for (int n; *s; s += n ? n : 1) {
        n = decode((const unsigned char *)s, &c);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (tcr_plain(s))
            fwrite(s, 1, (size_t)n, out);
        else
            fprintf(out, "\\u%04x", n ? (unsigned)c : 0xfffd); /* all that is not plain is below 0x10000 */
    }
    fputc('"', out);
}

size_t tcr_show(char *to, size_t size, const char *text, bool lines)
{
    size_t used = 0;
    bool full = !size;

    if (size)
        to[0] = '\0';
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        uint32_t code;
        char escaped[16];
        int n = decode(s, &code), step = n ? n : 1, bytes = n;
        const char *from = (const char *)s;

        if (!tcr_plain((const char *)s) && !(lines && *s == '\n')) {
            bytes = escape(escaped, s, n, code);
            from = escaped;
        }
        full = full || used + (size_t)bytes >= size;
        if (!full) {
            memcpy(to + used, from, (size_t)bytes);
            to[used + (size_t)bytes] = '\0';
        }
        used += (size_t)bytes;
        s += step;
    }
    return used;
}
