/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of tccc-train: the session's state, and in the metadata the place in the data. */
#include "tools/train/peft_int.h"
#include "tools/train/train_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(const struct trainer *t, const char *name, char *path)
{
    if (snprintf(path, PATH_MAX, "%s/%s.safetensors", option_text(t->o, OPT_checkpoint, "."), name) < PATH_MAX)
        return EXIT_FINE;
    return tool_error(t->o, EXIT_DATA, "--checkpoint: the path is too long");
}

/* What only a write tells (no space, a quota) is told by the first checkpoint. */
static int try_folder(const struct trainer *t, const char *folder)
{
    struct stat st;

    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--checkpoint: cannot make the folder '%s': %m", folder);
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        return tool_error(t->o, EXIT_ENVIRONMENT, "--checkpoint: '%s' is not a folder", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--checkpoint: cannot write to the folder '%s': %m", folder);
    /* The lock is the process's to its end; where the file system has none, nobody is kept away. */
    int held = t->chief ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (held >= 0 && flock(held, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return tool_error(t->o, EXIT_DATA, "--checkpoint: another run is writing to the folder '%s' now", folder);
    return EXIT_FINE;
}

int train_check_folder(struct trainer *t)
{
    const char *folder = option_text(t->o, OPT_checkpoint, NULL);
    static const char *const names[] = {"last", "best"};
    char path[PATH_MAX];
    int code = folder && !t->rank ? try_folder(t, folder) : EXIT_FINE;

    for (size_t i = 0; i < 2 && folder && !t->rank && code == EXIT_FINE; i++) {
        code = path_of(t, names[i], path);
        if (code == EXIT_FINE && access(path, F_OK) == 0 && !option_set(t->o, OPT_resume) &&
            !option_set(t->o, OPT_overwrite))
            code = tool_error(t->o, EXIT_DATA,
                              "--checkpoint: '%s' is another run's: --resume goes on from it, --overwrite replaces it",
                              path);
    }
    return code;
}

/* What another run has left as its best is not this one's. */
static void drop_old_best(struct trainer *t)
{
    char path[PATH_MAX];

    if (option_set(t->o, OPT_overwrite) && !t->wrote_best && path_of(t, "best", path) == EXIT_FINE)
        unlink(path);
    t->wrote_best = true;
}

/* DIR/.step.so: the artifact whose state the checkpoints are, for who has one of these alone (tccc-train predict). What
 * a model was compiled to for this run goes with the process. */
static void link_artifact(const struct trainer *t)
{
    char real[PATH_MAX], path[PATH_MAX], old[PATH_MAX] = "";

    if (snprintf(path, sizeof path, "%s/.step.so", option_text(t->o, OPT_checkpoint, ".")) >= PATH_MAX)
        return;
    if (t->net) /* which lies there itself */
        return;
    bool is = model_is_artifact(t->o->words[0]) && realpath(t->o->words[0], real);
    ssize_t n = readlink(path, old, sizeof old - 1);
    if (is && n > 0 && !strcmp(old, real))
        return;
    unlink(path); /* another run's */
    if (is && symlink(real, path) != 0)
        return; /* predictions then want it named */
}

static int write_state(struct trainer *t, const char *name)
{
    char path[PATH_MAX], text[6][32], control[160], *tables = data_tables_text(&t->tables);
    const char *loss = tccrt_meta(t->m.artifact, "train.loss");
    const struct tccrt_pair meta[] = {
        {"train.data.epoch", text[0]},      {"train.data.batch", text[1]},   {"train.data.steps", text[2]},
        {"train.data.batch_size", text[3]}, {"train.data.samples", text[4]}, {"train.data.best", text[5]},
        {"train.control", control},         {"train.data.tables", tables},   {"train.loss", loss}};
    const int64_t values[] = {t->epoch, t->batch, t->done, t->global_batch, t->data.samples};

    if (!tables)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        snprintf(text[i], sizeof text[i], "%" PRId64, values[i]);
    snprintf(text[5], sizeof text[5], "%.17g", t->best_loss);
    control_text(t, control, sizeof control);
    int code = path_of(t, name, path);
    if (code == EXIT_FINE) {
        int status =
            tccrt_checkpoint_save(t->m.session, path, option_set(t->o, OPT_partial) ? TCCRT_CHECKPOINT_STAGES : 0,
                                  sizeof meta / sizeof *meta - !loss, meta);
        code = status == TCC_OK ? EXIT_FINE : trainer_status(t, status);
    }
    free(tables);
    if (code != EXIT_FINE)
        return code;
    link_artifact(t);
    if (!strcmp(name, "best"))
        t->wrote_best = true;
    else
        drop_old_best(t);
    return strcmp(name, "best") ? control_keep(t, option_text(t->o, OPT_checkpoint, "."), path) : EXIT_FINE;
}

/* Beside `last`: its adapters, as other programs read them. */
static int write_adapters(struct trainer *t)
{
    const char *folder = option_text(t->o, OPT_checkpoint, ".");
    struct tccrt_tensors *f;
    char path[PATH_MAX];
    int code = path_of(t, "last", path), status;

    if (code != EXIT_FINE)
        return code;
    if ((status = tccrt_tensors_open(path, &f)) != TCC_OK)
        return trainer_status(t, status);
    int n = tccrt_tensors_count(f);
    if (n && peft_has_adapters(n, tccrt_tensors_at(f, 0)))
        code = peft_write(t->o, folder, n, tccrt_tensors_at(f, 0));
    tccrt_tensors_close(f);
    return code;
}

/* Has the artifact adapters? Then their layers' names end so. */
static bool has_adapters(const struct trainer *t)
{
    struct tccrt_value_info info;

    for (int i = 0; i < tccrt_nstates(t->m.artifact); i++) {
        tccrt_state_info(t->m.artifact, i, &info);
        if (strstr(info.name, ".lora_A.weight"))
            return true;
    }
    return false;
}

int train_save(struct trainer *t, const char *name)
{
    int code = EXIT_FINE;

    if (!option_set(t->o, OPT_checkpoint))
        return EXIT_FINE;
    if (!strcmp(name, "best")) /* evaluation has collected for that one */
        return t->rank ? EXIT_FINE : write_state(t, name);
    code = ranks_collect(t);
    if (code == EXIT_FINE && !t->rank)
        code = write_state(t, name);
    if (code == EXIT_FINE && !t->rank && t->chief && has_adapters(t))
        code = write_adapters(t);
    return ranks_release(t, code);
}

static int64_t number(const struct tccrt_tensors *f, const char *key)
{
    const char *text = tccrt_tensors_value(f, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

/* The order of samples must be what it was: as many, in batches as large, from the same seed. */
static int check_place(struct trainer *t, const struct tccrt_tensors *f, const char *path)
{
    const char *seed = tccrt_tensors_value(f, "tccc.seed"), *best = tccrt_tensors_value(f, "train.data.best");
    int64_t epoch = number(f, "train.data.epoch"), batch = number(f, "train.data.batch"),
            done = number(f, "train.data.steps");

    if (epoch < 0 || batch < 0 || done < 0 || !seed)
        return tool_error(t->o, EXIT_DATA, "%s: it has no place in the data to go on from; --load takes its weights",
                          path);
    if (number(f, "train.data.batch_size") != t->global_batch)
        return tool_error(t->o, EXIT_DATA, "%s: made with --batch-size %" PRId64 ", not %" PRId64, path,
                          number(f, "train.data.batch_size"), t->global_batch);
    if (number(f, "train.data.samples") != t->data.samples)
        return tool_error(t->o, EXIT_DATA, "%s: made on %" PRId64 " samples; the data has %" PRId64, path,
                          number(f, "train.data.samples"), t->data.samples);
    if (option_set(t->o, OPT_seed) && strtoull(seed, NULL, 10) != t->sampler.seed)
        return tool_error(t->o, EXIT_DATA, "%s: made with --seed %s, not %" PRIu64, path, seed, t->sampler.seed);
    t->sampler.seed = strtoull(seed, NULL, 10);
    t->epoch = epoch;
    t->batch = batch;
    t->done = done;
    if (best)
        t->best_loss = strtod(best, NULL);
    const char *control = tccrt_tensors_value(f, "train.control");
    if (control)
        control_resume(t, control);
    return EXIT_FINE;
}

/* The float32 copies that an update of narrow parameters reads (master.NAME): the file's, else the parameter's
 * value. */
static int load_copies(struct trainer *t, const char *path)
{
    static const char prefix[] = "master.";
    struct tccrt_tensors *f;
    int n = tccrt_nstates(t->m.artifact);

    if (tccrt_tensors_open(path, &f) != TCC_OK)
        return trainer_status(t, TCC_EINPUT);
    for (int i = 0; i < n; i++) {
        struct tccrt_value_info info;
        struct tcc_tensor copy, from;
        tccrt_state_info(t->m.artifact, i, &info);
        if (strncmp(info.name, prefix, sizeof prefix - 1) != 0 ||
            tccrt_state_reset(t->m.session, info.name) != TCC_OK || /* it has a value here, whoever owns it */
            tccrt_state_get(t->m.session, info.name, &copy) != TCC_OK ||
            tccrt_state_get(t->m.session, info.name + sizeof prefix - 1, &from) != TCC_OK || copy.dtype != TCC_F32)
            continue;
        const struct tccrt_named *given = tccrt_tensors_find(f, info.name);
        if (given && given->t.dtype == TCC_F32 && given->t.rank == copy.rank &&
            !memcmp(given->t.dims, copy.dims, (size_t)copy.rank * sizeof *copy.dims))
            from = given->t;
        if (!state_set_as(t->m.session, info.name, &from)) {
            tccrt_tensors_close(f);
            return trainer_status(t, TCC_EENV);
        }
    }
    tccrt_tensors_close(f);
    return EXIT_FINE;
}

/* Of a file whose digest is none, or does not cover all of it, said once when training goes on from it. */
static void note_digest(const struct trainer *t, const struct tccrt_tensors *f, const char *path)
{
    static const char *const what[] = {[TCCRT_DIGEST_NONE] = "has no digest: damage goes unseen",
                                       [TCCRT_DIGEST_TENSORS] = "has an older digest, of its tensors' bytes alone"};
    int covered = tccrt_tensors_covered(f);

    if (covered != TCCRT_DIGEST_FILE && t->chief && !option_set(t->o, OPT_quiet))
        fprintf(stderr, "note: '%s' %s\n", path, what[covered]);
}

int train_load(struct trainer *t, const char *path)
{
    int status = tccrt_checkpoint_load(t->m.session, path, TCCRT_CHECKPOINT_WEIGHTS);

    return status == TCC_OK ? load_copies(t, path) : trainer_status(t, status);
}

int train_tables(struct trainer *t)
{
    const char *load = option_text(t->o, OPT_load, NULL);
    int code = EXIT_FINE;
    bool resumes = false;

    if (!t->chief || option_set(t->o, OPT_new_tables))
        return EXIT_FINE;
    if (option_set(t->o, OPT_resume) && (code = path_of(t, "last", t->tables_from)) == EXIT_FINE)
        resumes = access(t->tables_from, F_OK) == 0;
    if (!resumes)
        snprintf(t->tables_from, sizeof t->tables_from, "%s", load ? load : "");
    if (code == EXIT_FINE && *t->tables_from)
        code = data_tables_load(t->o, t->tables_from, &t->tables);
    return code == EXIT_FINE && !t->tables.n ? data_tables_embedded(t->o, t->m.artifact, &t->tables) : code;
}

int train_resume(struct trainer *t)
{
    struct tccrt_tensors *f;
    char path[PATH_MAX];
    int code = path_of(t, "last", path);

    if (code != EXIT_FINE)
        return code;
    if (access(path, F_OK) != 0) {
        if (!option_set(t->o, OPT_quiet))
            fprintf(stderr, "note: no '%s' yet: training begins\n", path);
        return EXIT_FINE;
    }
    int status = tccrt_tensors_open(path, &f);
    if (status != TCC_OK)
        return trainer_status(t, status);
    status = tccrt_checkpoint_load(t->m.session, path, 0);
    code = status == TCC_OK ? check_place(t, f, path) : trainer_status(t, status);
    if (code == EXIT_FINE)
        note_digest(t, f, path);
    tccrt_tensors_close(f);
    t->resumed = code == EXIT_FINE;
    return code;
}
