/* SPDX-License-Identifier: Apache-2.0 */
/* tccc: compiles a model to a native artifact. */
#include "base/safe.h"
#include "compiler/tccc.h"
#include "tools/data/data_int.h"
#include "tools/html/html_int.h"
#include "tools/run/model_int.h"
#include "tools/prove/prove_int.h"
#include "tools/quant/quant_int.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the suffix of a file's name begins: its dot, or the end. */
static size_t stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    return dot && dot != base ? (size_t)(dot - path) : strlen(path);
}

static int output_kind(const struct options *o, const char *path, struct tccc_options *c)
{
    static const struct {
        const char *suffix;
        enum tccc_output kind;
    } kinds[] = {{".so", TCCC_SO}, {".o", TCCC_OBJECT}, {".a", TCCC_ARCHIVE}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(path + stem(path), kinds[i].suffix) != 0)
            continue;
        c->kind = kinds[i].kind;
        if (c->kind == TCCC_SO && option_set(o, OPT_object))
            return usage_error(
                o, "-c writes a relocatable object; '%s' would be a shared one (use .o or .a, or leave out -c)", path);
        return EXIT_FINE;
    }
    return usage_error(o, "-o %s: the suffix says what is written; expected .so, .o or .a", path);
}

/* What is written: by -o, else named after the model; nothing when only dumps are asked for. */
static int output_name(const struct options *o, struct tccc_options *c, char name[PATH_MAX])
{
    const char *given = option_text(o, OPT_output, NULL), *model = c->model, *slash = strrchr(model, '/');

    if (!given && option_set(o, OPT_dump_ir)) {
        if (c->header || c->depends)
            return usage_error(o, "--dump-ir without -o writes no file; give -o too");
        c->dump_to = stdout;
        return EXIT_FINE;
    }
    if (given) {
        c->output = given;
        return output_kind(o, given, c);
    }
    c->kind = option_set(o, OPT_object) ? TCCC_OBJECT : TCCC_SO;
    model = slash ? slash + 1 : model;
    if (snprintf(name, PATH_MAX, "%.*s%s", (int)stem(model), model, c->kind == TCCC_SO ? ".so" : ".o") >= PATH_MAX)
        return usage_error(o, "the model's name is too long");
    c->output = name;
    return EXIT_FINE;
}

/* With a report where --html asks for one. */
static int compile_reported(const struct options *o, struct tccc_options *c)
{
    char *text = NULL;
    size_t size = 0;

    if (!option_set(o, OPT_html))
        return compile_model(o, c);
    int code = html_check(o);
    if (code != EXIT_FINE)
        return code;
    if (!(c->facts = open_memstream(&text, &size)))
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    code = compile_model(o, c);
    bool written = fclose(c->facts) == 0;
    c->facts = NULL;
    if (code == EXIT_FINE) {
        json_t *report = written ? html_compiled(text, size) : NULL;
        code = html_write(o, option_text(o, OPT_html, ""), report);
        json_decref(report);
    }
    free(text);
    return code;
}

static int info(const struct options *o)
{
    static const enum option_id writes[] = {OPT_output, OPT_object,  OPT_header,  OPT_depends,
                                            OPT_html,   OPT_dump_ir, OPT_quantize};

    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        if (option_set(o, writes[i]))
            return usage_error(o, "--info compiles nothing: %s%s excludes it",
                               *option_table[writes[i]].long_name ? "--" : "-",
                               *option_table[writes[i]].long_name ? option_table[writes[i]].long_name
                                                                  : (char[]){option_table[writes[i]].short_name, 0});
    if (model_is_artifact(o->words[0]))
        return tool_error(o, EXIT_DATA, "%s: an artifact; --info is about models", o->words[0]);
    return info_print(o);
}

/* What is written, and what is done with it. */
static int compile_and_use(const struct options *o, struct tccc_options *c)
{
    int code = option_set(o, OPT_tune) ? tune_model(o, c) : EXIT_FINE;

    if (code == EXIT_FINE)
        code = compile_reported(o, c);
    if (code == EXIT_FINE && option_set(o, OPT_emit))
        code = emit_images(o, c);
    return code == EXIT_FINE && option_set(o, OPT_prove_kernels) ? prove_model(o, c) : code;
}

/* The same of the quantised model. */
static int compile_quantised(const struct options *o, struct tccc_options *c)
{
    struct tcr_scratch scratch;
    char path[PATH_MAX];

    if (c->train)
        return usage_error(o, "--quantize is for trained models; --train with --qat trains for bytes");
    if (c->depends)
        return usage_error(
            o, "-MD: what --quantize reads can't be listed; quantise with tccc-quantize, a rule of its own");
    if (tcr_scratch_make(&scratch, NULL, "tccc-quantize-"))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make a folder for temporary files: %m");
    int code = quant_step(o, scratch.path, path);
    c->model = path;
    if (code == EXIT_FINE)
        code = compile_and_use(o, c);
    tcr_scratch_remove(&scratch);
    return code;
}

static int run(struct options *o)
{
    struct tccc_options c;
    struct tccdata_picture pictures;
    char name[PATH_MAX];

    if (o->nwords == 0)
        return usage_error(o, "no model given");
    if (o->nwords > 1)
        return usage_error(o, "more than one model: '%s'", o->words[1]);
    if (option_set(o, OPT_info))
        return info(o);
    if (o->given[OPT_json].n > o->given[OPT_json].inherited)
        return usage_error(o, "--json requires --info");
    int code = compile_options(o, &c);
    if (code != EXIT_FINE)
        return code;
    c.model = o->words[0];
    if ((code = output_name(o, &c, name)) != EXIT_FINE)
        return code;
    if (c.depfile && !c.depends)
        return usage_error(o, "-MF requires -MD");
    if (option_set(o, OPT_image_decode)) {
        if (!c.header)
            return usage_error(o, "--image-decode requires a header (-H)");
        if ((code = data_picture_told(o, &pictures)) != EXIT_FINE)
            return code;
        c.pictures = &pictures;
    }
    if (c.export_name && (c.kind == TCCC_SO || !c.output))
        return usage_error(o, "--export-name is for .o and .a: a .so exports its names");
    if (access(c.model, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "cannot open '%s': %s", c.model, strerror(errno));
    if (option_set(o, OPT_prove_kernels) && !c.output)
        return usage_error(o, "--prove-kernels requires an artifact (-o)");
    if (option_set(o, OPT_emit) && strcmp(option_text(o, OPT_emit, ""), "ptx") &&
        strcmp(option_text(o, OPT_emit, ""), "neff"))
        return usage_error(o, "--emit=%s: expected ptx or neff", option_text(o, OPT_emit, ""));
    if (option_set(o, OPT_emit) && (!c.output || c.kind != TCCC_SO))
        return usage_error(o, "--emit requires a shared object (-o NAME.so)");
    if (option_set(o, OPT_html) && !c.output)
        return usage_error(o, "--html requires an artifact (-o)");
    if (option_set(o, OPT_device) && !option_set(o, OPT_tune))
        return usage_error(o, "--device says what times kernels: it requires --tune");
    return option_set(o, OPT_quantize) ? compile_quantised(o, &c) : compile_and_use(o, &c);
}

int main(int argc, char **argv)
{
    return options_run(TOOL_C, argc, argv, run);
}
