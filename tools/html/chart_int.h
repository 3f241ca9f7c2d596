/* SPDX-License-Identifier: Apache-2.0 */
/* Private to chart.c and graph.c: what charts have in common. */
#ifndef TCCC_TOOLS_HTML_CHART_INT_H
#define TCCC_TOOLS_HTML_CHART_INT_H

#include "tools/html/html_int.h"

/* Opens the picture; `more`: further attributes, which are no text of anybody's. */
void chart_svg(FILE *out, const json_t *item, double width, double height, const char *more);
void chart_title(FILE *out, const char *label, const char *what);      /* "label: what", of the element that is open */
void chart_graph(FILE *out, const json_t *item);

#endif
