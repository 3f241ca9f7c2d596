/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded memory, for tests and for whoever looks for a fault: TCCRT_GUARD=1 in the environment. Each block that the
 * process's sessions take, tables and objects included, then lies in a mapping of its own between two pages that nobody
 * may touch: its end at the page behind it, as near as its alignment lets it (TCCRT_GUARD=2: its beginning at the page
 * before it). What is left between block and pages holds poison, and is looked at after each step. Each buffer of the
 * arena and each weight is a block, too, inputs and results are copied in and out of blocks, and scratch ends where the
 * kernel at work has none any more. Memory that nobody has written, or that nobody reads any more in this run, holds
 * poison: NaN in floats.
 *
 * A fault in one of these mappings is told on standard error: node, step, kernel, operand, byte and element. Then it
 * takes its course: the signal ends the process, unless somebody else had a handler for it. (Handlers are installed by
 * the first guarded session, and by nothing else.)
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/grow.h"
#include "runtime/rt_int.h"

#include "base/mutant.h"

enum mode { OFF, END, BEGIN };

static enum mode mode(void)
{
    const char *text = tccrt_env_text("TCCRT_GUARD");

    return !text || !strcmp(text, "0") ? OFF : !strcmp(text, "2") || !strcmp(text, "begin") ? BEGIN : END;
}

bool tcr_guard_wanted(void)
{
    return mode() != OFF;
}

/* -- Blocks -------------------------------------------------------------------------------------------- */

/* pages: those that may be touched; one more lies on each side. known: the block's address as sessions know it. */
struct block {
    char *pages, *data;
    size_t room, bytes;
    const void *known;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static size_t nblocks, blocks_room;

static size_t page_bytes(void)
{
    static size_t page;

    return page ? page : (page = (size_t)sysconf(_SC_PAGESIZE));
}

static bool note(struct block b)
{
    pthread_mutex_lock(&lock);
    bool fine = GROWN(blocks, nblocks, blocks_room, 256);
    if (fine)
        blocks[nblocks++] = b;
    pthread_mutex_unlock(&lock);
    return fine;
}

/* The block with that address, out of the list; pages NULL: there is none. */
static struct block forget(const void *known)
{
    struct block b = {0};

    pthread_mutex_lock(&lock);
    for (size_t i = nblocks; i-- > 0 && !b.pages;)
        if (blocks[i].known == known) {
            b = blocks[i];
            blocks[i] = blocks[--nblocks];
        }
    pthread_mutex_unlock(&lock);
    return b;
}

size_t tcr_guard_offset(size_t bytes, size_t alignment, size_t *room)
{
    *room = (bytes + alignment - 1 + page_bytes() - 1) / page_bytes() * page_bytes();
    return MUTANT(337, mode() == BEGIN, true) ? 0 : (*room - bytes) & ~(alignment - 1);
}

bool tcr_guard_note(void *pages, size_t room, void *data, size_t bytes, const void *known)
{
    return note((struct block){pages, data, room, bytes, known});
}

void tcr_guard_forget(const void *known)
{
    forget(known);
}

/* A block between two pages that nobody may touch, of poison. NULL: no memory, without a message. */
static void *tcr_guard_alloc(size_t bytes, size_t alignment)
{
    size_t page = page_bytes(), room, at;
    char *base;

    if (bytes > PTRDIFF_MAX - 4 * page)
        return NULL;
    at = tcr_guard_offset(bytes, alignment, &room);
    base = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if ((room && mprotect(base + page, room, PROT_READ | PROT_WRITE)) ||
        !note((struct block){base + page, base + page + at, room, bytes, base + page + at})) {
        munmap(base, room + 2 * page);
        return NULL;
    }
    if (room)
        memset(base + page, TCR_GUARD_POISON, room);
    return base + page + at;
}

void tcr_guard_free(void *p)
{
    struct block b = p ? forget(p) : (struct block){0};

    if (b.pages)
        munmap(b.pages - page_bytes(), b.room + 2 * page_bytes());
}

static void *heap_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return tcr_guard_alloc(bytes, alignment);
}

static void heap_free(void *user, void *p)
{
    (void)user;
    tcr_guard_free(p);
}

void tcr_guard_heap(struct tcr_heap *h)
{
    h->allocator = (struct tccrt_allocator){heap_alloc, heap_free, NULL};
    h->exact = true;
}

void *tcr_guard_rows(size_t n, size_t bytes, size_t *step)
{
    size_t page = page_bytes(), room = (bytes + page - 1) / page * page;
    char *p;

    *step = room + page;
    if (!(p = tcr_guard_alloc(n * *step, page)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        mprotect(p + i * *step + room, page, PROT_NONE);
    return p;
}

void *tcr_guard_scratch(uint8_t *row, size_t step, size_t bytes, bool kept)
{
    size_t room = step - page_bytes();

    if (!kept)
        memset(row, TCR_GUARD_POISON, room);
    return row + (mode() == BEGIN ? 0 : room - TCR_ROUND(bytes));
}

/* -- What a fault says ----------------------------------------------------------------------------------- */

static struct tccrt_session *_Atomic at_work; /* several sessions at once: the last one that began a step */
static const struct tcr_kernel_launch *_Atomic launched;

void tcr_guard_launch(const struct tcr_kernel_launch *l)
{
    launched = l;
}

static const struct block *block_of(const char *at)
{
    for (size_t i = 0; i < nblocks; i++)
        if (at >= blocks[i].pages - page_bytes() && at < blocks[i].pages + blocks[i].room + page_bytes())
            return &blocks[i];
    return NULL;
}

/* The buffer that lies there; TCC_NO: none does. */
static uint32_t buffer_at(const struct tccrt_session *s, const void *known)
{
    for (uint32_t b = 0; b < s->m->plan->buffers.count; b++) {
        const struct tcc_pbuffer *p = &s->m->buffers[b];
        const void *at = p->space == TCC_SPACE_INPUT    ? s->inputs[p->index]
                         : p->space == TCC_SPACE_OUTPUT ? s->outs[p->index].data
                         : p->space == TCC_SPACE_STATE  ? s->states[p->index]
                         : s->m->slot_of[b] != TCC_NO   ? s->slots[s->m->slot_of[b]].data
                                                        : s->rebound[b];

        if (at == known)
            return b;
    }
    return TCC_NO;
}

static uint32_t root_of(const struct tccrt_session *s, uint32_t b)
{
    while (s->m->buffers[b].space == TCC_SPACE_ALIAS)
        b = s->m->buffers[b].index;
    return b;
}

/* " (operand 2 of the kernel)", where it is one. */
static void operand_text(const struct tccrt_session *s, const struct tcc_pstep *p, uint32_t b, char *to, size_t size)
{
    *to = '\0';
    for (uint32_t i = 0; p && i < p->args.count; i++)
        if (root_of(s, s->m->u32s[p->args.first + i]) == b) {
            snprintf(to, size, "operand %u, ", i);
            return;
        }
}

static void block_text(const struct tccrt_session *s, const struct tcc_pstep *p, const struct block *x, ptrdiff_t byte,
                       char *to, size_t size)
{
    uint32_t b = s ? buffer_at(s, x->known) : TCC_NO;
    int each = b == TCC_NO ? 1 : tcr_dtype_bytes((int)s->m->buffers[b].dtype);
    char operand[40] = "";

    if (b != TCC_NO)
        operand_text(s, p, b, operand, sizeof operand);
    snprintf(to, size, "%s%s%s%s of %zu bytes at byte %td (element %td)", operand,
             b == TCC_NO ? "memory of the session's" : "buffer '",
             b == TCC_NO ? "" : tcr_string(s->m, s->m->buffers[b].name), b == TCC_NO ? "" : "'", x->bytes, byte,
             byte >= 0 || byte % each == 0 ? byte / each : byte / each - 1);
}

/* The step that a session is at. cpu-split runs steps later than they are given: then the launch's own node counts. */
static void step_text(const struct tccrt_session *s, const struct tcc_pstep **p, char *to, size_t size)
{
    const struct tcr_kernel_launch *l = launched;
    const char *kernel = l && s ? tcr_string(s->m, s->m->kernels[l->kernel].name) : "";

    *p = s && s->device->tag != TCC_NO ? &s->m->steps[s->device->tag] : NULL;
    if (l && s)
        for (uint32_t i = 0; s->device != s->host && i < s->m->plan->steps.count; i++)
            if (s->m->steps[i].kind == TCC_STEP_LAUNCH && s->m->steps[i].what == l->kernel &&
                tcr_string(s->m, s->m->steps[i].node) == l->node)
                *p = &s->m->steps[i];
    if (*p)
        snprintf(to, size, "node '%s' (step %td, %s%s)", tcr_string(s->m, (*p)->node), *p - s->m->steps,
                 l ? "kernel " : "", l ? kernel : tcr_profile_name(s, *p));
    else
        snprintf(to, size, "between steps");
}

static struct sigaction before[2];
static const int signals[2] = {SIGSEGV, SIGBUS};

static const char *verb(void *context)
{
#if defined(__x86_64__)
    return ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#else
    (void)context;
    return "touches";
#endif
}

/* Tells of a fault in a block, and lets it take its course: behind this the instruction runs again, under the handler
 * that was there before. */
static void fault(int number, siginfo_t *info, void *context)
{
    const struct block *b = block_of(info->si_addr);
    struct tccrt_session *s = at_work;
    const struct tcc_pstep *p;
    char where[300], what[300], line[700];

    if (b) {
        step_text(s, &p, where, sizeof where);
        block_text(s, p, b, (char *)info->si_addr - b->data, what, sizeof what);
        int n = snprintf(line, sizeof line, "guard: %s %s outside of its memory: %s\n", where, verb(context), what);
        ssize_t written = write(STDERR_FILENO, line, (size_t)n);
        (void)written;
    }
    sigaction(number, &before[number == SIGBUS], NULL);
}

static void install(void)
{
    struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};

    sigemptyset(&a.sa_mask);
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &a, &before[i]);
}

/* -- A session --------------------------------------------------------------------------------------------- */

struct tcr_guard {
    int64_t *bytes; /* by buffer: of its block in s->rebound */
    void **outputs; /* by output: its block */
    void **inputs;
    const struct tcc_pentry *of; /* whose list `last` is about */
    uint32_t *last;              /* by buffer: 1 + the last step of the outermost list that uses it */
};

static void poison(void *at, int64_t bytes)
{
    if (bytes > 0)
        memset(at, TCR_GUARD_POISON, (size_t)bytes);
}

/* Where a buffer's block lies: the host's memory, or the device's. */
static uint32_t memory_of(const struct tccrt_session *s, uint32_t b)
{
    return s->m->buffers[b].space == TCC_SPACE_WEIGHT ? tcr_memory(s, b) : tcr_arena(s, b) && s->discrete;
}

/* Memory of a buffer that has none, or none of that size. */
static int place(struct tccrt_session *s, uint32_t b, int64_t bytes)
{
    uint32_t memory = memory_of(s, b);

    if (s->rebound[b] && s->guard->bytes[b] == bytes)
        return TCC_OK;
    tcr_free(s, memory, s->rebound[b], (size_t)s->guard->bytes[b]);
    s->rebound[b] = tcr_alloc(s, memory, (size_t)bytes);
    s->guard->bytes[b] = bytes;
    return s->rebound[b] ? TCC_OK : TCC_EENV;
}

static int64_t size_of(const struct tccrt_session *s, uint32_t b)
{
    uint32_t e = s->m->buffers[b].bytes;

    return e == TCC_NO || s->values[e] < 0 ? -1 : s->ranges ? tcr_most(s, e) : s->values[e];
}

int tcr_guard_address(struct tccrt_session *s, uint32_t b, const char *node)
{
    int64_t bytes = size_of(s, b);
    int status = bytes < 0 ? tcr_buffer_bytes(s, b, node, &bytes) : TCC_OK;

    return status ? status : place(s, b, bytes);
}

/* The plan's weights, each by itself. Those of a device whose sizes only a run knows stay where they are. */
static int copy_weight(struct tccrt_session *s, uint32_t b)
{
    const struct tcc_pbuffer *p = &s->m->buffers[b];
    int64_t offset = p->offset == TCC_NO ? 0 : s->values[p->offset], bytes = size_of(s, b);
    int status;

    if (p->space != TCC_SPACE_WEIGHT || offset < 0 || bytes < 0)
        return TCC_OK;
    if (offset > (int64_t)s->m->desc->weights_size || bytes > (int64_t)s->m->desc->weights_size - offset)
        bytes = (int64_t)s->m->desc->weights_size - offset;
    status = place(s, b, bytes);
    return status || !bytes
               ? status
               : tcr_copy(s, tcr_memory(s, b), s->rebound[b], 0, s->m->weights + offset, (size_t)bytes, "");
}

int tcr_guard_new(struct tccrt_session *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint32_t n = s->m->plan->buffers.count;
    struct tcr_guard *g;
    int status = TCC_OK;

    pthread_once(&once, install);
    if (!s->device->runs_host_kernels) /* simulators have guards of their own */
        return TCC_OK;
    if (!(g = s->guard = calloc(1, sizeof *g)) || !(g->bytes = calloc(n + 1, sizeof *g->bytes)) ||
        !(g->outputs = calloc(s->max_outputs, sizeof *g->outputs)) || !(g->last = calloc(n + 1, sizeof *g->last)) ||
        !(g->inputs = calloc(s->max_inputs, sizeof *g->inputs)) || !(s->rebound = calloc(n + 1, sizeof *s->rebound)))
        return tcr_fail(TCC_EENV, "no memory for guards");
    tcr_eval_level(s, 0); /* constants */
    for (uint32_t b = 0; b < n && !status; b++)
        status = copy_weight(s, b);
    return status || !s->discrete ? status : tcr_sync(s);
}

void tcr_guard_end(struct tccrt_session *s)
{
    struct tcr_guard *g = s->guard;

    if (!g)
        return;
    for (uint32_t b = 0; s->rebound && b < s->m->plan->buffers.count; b++)
        if (s->rebound[b])
            tcr_free(s, memory_of(s, b), s->rebound[b], (size_t)g->bytes[b]);
    for (uint32_t i = 0; g->outputs && i < s->max_outputs; i++)
        tcr_guard_free(g->outputs[i]);
    for (uint32_t i = 0; g->inputs && i < s->max_inputs; i++)
        tcr_guard_free(g->inputs[i]);
    free(s->rebound);
    free(g->bytes);
    free(g->outputs);
    free(g->inputs);
    free(g->last);
    free(g);
    s->rebound = NULL;
    s->guard = NULL;
    if (at_work == s)
        at_work = NULL;
}

/* -- A run ------------------------------------------------------------------------------------------------- */

static void use_list(struct tccrt_session *s, struct tcc_range list, uint32_t step)
{
    for (uint32_t i = 0; i < list.count; i++)
        if (s->m->u32s[list.first + i] != TCC_NO)
            s->guard->last[root_of(s, s->m->u32s[list.first + i])] = step;
}

static void use_step(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t step)
{
    use_list(s, p->args, step);
    for (uint32_t i = 0; i < p->regions.count; i++) {
        const struct tcc_pregion *r = &s->m->regions[p->regions.first + i];

        use_list(s, r->params, step);
        use_list(s, r->results, step);
        use_list(s, r->exits, step);
        for (uint32_t k = 0; k < r->steps.count; k++)
            use_step(s, &s->m->steps[r->steps.first + k], step);
    }
}

/* When each buffer is used last. What outputs are copied from, after all steps, is used for ever. */
static void find_last(struct tccrt_session *s, const struct tcc_pentry *e)
{
    s->guard->of = e;
    memset(s->guard->last, 0, s->m->plan->buffers.count * sizeof *s->guard->last);
    for (uint32_t i = 0; i < e->steps.count; i++)
        use_step(s, &s->m->steps[e->steps.first + i], e->steps.first + i + 1);
    use_list(s, e->output_buffers, TCC_NO);
}

int tcr_guard_begin(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = TCC_OK;

    if (s->guard->of != e)
        find_last(s, e);
    for (uint32_t b = 0; b < s->m->plan->buffers.count && !status; b++) {
        if (s->m->buffers[b].space != TCC_SPACE_ARENA || !s->guard->last[b] || size_of(s, b) < 0)
            continue;
        status = place(s, b, size_of(s, b));
        if (!status && !memory_of(s, b))
            poison(s->rebound[b], s->guard->bytes[b]);
    }
    return status;
}

static void *copy_in(void **block, const void *from, size_t bytes, size_t alignment)
{
    tcr_guard_free(*block);
    if ((*block = tcr_guard_alloc(bytes, alignment)) && from && bytes)
        memcpy(*block, from, bytes);
    return *block;
}

static size_t alignment_of(int dtype)
{
    size_t bytes = (size_t)tcr_dtype_bytes(dtype);

    return bytes > 8 || bytes & (bytes - 1) ? 8 : bytes;
}

/* What the caller gives needs no more alignment than its elements do: it ends at the page exactly. */
int tcr_guard_input(struct tccrt_session *s, uint32_t i, const struct tcc_tensor *t)
{
    size_t bytes = (size_t)(tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype));

    s->inputs[i] = copy_in(&s->guard->inputs[i], t->data, bytes, alignment_of(t->dtype));
    return s->inputs[i] ? TCC_OK : tcr_fail(TCC_EENV, "no memory for a guarded input of %zu bytes", bytes);
}

int tcr_guard_output(struct tccrt_session *s, uint32_t k, int dtype)
{
    struct tcr_out *o = &s->outs[k];

    o->data = copy_in(&s->guard->outputs[k], NULL, (size_t)o->bytes, alignment_of(dtype));
    return o->data ? TCC_OK : tcr_fail(TCC_EENV, "no memory for a guarded output of %lld bytes", (long long)o->bytes);
}

void tcr_guard_outputs_back(struct tccrt_session *s)
{
    for (uint32_t k = 0; k < s->running->outputs.count; k++) {
        const struct tcr_out *o = &s->outs[k];

        if (o->data && o->data == s->guard->outputs[k] && o->host && o->bytes)
            memcpy(o->host, o->data, (size_t)o->bytes);
    }
}

/* The first byte in front of `end` that is no poison; NULL: all are. */
static const char *unlike_poison(const char *p, const char *end)
{
    bool poison =
        p >= end || (*(const unsigned char *)p == TCR_GUARD_POISON && !memcmp(p, p + 1, (size_t)(end - p) - 1));

    while (!poison && *(const unsigned char *)p == TCR_GUARD_POISON)
        p++;
    return poison ? NULL : p;
}

/* The first byte between a block and its pages that is no poison; NULL: all are. */
static const char *written(const struct block *b)
{
    const char *end = b->pages + b->room, *at = unlike_poison(b->pages, b->data < end ? b->data : end);

    return at ? at : unlike_poison(b->data + b->bytes, end);
}

void tcr_guard_step(struct tccrt_session *s)
{
    if (!s->lane)
        at_work = s;
    launched = NULL;
}

int tcr_guard_check(struct tccrt_session *s, const struct tcc_pstep *p)
{
    uint32_t step = (uint32_t)(p - s->m->steps);
    char where[300], what[300];
    int status = TCC_OK;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nblocks && !status; i++) {
        const char *at = written(&blocks[i]);

        if (at) {
            step_text(s, &p, where, sizeof where);
            block_text(s, p, &blocks[i], at - blocks[i].data, what, sizeof what);
            status = tcr_fail(TCC_EBUG, "guard: %s writes outside of its memory: %s", where, what);
        }
    }
    pthread_mutex_unlock(&lock);
    for (uint32_t b = 0; !s->discrete && b < s->m->plan->buffers.count && !status; b++)
        if (s->guard->last[b] == step + 1 && s->m->buffers[b].space == TCC_SPACE_ARENA && s->rebound[b])
            poison(s->rebound[b], s->guard->bytes[b]);
    return status;
}
