/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a table's column becomes numbers of a row, by the words of encode= (encodings.def): numbers of a date, or one for
 * each category; then a curve; then a scale that training's values decide. The scale is scikit-learn's: the standard
 * deviation of the population, and a column of one value is not divided; missing values count for nothing. Where the
 * column is a target, predictions go the way back.
 *
 * A date is written as ISO 8601 has it, 2026-11-30, with / as well, and may have a time behind a T or a space; it is
 * kept as the seconds since 1970 of the Gregorian calendar, and numbers of it are of the clock that wrote it.
 */
#include "tools/data/data_int.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum word_kind { KIND_NONE, KIND_DATE, KIND_CLASSES, KIND_CURVE, KIND_SCALE };

static const struct word {
    const char *name;
    enum word_kind kind;
} words[] = {
#define ENCODING(word, kind, text) {#word, KIND_##kind},
#include "tools/data/encodings.def"
};
enum { NWORDS = sizeof words / sizeof *words };

/* -- Words --------------------------------------------------------------------------------------------------------- */

static bool has_date(const struct data_encoding *e)
{
    return e->nparts && e->parts[0] != ENCODE_onehot;
}

static bool bad_words(const char *text, size_t n, const char *why, char *error)
{
    return put_error(error, "encode=: '%.*s': %s", (int)(n < 60 ? n : 60), text, why);
}

static bool unknown_word(const char *text, size_t n, char *error)
{
    size_t used = (size_t)snprintf(error, ERROR_SIZE, "encode=: '%.*s' is none of", (int)(n < 60 ? n : 60), text);

    for (int i = 0; i < NWORDS && used < ERROR_SIZE; i++)
        used += (size_t)snprintf(error + used, ERROR_SIZE - used, "%s %s", i ? "," : "", words[i].name);
    return false;
}

static bool add_word(struct data_encoding *e, enum data_word w, const char *text, size_t n, char *error)
{
    enum word_kind kind = words[w].kind;

    if (kind == KIND_CURVE || kind == KIND_SCALE) {
        unsigned char *at = kind == KIND_CURVE ? &e->curve : &e->scale;
        if (*at)
            return bad_words(text, n, "one scale, and one logarithm", error);
        if (kind == KIND_CURVE && e->scale)
            return bad_words(text, n, "a logarithm comes before the scale", error);
        *at = (unsigned char)w;
        return true;
    }
    if (e->curve || e->scale)
        return bad_words(text, n, "scales come last", error);
    if (e->nparts && (kind == KIND_CLASSES || !has_date(e)))
        return bad_words(text, n, "onehot is of categories, and the numbers of a date of dates", error);
    for (int i = 0; i < e->nparts; i++)
        if (e->parts[i] == w)
            return bad_words(text, n, "the same number of a date twice", error);
    e->parts[e->nparts++] = (unsigned char)w;
    return true;
}

bool data_encoding_read(const char *text, size_t n, struct data_encoding *e, char *error)
{
    *e = (struct data_encoding){0};
    if (n == 4 && !memcmp(text, "none", 4))
        return true;
    for (const char *s = text, *end = text + n;; s++) {
        const char *plus = memchr(s, '+', (size_t)(end - s));
        size_t length = (size_t)((plus ? plus : end) - s);
        int w = 1;
        while (w < NWORDS && (strlen(words[w].name) != length || memcmp(words[w].name, s, length)))
            w++;
        if (w == NWORDS)
            return unknown_word(s, length, error);
        if (!add_word(e, (enum data_word)w, text, n, error))
            return false;
        s += length;
        if (s == end)
            return true;
    }
}

void data_encoding_text(const struct data_encoding *e, char *to, size_t room)
{
    size_t used = 0;

    for (int i = 0; i < e->nparts + 2 && used < room; i++) {
        int w = i < e->nparts ? e->parts[i] : i == e->nparts ? e->curve : e->scale;
        if (w)
            used += (size_t)snprintf(to + used, room - used, "%s%s", used ? "+" : "", words[w].name);
    }
    if (!used)
        snprintf(to, room, "none");
}

/* -- Dates --------------------------------------------------------------------------------------------------------- */

/* Days since 1970-01-01; and back (H. Hinnant, chrono-compatible low-level date algorithms, 2013): years begin in
 * March, so that the day that leap years have more is their last one. */
static int64_t days_of(int64_t year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of = y - era * 400;
    int64_t yearday = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of * 365 + of / 4 - of / 100 + yearday - 719468;
}

static int64_t year_of(int64_t days, int *month, int *day)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of = z - era * 146097;
    int64_t year = (of - of / 1460 + of / 36524 - of / 146096) / 365,
            yearday = of - (365 * year + year / 4 - year / 100);
    int64_t m = (5 * yearday + 2) / 153;

    *day = (int)(yearday - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    return year + era * 400 + (*month <= 2);
}

/* Exactly so many digits of *s, as a number below `most`; -1: they are not there. */
static int take_digits(const char **s, const char *end, int digits, int most)
{
    int v = 0;

    if (end - *s < digits)
        return -1;
    for (int i = 0; i < digits; i++, (*s)++) {
        if (!isdigit((unsigned char)**s))
            return -1;
        v = 10 * v + **s - '0';
    }
    return v < most ? v : -1;
}

static bool take_byte(const char **s, const char *end, char c)
{
    bool is = *s < end && **s == c;

    *s += is;
    return is;
}

/* HH:MM[:SS[.FRACTION]][Z] */
static bool take_time(const char *s, const char *end, double *seconds)
{
    int hour = take_digits(&s, end, 2, 24), minute = take_byte(&s, end, ':') ? take_digits(&s, end, 2, 60) : -1;
    int second = take_byte(&s, end, ':') ? take_digits(&s, end, 2, 60) : 0;
    double part = 0.1;

    *seconds += 3600.0 * hour + 60.0 * minute + second;
    if (hour < 0 || minute < 0 || second < 0)
        return false;
    if (take_byte(&s, end, '.'))
        for (; s < end && isdigit((unsigned char)*s); s++, part /= 10)
            *seconds += part * (*s - '0');
    take_byte(&s, end, 'Z');
    return s == end;
}

bool data_date(const char *text, size_t n, double *seconds)
{
    const char *s = text, *end = text + n;
    int year = take_digits(&s, end, 4, 10000), back_month, back_day;
    char between = s < end && *s == '/' ? '/' : '-';
    int month = take_byte(&s, end, between) ? take_digits(&s, end, 2, 13) : -1;
    int day = take_byte(&s, end, between) ? take_digits(&s, end, 2, 32) : -1;

    if (year < 0 || month < 1 || day < 1)
        return false;
    int64_t days = days_of(year, month, day);
    year_of(days, &back_month, &back_day);
    *seconds = 86400.0 * (double)days;
    if (back_month != month || back_day != day)
        return false;
    return s == end || ((take_byte(&s, end, 'T') || take_byte(&s, end, ' ')) && take_time(s, end, seconds));
}

static double part_of(enum data_word w, double seconds)
{
    int64_t days = (int64_t)floor(seconds / 86400);
    double of = seconds - 86400.0 * (double)days;
    int month, day;
    int64_t year = year_of(days, &month, &day);

    switch (w) {
    case ENCODE_year: return (double)year;
    case ENCODE_month: return month;
    case ENCODE_day: return day;
    case ENCODE_weekday: return (double)(((days + 3) % 7 + 7) % 7); /* 1970 began on a Thursday */
    case ENCODE_yearday: return (double)(days - days_of(year, 1, 1) + 1);
    case ENCODE_hour: return floor(of / 3600);
    case ENCODE_minute: return floor(fmod(of, 3600) / 60);
    case ENCODE_second: return fmod(of, 60);
    default: return seconds / 86400;
    }
}

/* -- Columns ------------------------------------------------------------------------------------------------------- */

int data_column_width(const struct data_column *c)
{
    const struct data_encoding *e = &c->encoding;

    return !e->nparts ? 1 : has_date(e) ? e->nparts : c->nclasses;
}

/* A column of training whose words fit what it holds, with a scale for each number. */
bool data_column_whole(const struct data_column *c)
{
    bool onehot = c->encoding.nparts && !has_date(&c->encoding);

    return c->dates == has_date(&c->encoding) && !(onehot && c->numbers) &&
           c->nscales == (c->encoding.scale ? data_column_width(c) : 0);
}

static void number_name(const struct data_column *c, int k, char *to, size_t room)
{
    const struct data_encoding *e = &c->encoding;

    if (e->nparts)
        snprintf(to, room, "%s%s%s", c->name, has_date(e) ? "." : "=",
                 has_date(e) ? words[e->parts[k]].name : c->classes[k]);
    else
        snprintf(to, room, "%s", c->name);
}

/* The numbers before their scale. */
static bool curved(const struct data_column *c, double v, double *out, char *why, size_t room)
{
    const struct data_encoding *e = &c->encoding;
    int width = data_column_width(c);
    bool onehot = e->nparts && !has_date(e);

    if (onehot && !(v >= 0 && v < width && v == floor(v))) {
        snprintf(why, room, "%g is the number of none of its %d categories", v, width);
        return false;
    }
    for (int k = 0; k < width; k++) {
        double x = onehot ? k == (int)v : has_date(e) ? part_of((enum data_word)e->parts[k], v) : v;
        double least = e->curve == ENCODE_log ? 0 : -1;
        if (e->curve && !(x > least)) {
            snprintf(why, room, "%g has no logarithm: %s requires values above %g", x, words[e->curve].name, least);
            return false;
        }
        out[k] = e->curve == ENCODE_log ? log(x) : e->curve == ENCODE_log1p ? log1p(x) : x;
    }
    return true;
}

bool data_column_encode(const struct data_column *c, double v, double *out, char *why, size_t room)
{
    if (!curved(c, v, out, why, room))
        return false;
    if (c->nscales && !isfinite(v)) {
        snprintf(why, room, "%g has no place in a scale", v);
        return false;
    }
    for (int k = 0; k < c->nscales; k++)
        out[k] = (out[k] - c->scales[k].subtract) / c->scales[k].divide;
    return true;
}

static double decode(const struct data_column *c, int k, double v)
{
    if (c->nscales)
        v = v * c->scales[k].divide + c->scales[k].subtract;
    return c->encoding.curve == ENCODE_log ? exp(v) : c->encoding.curve == ENCODE_log1p ? expm1(v) : v;
}

/* -- Rows ---------------------------------------------------------------------------------------------------------- */

int64_t data_table_width(const struct data_table *t)
{
    int64_t n = 0;

    for (int i = 0; i < t->ncolumns; i++)
        n += data_column_width(&t->columns[i]);
    return n;
}

/* The column that makes number *k of a row, and *k becomes the number there; NULL: none does. */
static const struct data_column *column_of(const struct data_table *t, int64_t *k)
{
    for (int i = 0; i < t->ncolumns; *k -= data_column_width(&t->columns[i++]))
        if (*k < data_column_width(&t->columns[i]))
            return &t->columns[i];
    return NULL;
}

void data_table_name(const struct data_table *t, int64_t k, char *to, size_t room)
{
    const struct data_column *c = column_of(t, &k);

    *to = '\0';
    if (c)
        number_name(c, (int)k, to, room);
}

double data_table_decode(const struct data_table *t, int64_t k, double v)
{
    const struct data_column *c = column_of(t, &k);

    v = v * (t->stds.n ? t->stds.at[0] : 1) + (t->means.n ? t->means.at[0] : 0);
    v = t->scaled && t->scale != 0 ? v / t->scale : v;
    return c ? decode(c, (int)k, v) : v;
}

/* -- Scales -------------------------------------------------------------------------------------------------------- */

bool data_column_scales(struct data_column *c, int n)
{
    struct data_scale *made = n ? calloc((size_t)n, sizeof *made) : NULL;

    for (int k = 0; made && k < n; k++)
        made[k] = (struct data_scale){.divide = 1};
    if (made) {
        free(c->scales);
        c->scales = made;
        c->nscales = n;
    }
    return made || !n;
}

/* B. P. Welford, Note on a method for calculating corrected sums of squares and products, Technometrics 4 (1962). */
void data_column_see(struct data_column *c, double v, double *room)
{
    char why[80];

    if (!isfinite(v) || !curved(c, v, room, why, sizeof why))
        return; /* the row is refused when it is read */
    for (int k = 0; k < c->nscales; k++) {
        struct data_scale *s = &c->scales[k];
        double off = room[k] - s->mean;
        s->least = s->n && s->least < room[k] ? s->least : room[k];
        s->most = s->n && s->most > room[k] ? s->most : room[k];
        s->mean += off / (double)++s->n;
        s->squares += off * (room[k] - s->mean);
    }
}

void data_column_fit(struct data_column *c)
{
    bool standard = c->encoding.scale == ENCODE_standard;

    for (int k = 0; k < c->nscales; k++) {
        struct data_scale *s = &c->scales[k];
        double by = !s->n ? 0 : standard ? sqrt(s->squares / (double)s->n) : s->most - s->least;
        s->subtract = standard ? s->mean : s->least;
        s->divide = by > 0 && isfinite(by) ? by : 1;
    }
}
