/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - the table of fields.h, made of options.def, and what options set that are more than a member. It requires
 * nothing: Python's module has one of its own. */
#include "compiler/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Weights */

static const char *const weights_words[] = {
    [TCCC_WEIGHTS_AUTO] = "auto", [TCCC_WEIGHTS_EMBED] = "embed", [TCCC_WEIGHTS_EXTERNAL] = "external"};

static const char *set_weights(void *to, const char *text)
{
    struct tccc_options *o = to;
    char *end;
    for (int i = 0; i < TCCC_WEIGHTS_RANDOM; i++) {
        if (strcmp(weights_words[i], text) == 0) {
            o->weights = (enum tccc_weights)i;
            return NULL;
        }
    }
    o->weights = TCCC_WEIGHTS_RANDOM;
    if (!strncmp(text, "random:", 7) && text[7] >= '0' && text[7] <= '9') {
        errno = 0;
        o->weights_seed = strtoull(text + 7, &end, 10);
        if (!*end && !errno)
            return NULL;
    }
    return "embed, external, auto or random:SEED";
}

static const char *say_weights(const void *of, char *buffer, size_t size)
{
    const struct tccc_options *o = of;
    if (o->weights != TCCC_WEIGHTS_RANDOM)
        return weights_words[o->weights];
    snprintf(buffer, size, "random:%llu", o->weights_seed);
    return buffer;
}

/* -- What leaves a device's memory */

static const char *const offload_words[] = {"activations", "optimizer"};

static const char *set_offload(void *to, const char *text)
{
    struct tccc_train *t = to;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int k = 0;
        while (k < 2 &&
               (strcspn(at, ",") != strlen(offload_words[k]) || strncmp(at, offload_words[k], strcspn(at, ","))))
            k++;
        if (k == 2)
            return "activations, optimizer or both, comma-separated";
        t->offload |= 1 << k;
    }
    return NULL;
}

static const char *say_offload(const void *of, char *buffer, size_t size)
{
    const struct tccc_train *t = of;
    snprintf(buffer, size, "%s%s%s", t->offload & 1 ? offload_words[0] : "", t->offload == 3 ? "," : "",
             t->offload & 2 ? offload_words[1] : "");
    return t->offload ? buffer : NULL;
}

/* -- Whose gradients are averaged */

static const char *set_data_parallel(void *to, const char *text)
{
    struct tccc_train *t = to;
    t->data_parallel = true;
    t->group = *text ? text : NULL;
    return strlen(text) > 15 ? "the name of a group, at most 15 letters" : NULL;
}

static const char *say_data_parallel(const void *of, char *buffer, size_t size)
{
    const struct tccc_train *t = of;
    (void)buffer, (void)size;
    return !t->data_parallel ? NULL : t->group ? t->group : "dp";
}

const struct tccc_setter tccc_setters[] = {{"weights", set_weights, say_weights},
                                           {"offload", set_offload, say_offload},
                                           {"data_parallel", set_data_parallel, say_data_parallel}};

#define OF_OPTIONS struct tccc_options
#define OF_TRAIN struct tccc_train
#define OF_SPLIT struct tccc_split

enum { ARGUMENT = TCCC_ARGUMENT, KEY = TCCC_KEY, PATH = TCCC_PATH, AGAIN = TCCC_AGAIN, POSITIVE = TCCC_POSITIVE };

const struct tccc_field tccc_fields[] = {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    {long_name, #member, TCCC_##in, TCCC_##type, uses, offsetof(OF_##in, member), least, most},
#include "base/options.def"
};

const int tccc_nfields = sizeof tccc_fields / sizeof *tccc_fields;
