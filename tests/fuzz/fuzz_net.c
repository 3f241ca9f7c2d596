/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the words of tccc-train --net, and the files that they make. What is refused must come with a message; a
 * file must be one record behind the other, with a graph that has the network's nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/net/net_int.h"
#include "tools/onnx/onnx_file_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 8 };

/* How many records with that number; the last of them. */
static int count(const uint8_t *at, const uint8_t *end, uint32_t number, struct wire_record *last)
{
    struct wire_record r;
    int n = 0;

    while (at < end) {
        if (wire_read_record(&at, end, &r))
            abort();
        n += r.number == number;
        if (r.number == number)
            *last = r;
    }
    return n;
}

static void make(const struct net_spec *s)
{
    static struct options o = {.tool = TOOL_T};
    struct net_data d = {.rank = 3, .dims = {3, 9, 9}, .classes = s->classes ? s->classes : 3};
    struct wire_buffer file;
    struct wire_record graph, node;
    int64_t parameters;

    if (s->row->takes == NET_TAKES_SEQUENCES)
        d = (struct net_data){
            .rank = 1, .dims = {5}, .tokens = true, .each = s->heads > 1, .vocabulary = 7, .classes = 7};
    if (net_make(&o, s, &d, 1, &file, &parameters) != EXIT_FINE)
        abort();
    if (count(file.data, file.data + file.n, ONNX_MODEL_GRAPH, &graph) != 1 ||
        count(graph.payload, graph.end, ONNX_GRAPH_NODE, &node) < 2 || parameters < 1)
        abort();
    free(file.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct net_spec s;
    char text[256], error[ERROR_SIZE] = "";
    bool small = true;

    if (size >= sizeof text || memchr(data, 0, size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!net_spec_read(text, &s, error)) {
        if (!*error)
            abort(); /* refused without a word */
        return 0;
    }
    for (int i = 0; i < s.nsizes; i++)
        small &= s.sizes[i] <= MOST;
    if (small && s.sizes[0] <= 4 + MOST * (s.row->form == NET_WIDTHS) && s.classes <= MOST && s.row->form != NET_PLAIN)
        make(&s);
    return 0;
}
