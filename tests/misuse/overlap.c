/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs and results at random places of one block, some in each other's memory, in a state variable or where the
 * session had its last results: a run reads its inputs as they were, and refuses results that lie in each other or in
 * a variable (runtime/apart.c). The model negates each of its MANY inputs and has a variable "s".
 */
#include "runtime/tccrt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 24, SIZE = 6, RUNS = 3000, NONE = -1 };

static uint64_t state = 1;
static int below(int n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((state >> 33) % (uint64_t)n);
}

static bool meet(const struct tcc_tensor *a, const struct tcc_tensor *b)
{
    const float *x = a->data, *y = b->data;
    return x && y && x < y + SIZE && y < x + SIZE;
}

/* Places one behind the other in an order of its own, of which few are then anywhere. */
static void draw(float *block, struct tcc_tensor *t, int n, int stray)
{
    int order[2 * MANY];
    for (int i = 0; i < n; i++) {
        int j = below(i + 1);
        order[i] = i;
        order[i] = order[j], order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        int at = below(100) < stray ? below((n - 1) * SIZE) : order[i] * SIZE;
        t[i] = (struct tcc_tensor){block + at, TCC_F32, 1, {SIZE}};
    }
}

/* Whether the run is to be refused. */
static bool is_refused(const struct tcc_tensor *out, const struct tcc_tensor *variable)
{
    bool refused = false;
    for (int i = 0; i < MANY; i++) {
        refused |= meet(&out[i], variable);
        for (int j = 0; j < i; j++)
            refused |= meet(&out[i], &out[j]);
    }
    return refused;
}

int main(int argc, char **argv)
{
    static float block[2 * MANY * SIZE], before[MANY][SIZE];
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tcc_tensor t[2 * MANY], *in = t, *out = t + MANY, last[MANY] = {{0}}, variable;
    int wrong = 0, refusals = 0, overwritten = 0;

    if (argc != 2 || tccrt_open(argv[1], &m) || tccrt_session_new(m, &(struct tccrt_options){.threads = 1}, &s) ||
        tccrt_state_get(s, "s", &variable)) {
        fprintf(stderr, "usage: overlap MODEL.so; %s\n", tccrt_error());
        return 99;
    }
    for (int run = 0; run < RUNS; run++) {
        draw(block, t, 2 * MANY, run % 4 == 3 ? 2 : 0);
        if (below(4) == 0) /* results that overwrite inputs, in an order of their own */
            draw(block, out, MANY, 0);
        for (int i = 0; i < 2 * MANY * SIZE; i++)
            block[i] = (float)below(1000);
        if (below(20) == 0)
            t[below(2 * MANY)].data = variable.data;
        for (int k = 0; k < MANY; k++) { /* results that the session finds room for, and inputs that were such */
            if (below(8) == 0)
                out[k].data = NULL;
            if (below(40) == 0 && last[k].data)
                in[k].data = last[k].data;
        }
        for (int k = 0; k < MANY; k++) {
            memcpy(before[k], in[k].data, sizeof before[k]);
            for (int j = 0; j < MANY; j++)
                overwritten += meet(&in[k], &out[j]);
        }
        bool refused = is_refused(out, &variable), own[MANY];
        for (int k = 0; k < MANY; k++)
            own[k] = !out[k].data;
        int status = tccrt_run(s, NULL, MANY, in, MANY, out);
        refusals += refused;
        wrong += status != (refused ? TCC_EINPUT : TCC_OK) || (status && !*tccrt_error());
        for (int k = 0; k < MANY && !status; k++) {
            for (int i = 0; i < SIZE; i++)
                wrong += ((float *)out[k].data)[i] != -before[k][i];
            if (own[k])
                last[k] = out[k];
        }
    }
    printf("1..1\n%s 1 - %d runs, %d of them refused, %d inputs in a result's memory\n",
           wrong || !refusals || !overwritten ? "not ok" : "ok", RUNS, refusals, overwritten);
    tccrt_session_free(s);
    tccrt_close(m);
    return wrong != 0;
}
