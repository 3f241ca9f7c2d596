/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --confusion: the confusion matrix of the best evaluation as an SVG picture. A row a label, a column a prediction; a
 * cell is as dark as its share of the row, right ones blue, wrong ones red. Counts stand in the cells where there is
 * room.
 */
#include "tools/train/train_int.h"

#include "base/safe.h"

#include <errno.h>
#include <string.h>

enum { ROOM = 640, LEAST = 4, MOST = 44, MARGIN = 60, WITH_TEXT = 18 };

static void cell(FILE *f, double x, double y, double side, double count, double share, bool right)
{
    int light = 255 - (int)(share * 205 + 0.5);

    fprintf(f, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"rgb(%d,%d,%d)\"/>\n", x, y, side, side,
            right ? light : 255, light, right ? 255 : light);
    if (side >= WITH_TEXT && count > 0)
        fprintf(f, "<text x=\"%g\" y=\"%g\" fill=\"%s\">%.0f</text>\n", x + side / 2, y + side / 2 + 4,
                share > 0.6 && right ? "#fff" : "#000", count);
}

/* Every how manieth class has its number beside the matrix. */
static int64_t stride_of(double side)
{
    int64_t stride = 1;

    while ((double)stride * side < 14)
        stride *= stride % 3 == 2 ? 5 : 2; /* 1, 2, 10, 20, ... */
    return stride;
}

static void draw(FILE *f, int64_t n, const double *counts)
{
    double side = ROOM / (double)n;

    side = side < LEAST ? LEAST : side > MOST ? MOST : side;
    double size = side * (double)n;
    fprintf(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"sans-serif\" "
        "font-size=\"11\" "
        "text-anchor=\"middle\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
        "<text x=\"%g\" y=\"16\">prediction</text>\n<text transform=\"translate(16,%g) rotate(-90)\">label</text>\n",
        size + MARGIN + 20, size + MARGIN + 20, MARGIN + size / 2, MARGIN + size / 2);
    for (int64_t r = 0; r < n; r++) {
        double all = 0, y = MARGIN + (double)r * side;
        for (int64_t c = 0; c < n; c++)
            all += counts[r * n + c];
        for (int64_t c = 0; c < n; c++)
            if (counts[r * n + c] > 0)
                cell(f, MARGIN + (double)c * side, y, side, counts[r * n + c], counts[r * n + c] / all, r == c);
        if (r % stride_of(side) == 0)
            fprintf(f, "<text x=\"%d\" y=\"%g\">%lld</text>\n<text x=\"%g\" y=\"%d\">%lld</text>\n", MARGIN - 16,
                    y + side / 2 + 4, (long long)r, y + side / 2, MARGIN - 8, (long long)r);
    }
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%g\" height=\"%g\" fill=\"none\" stroke=\"#888\"/>\n</svg>\n", MARGIN,
            MARGIN, size, size);
}

int confusion_draw(struct trainer *t, const char *path, int64_t n, const double *counts)
{
    struct tcr_save save;

    if (tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return tool_error(t->o, EXIT_ENVIRONMENT, "--confusion: cannot write '%s': %s", path, strerror(errno));
    draw(save.stream, n, counts);
    if (tcr_save_commit(&save))
        return tool_error(t->o, EXIT_ENVIRONMENT, "--confusion: cannot write '%s': %s", path, strerror(errno));
    return EXIT_FINE;
}
