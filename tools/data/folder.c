/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of pictures: DIR/CLASS/.../FILE. Classes are numbered in the order of their names, or as training's were
 * (tables.c), samples by class and then by path: torchvision's ImageFolder. An input of pictures gets the pictures, an
 * input of integers the classes' numbers. Files are read when a batch is made, so that a folder may be larger than
 * memory; what is kept are their names. Where no input asks for classes (a prediction), pictures may lie anywhere in
 * the folder, and one picture is a folder of itself.
 */
#include "tools/data/data_int.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST = 16 };

struct folder {
    struct data_source source;
    struct data_picture picture;
    int64_t n, room, left; /* left: pictures of kinds that are not read */
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

static const char *picture_name(const struct data_source *s, int64_t row)
{
    return ((const struct folder *)s)->paths[row];
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && data_is_picture(dot + 1);
}

static bool is_other_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && data_is_other_picture(dot + 1);
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

/* The number of a class; with `note` it gets one. -1 after an error. */
static int64_t class_named(struct data_column *c, const char *name, bool note, const char *path, char *error)
{
    char names[300];
    int at = 0;

    if (note)
        return data_class_note(c, name, strlen(name), error) ? 0 : -1;
    if (c && (at = data_class_of(c, name, strlen(name))) < 0) {
        data_class_names(c, names, sizeof names);
        snprintf(error, ERROR_SIZE, "%s: '%.80s' is none of the classes of training: %s", path, name, names);
    }
    return at;
}

/* What is looked for: a folder's classes (note), or its pictures, whose classes are those of `column`; NULL: nobody
 * asks for them. */
/* loose: no input asks for classes, and pictures may lie anywhere. */
struct search {
    struct data_column *column;
    bool note, loose;
    char *error;
};

/* Is there one below `path`? A folder without any is no class: nothing of it can be trained or met. */
static bool has_pictures(const char *path, int depth)
{
    DIR *d = opendir(path);
    struct dirent *e;
    bool found = !d; /* what can't be read is told later */

    while (d && !found && (e = readdir(d))) {
        char own[4096];
        struct stat st;
        int length = snprintf(own, sizeof own, "%s/%s", path, e->d_name);

        if (!visible(e) || length >= (int)sizeof own || stat(own, &st))
            continue;
        found = S_ISDIR(st.st_mode) ? depth < DEEPEST && has_pictures(own, depth + 1) : is_picture(own);
    }
    if (d)
        closedir(d);
    return found;
}

/* The pictures below `path`, all of that class (-1: each folder in it is one). */
static bool walk(struct folder *f, const struct search *s, const char *path, int64_t class, int depth)
{
    struct dirent **list;
    int n = scandir(path, &list, visible, by_bytes);
    bool ok = n >= 0;

    if (!ok)
        snprintf(s->error, ERROR_SIZE, "%s: cannot be read: %m", path);
    for (int i = 0; i < n; i++) {
        char own[4096];
        struct stat st;
        int length = snprintf(own, sizeof own, "%s/%s", path, list[i]->d_name);
        bool there = length < (int)sizeof own && stat(own, &st) == 0, folder = there && S_ISDIR(st.st_mode);
        bool deeper = ok && folder && depth < DEEPEST && !(s->note && depth);
        bool is_class = deeper && (class >= 0 || s->loose || has_pictures(own, depth + 1));
        if (is_class) {
            int64_t its = s->loose    ? 0
                          : class < 0 ? class_named(s->column, list[i]->d_name, s->note, path, s->error)
                                      : class;
            ok = its >= 0 && (s->note || walk(f, s, own, its, depth + 1));
        } else if (deeper && f) {
            ok = walk(f, s, own, 0, depth + 1); /* no class: what is left out of it is counted */
        } else if (ok && there && !folder && (class >= 0 || s->loose) && is_picture(own) &&
                   !(ok = add(f, own, class))) {
            snprintf(s->error, ERROR_SIZE, "no memory");
        }
        if (f && there && !folder && is_other_picture(own))
            f->left++;
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return ok;
}

static bool find_pictures(struct folder *f, const char *path, struct data_column *c, bool loose, char *error)
{
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode) && is_other_picture(path))
        return put_error(error, "%s: such pictures are not read: JPEG, PNG, BMP, PNM, TIFF and WebP are", path);
    if (loose && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return add(f, path, 0) || put_error(error, "no memory");
    if (!walk(f, &(struct search){.column = c, .loose = loose, .error = error}, path, -1, 0))
        return false;
    if (!f->n)
        snprintf(error, ERROR_SIZE, "%s: no pictures%s: expected %s/CLASS/NAME.jpg (or .png, .ppm, .bmp, .webp, .tif)",
                 path, f->left ? " but of kinds that are not read (GIF, HEIC, AVIF, ...)" : "", path);
    return f->n > 0;
}

/* The classes' names; the column of the input's table that has them has no name itself. */
static bool find_classes(const struct data_request *q, char *error)
{
    struct data_table *t = q->o->table;

    if (q->phase == PHASE_CLASSES)
        return walk(NULL, &(struct search){.column = t->columns, .note = true, .error = error}, q->path, -1, 0);
    if (!t->ncolumns && !data_table_column(t, "", 0))
        return put_error(error, "no memory");
    t->columns->numbers = false;
    return true;
}

/* Does any input? Then pictures without one are no samples. */
static bool asks_for_classes(const struct data_request *q)
{
    for (int i = 0; i < q->ninputs; i++)
        if (data_takes_classes(&q->inputs[i]))
            return true;
    return !q->ninputs;
}

bool data_open_folder(struct data_request *q, struct data_array *out, bool *found, char *error)
{
    struct folder *f = calloc(1, sizeof *f);
    bool classes = data_takes_classes(q->info);
    struct data_table *t = q->o->table;
    int64_t dims[4];

    if (q->phase != PHASE_ROWS) {
        free(f);
        return !classes || find_classes(q, error);
    }
    if (!f)
        return put_error(error, "no memory");
    *found = q->named || classes || data_takes_pictures(q->info);
    f->source = (struct data_source){.refs = 1, .row = picture_row, .name = picture_name, .release = folder_release};
    if (!*found || (!classes && !data_picture_for(q, &f->picture, dims + 1, error)) ||
        !find_pictures(f, q->path, classes && t->ncolumns ? t->columns : NULL, !asks_for_classes(q), error)) {
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
    plain.table = NULL;
    own.o = &plain;
    int64_t left = f->left;
    bool ok = data_from_source(&own, &f->source, (enum tcc_dtype)f->picture.as.dtype, 4, dims, out, error);
    out->left = ok ? left : 0;
    return ok;
}
