/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draw KIND FILE >PAGE: the page of a stored report, so that what tests look at is the same every time. KIND is what
 * the JSON in FILE is: "report" (tools/html/html_int.h), "facts" of a compilation (compiler/compile_report.c), "trace"
 * of a run (tccrt_profile_trace()).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/html/html_int.h"

static json_t *report_of(const char *kind, const char *path)
{
    json_t *x = json_load_file(path, 0, NULL), *report = NULL;
    char *text = x ? json_dumps(x, 0) : NULL;

    if (text && !strcmp(kind, "facts")) {
        report = html_compiled(text, strlen(text));
    } else if (text && !strcmp(kind, "trace")) {
        report = html_report("run", "A trace", "Profile of runs");
        html_trace(html_section(report, "timeline", "Timeline of the last run", NULL), "Timeline", x);
    } else if (text && !strcmp(kind, "report")) {
        report = json_incref(x);
    }
    free(text);
    json_decref(x);
    return report;
}

int main(int argc, char **argv)
{
    json_t *report = argc == 3 ? report_of(argv[1], argv[2]) : NULL;

    if (!report) {
        fprintf(stderr, "usage: draw report|facts|trace FILE >PAGE\n");
        return 2;
    }
    html_page(stdout, report);
    json_decref(report);
    return fflush(stdout) ? 1 : 0;
}
