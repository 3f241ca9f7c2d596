/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints in parts, a file a stage, and an index that makes them one. For PATH = DIR/last.safetensors:
 *
 *   DIR/last.a.1of2.safetensors    what stage 0 holds, and what belongs to no stage
 *   DIR/last.a.2of2.safetensors    what stage 1 holds
 *   DIR/last.safetensors           the index: no tensors; metadata tccc.parts (how many), tccc.set (a or b),
 *                                  tccc.part.K (file name), tccc.part.K.digest, and whatever a whole checkpoint has
 *
 * The parts of a new set take the names (a or b) that the set there does not have, each is written at once or not at
 * all, and the index last, when all are on disk: at every moment PATH names a complete set. Then the old set's files
 * go. Opening the index opens its parts; one that is missing, or not the one that the index was made for, is an error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <unistd.h>

#include "runtime/ckpt/ckpt_int.h"

#include "base/mutant.h"
#include "base/safe.h"

#define SUFFIX ".safetensors"
#define MAX_PARTS 1024

/* -- Reading -------------------------------------------------------------------------------------------------- */

static const char *value_of_part(const struct tccrt_tensors *f, int k, const char *what)
{
    char key[64];

    snprintf(key, sizeof key, "tccc.part.%d%s", k + 1, what);
    return tccrt_tensors_value(f, key);
}

int ckpt_nparts(const struct tccrt_tensors *f)
{
    const char *text = tccrt_tensors_value(f, "tccc.parts");

    return text ? atoi(text) : 0;
}

/* The folder of PATH, with the slash; "": the working one. */
static int folder_of(const char *path, char to[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    if (snprintf(to, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 0, path) >= PATH_MAX)
        return tcr_fail(TCC_EINPUT, "%s: the path is too long", path);
    return TCC_OK;
}

/* A file beside PATH. */
static int beside(const char *path, const char *name, char to[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;

    if (snprintf(to, PATH_MAX, "%.*s%s", folder, path, name) >= PATH_MAX)
        return tcr_fail(TCC_EINPUT, "%s: the path is too long", path);
    return TCC_OK;
}

static int open_part(const char *path, struct tccrt_tensors *f, int k)
{
    const char *name = value_of_part(f, k, ""), *want = value_of_part(f, k, ".digest"), *found;
    char part[PATH_MAX], why[PATH_MAX], folder[PATH_MAX], *real;
    int status;

    if (!name || !want || !*name || strchr(name, '/') || *name == '.')
        return tcr_fail(TCC_EINPUT, "%s: part %d of %d has no name, or one that cannot be", path, k + 1, f->nparts);
    if ((status = beside(path, name, part)))
        return status;
    if ((status = folder_of(path, folder)))
        return status;
    real = tcr_path_below(folder, name);
    if (!real && errno == EXDEV)
        return tcr_fail(TCC_EINPUT, "%s: part %d of %d, '%s', is a link that leaves the folder", path, k + 1, f->nparts,
                        name);
    free(real);
    if (access(part, F_OK) != 0)
        return tcr_fail(TCC_EINPUT, "%s: part %d of %d, '%s', is not there: the set is incomplete", path, k + 1,
                        f->nparts, name);
    if ((status = ckpt_open_file(part, &f->parts[k]))) {
        snprintf(why, sizeof why, "%s", tccrt_error());
        return tcr_fail(status, "%s: part %d of %d: %s", path, k + 1, f->nparts, why);
    }
    found = f->parts[k]->digest;
    if (!found || MUTANT(53, strcmp(found, want), 0))
        return tcr_fail(TCC_EINPUT,
                        "%s: part %d of %d, '%s', is of another step than the index: the set is mixed (expected "
                        "digest %s, got %s)",
                        path, k + 1, f->nparts, name, want, found ? found : "none");
    return TCC_OK;
}

/* The index's own pairs are nobody's business. */
static void hide_parts(struct ckpt_header *h)
{
    int n = 0;

    for (int i = 0; i < h->nmeta; i++)
        if (strncmp(h->meta[i].key, "tccc.part", 9) && strcmp(h->meta[i].key, CKPT_DIGEST_KEY) &&
            strcmp(h->meta[i].key, CKPT_FORMAT_KEY) && strcmp(h->meta[i].key, "tccc.set"))
            h->meta[n++] = h->meta[i];
    h->nmeta = n;
}

int ckpt_join(const char *path, struct tccrt_tensors *f)
{
    int n = 0, status = TCC_OK;

    f->nparts = ckpt_nparts(f);
    if (f->nparts < 1 || f->nparts > MAX_PARTS || f->ntensors) {
        f->nparts = 0;
        return tcr_fail(TCC_EINPUT, "%s: not an index of a checkpoint in parts", path);
    }
    if (!(f->parts = calloc((size_t)f->nparts, sizeof(void *))))
        return tcr_fail(TCC_EENV, "%s: no memory", path);
    for (int k = 0; k < f->nparts && !status; k++) {
        status = open_part(path, f, k);
        n += status ? 0 : f->parts[k]->ntensors;
    }
    if (status)
        return status;
    free(f->tensors);
    if (!(f->tensors = calloc((size_t)n + 1, sizeof *f->tensors)))
        return tcr_fail(TCC_EENV, "%s: no memory", path);
    for (int k = 0; k < f->nparts; k++)
        for (int i = 0; i < f->parts[k]->ntensors; i++)
            f->tensors[f->ntensors++] = f->parts[k]->tensors[i];
    qsort(f->tensors, (size_t)n, sizeof *f->tensors, ckpt_by_name);
    for (int i = 1; i < n; i++)
        if (MUTANT(54, !strcmp(f->tensors[i - 1].name, f->tensors[i].name), false))
            return tcr_fail(TCC_EINPUT, "%s: '%s' is in two parts", path, f->tensors[i].name);
    hide_parts(&f->header);
    return TCC_OK;
}

/* -- Writing -------------------------------------------------------------------------------------------------- */

/* The index that is there, without its parts; NULL: none. */
static struct tccrt_tensors *old_index(const char *path)
{
    struct tccrt_tensors *f = NULL;

    if (ckpt_open_file(path, &f))
        return NULL;
    if (ckpt_nparts(f) > 0)
        return f;
    tccrt_tensors_close(f);
    return NULL;
}

char ckpt_other_set(const char *path)
{
    struct tccrt_tensors *old = old_index(path);
    const char *letter = old ? tccrt_tensors_value(old, "tccc.set") : NULL;
    char set = letter && *letter == MUTANT(52, 'a', 'b') ? 'b' : 'a';

    tccrt_tensors_close(old);
    tcr_clear_error();
    return set;
}

static int part_name(const char *path, char set, int k, int n, char to[PATH_MAX])
{
    size_t length = strlen(path), stem = length;

    if (length > strlen(SUFFIX) && !strcmp(path + length - strlen(SUFFIX), SUFFIX))
        stem -= strlen(SUFFIX);
    if (snprintf(to, PATH_MAX, "%.*s.%c.%dof%d%s", (int)stem, path, set, k + 1, n, SUFFIX) >= PATH_MAX)
        return tcr_fail(TCC_EENV, "%s: the path is too long", path);
    return TCC_OK;
}

int ckpt_write_part(struct tccrt_session *s, const char *path, char set, int k, int n, int ntensors,
                    const struct tccrt_named *tensors, int nmeta, const struct tccrt_pair *meta,
                    char digest[CKPT_DIGEST])
{
    struct tccrt_pair *pairs = calloc((size_t)nmeta + 1, sizeof *pairs);
    char name[PATH_MAX], text[32];
    int status = pairs ? part_name(path, set, k, n, name) : tcr_fail(TCC_EENV, "%s: no memory", path);

    snprintf(text, sizeof text, "%d of %d", k + 1, n);
    for (int i = 0; i < nmeta && !status; i++)
        pairs[i] = meta[i];
    if (!status) {
        pairs[nmeta] = (struct tccrt_pair){"tccc.part", text};
        status = ckpt_write(s, name, ntensors, tensors, nmeta + 1, pairs, digest);
    }
    free(pairs);
    return status;
}

/* Is that the name of a part of PATH: STEM.a.*.safetensors or STEM.b.*.safetensors? Nothing else is removed, whatever
 * an index says. */
static bool is_part(const char *path, const char *name)
{
    const char *base = strrchr(path, '/'), *at;
    size_t stem, length = name ? strlen(name) : 0;

    base = base ? base + 1 : path;
    stem = strlen(base);
    if (stem > strlen(SUFFIX) && !strcmp(base + stem - strlen(SUFFIX), SUFFIX))
        stem -= strlen(SUFFIX);
    if (length < stem + 3 + strlen(SUFFIX) || strncmp(name, base, stem) || strchr(name, '/'))
        return false;
    at = name + stem;
    return at[0] == '.' && (at[1] == 'a' || at[1] == 'b') && at[2] == '.' &&
           !strcmp(name + length - strlen(SUFFIX), SUFFIX);
}

/* The files of a set that `keep` (NULL: none) does not name. */
static void remove_parts(const char *path, const struct tccrt_tensors *old, const struct tccrt_tensors *keep)
{
    for (int k = 0; old && k < ckpt_nparts(old) && k < MAX_PARTS; k++) {
        const char *name = value_of_part(old, k, "");
        char part[PATH_MAX];
        bool kept = MUTANT(59, !is_part(path, name), false);

        for (int i = 0; keep && !kept && i < ckpt_nparts(keep); i++)
            kept = value_of_part(keep, i, "") && !strcmp(value_of_part(keep, i, ""), name);
        if (!kept && !beside(path, name, part))
            unlink(part);
    }
}

int ckpt_replace(struct tccrt_session *s, const char *path, int n, const struct tccrt_named *tensors, int nmeta,
                 const struct tccrt_pair *meta)
{
    struct tccrt_tensors *old = old_index(path), *now;
    char digest[CKPT_DIGEST];
    int status = ckpt_write(s, path, n, tensors, nmeta, meta, digest);

    now = status ? NULL : old_index(path);
    if (!status)
        remove_parts(path, old, now);
    tccrt_tensors_close(old);
    tccrt_tensors_close(now);
    if (!status)
        tcr_clear_error();
    return status;
}

int ckpt_write_index(const char *path, char set, int n, const char (*digests)[CKPT_DIGEST], int nmeta,
                     const struct tccrt_pair *meta)
{
    struct tccrt_pair *pairs = calloc((size_t)nmeta + 2 * (size_t)n + 2, sizeof *pairs);
    char(*texts)[3][64] = calloc((size_t)n + 1, sizeof *texts), (*names)[PATH_MAX] = calloc((size_t)n, sizeof *names);
    int status = pairs && texts && names ? TCC_OK : tcr_fail(TCC_EENV, "%s: no memory", path), at = nmeta;

    for (int i = 0; i < nmeta && !status; i++)
        pairs[i] = meta[i];
    for (int k = 0; k < n && !status; k++) {
        const char *slash;

        if ((status = part_name(path, set, k, n, names[k])))
            break;
        slash = strrchr(names[k], '/');
        snprintf(texts[k][0], sizeof texts[k][0], "tccc.part.%d", k + 1);
        snprintf(texts[k][1], sizeof texts[k][1], "tccc.part.%d.digest", k + 1);
        pairs[at++] = (struct tccrt_pair){texts[k][0], slash ? slash + 1 : names[k]};
        pairs[at++] = (struct tccrt_pair){texts[k][1], digests[k]};
    }
    if (!status) {
        snprintf(texts[n][0], sizeof texts[n][0], "%d", n);
        snprintf(texts[n][1], sizeof texts[n][1], "%c", set);
        pairs[at++] = (struct tccrt_pair){"tccc.parts", texts[n][0]};
        pairs[at++] = (struct tccrt_pair){"tccc.set", texts[n][1]};
        status = ckpt_replace(NULL, path, 0, NULL, at, pairs);
    }
    free(pairs);
    free(texts);
    free(names);
    return status;
}
