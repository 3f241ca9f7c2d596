/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of artifacts: descriptor, code version for this CPU, weights in the artifact or in a sidecar file, plan; and
 * the questions about signatures. A model is immutable once open.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/rt_int.h"
#include "base/safe.h"

/* -- Parts of opening ------------------------------------------------------------------------------ */

static int check_descriptor(const struct tcc_model *d, const char *what)
{
    if (d->magic != TCC_MODEL_MAGIC)
        return tcr_fail(TCC_EINPUT, "%s: not a compiled model (its descriptor has a wrong magic number)", what);
    if (d->abi_version != TCC_ABI_VERSION)
        return tcr_fail(TCC_EINPUT,
                        "%s: compiled for version %u of the artifact format, this runtime reads version %u; "
                        "compile it again",
                        what, d->abi_version, TCC_ABI_VERSION);
    if (!d->name || !d->versions || d->nversions == 0)
        return tcr_fail(TCC_EBUG, "%s: its descriptor is incomplete", what);
    return TCC_OK;
}

/* The first version that this CPU runs, and TCCC_MAX_CPU lets it; they come best first. */
static int choose_version(struct tccrt_model *m, const char *what)
{
    const struct tcc_model *d = m->desc;
    const char *most = tccrt_env_text("TCCC_MAX_CPU");
    char missing[64] = "";

    for (uint32_t i = 0; i < d->nversions; i++) {
        if (most && !tcr_cpu_within(d->versions[i].isa, most))
            continue;
        if (tcr_cpu_runs(d->versions[i].isa, missing, sizeof missing)) {
            m->functions = d->versions[i].kernels;
            m->isa = d->versions[i].isa;
            return TCC_OK;
        }
    }
    if (!*missing && d->nversions)
        return tcr_fail(TCC_EENV, "%s: it has no code for %s or less, which TCCC_MAX_CPU asks for", what, most);
    return tcr_fail(TCC_EENV,
                    "%s: this CPU lacks '%s', which the model was compiled for; compile it with a lower --march", what,
                    missing);
}

static int map_file(struct tccrt_model *m, const char *path)
{
    struct stat st;
    int fd = tcr_open_input(path, true);

    if (fd < 0)
        return tcr_fail(TCC_EENV, "%s: weights of the model: %s", path, strerror(errno));
    if (fstat(fd, &st) || (uint64_t)st.st_size != m->desc->weights_size) {
        close(fd);
        return tcr_fail(TCC_EINPUT, "%s: weights of the model: expected %llu bytes, got %llu", path,
                        (unsigned long long)m->desc->weights_size, (unsigned long long)st.st_size);
    }
    m->map_size = (size_t)st.st_size;
    m->map = m->map_size ? mmap(NULL, m->map_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (m->map == MAP_FAILED) {
        m->map = NULL;
        return tcr_fail(TCC_EENV, "%s: weights of the model: %s", path, strerror(errno));
    }
    m->weights = m->map;
    if (tcr_xxh3(m->map, m->map_size) != m->desc->weights_digest)
        return tcr_fail(TCC_EINPUT, "%s: these are not the weights that the model was compiled with (digest differs)",
                        path);
    return TCC_OK;
}

/* Sidecar weights lie in the folder of the file that the descriptor is in. */
static int find_weights(struct tccrt_model *m, const char *what)
{
    char path[PATH_MAX];
    const char *slash;
    Dl_info info;
    int n;

    if (m->desc->weights && m->desc->sidecar &&
        !strncmp(m->desc->sidecar, TCC_RANDOM_WEIGHTS, strlen(TCC_RANDOM_WEIGHTS)))
        return tcr_random_weights(m, what);
    if (m->desc->weights || !m->desc->sidecar) {
        m->weights = m->desc->weights;
        if (!m->weights && m->desc->weights_size)
            return tcr_fail(TCC_EBUG, "%s: its weights are missing", what);
        return TCC_OK;
    }
    if (strchr(m->desc->sidecar, '/'))
        return tcr_fail(TCC_EINPUT, "%s: name of its weights file, '%s', leads elsewhere", what, m->desc->sidecar);
    if (!dladdr(m->desc, &info) || !info.dli_fname)
        return tcr_fail(TCC_EENV, "%s: the folder of its weights file '%s' is not known", what, m->desc->sidecar);
    slash = strrchr(info.dli_fname, '/');
    n = snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - info.dli_fname + 1) : 0, info.dli_fname,
                 m->desc->sidecar);
    if (n < 0 || n >= (int)sizeof path)
        return tcr_fail(TCC_EENV, "%s: path of its weights file is too long", what);
    return map_file(m, path);
}

/* Expressions sorted by level (stable: operands stay before their users). */
static int sort_levels(struct tccrt_model *m, const char *what)
{
    const struct tcc_plan *p = m->plan;
    uint32_t n = p->exprs.count;

    m->level_first = calloc((size_t)p->levels + 2, sizeof *m->level_first);
    m->level_exprs = malloc(((size_t)n + 1) * sizeof *m->level_exprs);
    if (!m->level_first || !m->level_exprs)
        return tcr_fail(TCC_EENV, "%s: no memory", what);
    for (uint32_t i = 0; i < n; i++)
        m->level_first[m->exprs[i].level + 2]++;
    for (uint32_t l = 2; l < p->levels + 2; l++)
        m->level_first[l] += m->level_first[l - 1];
    for (uint32_t i = 0; i < n; i++)
        m->level_exprs[m->level_first[m->exprs[i].level + 1]++] = i;
    return TCC_OK;
}

static int name_dims(struct tccrt_model *m, const char *what)
{
    m->expr_text = calloc((size_t)m->plan->exprs.count + 1, sizeof *m->expr_text);
    if (!m->expr_text)
        return tcr_fail(TCC_EENV, "%s: no memory", what);
    for (uint32_t i = 0; i < m->plan->signatures.count; i++) {
        const struct tcc_psignature *s = &m->signatures[i];

        for (uint32_t d = 0; d < s->dims.count; d++) {
            uint32_t e = m->u32s[s->dims.first + d];

            if (m->exprs[e].op == TCC_EX_CONST || m->expr_text[e])
                continue;
            m->expr_text[e] = tcr_expr_text(m, e);
            if (!m->expr_text[e])
                return tcr_fail(TCC_EENV, "%s: no memory", what);
        }
    }
    return TCC_OK;
}

/* The same model for other devices. Their signatures and variables are this one's: callers ask any of them. */
static int open_others(struct tccrt_model *m, const char *what)
{
    struct tccrt_model **next = &m->next;
    int status = TCC_OK;

    for (uint32_t i = 0; i < m->desc->nothers && !status; i++, next = &(*next)->next) {
        status = tcr_open_model(tcc_model_other(m->desc, i), what, NULL, next);
        if (!status && (tccrt_nentries(*next) != tccrt_nentries(m) || tccrt_nstates(*next) != tccrt_nstates(m)))
            return tcr_fail(TCC_EBUG, "%s: its plans for several devices are of different models", what);
    }
    return status;
}

int tcr_open_model(const struct tcc_model *desc, const char *what, void *handle, struct tccrt_model **out)
{
    struct tccrt_model *m = calloc(1, sizeof *m);
    int status;

    if (!m) {
        if (handle)
            dlclose(handle);
        return tcr_fail(TCC_EENV, "%s: no memory", what);
    }
    m->desc = desc;
    m->handle = handle;
    if ((status = check_descriptor(desc, what)) || (status = choose_version(m, what)) ||
        (status = tcr_check_plan(m, what)) || (status = find_weights(m, what)) || (status = sort_levels(m, what)) ||
        (status = name_dims(m, what)) || (status = open_others(m, what))) {
        tccrt_close(m);
        return status;
    }
    *out = m;
    return TCC_OK;
}

/* -- Public ------------------------------------------------------------------------------------------ */

int tccrt_open_linked(const struct tcc_model *model, struct tccrt_model **out)
{
    *out = NULL;
    tcr_clear_error();
    if (!model || !out)
        return tcr_fail(TCC_EUSAGE, "a model and a place for it are required, got NULL");
    return tcr_open_model(model, model->magic == TCC_MODEL_MAGIC && model->name ? model->name : "model", NULL, out);
}

void tccrt_close(struct tccrt_model *m)
{
    if (!m)
        return;
    tcr_uploaded_free(m);
    if (m->expr_text) {
        for (uint32_t i = 0; i < m->plan->exprs.count; i++)
            free(m->expr_text[i]);
    }
    free(m->expr_text);
    free(m->level_first);
    free(m->level_exprs);
    free(m->slot_of);
    if (m->map)
        munmap(m->map, m->map_size);
    tccrt_close(m->next);
    if (m->handle)
        dlclose(m->handle);
    free(m);
}

/* -- Signatures ---------------------------------------------------------------------------------------- */

int tccrt_nentries(const struct tccrt_model *m)
{
    return !m ? 0 : (int)(m->plan->nvisible ? m->plan->nvisible : m->plan->entries.count);
}

const char *tccrt_entry_name(const struct tccrt_model *m, int entry)
{
    return m && entry >= 0 && entry < tccrt_nentries(m) ? tcr_string(m, m->entries[entry].name) : NULL;
}

void tcr_list_name(char *list, size_t room, const char *name)
{
    size_t used = strlen(list);

    if (used + strlen(name) + 12 < room)
        snprintf(list + used, room - used, "%s'%s'", used ? ", " : "", name);
    else if (used + 5 < room && (used < 3 || strcmp(list + used - 3, "...")))
        snprintf(list + used, room - used, ", ...");
}

const struct tcc_pentry *tcr_find_entry(const struct tccrt_model *m, const char *name)
{
    if (!m)
        return tcr_fail(TCC_EUSAGE, "a model is required, got NULL"), NULL;
    if (!name)
        return &m->entries[0];
    for (int i = 0; i < tccrt_nentries(m); i++)
        if (strcmp(tcr_string(m, m->entries[i].name), name) == 0)
            return &m->entries[i];
    char names[200] = "";
    for (int i = 0; i < tccrt_nentries(m); i++)
        tcr_list_name(names, sizeof names, tcr_string(m, m->entries[i].name));
    return tcr_fail(TCC_EUSAGE, "model '%s' has no entry point '%s'; it has %s", m->desc->name, name,
                    *names ? names : "none"),
           NULL;
}

int tccrt_ninputs(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return e ? (int)e->inputs.count : -1;
}

int tccrt_ndefaults(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return e ? (int)e->defaults.count : -1;
}

const char *tccrt_fixed_input(const struct tccrt_model *m, const char *entry, int i)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return e && i >= 0 && (uint32_t)i < e->fixed.count ? tcr_string(m, m->u32s[e->fixed.first + (uint32_t)i]) : NULL;
}

int tccrt_noutputs(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return e ? (int)e->outputs.count : -1;
}

int tccrt_nversions(const struct tccrt_model *m, const char *entry)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    return !e ? -1 : e->cases.count ? (int)e->cases.count : 1;
}

const char *tccrt_version_sizes(const struct tccrt_model *m, const char *entry, int i)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    if (!e || i < 0 || i >= tccrt_nversions(m, entry))
        return NULL;
    return e->cases.count ? tcr_string(m, m->cases[e->cases.first + (uint32_t)i].text) : "any size";
}

static void describe_dims(const struct tccrt_model *m, struct tcc_range dims, struct tccrt_value_info *info)
{
    for (uint32_t i = 0; i < dims.count; i++) {
        uint32_t e = m->u32s[dims.first + i];
        bool constant = m->exprs[e].op == TCC_EX_CONST;

        info->dims[i] = constant ? m->exprs[e].k : -1;
        info->dim_names[i] = constant ? NULL : m->expr_text[e];
    }
}

static int describe(const struct tccrt_model *m, struct tcc_range list, int i, struct tccrt_value_info *info)
{
    const struct tcc_psignature *s;

    if (!info)
        return tcr_fail(TCC_EUSAGE, "model '%s': a place for what input or output %d is, is required, got NULL",
                        m->desc->name, i);
    if (i < 0 || (uint32_t)i >= list.count)
        return tcr_fail(TCC_EUSAGE, "model '%s' has no input or output %d", m->desc->name, i);
    s = &m->signatures[list.first + (uint32_t)i];
    *info = (struct tccrt_value_info){.name = tcr_string(m, s->name),
                                      .kind = (int)s->kind,
                                      .dtype = (int)s->dtype,
                                      .rank = s->rank == TCC_NO ? -1 : (int)s->rank,
                                      .optional = s->optional != 0};
    describe_dims(m, s->dims, info);
    return TCC_OK;
}

int tccrt_input(const struct tccrt_model *m, const char *entry, int i, struct tccrt_value_info *info)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    if (e && e->given)
        e = &m->entries[e->given - 1];
    int status = e ? describe(m, e->inputs, i, info) : TCC_EUSAGE;

    /* The signature is that of a microbatch. */
    if (!status && e->staged) {
        const struct tcc_pstaged *p = &m->staged[e->staged - 1];
        uint32_t axis = m->u32s[p->axes.first + (uint32_t)i];

        if (axis != TCC_NO && info->dims[axis] >= 0)
            info->dims[axis] *= p->micros;
    }
    return status;
}

int tccrt_input_bounds(const struct tccrt_model *m, const char *entry, int i, int axis, int64_t *least, int64_t *most)
{
    struct tccrt_value_info info;
    int status = least && most ? tccrt_input(m, entry, i, &info)
                               : tcr_fail(TCC_EUSAGE, "places for the bounds are required, got NULL");

    if (status)
        return status;
    *least = 0;
    *most = -1;
    if (axis < 0 || axis >= info.rank)
        return TCC_OK;
    const struct tcc_pentry *e = tcr_find_entry(m, entry);
    const struct tcc_psignature *sig =
        &m->signatures[(e->given ? m->entries[e->given - 1].inputs.first : e->inputs.first) + (uint32_t)i];
    const struct tcc_pexpr *x = &m->exprs[m->u32s[sig->dims.first + (uint32_t)axis]];

    if (x->op == TCC_EX_SYM) {
        *least = m->syms[x->k].lo;
        *most = m->syms[x->k].hi;
    }
    return TCC_OK;
}

/* From a microbatch's output to that of all of them. */
static void describe_result(const struct tccrt_model *m, const struct tcc_pstaged *p, int i,
                            struct tccrt_value_info *info)
{
    uint32_t how = m->results[p->results.first + (uint32_t)i].how,
             axis = m->results[p->results.first + (uint32_t)i].axis;

    if (how == TCC_COMBINE_CONCAT && info->dims[axis] >= 0)
        info->dims[axis] *= p->micros;
    if (how != TCC_COMBINE_STACK)
        return;
    memmove(info->dims + 1, info->dims, sizeof info->dims - sizeof *info->dims);
    memmove(info->dim_names + 1, info->dim_names, sizeof info->dim_names - sizeof *info->dim_names);
    info->dims[0] = p->micros;
    info->dim_names[0] = NULL;
    info->rank++;
}

int tccrt_output(const struct tccrt_model *m, const char *entry, int i, struct tccrt_value_info *info)
{
    const struct tcc_pentry *e = tcr_find_entry(m, entry);

    int status = e ? describe(m, e->outputs, i, info) : TCC_EUSAGE;

    if (!status && e->staged)
        describe_result(m, &m->staged[e->staged - 1], i, info);
    return status;
}

static const char *label_of(const struct tccrt_model *m, struct tcc_range values, int i, int k)
{
    if (i < 0 || (uint32_t)i >= values.count)
        return NULL;
    struct tcc_range labels = m->signatures[values.first + (uint32_t)i].labels;

    return k < 0 || (uint32_t)k >= labels.count ? NULL : tcr_string(m, m->u32s[labels.first + (uint32_t)k]);
}

const char *tccrt_input_label(const struct tccrt_model *m, const char *entry, int i, int k)
{
    const struct tcc_pentry *e = m ? tcr_find_entry(m, entry) : NULL;

    return e ? label_of(m, e->inputs, i, k) : NULL;
}

const char *tccrt_output_label(const struct tccrt_model *m, const char *entry, int i, int k)
{
    const struct tcc_pentry *e = m ? tcr_find_entry(m, entry) : NULL;

    return e ? label_of(m, e->outputs, i, k) : NULL;
}

/* Labels of the first output that has some. */
static struct tcc_range classes_of(const struct tccrt_model *m)
{
    for (int e = 0; e < tccrt_nentries(m); e++) {
        struct tcc_range outputs = m->entries[e].outputs;
        for (uint32_t i = 0; i < outputs.count; i++)
            if (m->signatures[outputs.first + i].labels.count)
                return m->signatures[outputs.first + i].labels;
    }
    return (struct tcc_range){0};
}

int tccrt_nclasses(const struct tccrt_model *m)
{
    return (int)classes_of(m).count;
}

const char *tccrt_class_name(const struct tccrt_model *m, int k)
{
    struct tcc_range labels = classes_of(m);

    return k < 0 || (uint32_t)k >= labels.count ? NULL : tcr_string(m, m->u32s[labels.first + (uint32_t)k]);
}

const char *tccrt_meta(const struct tccrt_model *m, const char *key)
{
    for (uint32_t i = 0; m && key && i < m->plan->metas.count; i++)
        if (!strcmp(tcr_string(m, m->metas[i].key), key))
            return tcr_string(m, m->metas[i].value);
    return NULL;
}

const char *tccrt_name(const struct tccrt_model *m)
{
    return m ? m->desc->name : NULL;
}

int tccrt_nstates(const struct tccrt_model *m)
{
    return m ? (int)m->plan->states.count : 0;
}

int tccrt_state_info(const struct tccrt_model *m, int i, struct tccrt_value_info *info)
{
    const struct tcc_pstate *s;

    if (!m || !info)
        return tcr_fail(TCC_EUSAGE, "a model and a place for what its variable is are required, got NULL");
    if (i < 0 || (uint32_t)i >= m->plan->states.count)
        return tcr_fail(TCC_EUSAGE, "model '%s' has no state variable %d", m->desc->name, i);
    s = &m->states[i];
    *info = (struct tccrt_value_info){
        .name = tcr_string(m, s->name), .kind = TCC_OBJ_TENSOR, .dtype = (int)s->dtype, .rank = (int)s->rank};
    for (uint32_t d = 0; d < s->dims.count; d++)
        info->dims[d] = m->exprs[m->u32s[s->dims.first + d]].k;
    return TCC_OK;
}

int tccrt_state_flags(const struct tccrt_model *m, int i)
{
    return m && i >= 0 && (uint32_t)i < m->plan->states.count ? (int)m->states[i].flags : 0;
}

int tccrt_stages(const struct tccrt_model *m)
{
    uint32_t n = 1;

    for (uint32_t i = 0; m && i < m->plan->staged.count; i++)
        n = m->staged[i].stages > n ? m->staged[i].stages : n;
    return (int)n;
}
