/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as text, as a Chrome trace (chrome://tracing, Perfetto), and as an SVG chart: a row a stage, a box a
 * task. */
#include "passes/parallel/stage_order.h"

static const char *letter(const struct pipeline_task *t)
{
    return t->backward ? "B" : "F";
}

void pipeline_print(FILE *out, const struct pipeline_order *o)
{
    for (int s = 0; s < o->stages; s++) {
        fprintf(out, "; stage %d:", s);
        for (int i = 0; i < o->stage[s].n; i++) {
            const struct pipeline_task *t = &o->stage[s].at[i];
            fprintf(out, o->segments > o->stages ? " %s%d.%d" : " %s%d", letter(t), t->micro, t->segment / o->stages);
        }
        fprintf(out, "   (at most %d in flight)\n", o->peak[s]);
    }
    fprintf(out, "; bubble: %.1f%% of the stages' time\n", pipeline_bubble(o) * 100);
}

void pipeline_draw_trace(FILE *out, const struct pipeline_order *o)
{
    const char *comma = "";
    fputs("{\"traceEvents\":[\n", out);
    for (int s = 0; s < o->stages; s++) {
        fprintf(out, "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":\"stage %d\"}}",
                comma, s, s);
        comma = ",\n";
        for (int i = 0; i < o->stage[s].n; i++) {
            const struct pipeline_task *t = &o->stage[s].at[i];
            fprintf(out,
                    "%s{\"name\":\"%s%d\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                    "\"args\":{\"segment\":%d,\"microbatch\":%d}}",
                    comma, letter(t), t->micro, t->backward ? "backward" : "forward", s, t->start * 1e6,
                    (t->end - t->start) * 1e6, t->segment, t->micro);
        }
    }
    fputs("\n]}\n", out);
}

void pipeline_draw_svg(FILE *out, const struct pipeline_order *o)
{
    enum { LEFT = 70, ROW = 30, WIDTH = 1100 };
    double scale = o->makespan > 0 ? WIDTH / o->makespan : 1;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n",
            LEFT + WIDTH + 10, (o->stages + 1) * ROW + 10);
    for (int s = 0; s < o->stages; s++) {
        int y = 5 + s * ROW;
        fprintf(out, "<text x=\"5\" y=\"%d\">stage %d</text>\n", y + 18, s);
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#eee\"/>\n", LEFT, y, WIDTH, ROW - 4);
        for (int i = 0; i < o->stage[s].n; i++) {
            const struct pipeline_task *t = &o->stage[s].at[i];
            double x = LEFT + t->start * scale, w = (t->end - t->start) * scale;
            int shade = 205 - 60 * (t->segment / o->stages % 3);
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"rgb(%d,%d,%d)\" stroke=\"#fff\" "
                    "stroke-width=\"0.5\"><title>%s, microbatch %d, segment %d</title></rect>\n",
                    x, y, w, ROW - 4, t->backward ? 120 : shade - 60, shade, t->backward ? shade - 60 : 235,
                    t->backward ? "backward" : "forward", t->micro, t->segment);
            if (w > 9)
                fprintf(out, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x + w / 2, y + 17,
                        t->micro);
        }
    }
    fprintf(
        out,
        "<text x=\"%d\" y=\"%d\">forward: blue, backward: green; %.1f%% of the stages' time is spent waiting</text>\n",
        LEFT, o->stages * ROW + 25, pipeline_bubble(o) * 100);
    fputs("</svg>\n", out);
}
