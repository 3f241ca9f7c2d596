/* SPDX-License-Identifier: Apache-2.0 */
/* Building kernels by hand, compiling and running them; see kernels.h. */
#include "tests/unit/kernels.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/cpu/cpu_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/artifact/elf_int.h"
#include "compiler/artifact/link_int.h"

void hk_init(struct hk *b, struct ir_ctx *ctx, const char *name)
{
    memset(b, 0, sizeof *b);
    b->ctx = ctx;
    b->k.name = ir_strdup(ctx, name);
    b->k.kind = IR_K_MAP;
}

ir_expr hk_size(struct hk *b, const char *name)
{
    ir_expr s = ir_sym(b->ctx, name);
    for (int i = 0; i < b->k.nsizes; i++)
        if (b->sizes[i] == s)
            return s;
    return b->sizes[b->k.nsizes++] = s;
}

static ir_expr add_dim(struct hk *b, ir_expr extent, enum kn_role role)
{
    ir_expr v = ir_iter(b->ctx, role == KN_OUTER ? "o" : "i", extent);
    b->dims[b->k.ndims++] = (struct kn_dim){v, extent, role};
    return v;
}

ir_expr hk_outer(struct hk *b, ir_expr extent)
{
    return add_dim(b, extent, KN_OUTER);
}
ir_expr hk_inner(struct hk *b, ir_expr extent)
{
    return add_dim(b, extent, KN_INNER);
}

int hk_operand(struct hk *b, enum kn_operand_use use, enum tcc_dtype d, int rank, const ir_expr *dims)
{
    struct kn_operand *o = &b->operands[b->k.noperands];
    o->use = use;
    o->space = use == KN_LOCAL ? KN_SCRATCH : KN_GLOBAL;
    o->dtype = d;
    o->rank = rank;
    o->name = ir_internf(b->ctx, "t%d", b->k.noperands);
    for (int i = 0; i < rank; i++)
        o->dims[i] = dims[i];
    return b->k.noperands++;
}

void hk_stage(struct hk *b, uint32_t inner)
{
    b->stages[b->k.nstages++] = (struct kn_stage){.inner = inner, .first = b->k.ninsns, .last = b->k.ninsns};
}

static struct kn_insn *add_insn(struct hk *b, enum kn_code code, enum tcc_dtype d)
{
    struct kn_insn *n = &b->insns[b->k.ninsns++];
    n->code = (uint8_t)code;
    n->dtype = (uint8_t)d;
    n->operand = -1;
    n->arg[0] = n->arg[1] = n->arg[2] = -1;
    b->stages[b->k.nstages - 1].last = b->k.ninsns;
    return n;
}

static int number(const struct hk *b, const struct kn_insn *n)
{
    return (int)(n - b->insns);
}

int hk_const(struct hk *b, enum tcc_dtype d, double v)
{
    struct kn_insn *n = add_insn(b, KN_CONST, d);
    n->fvalue = v;
    n->ivalue = (int64_t)v;
    return number(b, n);
}

static void set_index(struct hk *b, struct kn_insn *n, int operand, const ir_expr *index)
{
    ir_expr *copy = IR_NEWN(b->ctx, b->operands[operand].rank + 1, ir_expr);
    n->operand = operand;
    n->nindex = (uint8_t)b->operands[operand].rank;
    for (int i = 0; i < n->nindex; i++)
        copy[i] = index[i];
    n->index = copy;
}

int hk_load(struct hk *b, int operand, const ir_expr *index)
{
    struct kn_insn *n = add_insn(b, KN_LOAD, b->operands[operand].dtype);
    set_index(b, n, operand, index);
    return number(b, n);
}

int hk_load_guarded(struct hk *b, int operand, const ir_expr *index, struct kn_guard guard, int otherwise)
{
    int i = hk_load(b, operand, index);
    struct kn_guard *g = IR_NEW(b->ctx, struct kn_guard);
    *g = guard;
    b->insns[i].guards = g;
    b->insns[i].nguards = 1;
    b->insns[i].arg[0] = otherwise;
    b->insns[i].nargs = otherwise >= 0;
    return i;
}

void hk_store(struct hk *b, int operand, const ir_expr *index, int value)
{
    struct kn_insn *n = add_insn(b, KN_STORE, b->operands[operand].dtype);
    set_index(b, n, operand, index);
    n->arg[0] = value;
    n->nargs = 1;
}

int hk_scalar(struct hk *b, enum ir_op op, enum tcc_dtype d, int x, int y, int z)
{
    struct kn_insn *n = add_insn(b, KN_SCALAR, d);
    n->op = (uint16_t)op;
    n->arg[0] = x;
    n->arg[1] = y;
    n->arg[2] = z;
    n->nargs = (uint8_t)(1 + (y >= 0) + (z >= 0));
    return number(b, n);
}

int hk_reduce(struct hk *b, enum kn_code code, enum kn_reducer r, enum tcc_dtype d, int x, int position, int64_t flag)
{
    struct kn_insn *n = add_insn(b, code, d);
    n->reducer = (uint8_t)r;
    n->arg[0] = x;
    n->arg[1] = position;
    n->nargs = (uint8_t)(1 + (position >= 0));
    n->ivalue = flag;
    return number(b, n);
}

void hk_sort(struct hk *b, int keys, int companions, enum kn_reducer r)
{
    struct kn_insn *n = add_insn(b, KN_SORT, b->operands[keys].dtype);
    n->operand = keys;
    n->ivalue = companions;
    n->reducer = (uint8_t)r;
}

int hk_expr(struct hk *b, enum tcc_dtype d, ir_expr x)
{
    struct kn_insn *n = add_insn(b, KN_EXPR, d);
    n->expr = x;
    return number(b, n);
}

ir_expr hk_index(struct hk *b, int x, ir_expr bound)
{
    struct kn_insn *n = add_insn(b, KN_INDEX, TCC_I64);
    n->arg[0] = x;
    n->nargs = 1;
    n->bound = bound;
    n->expr = ir_fresh(b->ctx, "g", 0, 1ll << 40);
    return n->expr;
}

struct kn_kernel *hk_finish(struct hk *b)
{
    struct kn_kernel *k = IR_NEW(b->ctx, struct kn_kernel);
    *k = b->k;
    k->dims = memcpy(ir_alloc(b->ctx, sizeof b->dims), b->dims, sizeof b->dims);
    k->operands = memcpy(ir_alloc(b->ctx, sizeof b->operands), b->operands, sizeof b->operands);
    k->insns = memcpy(ir_alloc(b->ctx, sizeof b->insns), b->insns, sizeof b->insns);
    k->stages = memcpy(ir_alloc(b->ctx, sizeof b->stages), b->stages, sizeof b->stages);
    k->sizes = memcpy(ir_alloc(b->ctx, sizeof b->sizes), b->sizes, sizeof b->sizes);
    return k;
}

/* -- Running ------------------------------------------------------------------------------------------ */

static void must(struct ir_ctx *ctx, bool ok)
{
    if (ok)
        return;
    for (int i = 0; i < ir_nmessages(ctx); i++)
        ir_print_message(stderr, ir_message(ctx, i));
    ck_abort_msg("compiling failed");
}

struct hk_arch hk_arch(struct ir_ctx *ctx, const char *text)
{
    const char *slash = strchr(text, '/');
    struct hk_arch a;
    a.code = target_cpu.resolve(ctx, ir_internf(ctx, "%.*s", (int)strcspn(text, "/"), text));
    a.planned = slash ? target_cpu.resolve(ctx, slash + 1) : a.code;
    must(ctx, target_cpu.machine(ctx, a.code) && target_cpu.machine(ctx, a.planned));
    return a;
}

bool hk_cpu_runs(struct ir_ctx *ctx, const char *arch)
{
    const struct cpu_machine *m = cpu_machine_make(ctx, hk_arch(ctx, arch).code, NULL),
                             *here = cpu_machine_make(ctx, "native", NULL);
    return m && here && (m->features & ~here->features) == 0;
}

static void plain_schedule(struct ir_ctx *ctx, struct kn_kernel *k)
{
    ir_expr n = ir_const(ctx, 1);
    k->schedule = (struct kn_schedule){.how = "loops"};
    k->combining = k->split.combine ? n : NULL;
    for (int i = 0; i < k->ndims && k->dims[i].role != KN_INNER; i++) {
        k->schedule.tile[i] = 3;
        if (k->split.combine && i)
            k->combining = ir_mul(ctx, k->combining, ir_ceildiv(ctx, k->dims[i].extent, ir_const(ctx, 3)));
        n = ir_mul(ctx, n, ir_ceildiv(ctx, k->dims[i].extent, ir_const(ctx, 3)));
    }
    k->tiles = n;
    k->scratch = ir_const(ctx, 1 << 20);
}

/* An object that exports a table of the kernels, which are hidden. */
static void write_table(const char *path, int n)
{
    char error[256], name[32];
    struct elf *elf = elf_new(cpu_isa_host());
    int section = elf_section(elf, ".data.rel.ro.table", ELF_RELRO, 64);
    uint64_t at = elf_zeros(elf, section, (uint64_t)n * 8, 64);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "test_k%d", i);
        elf_pointer(elf, section, at + (uint64_t)i * 8, elf_symbol(elf, name, 0, 0, 0, ELF_GLOBAL | ELF_HIDDEN), 0);
    }
    elf_symbol(elf, "test_kernels", section, at, (uint64_t)n * 8, ELF_GLOBAL);
    ck_assert_msg(elf_write(elf, path, error, sizeof error), "%s", error);
    elf_free(elf);
}

void hk_load_kernels(struct ir_ctx *ctx, struct hk_loaded *l, int n, struct kn_kernel *const *kernels, const char *arch,
                     int level, bool vector)
{
    struct hk_arch made = hk_arch(ctx, arch);
    const struct pass_machine *m = target_cpu.machine(ctx, made.planned);
    struct kn_program p = {.nkernels = n, .kernels = (struct kn_kernel **)kernels};
    struct target_options o = {.arch = made.code,
                               .planned = made.planned,
                               .level = level,
                               .jobs = 2,
                               .dump = getenv("KERNELS_DUMP"),
                               .dump_to = stderr};
    struct target_code code = {0};
    static const char *const exports[] = {"test_kernels"};
    must(ctx, m != NULL);
    for (int i = 0; i < n; i++) {
        if (vector)
            m->schedule(m, ctx, kernels[i]);
        else
            plain_schedule(ctx, kernels[i]);
        const char *why = target_cpu.refuses(ctx, kernels[i]);
        ck_assert_msg(!why, "%s: %s", kernels[i]->name, why);
    }
    snprintf(l->folder, sizeof l->folder, "/tmp/tccc-kernels-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(l->folder));
    must(ctx, target_cpu.compile(ctx, &p, &o, "test_", l->folder, &code));
    const char **all = IR_NEWN(ctx, code.nobjects + 1, const char *);
    for (int i = 0; i < code.nobjects; i++)
        all[i] = code.objects[i];
    all[code.nobjects] = ir_internf(ctx, "%s/table.o", l->folder);
    write_table(all[code.nobjects], n);
    const char *so = ir_internf(ctx, "%s/kernels.so", l->folder);
    must(ctx, link_shared(ctx, cpu_isa_host(), so, code.nobjects + 1, all, 0, NULL, 1, exports, NULL));
    for (int i = 0; i <= code.nobjects; i++)
        unlink(all[i]);
    l->handle = dlopen(so, RTLD_NOW);
    ck_assert_msg(l->handle != NULL, "%s", dlerror());
    l->fn = dlsym(l->handle, "test_kernels");
    ck_assert_ptr_nonnull(l->fn);
    unlink(so);
    rmdir(l->folder);
}

void hk_unload(struct hk_loaded *l)
{
    dlclose(l->handle);
}

struct lookup {
    const struct kn_kernel *k;
    const int64_t *sizes;
};

static bool size_value(void *user, ir_expr sym, int64_t *out)
{
    struct lookup *l = user;
    for (int i = 0; i < l->k->nsizes; i++) {
        if (l->k->sizes[i] != sym)
            continue;
        *out = l->sizes[i];
        return true;
    }
    return false;
}

int64_t hk_value(const struct kn_kernel *k, ir_expr x, const int64_t *sizes)
{
    struct lookup l = {k, sizes};
    int64_t v;
    ck_assert(ir_eval(x, size_value, &l, &v));
    return v;
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page) / page * page;
}

void *hk_alloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = whole_pages(bytes);
    char *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(mprotect(at + whole, page, PROT_NONE), 0);
    return at + whole - bytes;
}

void hk_free(void *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = whole_pages(bytes);
    munmap((char *)p + bytes - whole, whole + page);
}

uint64_t hk_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

int64_t hk_elements(const struct kn_kernel *k, int operand, const int64_t *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < k->operands[operand].rank; i++)
        n *= hk_value(k, k->operands[operand].dims[i], sizes);
    return n;
}

int hk_run(const struct kn_kernel *k, tcc_kernel_fn fn, void *const *args, const int64_t *sizes, int64_t step)
{
    struct tcc_env env = {0};
    int64_t tiles = hk_value(k, k->tiles, sizes), bytes = k->scratch ? hk_value(k, k->scratch, sizes) : 0;
    /* A guard zone behind the scratch tells whether it was large enough. */
    uint8_t *scratch = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64 + 64);
    memset(scratch + bytes, 0xa5, 64);
    for (int64_t t = 0; t < tiles; t += step)
        fn(args, sizes, scratch, &env, t, t + step < tiles ? t + step : tiles);
    int64_t all = tiles + (k->combining ? hk_value(k, k->combining, sizes) : 0);
    for (int64_t t = tiles; t < all; t += step) /* the second phase of a split kernel */
        fn(args, sizes, scratch, &env, t, t + step < all ? t + step : all);
    for (int i = 0; i < 64; i++)
        ck_assert_msg(scratch[bytes + i] == 0xa5, "%s: scratch overrun", k->name);
    free(scratch);
    return env.fault;
}
