/* SPDX-License-Identifier: Apache-2.0 */
/* cache_key.c - the digest of all that a finished artifact is made of. */
#include "compiler/cache_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "compiler/locate_int.h"
#include "compiler/target.h"
#include "base/mutant.h"

static void add_number(XXH3_state_t *h, int64_t v)
{
    XXH3_128bits_update(h, &v, sizeof v);
}

static void add_list(XXH3_state_t *h, const char *const *list)
{
    for (int i = 0; list && list[i]; i++)
        cache_add_text(h, list[i]);
    cache_add_text(h, NULL);
}

/* Another build of the compiler or the runtime is another file. */
static void add_file(XXH3_state_t *h, const char *path)
{
    struct stat st;
    bool found = path && stat(path, &st) == 0;
    add_number(h, found ? st.st_size : -1);
    add_number(h, found ? st.st_mtim.tv_sec : 0);
    add_number(h, found ? st.st_mtim.tv_nsec : 0);
}

static void add_compiler(XXH3_state_t *h)
{
    char runtime[PATH_MAX];
    Dl_info self;
    cache_add_text(h, tccc_version());
    const char *file = dladdr((const void *)(size_t)&tccc_compile, &self) ? self.dli_fname : NULL;
    add_file(h, file);
    if (!file || !strstr(file, ".so")) /* a program with the compiler linked in may have been called by any name */
        add_file(h, "/proc/self/exe");
    add_file(h, tccc_locate("libtccrt.a", runtime, sizeof runtime) ? runtime : NULL);
}

static void add_training(XXH3_state_t *h, const struct tccc_train *t)
{
    const char *const texts[] = {t->loss,      t->optimizer,      t->optimizer_state, t->schedule,     t->precision,
                                 t->auto_cast, t->auto_cast_type, t->loss_scale,      t->step_outputs, t->head_at,
                                 t->lora};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cache_add_text(h, texts[i]);
    add_file(h, t->auto_cast); /* it may name one */
    add_list(h, t->freeze);
    add_list(h, t->train_only);
    cache_add_text(h, "training");
    XXH3_128bits_update(h, &t->clip_norm, sizeof t->clip_norm);
    XXH3_128bits_update(h, &t->ema, sizeof t->ema);
    add_number(h, t->accumulate);
    add_number(h, (int64_t)t->memory_budget);
    add_number(h, t->data_parallel);
    cache_add_text(h, t->group);
    XXH3_128bits_update(h, &t->bucket_cap_mb, sizeof t->bucket_cap_mb);
    cache_add_text(h, t->broadcast_buffers);
    add_number(h, t->sync_bn);
    add_number(h, t->zero);
    add_number(h, t->tensor_parallel);
    add_number(h, t->sequence_parallel);
    add_number(h, t->offload_activations);
    add_number(h, t->offload_optimizer);
    add_number(h, t->new_head);
    add_number(h, t->unfreeze_after);
    add_number(h, (int64_t)t->seed);
    add_number(h, t->split != NULL);
    if (!t->split)
        return;
    add_number(h, t->split->partitions);
    add_number(h, t->split->microbatches);
    add_number(h, t->split->active);
    add_number(h, t->split->default_stage);
    cache_add_text(h, t->split->pipeline);
    cache_add_text(h, t->split->optimize);
    add_file(h, t->split->map);
    add_list(h, t->split->split_axes);
}

/* The digest of all that the artifact is made of, as a file name. */
static bool entry_name(const struct tccc_options *o, const struct cache_key *k, char name[CACHE_NAME])
{
    static const char *const suffixes[] = {[TCCC_SO] = "so", [TCCC_OBJECT] = "o", [TCCC_ARCHIVE] = "a"};
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return false;
    XXH3_128bits_reset(h);
    add_compiler(h);
    add_number(h, tcr_mutant()); /* what one of them made is no other's */
    cache_add_text(h, target_ptxas());
    add_file(h, target_ptxas());
    add_number(h, (int64_t)k->sources);
    cache_add_text(h, k->name);
    cache_add_text(h, k->target);
    for (int i = 0; i < k->narchs; i++)
        cache_add_text(h, k->archs[i]);
    add_list(h, o->dims);
    add_list(h, o->shapes);
    add_list(h, o->states);
    add_list(h, o->customs);
    cache_add_text(h, o->defaults);
    cache_add_text(h, o->adapter);
    cache_add_text(h, o->customs && o->customs[0] ? getenv("TCCC_CC") : NULL);
    cache_add_text(h, o->pipeline);
    cache_add_text(h, o->auto_cast);
    cache_add_text(h, o->auto_cast_type);
    add_file(h, o->auto_cast);
    add_file(h, o->schedules);
    if (o->train)
        add_training(h, o->train);
    const int64_t numbers[] = {k->narchs, o->kind,      o->level,        o->weights,    (int64_t)o->weights_seed,
                               o->exact,  o->fast_math, o->change_limit, o->export_name};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(h, numbers[i]);
    cache_name(h, suffixes[o->kind], name);
    return true;
}

bool cache_open(struct cache *c, struct ir_ctx *ctx, const struct tccc_options *o, const struct cache_key *k)
{
    char name[CACHE_NAME];

    *c = (struct cache){.path = o->cache_dir, .folder = -1, .lock = -1};
    if (!o->cache_dir || !o->output || o->header || o->depfile || (o->dumps && o->dumps[0]) ||
        o->weights == TCCC_WEIGHTS_EXTERNAL || !entry_name(o, k, name) || !cache_open_folder(c, ctx, o->cache_dir))
        return false;
    memcpy(c->name, name, sizeof name);
    return true;
}
