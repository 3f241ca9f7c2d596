/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - kernels with sizes that only the run knows. Of such a kernel up to three outer dims are open: their extents
 * are numbers times products of sizes, the units. What it does for some units of each is a kernel of known sizes, a
 * turn; for the next ones the same, further on in HBM by as many bytes a unit of each tensor. So the program is a nest
 * of loops of turns of many points, behind each loops of turns of fewer, down to one, whose counts come from registers
 * (turns.c). A turn has so many that engines, which meet at its end, are at work for long before they do. Distances of
 * rows may depend on sizes, too (sizes.c).
 *
 * Where an access does not go on like that, or a value says which unit it is of, the kernel is the host's
 * (open_access.c).
 *
 * The heads of attention that is too large to be unrolled are turns, too, whose number is known.
 */
#include <string.h>

#include "compiler/neuron/cost.h"
#include "compiler/neuron/open_int.h"

/* LONG: ticks that a turn should take; MORE: points of a level's turn, as a multiple of the next one's. */
enum { LONG = 1 << 19, MORE = 8, MOST_LEVELS = 4 };

/* The kernel for so many units of each axis. */
static struct kn_kernel *kernel_of(const struct nk_open *o, const int64_t *units)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->pinned);
    ir_expr zero = ir_const(o->ctx, 0);
    int64_t all = 1;
    for (int r = 0; r < o->nread; r++)
        kn_subst(o->ctx, k, 1, &o->axis[o->naxes + r].var, &zero);
    for (int a = 0; a < o->naxes; a++) {
        k->dims[o->axis[a].dim].extent = ir_const(o->ctx, units[a] * o->axis[a].each);
        all *= units[a];
    }
    for (int i = 0; i < k->noperands; i++) {
        int64_t first = 1;
        uint16_t power = 0;
        if (k->operands[i].rank && nk_uses_size(o->k, o->k->operands[i].dims[0]) &&
            nk_factors(o->k, o->k->operands[i].dims[0], &first, &power))
            k->operands[i].dims[0] = ir_const(o->ctx, first * all);
    }
    return k;
}

/* By tensor of a turn, its operand. */
static int *operands_of(const struct nk_open *o, int ntensors)
{
    int *operand = IR_NEWN(o->ctx, ntensors + 1, int);
    for (int t = 0, i = 0; t < ntensors; t++, i++) {
        while (i < o->k->noperands && o->k->operands[i].use == KN_LOCAL)
            i++;
        operand[t] = i < o->k->noperands ? i : -1;
    }
    return operand;
}

/* NULL: it can't be made, `why` says why. */
static struct neuron_program *turn(const struct nk_open *o, const struct nk_machine *m, const int64_t *units,
                                   enum nk_keys keys, const char **why)
{
    struct neuron_program *p = nk_turn_program(o->ctx, m, kernel_of(o, units), keys, &o->where, why);
    if (!p)
        return NULL;
    int *operand = operands_of(o, p->ntensors);
    struct nk_chain *chain = IR_NEWN(o->ctx, p->ntensors + 1, struct nk_chain);
    for (int t = 0; t < p->ntensors; t++)
        if (operand[t] >= 0)
            chain[t] = o->chain[operand[t]];
    if (nk_sizes_apart(chain, p->ntensors, p))
        return p;
    *why = "distances of rows that are not theirs alone";
    neuron_program_free(p);
    return NULL;
}

/* May turns be of more points than this program's? Where there are several axes there will be one for each pair. */
static bool is_short(const struct nk_open *o, const struct nk_machine *m, const struct neuron_program *p)
{
    int most = o->naxes == 1 ? NK_MOST_INSTRUCTIONS / MORE : o->naxes == 2 ? 4000 : 1000;
    return nk_ticks_of(m->core, p) < LONG && nk_instructions_of(p) <= most;
}

/* From one unit a turn to as many as make it long, of the last axis first: how many units the longest turn has of
 * each. */
static bool find_levels(struct nk_open *o, const struct nk_machine *m, struct nk_turns *t, int64_t *longest)
{
    const char *why = "";
    for (int a = 0; a < o->naxes; a++)
        longest[a] = 1;
    struct neuron_program *p = turn(o, m, longest, NK_KEYS_ALL, &why);
    if (!p) {
        o->why = why;
        return false;
    }
    for (bool grows = true; grows && is_short(o, m, p);) {
        grows = false;
        for (int a = o->naxes - 1; a >= 0 && is_short(o, m, p); a--) {
            if (t->axis[a].n == (o->naxes > 1 ? MOST_LEVELS - 1 : MOST_LEVELS) ||
                (o->axis[a].units && longest[a] * MORE > o->axis[a].units))
                continue;
            longest[a] *= MORE;
            struct neuron_program *more = turn(o, m, longest, NK_KEYS_ALL, &why);
            if (!more || (o->naxes > 1 && nk_instructions_of(more) > NK_MOST_INSTRUCTIONS / MORE)) {
                longest[a] /= MORE;
                neuron_program_free(more);
                continue;
            }
            neuron_program_free(p);
            p = more;
            t->axis[a].n++;
            grows = true;
        }
    }
    neuron_program_free(p);
    return true;
}

static bool make_turn(struct nk_open *o, const struct nk_machine *m, struct nk_turns *t, int p, const int64_t *units,
                      enum nk_keys keys)
{
    t->program[p] = turn(o, m, units, keys, &o->why);
    return t->program[p];
}

/* Levels of rows and keys: down to one point where the run alone knows how many there are, else down to what all of
 * them are a multiple of. Of rows two are enough where there are so many (turns.c). */
static void find_row_levels(const struct nk_open *o, struct nk_turns *t)
{
    static const int64_t points[] = {NK_ROWS, NK_ROWS / 2, 128, 32, 8, 1};
    int rows = o->naxes - 2, keys = o->naxes - 1;
    int64_t known = o->axis[keys].units, least = 0;
    struct nk_axis_turns *x = &t->axis[keys];
    x->n = 0;
    for (int l = 0; l < NK_LEVELS + 1; l++) {
        bool one = points[l] == 1, other = l == (known ? 1 : 0);
        if (other || (known && x->n && known % least == 0) || (!one && points[l] * o->axis[keys].each > points[!known]))
            continue;
        x->points[x->n++] = least = points[l];
    }
    memcpy(&t->axis[rows], x, sizeof *x);
    t->axis[rows].units = o->axis[rows].units;
    t->axis[rows].n = known && x->n > 2 ? 2 : x->n;
}

/* Rows and keys of attention, in turns of so many points; which of them meet is put_rows()'s matter (turns.c). */
static bool make_rows(struct nk_open *o, const struct nk_machine *m, struct nk_turns *t)
{
    int rows = o->naxes - 2, keys = o->naxes - 1;
    struct nk_axis_turns *x = &t->axis[keys];
    int64_t units[NK_OPEN] = {1, 1, 1};
    bool fine = true;
    find_row_levels(o, t);
    t->rows = true;
    t->causal = o->k->roles.attention.is.compare >= 0;
    int n = x->n;
    for (int l = 0; l < t->axis[rows].n && fine; l++) {
        units[rows] = x->points[l];
        for (int k = l > 1 ? l : 0; k < n && fine; k++) {
            units[keys] = x->points[k];
            fine = (t->causal && !l && k) || make_turn(o, m, t, l * n + k, units, NK_KEYS_OTHER);
        }
        units[keys] = units[rows];
        fine = fine && make_turn(o, m, t, n * n + l, units, NK_KEYS_OWN) &&
               (l || make_turn(o, m, t, n * n + n, units, NK_KEYS_NONE));
    }
    return fine;
}

static bool make_turns(struct nk_open *o, const struct nk_machine *m, struct nk_turns *t)
{
    int64_t longest[NK_OPEN], units[NK_OPEN];
    bool fine = true;
    t->naxes = o->naxes;
    for (int a = 0; a < o->naxes; a++)
        t->axis[a] =
            (struct nk_axis_turns){.n = 1, .points = {1}, .units = o->axis[a].units, .power = o->axis[a].power};
    if (nk_is_some_keys(o->k))
        return make_rows(o, m, t);
    if (!find_levels(o, m, t, longest))
        return false;
    int n = 1;
    for (int a = 0; a < o->naxes; n *= t->axis[a++].n)
        for (int l = 0; l < t->axis[a].n; l++)
            t->axis[a].points[l] = l ? t->axis[a].points[l - 1] / MORE : longest[a];
    for (int p = 0; p < n && fine; p++) {
        for (int a = o->naxes - 1, left = p; a >= 0; left /= t->axis[a--].n)
            units[a] = t->axis[a].points[left % t->axis[a].n];
        fine = make_turn(o, m, t, p, units, NK_KEYS_ALL);
    }
    return fine;
}

static void free_turns(struct nk_turns *t)
{
    for (int p = 0; p < NK_TURNS; p++)
        neuron_program_free(t->program[p]);
}

static bool is_environment(const struct neuron_tensor *t)
{
    return !strcmp(t->name, NEURON_ENV_NAME);
}

static bool has(const struct neuron_program *p, bool (*is)(const struct neuron_tensor *))
{
    bool any = false;
    for (int t = 0; p && t < p->ntensors; t++)
        any |= is(&p->tensors[t]);
    return any;
}

/* What the joined program has: operands of the kernel that it is of, and whether, behind those, the environment and
 * where turns are; sizes that are made of others. */
struct joined {
    int nown;
    bool env, where;
    const struct nk_made_sizes *made;
};

/* Tensors of the joined program: the operands without copies, then what turns have besides. By tensor of a turn. */
static uint16_t *places_of(const struct nk_open *o, const struct neuron_program *p, const struct joined *j)
{
    const int *operand = operands_of(o, p->ntensors);
    uint16_t *place = IR_NEWN(o->ctx, p->ntensors + 1, uint16_t);
    int own = 0, missing = (j->env && !has(p, is_environment)) + (j->where && !has(p, nk_is_where));
    for (int t = 0; t < p->ntensors; t++)
        own += operand[t] >= 0 && operand[t] < j->nown;
    for (int t = 0; t < p->ntensors; t++) {
        int of = operand[t] < 0 ? -1 : o->copied[operand[t]];
        if (operand[t] >= 0)
            place[t] = (uint16_t)(t + (operand[t] >= j->nown ? j->env + j->where : 0));
        else if (is_environment(&p->tensors[t]))
            place[t] = (uint16_t)own;
        else if (nk_is_where(&p->tensors[t]))
            place[t] = (uint16_t)(own + j->env);
        else
            place[t] = (uint16_t)(t - (o->k->noperands - o->noperands) + missing);
        for (int u = 0; u < t && of >= 0; u++)
            if (operand[u] == of)
                place[t] = place[u];
    }
    return place;
}

/* Sizes, and tensors as the turns have them, those of the operands as long as the sizes say. Temporary ones are as long
 * as any turn has them; what phases hand on is such a tensor, too. */
static void add_names(struct nk *nk, struct nk_open *o, const struct nk_turns *t, int nphases, const struct joined *j)
{
    struct neuron_tensor all[NEURON_ARGUMENTS + NEURON_ARGUMENTS / 2] = {{0}};
    int n = 0;
    for (int s = 0; s < o->k->nsizes; s++) {
        char name[16];
        int length = snprintf(name, sizeof name, "n%d", s);
        neuron_add_size(nk->p, name, (size_t)length, (uint8_t)(NEURON_REGISTERS - 1 - s));
        if (s >= o->k->nsizes - j->made->n)
            neuron_make_size(nk->p, s, &j->made->how[s - (o->k->nsizes - j->made->n)]);
    }
    for (int f = 0; f < nphases; f++)
        for (int p = 0; p < NK_TURNS; p++) {
            const struct neuron_program *from = t[f].program[p];
            if (!from)
                continue;
            const int *operand = operands_of(&o[f], from->ntensors);
            const uint16_t *place = places_of(&o[f], from, j);
            for (int k = 0; k < from->ntensors; k++) {
                struct neuron_tensor tensor = from->tensors[k];
                int64_t each;
                uint16_t power = 0;
                if (operand[k] >= o[f].noperands)
                    continue;
                if (operand[k] >= 0 && nk_open_elements(&o[f], &o[f].k->operands[operand[k]], &each, &power) && power)
                    tensor.dims[0] = (nk_is_wide(o[f].k->operands[operand[k]].dtype) ? 2 : 1) * each;
                for (int s = 0; s < NEURON_SIZES; s++)
                    for (int x = power >> 2 * s & NEURON_POWER; x; x--)
                        tensor.sizes[tensor.nsizes++] = (uint8_t)s;
                tensor.use = operand[k] >= j->nown ? NEURON_TEMP : tensor.use;
                if (place[k] >= n || tensor.dims[0] > all[place[k]].dims[0])
                    all[place[k]] = tensor;
                n = place[k] >= n ? place[k] + 1 : n;
            }
        }
    for (int k = 0; k < n; k++) {
        char name[16];
        if (!is_environment(&all[k]) && !nk_is_where(&all[k])) {
            snprintf(name, sizeof name, "a%d", k);
            all[k].name = name;
        }
        if (neuron_add_tensor(nk->p, &all[k]) < 0)
            nk_refuse(nk, "no memory for a program");
    }
}

/* Bytes by which tensors go on with a unit of each axis. */
static void add_steps(struct nk *nk, const struct nk_open *o, struct nk_turns *t, const struct joined *j)
{
    const struct neuron_program *most = NULL;
    for (int p = 0; p < NK_TURNS; p++)
        if (t->program[p] && (!most || t->program[p]->ntensors > most->ntensors))
            most = t->program[p];
    t->ntensors = most->ntensors;
    const int *operand = operands_of(o, t->ntensors);
    t->place = places_of(o, most, j);
    t->nread = o->nread;
    for (int r = 0; r < o->nread; r++) {
        t->read[r] = o->read[r];
        for (int k = 0; k < t->ntensors; k++)
            if (operand[k] == o->read[r].tensor)
                t->read[r].tensor = (uint16_t)k;
    }
    t->step = IR_NEWN(o->ctx, t->ntensors + 1, struct nk_steps);
    for (int k = 0; k < t->ntensors; k++)
        for (int a = 0; a < o->naxes + o->nread && operand[k] >= 0; a++) {
            const struct kn_operand *x = &o->k->operands[operand[k]];
            int64_t by = o->axis[a].shift[operand[k]] != NK_NOT_YET ? o->axis[a].shift[operand[k]] : 0;
            by *= (nk_is_wide(x->dtype) ? 2 : 1) * neuron_type_bytes(nk_type(nk, x->dtype));
            if (!nk_take_apart(&o->chain[operand[k]], by, &t->step[k].by[a]))
                nk_refuse(nk, "a step that sizes are no factors of");
        }
    for (int w = 0; w < o->where.n; w++) { /* points, of one axis each */
        t->where_step[w] = (struct nk_steps){0};
        for (int a = 0; a < o->naxes + o->nread; a++)
            t->where_step[w].by[a] = nk_integer(a == o->where_axis[w] ? o->axis[a].each : 0);
    }
    t->nwhere = o->where.n;
    for (int k = 0; k < t->ntensors; k++)
        if (nk_is_where(&most->tensors[k]))
            t->where = t->place[k];
}

static bool join(struct nk *nk, struct nk_open *o, struct nk_turns *t, int nphases, const struct kn_kernel *of,
                 const struct nk_made_sizes *made)
{
    char error[NEURON_ERROR];
    struct joined j = {.nown = of->noperands, .made = made};
    for (int f = 0; f < nphases; f++)
        for (int p = 0; p < NK_TURNS; p++)
            j.env |= has(t[f].program[p], is_environment), j.where |= has(t[f].program[p], nk_is_where);
    if (setjmp(nk->refused))
        return false;
    add_names(nk, o, t, nphases, &j);
    for (int f = 0; f < nphases; f++)
        add_steps(nk, &o[f], &t[f], &j);
    nk_put_turns(nk, t, nphases);
    if (!neuron_check(nk->p, error))
        nk_refuse(nk, "a program that breaks a rule: %s", error);
    return true;
}

/* Phases of kernel `of`, one behind the other, whose turns are there. NULL: *why says why. */
static struct neuron_program *in_turns(struct nk_open *o, struct nk_turns *t, int nphases, const struct kn_kernel *of,
                                       const struct nk_made_sizes *made, const struct nk_machine *m, const char **why)
{
    struct nk *nk = IR_NEW(o->ctx, struct nk);
    *nk = (struct nk){.ctx = o->ctx, .machine = m, .k = o->k, .p = neuron_program_new(m->core)};
    if (nk->p && join(nk, o, t, nphases, of, made))
        return nk->p;
    neuron_program_free(nk->p);
    if (nk->why) {
        nk_open_refuse(o, nk->why);
        *why = o->why;
    }
    return NULL;
}

static struct neuron_program *in_phases(struct nk_open *o, int nphases, const struct kn_kernel *of,
                                        const struct nk_made_sizes *made, const struct nk_machine *m, const char **why)
{
    struct nk_turns *t = IR_NEWN(o->ctx, nphases, struct nk_turns);
    bool fine = true;
    for (int f = 0; f < nphases && fine; f++) {
        fine = make_turns(&o[f], m, &t[f]);
        *why = o[f].why;
    }
    struct neuron_program *p = fine ? in_turns(o, t, nphases, of, made, m, why) : NULL;
    for (int f = 0; f < nphases; f++)
        free_turns(&t[f]);
    return p;
}

struct neuron_program *nk_open_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why)
{
    const struct kn_kernel *box[NK_BOXES], *phase[NK_PHASES];
    struct nk_made_sizes made;
    int boxes = nk_boxes(ctx, k, box), n = 0;
    nk_make_sizes(ctx, box, boxes, &made);
    struct nk_open *o = IR_NEWN(ctx, NK_PHASES, struct nk_open);
    *why = "sizes that only the run knows (--dim says them): a reduction along them that is not of float32, or of "
           "sums of 32 and 64 bits";
    for (int b = 0; b < boxes; b++) {
        int more = box[b]->nsizes > NEURON_SIZES ? 0 : nk_phases(ctx, box[b], phase + n);
        if (!more || (boxes > 1 && more > 1))
            return NULL;
        n += more;
    }
    if (phase[0]->noperands >= NEURON_ARGUMENTS)
        return NULL;
    for (int f = 0; f < n; f++) {
        o[f] = (struct nk_open){.ctx = ctx, .k = phase[f], .why = "no memory for a program"};
        bool fine = nk_find_units(&o[f]) && nk_find_reads(&o[f]) && nk_find_shifts(&o[f]);
        for (int i = 0; fine && i < phase[f]->noperands; i++) {
            int64_t each;
            uint16_t power;
            fine = nk_open_elements(&o[f], &phase[f]->operands[i], &each, &power);
        }
        *why = o[f].why;
        if (!fine)
            return NULL;
    }
    return n ? in_phases(o, n, k, &made, m, why) : NULL;
}

/* A turn in which the engines' meeting is no part of its time: of as few of a dim's n points as that takes. NULL: there
 * would be two turns at most, which halve a program but meet for 3 % of its time. */
static struct neuron_program *long_turn(struct nk_open *o, const struct nk_machine *m, int64_t n)
{
    int64_t one = 1, ticks = 0;
    for (int64_t each = 1; each <= n / 3; each++) {
        o->axis[0].each = each;
        if (n % each || (ticks && each * ticks <= 2 * LONG) || !nk_find_shifts(o))
            continue;
        struct neuron_program *p = turn(o, m, &one, NK_KEYS_ALL, &o->why);
        int64_t all = p ? nk_ticks_of(m->core, p) : 0;
        if (all > 2 * LONG)
            return p;
        neuron_program_free(p);
        ticks = all / each;
    }
    return NULL;
}

struct neuron_program *nk_heads_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k)
{
    const struct kn_roles *r = &k->roles;
    int row = r->form == KN_ATTENTION ? r->attention.row : r->form == KN_ATTENTION_GRAD ? r->attention_grad.row : -1;
    for (int d = 0; d < k->ndims && row >= 0; d++) {
        struct nk_open o = {.ctx = ctx, .k = k, .naxes = 1, .axis = {{.dim = d, .var = k->dims[d].var}}};
        struct nk_turns t = {.naxes = 1, .axis = {{.n = 1, .points = {1}}}};
        const char *why;
        int64_t n;
        if (d == row || k->dims[d].role != KN_OUTER || !ir_is_const(k->dims[d].extent, &n) ||
            !(t.program[0] = long_turn(&o, m, n)))
            continue;
        t.axis[0].units = n / o.axis[0].each;
        struct neuron_program *p = in_turns(&o, &t, 1, k, &(struct nk_made_sizes){0}, m, &why);
        free_turns(&t);
        return p;
    }
    return NULL;
}

/* So many points of a dim a turn, of turns of all of its n ones. */
static void add_axis(struct nk_open *o, int dim, int64_t each, int64_t n)
{
    o->axis[o->naxes++] =
        (struct nk_open_axis){.dim = dim, .var = o->k->dims[dim].var, .each = each, .units = n / each};
}

/* Heads of a turn: as many as make it long. */
static bool make_known_rows(struct nk_open *o, const struct nk_machine *m, struct nk_turns *t, const int64_t *extent)
{
    const struct kn_kernel *k = o->k;
    const struct kn_attention *r = &k->roles.attention;
    int heads = -1;
    for (int d = 0; d < k->ndims; d++)
        if (d != r->row && k->dims[d].role == KN_OUTER && extent[d] > (heads < 0 ? 1 : extent[heads]))
            heads = d;
    for (int64_t each = 1, n = heads < 0 ? 1 : extent[heads]; each <= n; each++) {
        if (n % each)
            continue;
        *o = (struct nk_open){.ctx = o->ctx, .k = k};
        if (heads >= 0)
            add_axis(o, heads, each, n);
        add_axis(o, r->row, 1, extent[r->row]);
        add_axis(o, r->t, 1, extent[r->t]);
        int64_t units[NK_OPEN] = {1, 1, 1};
        units[o->naxes - 2] = units[o->naxes - 1] = NK_ROWS;
        bool goes_on = nk_find_shifts(o); /* not so within heads that share keys */
        struct neuron_program *p = goes_on ? turn(o, m, units, NK_KEYS_OTHER, &o->why) : NULL;
        bool made = p, enough = each == n || (goes_on && (!made || nk_ticks_of(m->core, p) > 2 * LONG));
        neuron_program_free(p);
        if (!enough)
            continue;
        *t = (struct nk_turns){.naxes = o->naxes};
        for (int a = 0; a < o->naxes; a++)
            t->axis[a] = (struct nk_axis_turns){.n = 1, .points = {1}, .units = o->axis[a].units};
        return made && make_rows(o, m, t);
    }
    return false;
}

struct neuron_program *nk_rows_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why)
{
    int64_t extent[KN_MAX_DIMS];
    const struct kn_attention *r = &k->roles.attention;
    bool known = k->roles.form == KN_ATTENTION && r->row >= 0;
    for (int d = 0; d < k->ndims && known; d++)
        known = ir_is_const(k->dims[d].extent, &extent[d]);
    struct nk_open o = {.ctx = ctx, .k = known && extent[r->t] > NK_MOST_KEYS ? nk_some_keys(ctx, k) : NULL};
    struct nk_turns t = {0};
    if (!o.k)
        return NULL;
    struct neuron_program *p =
        make_known_rows(&o, m, &t, extent) ? in_turns(&o, &t, 1, k, &(struct nk_made_sizes){0}, m, why) : NULL;
    free_turns(&t);
    return p;
}
