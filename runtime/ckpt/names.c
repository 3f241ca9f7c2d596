/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters' names as PyTorch's wrappers change them: DistributedDataParallel and DataParallel put `module.` in front,
 * torch.compile puts `_orig_mod.` where the compiled module is (torch/nn/parallel/distributed.py,
 * torch/_dynamo/eval_frame.py).
 */
#include <string.h>

#include "runtime/ckpt/ckpt_int.h"

static const char front[] = "module.", inside[] = "_orig_mod.";

/* The name from its next part on that no wrapper has put there. `begin`: nothing of it has come yet. */
static const char *skip_wrappers(const char *name, bool begin)
{
    for (;;) {
        if (!strncmp(name, inside, sizeof inside - 1))
            name += sizeof inside - 1;
        else if (begin && !strncmp(name, front, sizeof front - 1))
            name += sizeof front - 1;
        else
            return name;
    }
}

static bool same_but_for_wrappers(const char *a, const char *b)
{
    a = skip_wrappers(a, true);
    b = skip_wrappers(b, true);
    while (*a && *a == *b) {
        bool part = *a == '.';

        a++;
        b++;
        if (part) {
            a = skip_wrappers(a, false);
            b = skip_wrappers(b, false);
        }
    }
    return *a == *b;
}

const struct tccrt_named *tccrt_tensors_parameter(int n, const struct tccrt_named *tensors, const char *name)
{
    const struct tccrt_named *found = NULL;
    int matches = 0;

    for (int i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, name))
            return &tensors[i];
    for (int i = 0; i < n; i++)
        if (same_but_for_wrappers(tensors[i].name, name)) {
            found = &tensors[i];
            matches++;
        }
    return matches == 1 ? found : NULL;
}
