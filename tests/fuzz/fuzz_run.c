/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: behind the front ends. What of a changed .tcir or ONNX file is still a model goes through all passes, is
 * compiled and run; the interpreter runs it too. Neither may crash; where both end well, their results have equal types
 * and shapes (values are fuzz-diff's matter).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "base/safe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ELEMENTS = 1 << 16, MOST_NODES = 400, MOST_VALUES = 64, SYMBOL = 2, MOST_PATH = 200 };

static bool symbol(void *user, ir_expr sym, int64_t *out)
{
    (void)user, (void)sym;
    *out = SYMBOL;
    return true;
}

/* Sizes with all symbols 2; false: too large to run, or no tensor. */
static bool size_of(ir_type t, int64_t *dims)
{
    int64_t n = 1;

    if (!ir_is_tensor(t))
        return false;
    for (int i = 0; i < t->rank; i++)
        if (!ir_eval(t->dim[i], symbol, NULL, &dims[i]) || dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n) ||
            n > MOST_ELEMENTS)
            return false;
    return true;
}

static bool small(const struct ir_block *b, int *nodes)
{
    for (const struct ir_node *n = b->first; n; n = n->next) {
        int64_t dims[TCC_MAX_RANK];
        if (++*nodes > MOST_NODES || n->op == IR_loop)
            return false;
        for (int i = 0; i < n->nout; i++)
            if (!size_of(n->out[i]->type, dims))
                return false;
        for (int i = 0; i < n->nregions; i++)
            if (!small(n->regions[i], nodes))
                return false;
    }
    return true;
}

static struct tcc_object *input(ir_type t)
{
    int64_t dims[TCC_MAX_RANK];
    return size_of(t, dims) ? tccrt_object_tensor(t->dtype, t->rank, dims) : NULL;
}

static void silent(void *user, int severity, const char *text)
{
    (void)text;
    if (severity == IR_BUG)
        *(bool *)user = true;
}

static int run_compiled(const char *path, int nin, struct tcc_object **in, int nout, struct tcc_object **out)
{
    char folder[MOST_PATH], so[MOST_PATH + 8];
    struct tccc_options o;
    struct tccrt_model *m = NULL;
    struct tccrt_session *s = NULL;
    bool bug = false;
    int status;

    snprintf(folder, sizeof folder, "%s/tccc-fuzz-XXXXXX", tcr_temporary());
    if (!mkdtemp(folder))
        return TCC_EENV;
    snprintf(so, sizeof so, "%s/m.so", folder);
    tccc_options_init(&o);
    o.model = path;
    o.output = so;
    o.name = "fuzz";
    o.jobs = 1;
    o.verify = true;
    o.message = silent;
    o.user = &bug;
    status = tccc_compile(&o);
    if (bug || status == 4)
        abort();
    if (!status && !(status = tccrt_open(so, &m)) &&
        !(status = tccrt_session_new(m, &(struct tccrt_options){.threads = 1}, &s)) &&
        tccrt_ninputs(m, NULL) == nin && tccrt_noutputs(m, NULL) == nout)
        status = tccrt_run_objects(s, NULL, nin, in, nout, out);
    if (status == TCC_EBUG)
        abort();
    tccrt_session_free(s);
    tccrt_close(m);
    unlink(so);
    rmdir(folder);
    return status;
}

static void compare(int n, struct tcc_object **a, struct tcc_object **b)
{
    for (int i = 0; i < n; i++)
        if (a[i] && b[i] && a[i]->kind == TCC_OBJ_TENSOR && b[i]->kind == TCC_OBJ_TENSOR &&
            (a[i]->t.dtype != b[i]->t.dtype || a[i]->t.rank != b[i]->t.rank ||
             memcmp(a[i]->t.dims, b[i]->t.dims, (size_t)a[i]->t.rank * sizeof *a[i]->t.dims)))
            abort();
}

static void run_module(struct ir_module *m, const char *path)
{
    struct ir_func *f = m->funcs;
    struct tcc_object *in[MOST_VALUES] = {0}, *got[MOST_VALUES] = {0}, *wanted[MOST_VALUES] = {0};
    int nodes = 0, nin = f ? f->body->nparams : 0, nout = f ? f->body->last->nin : 0;
    char error[512];
    bool fits = f && !f->next && nin <= MOST_VALUES && nout <= MOST_VALUES && !m->states && small(f->body, &nodes);

    for (int i = 0; fits && i < nin; i++)
        fits = (in[i] = input(f->body->params[i]->type)) != NULL;
    if (fits && !run_compiled(path, nin, in, nout, got) && !ir_interp(f, NULL, in, wanted, error, sizeof error))
        compare(nout, got, wanted);
    for (int i = 0; i < MOST_VALUES; i++) {
        tccrt_object_unref(in[i]);
        tccrt_object_unref(got[i]);
        tccrt_object_unref(wanted[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    bool text = size > 0 && (data[0] == ';' || data[0] == 'f' || data[0] == 's'); /* .tcir is told by its name alone */
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s/tccc-fuzz-%d.%s", tcr_temporary(), (int)getpid(), text ? "tcir" : "onnx");
    FILE *f = fopen(path, "w");

    if (ctx && f && fwrite(data, 1, size, f) == size && fflush(f) == 0 && IR_PROTECT(ctx, &frame)) {
        struct ir_module *m = frontend_read(ctx, path, NULL);
        if (m && ir_verify(m))
            run_module(m, path);
        ir_unprotect(ctx);
    }
    if (f)
        fclose(f);
    unlink(path);
    ir_ctx_free(ctx);
    return 0;
}
