/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of ml_tree_rank.c for one type of rows and one level of instructions; included once for each of them,
 * hence no guard. T: the type, INTEGER: the integers of its size, CUTS: the member with its cuts, VECTOR: the bytes of
 * the level's vectors, whose lanes are rows; ATTRIBUTE: of the level's functions, FORM(NAME): how they are called. The
 * last three are undefined at the end.
 */
typedef T FORM(lanes) __attribute__((vector_size(VECTOR)));
typedef INTEGER FORM(counts) __attribute__((vector_size(VECTOR)));

/* How many of the n cuts are below v[k] (or equal to it, lt): few are compared one after the other with all rows,
 * of more each row searches by halves, without branches, which nobody could predict. */
ATTRIBUTE static inline __attribute__((always_inline)) void FORM(count)(const T *cuts, int64_t n, const T *v, int rows,
                                                                        bool lt, int32_t *to)
{
    enum { LANES = VECTOR / sizeof(T) };

    if (n <= 16 * LANES && rows > 1) {
        for (int k = 0; k < TREE_ROWS; k += LANES) {
            FORM(counts) sum = {0};
            FORM(lanes) x;

            memcpy(&x, v + k, sizeof x);
            for (int64_t i = 0; i < n; i++)
                sum += lt ? cuts[i] <= x : cuts[i] < x; /* -1 where it holds */
            for (int l = 0; l < LANES; l++)
                to[k + l] = (int32_t)-sum[l];
        }
        return;
    }
    memset(to, 0, (size_t)rows * sizeof *to);
    for (int32_t left = (int32_t)n, half; left > 0; left -= half) {
        half = left > 1 ? left / 2 : 1;
        for (int k = 0; k < rows; k++) {
            T cut = cuts[to[k] + half - 1];

            to[k] += half & -(int32_t)(lt ? cut <= v[k] : cut < v[k]);
        }
    }
}

/* The ranks of one column. */
ATTRIBUTE static inline __attribute__((always_inline)) void FORM(rank)(const T *cuts, int64_t n, int flags, const T *v,
                                                                       int rows, int16_t *to)
{
    int32_t below[TREE_ROWS], upto[TREE_ROWS], nan = flags & COLUMN_NAN_YES ? 0 : COLUMN_CUTS_MOST;

    if (flags & COLUMN_LT && !(flags & COLUMN_SET))
        FORM(count)(cuts, n, v, rows, true, below);
    else
        FORM(count)(cuts, n, v, rows, false, below);
    if (flags & COLUMN_SET) {
        FORM(count)(cuts, n, v, rows, true, upto);
        for (int k = 0; k < rows; k++)
            below[k] = below[k] == upto[k];
    }
    for (int k = 0; k < rows; k++)
        to[k] = (int16_t)((v[k] == v[k] ? below[k] : nan) - COLUMN_BIAS);
}

ATTRIBUTE static bool FORM(ranks)(const struct tree_columns *c, const void *x, int64_t rows, int64_t stride,
                                  int16_t *to)
{
    T v[TREE_ROWS] = {0};

    for (int64_t i = 0; i < c->ncolumns; i++) {
        const int32_t *column = c->columns + i * COLUMN_WORDS;
        int64_t feature = column[COLUMN_FEATURE], first = column[COLUMN_FIRST], n = column[COLUMN_CUTS];

        if (feature < 0 || feature >= c->width || first < 0 || n < 0 || n > COLUMN_CUTS_MOST || first + n > c->ncuts)
            return false;
        for (int64_t k = 0; k < rows; k++)
            v[k] = ((const T *)x)[k * c->width + feature];
        if (stride == 1)
            FORM(rank)(c->CUTS + first, n, column[COLUMN_FLAGS], v, 1, to + i);
        else
            FORM(rank)(c->CUTS + first, n, column[COLUMN_FLAGS], v, TREE_ROWS, to + i * TREE_ROWS);
    }
    return true;
}
#undef FORM
#undef VECTOR
#undef ATTRIBUTE
