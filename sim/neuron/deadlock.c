/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock.c - what a program stands still at, when no engine can go on: who waits for whom. */
#include <stdio.h>

#include "sim/neuron/neuron_int.h"

static bool will_signal(const struct neuron_sim *s, int engine, int semaphore, int *at)
{
    const struct neuron_stream *t = &s->p->stream[engine];
    bool jumps = false;
    for (int pass = 0; pass < 2; pass++) /* what is to come, then, where a jump may lead back, everything */
        for (int k = pass ? 0 : s->engine[engine].pc; k < t->n && (!pass || jumps); k++) {
            jumps |= t->code[k].op == NEURON_OP_JUMP || t->code[k].op == NEURON_OP_END_LOOP;
            for (int n = 0; n < t->code[k].nsignals; n++)
                if (t->code[k].signal[n].semaphore == semaphore) {
                    *at = k;
                    return true;
                }
        }
    return false;
}

/* From an engine that waits to one that could end the wait, until one comes twice. */
void neuron_deadlock(struct neuron_sim *s)
{
    char text[380] = "", line[64];
    size_t n = 0;
    int first = 0;
    bool seen[NEURON_NENGINES] = {false};
    while (s->engine[first].pc >= s->p->stream[first].n)
        first++;
    int engine = first, last = first;
    while (engine >= 0 && n < sizeof text - 1) {
        const struct neuron_instr *i = &s->p->stream[engine].code[s->engine[engine].pc];
        int next = -1, at = 0, k = 0;
        while (s->sem[i->wait[k].semaphore].value >= neuron_wanted(&s->engine[engine], &i->wait[k]))
            k++;
        int semaphore = i->wait[k].semaphore;
        seen[engine] = true;
        last = engine;
        for (int e = 0; e < NEURON_NENGINES && next < 0; e++)
            if (s->engine[e].pc < s->p->stream[e].n && will_signal(s, e, semaphore, &at))
                next = e;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s waits at %s for s%d >= %llu, which is %llu",
                              n ? "; " : "", neuron_engine_name((enum neuron_engine)engine), neuron_line(s, i, line),
                              semaphore, (unsigned long long)neuron_wanted(&s->engine[engine], &i->wait[k]),
                              (unsigned long long)s->sem[semaphore].value);
        n = n < sizeof text ? n : sizeof text - 1;
        if (next < 0)
            n += (size_t)snprintf(text + n, sizeof text - n, " and nobody signals any more");
        else
            n += (size_t)snprintf(text + n, sizeof text - n, " and which %s would signal at %s",
                                  neuron_engine_name((enum neuron_engine)next),
                                  neuron_line(s, &s->p->stream[next].code[at], line));
        n = n < sizeof text ? n : sizeof text - 1;
        engine = next >= 0 && !seen[next] ? next : -1;
    }
    struct run r = {.s = s, .i = &s->p->stream[last].code[s->engine[last].pc], .engine = last};
    neuron_fail(&r, NEURON_CHECK_DEADLOCK, "%s", text);
}
