/* SPDX-License-Identifier: Apache-2.0 */
/* cache_key.c - the digest of all that a finished artifact is made of. */
#include "compiler/cache_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "compiler/fields.h"
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

static void add_bytes(XXH3_state_t *h, const void *of, const struct tccc_field *f, size_t size)
{
    XXH3_128bits_update(h, (const char *)of + f->offset, size);
}

static void add_field(XXH3_state_t *h, const struct tccc_field *f, const void *of)
{
    char said[64];
    switch (f->type) {
    case TCCC_TEXT: cache_add_text(h, TCCC_FIELD_OF(char *, of, f)); break;
    case TCCC_LIST: add_list(h, TCCC_FIELD_OF(char *const *, of, f)); break;
    case TCCC_FLAG: add_number(h, TCCC_FIELD_OF(bool, of, f)); break;
    case TCCC_INT:
    case TCCC_COUNT: add_bytes(h, of, f, sizeof(int)); break;
    case TCCC_LONG: add_bytes(h, of, f, sizeof(long)); break;
    case TCCC_SIZE: add_bytes(h, of, f, sizeof(unsigned long long)); break;
    case TCCC_REAL:
    case TCCC_LIMIT: add_bytes(h, of, f, sizeof(double)); break;
    case TCCC_SET: cache_add_text(h, tccc_setter(f)->say(of, said, sizeof said)); break;
    case TCCC_STREAM: break;
    }
    if (f->uses & TCCC_PATH)
        add_file(h, TCCC_FIELD_OF(char *, of, f));
}

/* The options of one structure that change artifacts. */
static void add_fields(XXH3_state_t *h, enum tccc_structure in, const void *of)
{
    for (const struct tccc_field *f = tccc_fields; f < tccc_fields + tccc_nfields; f++)
        if (f->in == in && f->uses & TCCC_KEY)
            add_field(h, f, of);
}

static void add_training(XXH3_state_t *h, const struct tccc_train *t)
{
    cache_add_text(h, "training");
    add_fields(h, TCCC_TRAIN, t);
    cache_add_text(h, t->auto_cast);
    cache_add_text(h, t->auto_cast_type);
    add_file(h, t->auto_cast); /* it may name one */
    add_number(h, (int64_t)t->seed);
    add_number(h, t->split != NULL);
    if (t->split)
        add_fields(h, TCCC_SPLIT, t->split);
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
    add_fields(h, TCCC_OPTIONS, o);
    cache_add_text(h, o->customs && o->customs[0] ? getenv("TCCC_CC") : NULL);
    if (o->train)
        add_training(h, o->train);
    add_number(h, k->narchs);
    add_number(h, o->kind);
    cache_name(h, suffixes[o->kind], name);
    return true;
}

bool cache_open(struct cache *c, struct ir_ctx *ctx, const struct tccc_options *o, const struct cache_key *k)
{
    char name[CACHE_NAME];

    *c = (struct cache){.path = o->cache_dir, .folder = -1, .lock = -1};
    if (!o->cache_dir || !o->output || o->header || o->depends || (o->dumps && o->dumps[0]) ||
        o->weights == TCCC_WEIGHTS_EXTERNAL || !entry_name(o, k, name) || !cache_open_folder(c, ctx, o->cache_dir))
        return false;
    memcpy(c->name, name, sizeof name);
    return true;
}
