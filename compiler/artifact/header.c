/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header.c - the C header of -H: the entry points' functions with what they take and give, and what pictures become
 * inputs. It reads entry points as they are called (entry.c), nothing of the object file.
 */
#include "base/safe.h"
#include "compiler/artifact/artifact_int.h"
#include "runtime/tccdata.h"

#include <string.h>
#include <xxhash.h>

/* Names are the model's author's: none ends the comment or the line, or begins another comment or a trigraph. */
static void put_comment(FILE *f, const char *name)
{
    for (const char *s = ir_shown(name); *s; s++)
        fputs((char[]){*s,
                       (*s == '*' && s[1] == '/') || (*s == '/' && s[1] == '*') || (*s == '?' && s[1] == '?') ? ' '
                                                                                                              : '\0',
                       '\0'},
              f);
}

static void put_c_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        fprintf(f, *s == '"' || *s == '\\' || *s == '?' || *s < ' ' || *s > '~' ? "\\%03o" : "%c", (unsigned char)*s);
    fputc('"', f);
}

static void value_comment(FILE *f, struct ir_ctx *ctx, const char *what, int i, const char *name, ir_type t)
{
    fprintf(f, " *   %s[%d]  ", what, i);
    put_comment(f, name);
    fputs(": ", f);
    put_comment(f, ir_type_text(ctx, t));
    fputc('\n', f);
}

/* The words that elements of an input or output stand for. */
static void label_comment(FILE *f, const struct ir_module *m, const char *name)
{
    const struct ir_labels *labels = ir_labels_of(m, name);
    for (int i = 0; labels && i < labels->n; i++) {
        fprintf(f, " *           [%d]: ", i);
        put_comment(f, labels->at[i]);
        fputc('\n', f);
    }
}

/* Types of an entry point in stages are those of a microbatch. */
static void staged_values(FILE *f, struct ir_ctx *ctx, const struct kn_staged *p)
{
    fprintf(f, " * %d microbatches a call; of one of them:\n", p->micros);
    for (int i = 0; i < p->ninputs; i++)
        value_comment(f, ctx, "in", i, p->inputs[i].name, p->inputs[i].type);
    for (int i = 0; i < p->noutputs; i++)
        value_comment(f, ctx, "out", i, p->outputs[i].name, p->outputs[i].type);
}

/* Inputs behind those of @main that need not be given, and those that can't be. */
static void default_values(FILE *f, struct ir_ctx *ctx, const struct ir_func *main)
{
    const struct ir_module *m = main->module;
    const struct ir_func *given = ir_entry_by_name(main->module, IR_GIVEN);
    for (int i = 0, at = main->body->nparams; i < m->ndefaults && given; i++) {
        if (!m->defaults[i].value)
            continue;
        value_comment(f, ctx, "in", at, given->input_names[at],
                      given->version ? given->version->inputs[at] : given->body->params[at]->type);
        fputs(" *           (need not be given: it has a value of its own)\n", f);
        at++;
    }
    for (int i = 0; i < m->ndefaults; i++) {
        if (m->defaults[i].value)
            continue;
        fputs(" *   compiled in: ", f);
        put_comment(f, m->defaults[i].input);
        fputc('\n', f);
    }
}

/* How many inputs of the entry point need not be given. */
static int ndefaults(const struct kn_entry *e)
{
    int n = 0;
    for (int i = 0; e && !strcmp(ir_entry_name(e->func), "main") && i < e->func->module->ndefaults; i++)
        n += e->func->module->defaults[i].value != NULL;
    return n;
}

static void func_values(FILE *f, struct ir_ctx *ctx, const struct ir_func *fn)
{
    const struct ir_version *v = fn->version;
    for (int i = 0; i < fn->body->nparams; i++) {
        value_comment(f, ctx, "in", i, fn->input_names[i], v ? v->inputs[i] : fn->body->params[i]->type);
        label_comment(f, fn->module, fn->input_names[i]);
    }
    if (!strcmp(ir_entry_name(fn), "main"))
        default_values(f, ctx, fn);
    for (int i = 0; i < fn->body->last->nin; i++) {
        value_comment(f, ctx, "out", i, ir_output_name(fn, i), ir_entry_result(fn, i, ir_sym(ctx, "?")));
        label_comment(f, fn->module, ir_output_name(fn, i));
    }
    for (const struct ir_func *g = fn->module->funcs; v && g; g = g->next)
        if (g->version && !strcmp(g->version->entry, v->entry))
            fprintf(f, " *   version for %s\n", ir_guards_text(ctx, g->version->nguards, g->version->guards));
}

/* -- Pictures, of the header */

/* What the input takes, in *p: with what is known of pictures. False: none, or (*why) others. */
static bool picture_of(struct ir_ctx *ctx, const char *name, ir_type t, const struct tccdata_picture *given,
                       struct tccdata_picture *p, const char **why)
{
    struct tccrt_value_info info = {.name = name,
                                    .kind = t->kind == IR_T_TENSOR ? TCC_OBJ_TENSOR : TCC_OBJ_NONE,
                                    .dtype = t->dtype,
                                    .rank = t->rank};

    for (int k = 0; t->kind == IR_T_TENSOR && k < t->rank; k++)
        if (!ir_is_const(t->dim[k], &info.dims[k]))
            info.dims[k] = -1;
    *why = NULL;
    if (tccdata_picture_for(&info, p))
        return false;
    if ((given->channels && given->channels != p->channels) ||
        (given->height && p->height && given->height != p->height) ||
        (given->width && p->width && given->width != p->width)) {
        *why = ir_internf(ctx, "input '%s' takes pictures as %s; training's had %d x %d pixels of %d channels (0: any)",
                          ir_shown(name), ir_type_text(ctx, t), given->height, given->width, given->channels);
        return false;
    }
    p->height = p->height ? p->height : given->height;
    p->width = p->width ? p->width : given->width;
    p->resize = given->resize;
    memcpy(p->mean, given->mean, sizeof p->mean);
    memcpy(p->std, given->std, sizeof p->std);
    if (!tccdata_bytes(p))
        *why = !p->height || !p->width
                   ? ir_internf(ctx, "how large are the pictures of input '%s'? Add size=N", ir_shown(name))
                   : ir_internf(ctx, "input '%s': %s", ir_shown(name), tccdata_error());
    return !*why;
}

bool artifact_takes_pictures(struct ir_ctx *ctx, const struct ir_func *fn, const struct tccdata_picture *given)
{
    struct ir_where where = {0};
    struct tccdata_picture p;
    bool any = false;

    for (int i = 0; i < fn->body->nparams; i++) {
        const char *why;
        any |= picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why);
        if (why)
            return ir_error(ctx, &where, "--image-decode: %s", why);
    }
    return any || ir_error(ctx, &where,
                           "--image-decode: no input takes pictures: expected floats or bytes of [samples, "
                           "1 or 3, height, width]");
}

static void put_floats(FILE *f, const float *x)
{
    for (int i = 0; i < 3; i++)
        fprintf(f, "%s(float)%.9g", i ? ", " : "{", (double)x[i]);
    fputc('}', f);
}

/* Of each input; all zeros for one that takes no pictures. */
static void picture_array(FILE *f, struct ir_ctx *ctx, const char *prefix, const char *entry, const struct ir_func *fn,
                          const struct tccdata_picture *given)
{
    struct tccdata_picture p;
    const char *why;
    bool any = false;

    for (int i = 0; i < fn->body->nparams; i++)
        any |= picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why);
    if (!any)
        return;
    fprintf(f,
            "/* What tccdata_read() and tccdata_decode() make of a picture for in[i]; zeros: it takes none. */\n"
            "static const struct tccdata_picture %s_%s_picture[%d] = {\n",
            prefix, entry, fn->body->nparams);
    for (int i = 0; i < fn->body->nparams; i++) {
        if (!picture_of(ctx, fn->input_names[i], fn->body->params[i]->type, given, &p, &why)) {
            fputs("    {0, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}},\n", f);
            continue;
        }
        fprintf(f, "    {%d, %d, %d, %d, %d, %s, ", p.channels, p.height, p.width, p.resize, p.last,
                p.dtype == TCC_U8 ? "TCC_U8" : "TCC_F32");
        put_floats(f, p.mean);
        fputs(", ", f);
        put_floats(f, p.std);
        fputs("},\n", f);
    }
    fputs("};\n", f);
}

/* The one or the other is there. */
static void entry_text(FILE *f, struct ir_ctx *ctx, const char *prefix, const char *entry, const struct kn_entry *e,
                       const struct kn_staged *p)
{
    const char *name = e ? ir_entry_name(e->func) : p->name;
    int ninputs = e ? e->ninputs : p->ninputs, noutputs = e ? e->noutputs : p->noutputs;
    char *upper = ir_strdup(ctx, ir_internf(ctx, "%s_%s", prefix, entry));
    for (char *c = upper; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c += 'A' - 'a';
    fputs("\n/*\n * Entry point \"", f);
    put_comment(f, name);
    fputs("\".\n", f);
    if (e)
        func_values(f, ctx, e->func);
    else
        staged_values(f, ctx, p);
    fprintf(f,
            " * Returns a tcc_status; tccrt_error() has the message. %s_%s() keeps a session of its own: out[i] must "
            "have dtype, dims and\n"
            " * memory; it may be called from several threads. %s_%s_run() runs a session of the caller's: out[i].data "
            "NULL gives the\n"
            " * session's memory, good until its next run.\n */\n",
            prefix, entry, prefix, entry);
    fprintf(f, "#define %s_INPUTS %d\n#define %s_OUTPUTS %d\n", upper, ninputs, upper, noutputs);
    fprintf(f, "int %s_%s(const struct tcc_tensor *in, struct tcc_tensor *out);\n", prefix, entry);
    fprintf(f,
            "static inline int %s_%s_run(struct tccrt_session *session, const struct tcc_tensor *in, struct tcc_tensor "
            "*out)\n"
            "{\n    return tccrt_run(session, ",
            prefix, entry);
    put_c_string(f, name);
    fprintf(f, ", %d, in, %d, out);\n}\n", ninputs, noutputs);
    if (!ndefaults(e))
        return;
    fprintf(f,
            "/* The same with the inputs that need not be given, behind the others; one of type 0 is not given. */\n"
            "#define %s_DEFAULTS %d\nstatic inline int %s_%s_run_with(struct tccrt_session *session, const struct "
            "tcc_tensor *in, struct tcc_tensor *out)\n{\n    return tccrt_run(session, ",
            upper, ndefaults(e), prefix, entry);
    put_c_string(f, name);
    fprintf(f, ", %d, in, %d, out);\n}\n", ninputs + ndefaults(e), noutputs);
}

bool artifact_header(struct ir_ctx *ctx, const struct kn_program *p, const char *name, const char *source,
                     const struct tccdata_picture *pictures, const char *path)
{
    struct tcr_save save;
    struct ir_where where = {.file = path};
    FILE *f = tcr_save_open(&save, path, TCR_SAVE_STREAM) ? NULL : save.stream;
    if (!f)
        return ir_error(ctx, &where, "cannot write the header: %m");
    fprintf(f, "/* Written by tccc. The model \"%s\": link NAME.o or NAME.a and libtccrt, or open NAME.so. */\n", name);
    unsigned id = (unsigned)XXH3_64bits(source, strlen(source));
    fprintf(
        f,
        "#ifdef %s_MODEL_H\n#if %s_MODEL_H != 0x%08x\n#error \"two models of the name '%s': compile one of them with "
        "another --name\"\n#endif\n#else\n#define %s_MODEL_H 0x%08x\n\n#include <%s.h>\n\n",
        name, name, id, name, name, id, pictures ? "tccdata" : "tccrt");
    fprintf(f, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    fprintf(f, "/* The model, for tccrt_open_linked(). */\nextern const struct tcc_model %s_model;\n", name);
    const char **entries = artifact_identifiers(ctx, p);
    for (const struct kn_staged *q = p->module->staged; q; q = q->next)
        entry_text(f, ctx, name, *entries++, NULL, q);
    for (int i = 0; i < artifact_nentries(p) && !p->module->staged; i++) {
        entry_text(f, ctx, name, entries[i], artifact_entry(p, i), NULL);
        if (pictures)
            picture_array(f, ctx, name, entries[i], artifact_entry(p, i)->func, pictures);
    }
    fprintf(f, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    if (tcr_save_commit(&save))
        return ir_error(ctx, &where, "cannot write the header: %m");
    return true;
}
