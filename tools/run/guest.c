/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-guest: holds an artifact of another processor, under an emulator, for tccc-run --emulate on the other side of
 * its standard input and output (guest_io_int.h). It is made for that processor (build-aux/cross.mk), of the runtime
 * alone, so that none of the tools' libraries are needed there.
 *
 *     tccc-guest ARTIFACT [ENTRY]
 */
#include "tools/run/guest_io_int.h"

#include <stdlib.h>
#include <string.h>

struct guest {
    FILE *in, *out;
    struct tccrt_model *model;
    struct tccrt_session *session;
    const char *entry;
    int nin, nout;
};

/* A status, and the message that belongs to it. */
static bool answer(struct guest *g, int status)
{
    bool ok = guest_put_number(g->out, status);
    return status == TCC_OK ? ok : ok && guest_put_text(g->out, tccrt_error());
}

static const char *find_entry(const struct tccrt_model *m, const char *name)
{
    for (int i = 0; i < tccrt_nentries(m); i++)
        if (!*name || strcmp(tccrt_entry_name(m, i), name) == 0)
            return tccrt_entry_name(m, i);
    return NULL;
}

static bool describe(struct guest *g, bool input, int i)
{
    struct guest_value v = {0};
    int status = input ? tccrt_input(g->model, g->entry, i, &v.info) : tccrt_output(g->model, g->entry, i, &v.info);
    for (int k = 0; input && k < v.info.rank && status == TCC_OK; k++)
        status = tccrt_input_bounds(g->model, g->entry, i, k, &v.least[k], &v.most[k]);
    return status == TCC_OK && guest_put_value(g->out, &v);
}

static bool introduce(struct guest *g, const char *wanted)
{
    g->entry = find_entry(g->model, wanted);
    if (!g->entry)
        return guest_put_number(g->out, TCC_EINPUT) && guest_put_text(g->out, "no such entry point") &&
               fflush(g->out) == 0;
    int nneeded = tccrt_ninputs(g->model, g->entry), ndefaults = tccrt_ndefaults(g->model, g->entry);
    g->nin = nneeded + ndefaults;
    g->nout = tccrt_noutputs(g->model, g->entry);
    bool ok = answer(g, TCC_OK) && guest_put_text(g->out, g->entry) && guest_put_number(g->out, nneeded) &&
              guest_put_number(g->out, ndefaults) && guest_put_number(g->out, g->nout);
    for (int i = 0; ok && i < g->nin; i++)
        ok = describe(g, true, i);
    for (int i = 0; ok && i < g->nout; i++)
        ok = describe(g, false, i);
    return ok && fflush(g->out) == 0;
}

static void release(struct tcc_object **list, int n)
{
    for (int i = 0; list && i < n; i++)
        tccrt_object_unref(list[i]);
    free(list);
}

static bool run(struct guest *g)
{
    struct tcc_object **in = calloc((size_t)g->nin + 1, sizeof *in), **out = calloc((size_t)g->nout + 1, sizeof *out);
    bool ok = in && out;
    for (int i = 0; ok && i < g->nin; i++)
        ok = guest_get_object(g->in, &in[i]);
    if (ok) {
        int status = tccrt_run_objects(g->session, g->entry, g->nin, in, g->nout, out);
        ok = answer(g, status);
        for (int i = 0; ok && status == TCC_OK && i < g->nout; i++)
            ok = guest_put_object(g->out, out[i]);
    }
    release(in, g->nin);
    release(out, g->nout);
    return ok;
}

static bool session(struct guest *g)
{
    int64_t threads;
    if (!guest_get_number(g->in, &threads))
        return false;
    return answer(g, tccrt_session_new(g->model, &(struct tccrt_options){.threads = (int)threads}, &g->session));
}

static bool serve(struct guest *g)
{
    for (int c; (c = getc(g->in)) != EOF;) {
        bool ok = c == GUEST_SESSION ? session(g) : c == GUEST_RUN ? run(g) : false;
        if (!ok || fflush(g->out) != 0)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct guest g = {.in = stdin, .out = stdout};
    if (argc < 2)
        return 2;
    int status = tccrt_open(argv[1], &g.model);
    if (status != TCC_OK)
        return answer(&g, status) && fflush(stdout) == 0 ? 0 : 3;
    bool ok = introduce(&g, argc > 2 ? argv[2] : "") && (!g.entry || serve(&g));
    tccrt_session_free(g.session);
    tccrt_close(g.model);
    return ok ? 0 : 3;
}
