/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of pictures: DIR/CLASS/.../FILE. Classes are numbered in the order of their names, samples by class and then by path: torchvision's ImageFolder. An input of
 * pictures gets the pictures, an input of integers the classes' numbers. Files are read when a batch is made, so that a folder may be larger than
 * memory; what is kept are their names.
 */
#include "tools/data_int.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST = 16 };

struct folder {
    struct data_source source;
    struct data_picture picture;
    int64_t n, room;
    char **paths;
    int64_t *classes;
};

static void folder_release(struct data_source *s)
{
    struct folder *f = (struct folder *)s;

    for (int64_t i = 0; i < f->n; i++)
        free(f->paths[i]);
    free(f->paths);
    free(f->classes);
    free(f);
}

static bool picture_row(const struct data_source *s, int64_t row, const struct data_draw *draw, void *to, char *error)
{
    const struct folder *f = (const struct folder *)s;
    struct data_file *file = data_map(f->paths[row], error);

    if (!file)
        return false;
    bool ok = data_picture_row(&f->picture, f->paths[row], file->bytes, file->size, row, draw, to, error);
    data_unref(file);
    return ok;
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && data_is_picture(dot + 1);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool add(struct folder *f, const char *path, int64_t class)
{
    if (f->n == f->room) {
        int64_t room = f->room ? 2 * f->room : 256;
        char **paths = realloc(f->paths, (size_t)room * sizeof *paths);
        f->paths = paths ? paths : f->paths;
        int64_t *classes = paths ? realloc(f->classes, (size_t)room * sizeof *classes) : NULL;
        if (!classes)
            return false;
        f->classes = classes;
        f->room = room;
    }
    f->classes[f->n] = class;
    return (f->paths[f->n] = strdup(path)) && ++f->n;
}

/* The pictures below `path`, all of that class (-1: each folder in it is one; *classes counts them). */
static bool walk(struct folder *f, const char *path, int64_t class, int depth, int64_t *classes, char *error)
{
    struct dirent **list;
    int n = scandir(path, &list, visible, by_bytes);
    bool ok = n >= 0;

    if (!ok)
        snprintf(error, ERROR_SIZE, "%s: cannot be read: %m", path);
    for (int i = 0; i < n; i++) {
        char own[4096];
        struct stat st;
        int length = snprintf(own, sizeof own, "%s/%s", path, list[i]->d_name);
        bool there = length < (int)sizeof own && stat(own, &st) == 0, folder = there && S_ISDIR(st.st_mode);
        if (ok && folder && depth < DEEPEST)
            ok = walk(f, own, class < 0 ? (*classes)++ : class, depth + 1, classes, error);
        else if (ok && there && !folder && class >= 0 && is_picture(own) && !(ok = add(f, own, class)))
            snprintf(error, ERROR_SIZE, "no memory");
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return ok;
}

static bool find_pictures(struct folder *f, const char *path, char *error)
{
    int64_t classes = 0;

    if (!walk(f, path, -1, 0, &classes, error))
        return false;
    if (!f->n)
        snprintf(error, ERROR_SIZE, "%s: no pictures: expected %s/CLASS/NAME.jpg (or .png, .ppm, .bmp, .webp, .tif)",
                 path, path);
    return f->n > 0;
}

bool data_open_folder(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    struct folder *f = calloc(1, sizeof *f);
    bool classes = data_takes_classes(q->info);
    int64_t dims[4];

    if (!f)
        return snprintf(error, ERROR_SIZE, "no memory"), false;
    *found = q->named || classes || data_takes_pictures(q->info);
    f->source = (struct data_source){.refs = 1, .row = picture_row, .release = folder_release};
    if (!*found || (!classes && !data_picture_for(q, &f->picture, dims + 1, error)) ||
        !find_pictures(f, q->path, error)) {
        folder_release(&f->source);
        return false;
    }
    dims[0] = f->n;
    if (classes) {
        int64_t *numbers = f->classes;
        f->classes = NULL;
        folder_release(&f->source);
        return data_from_memory(q, numbers, TCC_I64, 1, dims, out, error);
    }
    struct data_request own = *q; /* the pictures are normalised by channel already */
    struct data_options plain = *q->o;
    plain.means.n = plain.stds.n = 0;
    own.o = &plain;
    return data_from_source(&own, &f->source, f->picture.dtype, 4, dims, out, error);
}
