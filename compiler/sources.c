/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a module's data comes from; see sources_int.h. Names are escaped as make reads them. */
#include "compiler/sources_int.h"
#include "compiler/custom_int.h"

#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/safe.h"

struct collector {
    struct ir_ctx *ctx;
    VEC(const char *) paths;
};

static void add_path(struct collector *c, const char *path)
{
    for (int i = 0; i < c->paths.n; i++)
        if (strcmp(c->paths.at[i], path) == 0)
            return;
    VEC_PUSH(c->ctx, c->paths, ir_intern(c->ctx, path));
}

static void add_tensor(struct collector *c, const struct ir_tensor *t)
{
    if (t && t->file)
        add_path(c, ir_file_path(t->file));
}

static void add_block(struct collector *c, const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        const struct ir_attr *value = ir_attr(n, IR_ATTR_value);
        if (value && value->kind == IR_A_TENSOR)
            add_tensor(c, value->t);
        for (int i = 0; i < n->nregions; i++)
            add_block(c, n->regions[i]);
    }
}

struct sources sources_collect(struct ir_ctx *ctx, const struct ir_module *m, const char *model,
                               const char *const *more)
{
    struct collector c = {.ctx = ctx};
    add_path(&c, model);
    for (int i = 0; more && more[i]; i++)
        add_path(&c, more[i]);
    struct custom_paths customs = {0};
    custom_sources(ctx, &customs);
    for (int i = 0; i < customs.n; i++)
        add_path(&c, customs.at[i]);
    for (const struct ir_state *s = m->states; s; s = s->next)
        add_tensor(&c, s->init);
    for (int i = 0; i < m->ndefaults; i++)
        add_tensor(&c, m->defaults[i].value);
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        add_block(&c, f->body);
    return (struct sources){c.paths.n, c.paths.at};
}

uint64_t sources_digest(struct ir_ctx *ctx, const struct sources *s)
{
    uint64_t digest = 0;
    char error[256];
    for (int i = 0; i < s->n; i++) {
        struct ir_file *f = ir_file_get(ctx, s->paths[i], error, sizeof error);
        if (f)
            digest = XXH3_64bits_withSeed(ir_file_data(f), ir_file_size(f), digest);
        ir_file_unref(f);
    }
    return digest;
}

/* Can a make rule hold the name? ; begins a recipe, for which there is no escape; a line's end ends the rule. */
static bool is_sayable(const char *name, bool target)
{
    size_t n = strlen(name);

    return n && !name[strcspn(name, target ? ";\n\r\t" : ";\n\r")] && !strchr(" \t\\", name[n - 1]) &&
           !(target && name[n - 1] == '&');
}

/* As make reads it (tests/cli.tap has it tried). A backslash is itself but in front of what is escaped. */
static void put_name(FILE *f, const char *name, bool target)
{
    const char *escaped = target ? " #:%" : " \t#:|";

    for (; *name; name++) {
        if (strchr(escaped, *name) || (*name == '\\' && strchr(escaped, name[1])))
            fputc('\\', f);
        else if (*name == '$')
            fputc('$', f);
        fputc(*name, f);
    }
}

bool sources_in_rule(struct ir_ctx *ctx, const struct sources *s, const char *target)
{
    for (int i = -1; i < s->n; i++) {
        const char *name = i < 0 ? target : s->paths[i];

        if (!is_sayable(name, i < 0))
            return ir_error(ctx, NULL, "a make rule cannot name the file '%s': rename it, or leave -MD out", name);
    }
    return true;
}

bool sources_write_depfile(struct ir_ctx *ctx, const struct sources *s, const char *target, const char *path)
{
    const char *dot = strrchr(target, '.');
    int stem = dot && !strchr(dot, '/') ? (int)(dot - target) : (int)strlen(target);
    if (!path)
        path = ir_internf(ctx, "%.*s.d", stem, target);
    struct tcr_save save;
    struct ir_where where = {.file = path};
    if (!tcr_save_open(&save, path, TCR_SAVE_STREAM)) {
        FILE *f = save.stream;
        put_name(f, target, true);
        fputc(':', f);
        for (int i = 0; i < s->n; i++) {
            fputs(i ? " \\\n " : " ", f);
            put_name(f, s->paths[i], false);
        }
        fputc('\n', f);
        if (!tcr_save_commit(&save))
            return true;
    }
    return ir_error(ctx, &where, "cannot write: %m");
}
