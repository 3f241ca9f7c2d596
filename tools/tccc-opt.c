/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-opt: parses IR text, verifies it, runs passes and prints the result: the tool of the tests, and what replays
 * crash reproducers. A line `; -----` splits a file into pieces that are worked on one after the other, each by itself.
 */
#include "ir/ir.h"
#include "passes/pass.h"
#include "base/safe.h"
#include "tools/diagcheck_int.h"
#include "tools/options_int.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct options *options;
    struct pass_options pass;
    const char *name; /* of the file */
    FILE *out;
};

static int severest(const struct ir_ctx *ctx, int otherwise)
{
    for (int i = 0; i < ir_nmessages(ctx); i++)
        if (ir_message(ctx, i)->severity == IR_BUG)
            return EXIT_BUG;
    return otherwise;
}

/* Parses, runs and prints one piece; the exit code. Messages stay in ctx. */
static int work(const struct job *job, struct ir_ctx *ctx, const char *text, size_t size)
{
    const char *passes = option_text(job->options, OPT_passes, NULL);

    if (!pass_check(ctx, passes ? passes : "", &job->pass))
        return EXIT_USAGE;
    if (option_set(job->options, OPT_allow_files))
        ir_allow_files(ctx, option_text(job->options, OPT_allow_files, ""));
    struct ir_module *m = ir_parse(ctx, job->name, text, size);
    if (!m || !ir_verify(m))
        return EXIT_DATA;
    if (passes && !pass_list(m, passes, &job->pass))
        return severest(ctx, EXIT_DATA);
    ir_print_module(job->out, m);
    return EXIT_FINE;
}

static int run_piece(const struct job *job, const char *text, size_t size)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    if (!ctx)
        return tool_error(job->options, EXIT_ENVIRONMENT, "no memory");
    if (IR_PROTECT(ctx, &frame)) {
        code = work(job, ctx, text, size);
        ir_unprotect(ctx);
        if (option_set(job->options, OPT_verify_diags))
            code = diags_as_expected(ctx, job->name, text, size) ? EXIT_FINE : EXIT_DATA;
        else
            for (int i = 0; i < ir_nmessages(ctx); i++)
                ir_print_message(stderr, ir_message(ctx, i));
    } else {
        tool_error(job->options, EXIT_ENVIRONMENT, "no memory");
    }
    ir_ctx_free(ctx);
    return code;
}

/* Cuts the text at lines `; -----`. Lines keep their numbers: what went before a piece is blanked to newlines. */
static int run_pieces(const struct job *job, char *text, size_t size)
{
    char *end = text + size, *start = text;
    int worst = EXIT_FINE;

    for (bool more = true; more;) {
        char *cut = start, *stop = end;
        for (; cut < end; cut++) {
            if ((cut == text || cut[-1] == '\n') && end - cut >= 7 && memcmp(cut, "; -----", 7) == 0) {
                stop = cut;
                break;
            }
        }
        int code = run_piece(job, text, (size_t)(stop - text));
        worst = code > worst ? code : worst;
        more = stop < end;
        for (char *p = start; p < stop; p++)
            *p = *p == '\n' ? '\n' : ' ';
        if (more) {
            memset(stop, ' ', 7);
            fprintf(job->out, "; -----\n");
        }
        start = stop;
    }
    return worst;
}

static char *read_all(FILE *in, size_t *size)
{
    size_t room = 65536, n = 0, got;
    char *text = malloc(room);

    while (text && (got = fread(text + n, 1, room - n, in)) > 0) {
        n += got;
        if (n == room) {
            char *grown = realloc(text, room *= 2);
            if (!grown)
                free(text);
            text = grown;
        }
    }
    *size = n;
    return text;
}

static int list_passes(void)
{
    int n;
    const struct pass *table = pass_table(&n);
    for (int i = 0; i < n; i++)
        printf("%-16s %s\n", table[i].name, table[i].help);
    const struct pass_pipeline_row *rows = pass_pipeline_table(&n);
    for (int i = 0; i < n; i++)
        printf("%-16s %s\n", rows[i].name, rows[i].passes);
    return EXIT_FINE;
}

static int read_pass_options(const struct options *o, struct job *job)
{
    int64_t level = 2, limit = -1;

    if (!option_int(o, OPT_level, 0, 3, &level) || !option_int(o, OPT_change_limit, 0, INT64_MAX, &limit))
        return EXIT_USAGE;
    job->pass = (struct pass_options){.level = (int)level,
                                      .exact = option_set(o, OPT_exact),
                                      .fast_math = option_set(o, OPT_fast_math),
                                      .dump = o->given[OPT_dump_passes].at,
                                      .dump_to = stderr,
                                      .time_passes = option_set(o, OPT_time_passes),
                                      .time_to = stderr,
                                      .verify = !option_set(o, OPT_no_verify),
                                      .change_limit = limit};
    return -1;
}

static int run(struct options *o)
{
    struct job job = {.options = o, .out = stdout};
    size_t size;

    if (option_set(o, OPT_list_passes))
        return list_passes();
    if (o->nwords == 0)
        return usage_error(o, "no file given");
    if (o->nwords > 1)
        return usage_error(o, "more than one file: '%s'", o->words[1]);
    if (read_pass_options(o, &job) >= 0)
        return EXIT_USAGE;
    job.name = o->words[0];
    FILE *in = strcmp(job.name, "-") == 0 ? stdin : tcr_stream_input(job.name);
    if (!in)
        return tool_error(o, EXIT_DATA, "cannot open '%s': %m", job.name);
    char *text = read_all(in, &size);
    bool unread = ferror(in);
    if (in != stdin)
        fclose(in);
    if (!text || unread) {
        free(text);
        return tool_error(o, unread ? EXIT_DATA : EXIT_ENVIRONMENT, unread ? "cannot read '%s'" : "no memory for '%s'",
                          job.name);
    }
    const char *output = option_text(o, OPT_output, NULL);
    struct tcr_save save;
    if (output && tcr_save_open(&save, output, TCR_SAVE_STREAM)) {
        free(text);
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", output);
    }
    if (output)
        job.out = save.stream;
    int code = run_pieces(&job, text, size);
    free(text);
    bool lost = output ? tcr_save_commit(&save) != 0 : fflush(job.out) != 0 || ferror(job.out);
    return lost ? tool_error(o, EXIT_ENVIRONMENT, "cannot write the result: %m") : code;
}

int main(int argc, char **argv)
{
    return options_run(TOOL_O, argc, argv, run);
}
