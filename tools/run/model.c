/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and runs artifacts and models. A model is compiled in a child process (its memory and its crashes stay there)
 * to a file that is removed as soon as it is open.
 */
#include "tools/run/emulate_int.h"
#include "tools/run/model_int.h"

#include "compiler/tccc.h"
#include "base/format.h"
#include "base/safe.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int model_error(const struct options *o, char *why, int code, const char *format, ...)
{
    FORMATTED(text, ERROR_SIZE, format);
    if (why)
        snprintf(why, ERROR_SIZE, "%s", text);
    else
        tool_error(o, code, "%s", text);
    return code;
}

int model_exit_code(int status)
{
    static const int codes[] = {[TCC_OK] = EXIT_FINE,          [TCC_EINPUT] = EXIT_DATA, [TCC_EUSAGE] = EXIT_DATA,
                                [TCC_EENV] = EXIT_ENVIRONMENT, [TCC_EBUG] = EXIT_BUG,    [TCC_EINDEX] = EXIT_DATA};
    return status >= 0 && status <= TCC_EINDEX ? codes[status] : EXIT_BUG;
}

/* -- What values the model has ------------------------------------------------------------------ */

static bool plain_tensor(const struct model_value *v)
{
    return v->kind == VALUE_TENSOR && v->info.rank >= 0 && v->info.dtype != TCC_STRING;
}

bool model_allocate(struct model *m, int nneeded, int ndefaults, int nout)
{
    int nin = nneeded + ndefaults;
    m->nneeded = nneeded;
    m->nin = nin;
    m->nout = nout;
    m->in = calloc((size_t)nin + 1, sizeof *m->in);
    m->out = calloc((size_t)nout + 1, sizeof *m->out);
    m->tensors_only = true;
    return m->in && m->out;
}

void model_note_kind(struct model *m, struct model_value *v)
{
    v->kind = v->info.optional ? VALUE_OPTIONAL : v->info.kind == TCC_OBJ_SEQUENCE ? VALUE_SEQUENCE : VALUE_TENSOR;
    if (v - m->in >= m->nneeded && v - m->in < m->nin)
        v->kind = VALUE_DEFAULT;
    else
        m->tensors_only &= plain_tensor(v);
}

/* -- Artifacts ---------------------------------------------------------------------------------------- */

/* --entry; of tccc-train a training step's `predict`; or the first; NULL: there is none. */
static const char *wanted_entry(const struct options *o, const struct tccrt_model *artifact)
{
    const char *name = option_text(o, OPT_entry, NULL);

    if (!name && o->tool == TOOL_T && tccrt_ninputs(artifact, "predict") >= 0)
        name = "predict";
    for (int i = 0; i < tccrt_nentries(artifact); i++)
        if (!name || strcmp(tccrt_entry_name(artifact, i), name) == 0)
            return tccrt_entry_name(artifact, i);
    return NULL;
}

/* Does the option say how a model is compiled, and nothing of a run? */
static bool compiles_only(const struct options *o, enum option_id id)
{
    static const enum option_id runs[] = {OPT_dim, OPT_shape, OPT_exact, OPT_jobs, OPT_cache_dir, OPT_time_limit};
    const char *group = option_table[id].group;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (id == runs[i])
            return false;
    return (train_option(id) && !(id == OPT_split_axis && option_set(o, OPT_data))) || !strcmp(group, "Compilation") ||
           id == OPT_weights;
}

/* What stands on the command line and would do nothing is a mistake; TCCC_FLAGS are for all commands. */
static int check_flags(const struct options *o, const char *shown)
{
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option_row *row = &option_table[i];
        if (compiles_only(o, (enum option_id)i) && o->given[i].n > o->given[i].inherited)
            return usage_error(o, "%s%s is compiled into an artifact, as '%s' is: give the model, or compile it again",
                               *row->long_name ? "--" : "-",
                               *row->long_name ? row->long_name : (char[]){row->short_name, 0}, shown);
    }
    return EXIT_FINE;
}

static int no_entry(const struct options *o, char *why, const char *shown, const struct tccrt_model *artifact)
{
    struct ir_known known = {.near.word = option_text(o, OPT_entry, "")};

    for (int i = 0; i < tccrt_nentries(artifact); i++)
        ir_known_add(&known, tccrt_entry_name(artifact, i));
    return model_error(o, why, EXIT_DATA, "%s: the artifact has no entry point '%s'%s", shown, known.near.word,
                       ir_known_text(&known));
}

/* An artifact of another processor, under an emulator. */
static int open_emulated(const struct options *o, const char *path, const char *shown, struct model *m, char *why)
{
    char error[ERROR_SIZE];
    int status =
        emulated_start(path, option_text(o, OPT_entry, ""), option_text(o, OPT_emulate, ""), &m->emulated, error);
    if (status == TCC_EUSAGE)
        return usage_error(o, "%s: %s", shown, error);
    if (status != TCC_OK)
        return model_error(o, why, model_exit_code(status), "%s: %s", shown, error);
    struct emulated_shape s = emulated_shape(m->emulated);
    m->entry = s.entry;
    if (!model_allocate(m, s.nneeded, s.ndefaults, s.nout))
        return model_error(o, why, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < m->nin + m->nout; i++) {
        const struct guest_value *from = emulated_value(m->emulated, i);
        struct model_value *v = i < m->nin ? &m->in[i] : &m->out[i - m->nin];
        v->info = from->info;
        memcpy(v->least, from->least, sizeof v->least);
        memcpy(v->most, from->most, sizeof v->most);
        model_note_kind(m, v);
    }
    return EXIT_FINE;
}

static int open_artifact(const struct options *o, const char *path, const char *shown, struct model *m, char *why)
{
    char real[PATH_MAX], foreign[ERROR_SIZE];
    double start = now_ms();

    if (!realpath(path, real))
        return model_error(o, why, EXIT_DATA, "cannot open '%s': %s", shown, strerror(errno));
    if (option_set(o, OPT_emulate))
        return open_emulated(o, real, shown, m, why);
    if (emulate_foreign(real, foreign))
        return model_error(o, why, EXIT_ENVIRONMENT, "%s: %s", shown, foreign);
    int status = tccrt_open(real, &m->artifact);
    m->load_ms = now_ms() - start;
    if (status != TCC_OK)
        return model_error(o, why, model_exit_code(status), "%s: %s", shown, tccrt_error());
    const char *entry = wanted_entry(o, m->artifact);
    m->entry = entry;
    if (!entry && tccrt_nentries(m->artifact))
        return no_entry(o, why, shown, m->artifact);
    if (!entry)
        return model_error(o, why, EXIT_DATA, "%s: the artifact has no entry point", shown);
    if (!model_allocate(m, tccrt_ninputs(m->artifact, entry), tccrt_ndefaults(m->artifact, entry),
                        tccrt_noutputs(m->artifact, entry)))
        return model_error(o, why, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < m->nin && status == TCC_OK; i++) {
        status = tccrt_input(m->artifact, entry, i, &m->in[i].info);
        for (int k = 0; k < m->in[i].info.rank && status == TCC_OK; k++)
            status = tccrt_input_bounds(m->artifact, entry, i, k, &m->in[i].least[k], &m->in[i].most[k]);
        model_note_kind(m, &m->in[i]);
    }
    for (int i = 0; i < m->nout && status == TCC_OK; i++) {
        status = tccrt_output(m->artifact, entry, i, &m->out[i].info);
        model_note_kind(m, &m->out[i]);
    }
    return status == TCC_OK ? EXIT_FINE : model_error(o, why, EXIT_BUG, "%s: %s", shown, tccrt_error());
}

const char *model_version(const struct model *m)
{
    const char *sizes = tccrt_version_sizes(m->artifact, m->entry, tccrt_version_used(m->session));
    return sizes && (tccrt_nversions(m->artifact, m->entry) > 1 || strcmp(sizes, "any size")) ? sizes : NULL;
}

void model_put_device(const struct model *m)
{
    struct tccrt_device_counts counts;

    tccrt_device_counts(m->session, &counts);
    if (counts.launches)
        printf(",\"device\":\"%s\",\"device_launches\":%lld,\"device_programs\":%lld,\"device_replays\":%lld",
               tccrt_device_used(m->session), (long long)counts.launches, (long long)counts.programs,
               (long long)counts.replays);
}

int model_session(const struct options *o, struct model *m, int threads, char *why)
{
    struct tccrt_options options = {.threads = threads,
                                    .stage = m->stage,
                                    .tensor = m->tensor,
                                    .profile = option_set(o, OPT_profile) || option_set(o, OPT_trace) ||
                                               (option_set(o, OPT_html) && o->tool != TOOL_B),
                                    .device = option_text(o, OPT_device, NULL),
                                    .sim = option_text(o, OPT_nc_sim, NULL),
                                    .rounding = option_text(o, OPT_nc_rounding, NULL)};

    if (m->emulated) {
        char error[ERROR_SIZE];
        int status = emulated_session(m->emulated, threads, error);
        return status == TCC_OK ? EXIT_FINE : model_error(o, why, model_exit_code(status), "%s", error);
    }
    if (!m->artifact)
        return model_heeds(o, NULL);
    int status = tccrt_session_new(m->artifact, &options, &m->session);
    int code = status == TCC_EUSAGE ? EXIT_USAGE : model_exit_code(status); /* a device's name */
    return status == TCC_OK ? model_heeds(o, m->session) : model_error(o, why, code, "%s", tccrt_error());
}

/* The session owns the results; they are copied, so that the next run does not change them. */
static int copy_results(int n, const struct tcc_tensor *results, struct tcc_object **outputs, char *error)
{
    for (int i = 0; i < n; i++) {
        int64_t count = tcc_elements(results[i].rank, results[i].dims);
        outputs[i] = tccrt_object_tensor(results[i].dtype, results[i].rank, results[i].dims);
        if (!outputs[i]) {
            snprintf(error, ERROR_SIZE, "no memory");
            return TCC_EENV;
        }
        if (count > 0)
            memcpy(outputs[i]->t.data, results[i].data,
                   (size_t)count * (size_t)tcc_dtype_bytes((enum tcc_dtype)results[i].dtype));
    }
    return TCC_OK;
}

static int run_artifact(struct model *m, struct tcc_object *const *inputs, struct tcc_object **outputs, char *error)
{
    int status;

    if (!m->tensors_only) {
        status = tccrt_run_objects(m->session, m->entry, m->nin, inputs, m->nout, outputs);
    } else {
        struct tcc_tensor *in = calloc((size_t)m->nin + 1, sizeof *in), *out = calloc((size_t)m->nout + 1, sizeof *out);
        for (int i = 0; in && i < m->nin; i++)
            in[i] = inputs[i]->t;
        status = in && out ? tccrt_run(m->session, m->entry, m->nin, in, m->nout, out) : TCC_EENV;
        if (status == TCC_OK && (status = copy_results(m->nout, out, outputs, error)) != TCC_OK) {
            free(in);
            free(out);
            return status;
        }
        free(in);
        free(out);
    }
    if (status != TCC_OK)
        snprintf(error, ERROR_SIZE, "%s", tccrt_error());
    return status;
}

int model_run(struct model *m, struct tcc_object *const *inputs, struct tcc_object **outputs, char *error)
{
    for (int i = 0; i < m->nin; i++) {
        if (inputs[i]->kind != TCC_OBJ_TENSOR && m->in[i].kind == VALUE_TENSOR) {
            snprintf(error, ERROR_SIZE, "input '%s' must be a tensor", m->in[i].info.name);
            return TCC_EINPUT;
        }
    }
    return m->emulated   ? emulated_run(m->emulated, inputs, outputs, error)
           : m->artifact ? run_artifact(m, inputs, outputs, error)
                         : interp_run(m, inputs, outputs, error);
}

int model_restart(struct model *m)
{
    for (int i = 0; m->session && i < tccrt_nstates(m->artifact); i++)
        if (tccrt_state_flags(m->artifact, i) & TCCRT_STATE_CACHE)
            return tccrt_state_reset(m->session, NULL);
    return TCC_OK;
}

void model_close(struct model *m)
{
    emulated_end(m->emulated);
    tccrt_session_free(m->session);
    tccrt_close(m->artifact);
    if (m->state)
        ir_interp_state_free(m->state);
    ir_ctx_free(m->ctx);
    free(m->in);
    free(m->out);
    free(m->facts);
    *m = (struct model){0};
}

/* -- Compiling ---------------------------------------------------------------------------------------- */

struct first_error {
    char *why;
};

/* Name of temporary artifacts: external weights are then called after it. */
#define TEMPORARY_NAME "model"

static void keep_first(void *user, int severity, const char *text)
{
    struct first_error *first = user;
    if (severity >= IR_ERROR && !*first->why)
        snprintf(first->why, ERROR_SIZE, "%s", text);
}

/* In the suite (`why` given) a case is a process already, and works alone. */
static int compile_to(const struct options *o, const char *path, const char *output, FILE *facts, char *why)
{
    struct tccc_options c;
    struct first_error first = {why};
    int code = compile_options(o, &c);

    if (code != EXIT_FINE)
        return code;
    c.facts = facts;
    c.model = path;
    c.output = output;
    c.kind = TCCC_SO;
    if (!c.name)
        c.name = TEMPORARY_NAME;
    if (!why)
        return compile_model(o, &c);
    why[0] = '\0';
    c.message = keep_first;
    c.progress = NULL;
    c.user = &first;
    c.reproducer = NULL;
    c.jobs = 1;
    return tccc_compile(&c);
}

/* What has its weights in another file is not kept: it would be of no use without. */
static int keep(const struct options *o, const char *file, const struct tcr_scratch *folder, char *why)
{
    char weights[PATH_MAX + 256];

    snprintf(weights, sizeof weights, "%s/" TEMPORARY_NAME ".weights", folder->path);
    if (access(weights, F_OK) == 0 || !tcr_save_move(file, o->keep))
        return EXIT_FINE;
    return model_error(o, why, EXIT_ENVIRONMENT, "cannot write '%s': %s", o->keep, strerror(errno));
}

/* Compiles to a file in a folder of its own (external weights lie beside it), opens it and removes both. */
static int open_model(const struct options *o, const char *path, struct model *m, char *why)
{
    char file[PATH_MAX + 256];
    struct tcr_scratch folder;
    double start = now_ms();

    if (tcr_scratch_make(&folder, NULL, "tccc-"))
        return model_error(o, why, EXIT_ENVIRONMENT, "cannot make a folder in '%s': %s", tcr_temporary(),
                           strerror(errno));
    snprintf(file, sizeof file, "%s/model.so", folder.path);
    FILE *facts = option_set(o, OPT_html) ? open_memstream(&m->facts, &m->facts_size) : NULL;
    int code = compile_to(o, path, file, facts, why);
    if (facts)
        fclose(facts);
    m->compile_ms = now_ms() - start;
    if (code == EXIT_FINE)
        code = o->compiles_only ? EXIT_COMPILED : open_artifact(o, file, path, m, why);
    if (code == EXIT_FINE && o->keep)
        code = keep(o, file, &folder, why);
    tcr_scratch_remove(&folder);
    return code;
}

bool model_is_artifact(const char *path)
{
    char magic[4] = "";
    FILE *in = tcr_stream_input(path);
    if (!in)
        return false;
    bool elf = fread(magic, 1, 4, in) == 4 && memcmp(magic, "\177ELF", 4) == 0;
    fclose(in);
    return elf;
}

int model_open_interpreted(const struct options *o, const char *path, struct model *m)
{
    *m = (struct model){0};
    int code = interp_open(o, path, m, NULL);
    if (code != EXIT_FINE)
        model_close(m);
    return code;
}

int model_world(const struct options *o, bool alone, struct tccrt_comm **world)
{
    struct tccrt_comm_options options = {
        .alone = alone, .engine = option_text(o, OPT_comm, NULL), .elastic = option_set(o, OPT_elastic)};
    int status = tccrt_comm_init(&options, world);

    if (status == TCC_EUSAGE)
        return usage_error(o, "%s", tccrt_error());
    return status == TCC_OK ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
}

int model_open(const struct options *o, const char *path, struct model *m, char *why)
{
    *m = (struct model){0};
    if (access(path, R_OK) != 0)
        return model_error(o, why, EXIT_DATA, "cannot open '%s': %s", path, strerror(errno));
    bool artifact = model_is_artifact(path);
    if (artifact && option_set(o, OPT_interpret))
        return usage_error(o, "--interpret requires a model, not an artifact");
    if (artifact && o->tool != TOOL_T &&
        check_flags(o, path) != EXIT_FINE) /* tccc-train has options of its own for steps */
        return EXIT_USAGE;
    int code = artifact                       ? open_artifact(o, path, path, m, why)
               : option_set(o, OPT_interpret) ? interp_open(o, path, m, why)
                                              : open_model(o, path, m, why);
    if (code != EXIT_FINE)
        model_close(m);
    return code;
}
