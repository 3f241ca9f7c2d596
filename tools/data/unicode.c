/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.c - UTF-8, and what characters are: letters, numbers, spaces, marks (unicode.def, of Unicode's own files). */
#include "tools/data/data_int.h"

struct range {
    uint32_t first, last;
};

static const struct range letters[] = {
#define LETTER(first, last) {first, last},
#include "tools/data/unicode.def"
};
static const struct range numbers[] = {
#define NUMBER(first, last) {first, last},
#include "tools/data/unicode.def"
};
static const struct range composing[] = {
#define COMPOSING(first, last) {first, last},
#include "tools/data/unicode.def"
};
static const struct range marks[] = {
#define MARK(first, last) {first, last},
#include "tools/data/unicode.def"
};
static const struct range spaces[] = {{9, 13},          {32, 32},         {0x85, 0x85},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                      {0x205f, 0x205f}, {0x3000, 0x3000}};
#define IN_RANGES(list, c) in_ranges(list, sizeof list / sizeof *list, c)

static bool in_ranges(const struct range *r, size_t n, uint32_t c)
{
    size_t low = 0;

    while (low < n) {
        size_t middle = (low + n) / 2;
        if (c >= r[middle].first && c <= r[middle].last)
            return true;
        if (c < r[middle].first)
            n = middle;
        else
            low = middle + 1;
    }
    return false;
}

enum data_kind data_kind_of(uint32_t c)
{
    return IN_RANGES(spaces, c)    ? DATA_SPACE
           : IN_RANGES(letters, c) ? DATA_LETTER
           : IN_RANGES(numbers, c) ? DATA_NUMBER
                                   : DATA_OTHER;
}

bool data_may_compose(uint32_t c)
{
    return IN_RANGES(composing, c);
}

bool data_is_mark(uint32_t c)
{
    return IN_RANGES(marks, c);
}

int data_utf8(const unsigned char *s, size_t n, uint32_t *c)
{
    int length = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;

    if (!length || (size_t)length > n)
        return 0;
    *c = length == 1 ? s[0] : s[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (s[i] & 0x3f);
    }
    bool bad = (length == 3 && (*c < 0x800 || (*c >= 0xd800 && *c < 0xe000))) ||
               (length == 4 && (*c < 0x10000 || *c > 0x10ffff));
    return bad ? 0 : length;
}

bool data_is_space(uint32_t c)
{
    return IN_RANGES(spaces, c);
}
