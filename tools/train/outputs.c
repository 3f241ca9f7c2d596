/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --save-outputs: what a step returns after the loss, a file a step: DIR/step_N.npz, arrays named as the outputs, and
 * `samples`, the rows of the data that they are of. Where a batch is divided among ranks each writes its own part,
 * DIR/step_N.R.npz.
 */
#include "tools/train/ckpt_tool_int.h"
#include "tools/train/train_int.h"
#include "tools/values/values_int.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int train_outputs_check(const struct trainer *t)
{
    const char *folder = option_text(t->o, OPT_save_outputs, NULL);

    if (!folder)
        return EXIT_FINE;
    if (t->step.nout < 2)
        return tool_error(
            t->o, EXIT_DATA,
            "--save-outputs: the step returns nothing but the loss: compile it with --step-outputs=NAMES");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--save-outputs: cannot make the folder '%s': %m", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--save-outputs: cannot write to the folder '%s': %m", folder);
    return EXIT_FINE;
}

bool train_outputs_wanted(const struct trainer *t, int64_t step)
{
    return option_set(t->o, OPT_save_outputs) && t->stage <= 1 && t->tensor <= 1 && step % t->outputs_every == 0;
}

/* A copy of the output, in a type that .npz has a name for. */
static struct tcc_object *copy_of(const struct tcc_tensor *t)
{
    const struct tcc_object borrowed = {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = *t};

    return !npy_can(&borrowed) && tcc_is_float((enum tcc_dtype)t->dtype) ? value_widened(t)
                                                                         : tccrt_object_ref(&borrowed);
}

int train_outputs_write(const struct trainer *t, const struct tcc_tensor *out, int64_t rows, const int64_t *samples)
{
    int n = t->step.nout, code = EXIT_FINE;
    struct tccrt_named *list = calloc((size_t)n, sizeof *list);
    struct tcc_object **values = calloc((size_t)n, sizeof *values);
    char path[PATH_MAX], rank[32] = "", error[ERROR_SIZE];

    if (t->ranks > 1)
        snprintf(rank, sizeof rank, ".%d", t->rank);
    if (snprintf(path, sizeof path, "%s/step_%" PRId64 "%s.npz", option_text(t->o, OPT_save_outputs, ""), t->done,
                 rank) >= (int)sizeof path)
        code = tool_error(t->o, EXIT_DATA, "--save-outputs: the path is too long");
    for (int k = 1; list && values && k < n; k++) {
        values[k] = copy_of(&out[k]);
        if (values[k])
            list[k] = (struct tccrt_named){t->step.out[k].name, values[k]->t};
        else
            code = tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    }
    if (list)
        list[0] = (struct tccrt_named){"samples", {(void *)(uintptr_t)samples, TCC_I64, 1, {rows}}};
    if (!list || !values)
        code = tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE && !npz_write(path, n, list, error))
        code = tool_error(t->o, EXIT_ENVIRONMENT, "%s", error);
    for (int k = 1; values && k < n; k++)
        tccrt_object_unref(values[k]);
    free(values);
    free(list);
    return code;
}
