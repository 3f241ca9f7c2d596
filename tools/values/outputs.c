/* SPDX-License-Identifier: Apache-2.0 */
/* --output-dir: a run's outputs as files, .npy or, for what npy can't hold, .pb. */
#include "tools/run/model_int.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static int write_output(const struct options *o, const char *dir, int k, const struct model_value *value,
                        const struct tcc_object *v)
{
    char path[PATH_MAX], error[ERROR_SIZE];
    bool npy = npy_can(v);

    if (snprintf(path, sizeof path, "%s/output_%d.%s", dir, k, npy ? "npy" : "pb") >= (int)sizeof path)
        return tool_error(o, EXIT_DATA, "the path of '%s' is too long", dir);
    bool ok = npy ? npy_write(path, v, error) : pb_write(path, value->info.name, value->kind, v, error);
    return ok ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "%s", error);
}

int outputs_write(const struct options *o, const struct model *m, int run, struct tcc_object *const *out)
{
    const char *dir = option_text(o, OPT_output_dir, NULL);
    char path[PATH_MAX];
    int code = EXIT_FINE;

    if (dir && mkdir(dir, 0777) != 0 && errno != EEXIST)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make '%s': %m", dir);
    if (dir && run) {
        if (snprintf(path, sizeof path, "%s/run_%d", dir, run) >= (int)sizeof path)
            return tool_error(o, EXIT_DATA, "the path of '%s' is too long", dir);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return tool_error(o, EXIT_ENVIRONMENT, "cannot make '%s': %m", path);
        dir = path;
    }
    for (int i = 0; dir && i < m->nout && code == EXIT_FINE; i++)
        code = write_output(o, dir, i, &m->out[i], out[i]);
    return code;
}
