/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --net: the model is made here, for the data, in a folder of its own, and stands on the command line from then on.
 * Where there are checkpoints, DIR/net.onnx is the model and DIR/.step.so what it was compiled to, for tccc-ckpt export
 * and tccc-train predict.
 */
#include "tools/net/net_int.h"
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safe.h"

static int save_bytes(const struct options *o, const char *path, const void *data, size_t n)
{
    struct tcr_save save;
    bool open = !tcr_save_open(&save, path, 0);

    if (open && !tcr_write_all(save.fd, data, n) && !tcr_save_commit(&save))
        return EXIT_FINE;
    int code = tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
    if (open)
        tcr_save_drop(&save);
    return code;
}

static void tell(const struct options *o, const struct net_spec *spec, const struct net_data *d, int64_t parameters)
{
    if (option_set(o, OPT_quiet))
        return;
    fprintf(stderr, "note: %s: samples of %s[", spec->row->name, d->tokens ? "i64" : "f32");
    for (int i = 0; i < d->rank; i++)
        fprintf(stderr, "%s%" PRId64, i ? ", " : "", d->dims[i]);
    if (d->tokens)
        fprintf(stderr, "] below %" PRId64, d->vocabulary);
    fprintf(stderr, "%s, %" PRId64 " %s%s; %" PRId64 " parameters\n", d->tokens ? "" : "]",
            d->classes ? d->classes : d->numbers, d->classes ? "classes" : "numbers out",
            d->each ? " of each element" : "", parameters);
}

static int make(struct options *o, struct train_net *net)
{
    struct net_spec spec;
    struct net_data data;
    struct wire_buffer file;
    char error[ERROR_SIZE];
    int64_t seed = 0, parameters = 0;

    if (!net_spec_read(option_text(o, OPT_net, ""), &spec, error))
        return usage_error(o, "--net=%s: %s", option_text(o, OPT_net, ""), error);
    if (!option_int(o, OPT_seed, 0, INT64_MAX, &seed))
        return EXIT_USAGE;
    int code = net_data_read(o, &spec, &data);
    if (code != EXIT_FINE)
        return code;
    if ((code = net_make(o, &spec, &data, (uint64_t)seed, &file, &parameters)) == EXIT_FINE)
        code = save_bytes(o, net->model, file.data, file.n);
    free(file.data);
    const char *rank = tccrt_env_text("RANK");
    if (code == EXIT_FINE && (!rank || !strcmp(rank, "0")))
        tell(o, &spec, &data, parameters);
    if (code == EXIT_FINE && !option_set(o, OPT_loss) &&
        !option_give(o, OPT_loss, data.classes ? "cross_entropy" : "mse"))
        code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    return code;
}

int train_net_begin(struct options *o, struct train_net *net)
{
    if (o->nwords)
        return usage_error(o, "--net makes the model: '%s' is one too many", o->words[0]);
    if (!option_set(o, OPT_data))
        return usage_error(o, "--net requires --data, which decides what goes in and comes out");
    if (tcr_scratch_make(&net->scratch, NULL, "tccc-net-"))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make a folder for the model: %m");
    snprintf(net->model, sizeof net->model, "%s/net.onnx", net->scratch.path);
    snprintf(net->step, sizeof net->step, "%s/step.so", net->scratch.path);
    const char **words = calloc(2, sizeof *words);
    int code = words ? make(o, net) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (!words)
        return code;
    words[0] = net->model;
    free(o->words);
    o->words = words;
    o->nwords = 1;
    if (option_set(o, OPT_checkpoint))
        o->keep = net->step;
    return code;
}

void train_net_end(struct train_net *net)
{
    tcr_scratch_remove(&net->scratch);
}

int train_net_save(const struct trainer *t)
{
    const char *folder = option_text(t->o, OPT_checkpoint, NULL);
    char path[PATH_MAX], error[ERROR_SIZE];

    if (!t->net || !folder || t->rank)
        return EXIT_FINE;
    if (snprintf(path, sizeof path, "%s/net.onnx", folder) >= (int)sizeof path)
        return tool_error(t->o, EXIT_DATA, "--checkpoint: '%s' is too long a name", folder);
    struct data_file *f = data_map(t->net->model, error);
    if (!f)
        return tool_error(t->o, EXIT_ENVIRONMENT, "%s", error);
    int code = save_bytes(t->o, path, f->bytes, f->size);
    data_unref(f);
    snprintf(path, sizeof path, "%s/.step.so", folder);
    unlink(path); /* another run's, which may be a link */
    if (code == EXIT_FINE && access(t->net->step, F_OK) == 0 && tcr_save_move(t->net->step, path))
        code = tool_error(t->o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
    return code;
}
