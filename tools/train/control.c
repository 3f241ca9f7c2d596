/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What evaluations decide: --patience ends training, --plateau lowers the learning rate
 * (torch.optim.lr_scheduler.ReduceLROnPlateau, mode min, threshold 1e-4 relative); and --keep: checkpoints of the last
 * steps. Counts are in the checkpoints' metadata, so that a resumed run decides as one that was not interrupted.
 */
#include "tools/train/train_int.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* factor=X,patience=N,min=X */
static bool read_plateau(struct train_control *c, const char *text)
{
    const struct {
        const char *key;
        double *to, low, high;
    } keys[] = {{"factor", &c->factor, 0, 1}, {"patience", &c->plateau_patience, 0, 1e9}, {"min", &c->least, 0, 1e9}};

    c->factor = 0.1;
    c->plateau_patience = 10;
    for (const char *s = text; *s; s += *s == ',') {
        size_t n = strcspn(s, "="), i = 0;
        char *end;
        while (i < 3 && (strlen(keys[i].key) != n || strncmp(s, keys[i].key, n)))
            i++;
        if (i == 3 || s[n] != '=')
            return false;
        *keys[i].to = strtod(s + n + 1, &end);
        if (end == s + n + 1 || (*end && *end != ',') || !(*keys[i].to >= keys[i].low && *keys[i].to <= keys[i].high))
            return false;
        s = end;
    }
    return c->factor < 1;
}

int control_read(struct trainer *t)
{
    const struct options *o = t->o;
    struct train_control *c = &t->control;

    *c = (struct train_control){.best = INFINITY};
    if (!option_int(o, OPT_patience, 1, INT32_MAX, &c->patience) || !option_int(o, OPT_keep, 1, 1 << 20, &c->keep))
        return EXIT_USAGE;
    c->plateau = option_set(o, OPT_plateau);
    if (c->plateau && !read_plateau(c, option_text(o, OPT_plateau, "")))
        return usage_error(o, "--plateau=%s: expected factor=X (below 1), patience=N, min=X",
                           option_text(o, OPT_plateau, ""));
    if ((c->patience || c->plateau) && !t->evaluates)
        return usage_error(o, "--%s requires --eval-data or --split", c->patience ? "patience" : "plateau");
    if (c->keep && (!option_set(o, OPT_checkpoint) || option_set(o, OPT_partial)))
        return usage_error(o, "--keep requires --checkpoint DIR, without --partial");
    return EXIT_FINE;
}

/* On the ranks that have evaluated. */
void control_evaluated(struct trainer *t, double loss)
{
    struct train_control *c = &t->control;
    bool better = loss < c->best - fabs(c->best) * 1e-4 || (isinf(c->best) && isfinite(loss));

    c->worse = loss < t->best_loss ? 0 : c->worse + 1; /* best_loss: before this evaluation */
    c->ended = c->patience && c->worse >= c->patience;
    if (!c->plateau)
        return;
    c->best = better ? loss : c->best;
    c->flat = better ? 0 : c->flat + 1;
    if ((double)c->flat <= c->plateau_patience)
        return;
    c->flat = 0;
    c->lower = true;
}

/* On all ranks, after an evaluation: the rate that the first one has decided. */
int control_share(struct trainer *t)
{
    struct train_control *c = &t->control;
    double lower = c->lower;
    struct tcc_tensor x = {&lower, TCC_F64, 0, {0}};

    if (!c->plateau)
        return EXIT_FINE;
    if (t->ranks > 1 && tccrt_comm_broadcast(t->dp, 0, 1, &x, NULL) != TCC_OK)
        return trainer_status(t, TCC_EENV);
    c->lower = false;
    if (lower == 0)
        return EXIT_FINE;
    double rate = t->schedule ? t->base_rate : trainer_scalar(t, "train.rate", 0),
           next = fmax(rate * c->factor, c->least);
    t->base_rate = next;
    if (!t->schedule && !trainer_set_scalar(t, "train.rate", next))
        return tool_error(t->o, EXIT_DATA, "--plateau: the artifact has no state variable 'train.rate'");
    return EXIT_FINE;
}

void control_text(const struct trainer *t, char *to, size_t room)
{
    const struct train_control *c = &t->control;

    snprintf(to, room, "%" PRId64 " %" PRId64 " %.17g %.17g", c->worse, c->flat, c->best, t->base_rate);
}

void control_resume(struct trainer *t, const char *text)
{
    struct train_control *c = &t->control;
    char *end;

    c->worse = strtoll(text, &end, 10);
    c->flat = strtoll(end, &end, 10);
    c->best = strtod(end, &end);
    c->resumed_rate = strtod(end, NULL);
}

/* -- --keep -------------------------------------------------------------------------------------------------------- */

static int64_t step_of(const char *name)
{
    char *end;
    int64_t step = strncmp(name, "step_", 5) ? -1 : strtoll(name + 5, &end, 10);
    return step >= 0 && end != name + 5 && !strcmp(end, ".safetensors") ? step : -1;
}

static int is_step(const struct dirent *e)
{
    return step_of(e->d_name) >= 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    int64_t x = step_of((*a)->d_name), y = step_of((*b)->d_name);
    return x > y ? -1 : x < y;
}

/* Gives what was just written to `path` a name of its own, and takes away all but the `keep` last. A link: no byte is
 * written twice. */
int control_keep(struct trainer *t, const char *folder, const char *path)
{
    struct dirent **list;
    char own[PATH_MAX];
    int64_t kept = 0;

    if (!t->control.keep)
        return EXIT_FINE;
    snprintf(own, sizeof own, "%.3000s/step_%" PRId64 ".safetensors", folder, t->done);
    unlink(own);
    if (link(path, own) != 0)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--keep: cannot make '%s': %m", own);
    int n = scandir(folder, &list, is_step, newest_first);
    for (int i = 0; i < n; i++) {
        bool ours = step_of(list[i]->d_name) <= t->done; /* not so: of a run that this one overwrites */
        if ((kept += ours) > t->control.keep || !ours) {
            snprintf(own, sizeof own, "%.3000s/%s", folder, list[i]->d_name);
            unlink(own);
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return EXIT_FINE;
}
