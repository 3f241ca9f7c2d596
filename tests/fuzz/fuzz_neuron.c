/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the reader of NeuronCore programs, as text and as bytes, and the simulator. What is read is written in
 * both forms and read again, to the same bytes; it runs for a while, in time and, where its tensors are small, with
 * values.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuronsim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct neuron_program *p)
{
    char error[NEURON_ERROR] = "";
    size_t size = 0, again = 0;
    char *text = neuron_disassemble(p);
    uint8_t *bytes = neuron_encode(p, &size), *other;
    struct neuron_program *read = text ? neuron_assemble(text, strlen(text), error) : NULL;

    if (text && !read)
        abort(); /* its own text is refused */
    other = read ? neuron_encode(read, &again) : NULL;
    if (bytes && other && (size != again || memcmp(bytes, other, size) != 0))
        abort();
    neuron_program_free(read);
    read = bytes ? neuron_decode(bytes, size, error) : NULL;
    if (bytes && !read)
        abort(); /* its own bytes are refused */
    neuron_program_free(read);
    free(text);
    free(bytes);
    free(other);
}

static void run(const struct neuron_program *p, bool values)
{
    char error[NEURON_ERROR] = "", text[NEURON_ERROR];
    struct neuron_config c = {.values = values, .checks = true, .limit = 200};
    struct neuron_sim *s = neuron_sim_new(p, &c, error);
    struct neuron_counters n;
    const struct neuron_report *list;

    if (!s && !*error)
        abort(); /* refused without a word */
    if (s && !neuron_sim_run(s, &n, error) && !*error)
        abort();
    if (s && neuron_sim_reports(s, &list))
        neuron_report_text(&list[0], text, sizeof text);
    neuron_sim_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[NEURON_ERROR] = "";
    int64_t bytes = 0;
    struct neuron_program *p = neuron_is_binary(data, size) ? neuron_decode(data, size, error)
                                                            : neuron_assemble((const char *)data, size, error);

    if (!p) {
        if (!*error)
            abort();
        return 0;
    }
    if (!neuron_check(p, error))
        abort(); /* read, and breaks a rule */
    for (int t = 0; t < p->ntensors && bytes < 1 << 20; t++)
        bytes += neuron_tensor_bytes(&p->tensors[t]) & INT64_C(0xffffffffff);
    same(p);
    if (bytes < 1 << 20)
        run(p, true);
    if (bytes < (int64_t)1 << 36)
        run(p, false);
    neuron_program_free(p);
    return 0;
}
