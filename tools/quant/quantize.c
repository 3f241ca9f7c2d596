/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantize.c - a model with its products and convolutions in 8 or 4 bits, as plain ONNX, by the options of
 * tccc-quantize. The model itself is compiled and run over the data to see what values there are.
 */
#include "tools/quant/quant_int.h"

#include "base/safe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct word {
    const char *name;
    int value;
};
static const struct word modes[] = {{"static-int8", QUANT_STATIC},
                                    {"dynamic-int8", QUANT_DYNAMIC},
                                    {"weight-int8", QUANT_WEIGHT8},
                                    {"weight-int4", QUANT_WEIGHT4},
                                    {"fp8", QUANT_FP8},
                                    {0}};
static const struct word methods[] = {{"minmax", METHOD_MINMAX},
                                      {"percentile", METHOD_PERCENTILE},
                                      {"entropy", METHOD_ENTROPY},
                                      {"mse", METHOD_MSE},
                                      {"rtn", METHOD_RTN},
                                      {"gptq", METHOD_GPTQ},
                                      {"awq", METHOD_AWQ},
                                      {"smooth", METHOD_SMOOTH},
                                      {0}};

/* What a mode takes: methods (1 << enum quant_method, its default first), and the opset that its operators need. */
static const struct {
    enum quant_method usual;
    unsigned methods;
    int opset;
    bool data;
} rules[QUANT_NMODES] = {
    [QUANT_STATIC] = {METHOD_MSE,
                      1 << METHOD_MINMAX | 1 << METHOD_PERCENTILE | 1 << METHOD_ENTROPY | 1 << METHOD_MSE |
                          1 << METHOD_SMOOTH,
                      10, true},
    [QUANT_DYNAMIC] = {METHOD_RTN, 1 << METHOD_RTN, 11, false},
    [QUANT_WEIGHT8] = {METHOD_RTN, 1 << METHOD_RTN | 1 << METHOD_GPTQ, 10, false},
    [QUANT_WEIGHT4] = {METHOD_RTN, 1 << METHOD_RTN | 1 << METHOD_GPTQ | 1 << METHOD_AWQ, 7, false},
    [QUANT_FP8] = {METHOD_MINMAX, 1 << METHOD_MINMAX | 1 << METHOD_PERCENTILE, 19, true},
};
enum { AXIS_OPSET = 13 };
#define USUAL_SNR 20.0 /* dB: an error of a hundredth of the outputs' squares */

/* -- Settings ------------------------------------------------------------------------------------------------- */

static int word_of(const struct quant *q, enum option_id id, const struct word *list, const char *text, size_t n)
{
    char known[256] = "";

    for (int i = 0; list[i].name; i++) {
        if (strlen(list[i].name) == n && !memcmp(list[i].name, text, n))
            return list[i].value;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", list[i].name);
    }
    usage_error(q->o, "%s%s=%s: expected one of %s", quant_option(q), option_table[id].long_name, text, known);
    return -1;
}

/* What stands before a mode's name in messages. */
static const char *mode_word(const struct quant *q)
{
    return q->called ? "mode " : "--mode=";
}

/* smooth[:A]: ranges are those of all values, of what has been smoothed. */
static int read_smooth(struct quant *q, const char *text)
{
    const char *colon = strchr(text, ':');
    char *end = NULL;

    q->method = rules[q->mode].usual;
    q->smooth = colon ? strtod(colon + 1, &end) : 0.5;
    if (colon && (end == colon + 1 || *end || !(q->smooth > 0 && q->smooth <= 1)))
        return usage_error(q->o, "%smethod=%s: expected smooth:A, with A above 0 and at most 1", quant_option(q), text);
    return EXIT_FINE;
}

static int read_method(struct quant *q)
{
    const char *text = option_text(q->o, OPT_quant_method, NULL);
    char *end = NULL;

    q->method = rules[q->mode].usual;
    q->percentile = 99.99;
    if (!text)
        return EXIT_FINE;
    int method = word_of(q, OPT_quant_method, methods, text, strcspn(text, ":"));
    if (method < 0)
        return EXIT_USAGE;
    if (!(rules[q->mode].methods >> method & 1))
        return usage_error(q->o, "%smethod=%s: not one of %s%s", quant_option(q), text, mode_word(q),
                           modes[q->mode].name);
    q->method = (enum quant_method)method;
    if (method == METHOD_SMOOTH)
        return read_smooth(q, text);
    if (!strchr(text, ':'))
        return EXIT_FINE;
    q->percentile = strtod(strchr(text, ':') + 1, &end);
    if (method != METHOD_PERCENTILE || *end || !(q->percentile > 50 && q->percentile <= 100))
        return usage_error(q->o, "%smethod=%s: expected percentile:P, with P above 50 and at most 100", quant_option(q),
                           text);
    return EXIT_FINE;
}

/* A share, or with % a hundredth of it. */
static int read_drop(struct quant *q)
{
    const char *text = option_text(q->o, OPT_max_drop, NULL);
    char *end = NULL;

    if (!text)
        return EXIT_FINE;
    q->max_drop = strtod(text, &end) / (end && *end == '%' ? 100 : 1);
    if (end == text || strcmp(*end == '%' ? end + 1 : end, "") || !(q->max_drop >= 0 && q->max_drop < 1))
        return usage_error(q->o, "%smax-drop=%s: expected a share, as 0.5%% or 0.005", quant_option(q), text);
    return EXIT_FINE;
}

/* Decibels, or none. By default it is a limit where there is no other. */
static int read_snr(struct quant *q)
{
    const char *text = option_text(q->o, OPT_min_snr, NULL);
    bool usual = q->mode == QUANT_STATIC && !option_set(q->o, OPT_max_drop) && !option_set(q->o, OPT_trained);
    char *end = NULL;

    q->snr = q->snr_all = NAN;
    q->min_snr = usual ? USUAL_SNR : -INFINITY;
    if (!text)
        return EXIT_FINE;
    q->min_snr = !strcmp(text, "none") ? -INFINITY : strtod(text, &end);
    if (end && (end == text || *end || !(q->min_snr >= 0 && q->min_snr <= 200)))
        return usage_error(q->o, "%smin-snr=%s: expected decibels from 0 to 200, or none", quant_option(q), text);
    return EXIT_FINE;
}

static int read_settings(struct quant *q)
{
    const struct options *o = q->o;
    const char *mode = option_text(o, OPT_quant_mode, "static-int8"), *format = option_text(o, OPT_quant_format, NULL);
    int value = word_of(q, OPT_quant_mode, modes, mode, strlen(mode)), code;

    static const enum option_id without[] = {OPT_quant_mode, OPT_quant_method,    OPT_max_drop,
                                             OPT_min_snr,    OPT_bias_correction, OPT_data};
    if (value < 0)
        return EXIT_USAGE;
    for (size_t i = 0; option_set(o, OPT_trained) && i < sizeof without / sizeof *without; i++)
        if (option_set(o, without[i]))
            return usage_error(o, "%strained and %s%s exclude each other: the checkpoint has all steps",
                               quant_option(q), q->called ? "" : "--", option_table[without[i]].long_name);
    q->mode = (enum quant_mode)value;
    q->group = 32;
    if ((code = read_method(q)) != EXIT_FINE || (code = read_drop(q)) != EXIT_FINE || (code = read_snr(q)) != EXIT_FINE)
        return code;
    if (!option_int(o, OPT_quant_group, 16, 256, &q->group))
        return EXIT_USAGE;
    if (q->group & (q->group - 1))
        return usage_error(o, "%sgroup=%lld: expected 16, 32, 64, 128 or 256", quant_option(q), (long long)q->group);
    if (format && strcmp(format, "matmulnbits") && strcmp(format, "qdq"))
        return usage_error(o, "%sformat=%s: expected matmulnbits or qdq", quant_option(q), format);
    if ((format || option_set(o, OPT_quant_group)) && q->mode != QUANT_WEIGHT4)
        return usage_error(o, "%s%s requires %sweight-int4", quant_option(q), format ? "format" : "group",
                           mode_word(q));
    q->corrects = option_set(o, OPT_bias_correction);
    if (q->corrects && q->mode != QUANT_STATIC)
        return usage_error(o, "%sbias-correction requires %sstatic-int8", quant_option(q), mode_word(q));
    q->qdq = format && !strcmp(format, "qdq");
    bool needs = (rules[q->mode].data && !option_set(o, OPT_trained)) || q->method == METHOD_GPTQ ||
                 q->method == METHOD_AWQ || isfinite(q->min_snr);
    if (!option_set(o, OPT_data) && (needs || (option_set(o, OPT_max_drop) && !option_set(o, OPT_eval_data))))
        return usage_error(
            o, "no data: %s",
            q->called ? "data=FILE.npz behind the mode of --quantize, or data=NAME=FILE for each input of the model"
                      : "--data FILE.npz, or --data NAME=FILE for each input of the model");
    if (!option_set(o, OPT_output))
        return usage_error(o, "no output: -o FILE.onnx");
    return EXIT_FINE;
}

static int check_opset(const struct quant *q)
{
    int opset = q->qdq ? QUANT_HALVES_OPSET : q->trained ? AXIS_OPSET : rules[q->mode].opset;

    if (q->opset < opset)
        return tool_error(q->o, EXIT_DATA,
                          "%s: opset %lld: %s%s%s needs operators of opset %d or later; export the model anew, or "
                          "convert it with onnx.version_converter",
                          quant_shown(q), (long long)q->opset,
                          q->trained ? "--trained" : "--mode=", q->trained ? "" : modes[q->mode].name,
                          q->qdq ? " --format=qdq" : "", opset);
    if (quant_one_scale(q) && !option_set(q->o, OPT_quiet))
        fprintf(stderr, "note: %s: opset %lld: a weight has one scale; from opset 13 on it has one for each output\n",
                q->path, (long long)q->opset);
    if (q->trained && q->trained_bits == 4 && q->opset < QUANT_HALVES_OPSET && !option_set(q->o, OPT_quiet))
        fprintf(stderr, "note: %s: opset %lld: codes of 4 bits lie in bytes; from opset %d on they have 4 bits\n",
                quant_shown(q), (long long)q->opset, QUANT_HALVES_OPSET);
    return EXIT_FINE;
}

/* -- Work ----------------------------------------------------------------------------------------------------- */

static long long bytes_of(const char *path)
{
    char data[PATH_MAX];
    struct stat a = {0}, b = {0};

    snprintf(data, sizeof data, "%s.data", path);
    return (stat(path, &a) ? 0 : a.st_size) + (stat(data, &b) ? 0 : b.st_size);
}

/* What --min-snr did; what is left costs time, by how often it multiplies. */
static void report_noise(const struct quant *q, FILE *out, bool json)
{
    double all = 0, left = 0;

    for (int i = 0; i < q->nnodes; i++)
        if (q->nodes[i].chosen) {
            all += quant_multiplications(q, i);
            left += q->nodes[i].excluded ? quant_multiplications(q, i) : 0;
        }
    double share = all > 0 ? left / all : 0;
    if (json && isfinite(q->snr))
        fprintf(out, ",\"snr\":%.4g,\"snr_all\":%.4g,\"float_multiplications\":%.4g", q->snr, q->snr_all, share);
    else if (!json && q->snr != q->snr_all && isfinite(q->snr))
        fprintf(out,
                "signal to noise of the outputs: %.1f dB, with all nodes in 8 bits %.1f (--min-snr=%g): what is left "
                "has %.0f %% of the multiplications\n",
                q->snr, q->snr_all, q->min_snr, 100 * share);
}

/* What was done. */
static int report(const struct quant *q, const char *output, const struct quant_classes *model,
                  const struct quant_classes *c)
{
    FILE *out = q->report;
    int all = 0;
    bool scored = c->n > 0, json = option_set(q->o, OPT_json);
    const char *what = option_set(q->o, OPT_eval_data) ? "accuracy" : "classes as the model's";

    for (int i = 0; i < q->nnodes; i++)
        all += q->nodes[i].chosen;
    double after = scored ? quant_score(q, c, model) : 0, before = scored ? quant_score(q, model, model) : 0;
    if (json) {
        fprintf(out, "{\"mode\":\"%s\",\"quantized\":%d,\"chosen\":%d,\"bytes\":%lld,\"bytes_before\":%lld",
                modes[q->mode].name, quant_chosen(q), all, bytes_of(output), bytes_of(q->path));
        if (scored)
            fprintf(out, ",\"score\":%.6g,\"score_before\":%.6g", after, before);
        report_noise(q, out, true);
        fprintf(out, ",\"left\":[");
    } else {
        fprintf(out, "%s: %d of %d nodes in %s, %lld bytes of %lld\n", q->called ? q->called : output, quant_chosen(q),
                all, modes[q->mode].name, bytes_of(output), bytes_of(q->path));
        report_noise(q, out, false);
    }
    for (int i = 0, k = 0; i < q->nnodes; i++) {
        if (!q->nodes[i].chosen || !q->nodes[i].excluded)
            continue;
        const char *name = *q->nodes[i].name ? q->nodes[i].name : quant_value_name(q, q->nodes[i].out[0]);
        fputs(json ? k++ ? "," : "" : "left as it is: ", out);
        tcr_print_json(out, name);
        fputs(json ? "" : "\n", out);
    }
    if (json)
        fputs("]}\n", out);
    else if (scored)
        fprintf(out, "%s: %.2f %%, before %.2f %%\n", what, 100 * after, 100 * before);
    return fflush(out) ? tool_error(q->o, EXIT_ENVIRONMENT, "cannot write standard output: %m") : EXIT_FINE;
}

static int calibrate(struct quant *q)
{
    if (q->method == METHOD_GPTQ || q->method == METHOD_AWQ)
        return quant_gptq(q, q->mode == QUANT_WEIGHT4 ? 4 : 8, q->mode == QUANT_WEIGHT4 ? q->group : 0);
    if (!rules[q->mode].data || q->trained)
        return EXIT_FINE;
    int *whole = IR_NEWN(q->ctx, (size_t)q->nvalues + 1, int);
    quant_want_static(q, whole);
    quant_want_extremes(q, whole);
    quant_want_means(q);
    int code = quant_calibrate(q);
    return code == EXIT_FINE ? quant_smooth(q) : code;
}

static int work(struct quant *q, struct quant_classes *model, struct quant_classes *c)
{
    const char *output = option_text(q->o, OPT_output, NULL), *trial = ir_internf(q->ctx, "%s/trial.onnx", q->folder);
    bool scored = option_set(q->o, OPT_eval_data) || option_set(q->o, OPT_max_drop);
    int code = option_set(q->o, OPT_trained) ? quant_open_trained(q) : EXIT_FINE;

    if (code == EXIT_FINE && (code = quant_open(q)) == EXIT_FINE && (code = check_opset(q)) == EXIT_FINE &&
        (code = quant_choose(q)) == EXIT_FINE && (!q->trained || (code = quant_mark_trained(q)) == EXIT_FINE))
        code = calibrate(q);
    if (code == EXIT_FINE && isfinite(q->min_snr))
        code = quant_limit(q);
    if (code == EXIT_FINE && scored)
        code = quant_classes_of(q, q->path, model);
    if (code == EXIT_FINE && option_set(q->o, OPT_max_drop))
        code = quant_search(q, trial, model, c);
    if (code == EXIT_FINE)
        code = quant_write(q, output);
    if (code == EXIT_FINE && scored && !c->n)
        code = quant_classes_of(q, output, c);
    return code == EXIT_FINE && q->report ? report(q, output, model, c) : code;
}

int quant_run(const struct options *o, FILE *report, const char *called)
{
    struct quant q = {.o = o, .report = report, .called = called};
    struct quant_classes model = {0}, c = {0};
    struct tcr_scratch scratch;
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    if (o->nwords != 1)
        return usage_error(o, o->nwords ? "one model at a time" : "no model given");
    q.path = o->words[0];
    if ((code = read_settings(&q)) != EXIT_FINE)
        return code;
    if (tcr_scratch_make(&scratch, NULL, "tccc-quantize-"))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make a folder for temporary files: %m");
    q.folder = scratch.path;
    q.ctx = ir_ctx_new();
    if (q.ctx && IR_PROTECT(q.ctx, &frame)) {
        code = work(&q, &model, &c);
        ir_unprotect(q.ctx);
    } else {
        code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    }
    quant_close(&q);
    ir_ctx_free(q.ctx);
    quant_classes_free(&model);
    quant_classes_free(&c);
    tcr_scratch_remove(&scratch);
    return code;
}
