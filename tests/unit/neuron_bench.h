/* SPDX-License-Identifier: Apache-2.0 */
/* neuron_bench.h - texts of NeuronCore instructions that a simulator runs, and values in and out. */
#ifndef TCC_TESTS_NEURON_BENCH_H
#define TCC_TESTS_NEURON_BENCH_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/neuronsim.h"

enum { P = 128, N = 64 };

static uint64_t state;
static inline double draw(void) /* [-4, 4) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 11) / (double)(1ll << 50) - 4;
}

/* -- Running a text -- */

struct bench {
    struct neuron_program *p;
    struct neuron_sim *s;
};

static inline struct bench begin_with(const char *text, struct neuron_config c)
{
    char error[NEURON_ERROR] = "";
    struct bench b = {.p = neuron_assemble(text, strlen(text), error)};
    ck_assert_msg(b.p != NULL, "%s\n%s", error, text);
    b.s = neuron_sim_new(b.p, &c, error);
    ck_assert_msg(b.s != NULL, "%s", error);
    return b;
}

static inline struct bench begin(const char *text)
{
    return begin_with(text, (struct neuron_config){.values = true, .checks = true});
}

static inline int tensor(struct bench *b, const char *name)
{
    int t = neuron_find_tensor(b->p, name, strlen(name));
    ck_assert_msg(t >= 0, "no tensor %s", name);
    return t;
}

static inline void set(struct bench *b, const char *name, const float *from, int n)
{
    char error[NEURON_ERROR] = "", element[4];
    int t = tensor(b, name), bytes = neuron_type_bytes((enum neuron_type)b->p->tensors[t].type);
    for (int k = 0; k < n; k++) {
        neuron_from_float((enum neuron_type)b->p->tensors[t].type, from[k], false, 0, element);
        ck_assert(neuron_sim_write(b->s, t, (int64_t)k * bytes, element, bytes, error));
    }
}

static inline void get(struct bench *b, const char *name, float *to, int n)
{
    char error[NEURON_ERROR] = "", element[4];
    int t = tensor(b, name), bytes = neuron_type_bytes((enum neuron_type)b->p->tensors[t].type);
    for (int k = 0; k < n; k++) {
        ck_assert(neuron_sim_read(b->s, t, (int64_t)k * bytes, element, bytes, error));
        to[k] = neuron_to_float((enum neuron_type)b->p->tensors[t].type, element);
    }
}

static inline void run(struct bench *b)
{
    char error[NEURON_ERROR] = "", text[NEURON_ERROR];
    const struct neuron_report *list;
    bool fine = neuron_sim_run(b->s, NULL, error);
    int n = neuron_sim_reports(b->s, &list);
    if (n)
        neuron_report_text(&list[0], text, sizeof text);
    ck_assert_msg(fine && !n, "%s", n ? text : error);
}

static inline void end(struct bench *b)
{
    neuron_sim_free(b->s);
    neuron_program_free(b->p);
}

/* Bit for bit, NaN and signs of zeros too. */
static inline bool same(float a, float b)
{
    return memcmp(&a, &b, 4) == 0 || (a != a && b != b);
}

#endif
