/* SPDX-License-Identifier: Apache-2.0 */
/* What tccc-plan prints: a table a number of ranks, how the best ones scale, and the commands for the last one's
 * best. */
#include "tools/plan/plan_tool_int.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"simple", "interleaved", "1f1b", "1f1b-interleaved"};
static const char *const byte_kinds[PLAN_BYTES] = {"activations", "gradients", "averages", "shares", "parts"};

static int ranks_of(const struct plan_layout *l)
{
    return l->partitions * l->copies * l->parts;
}

static double samples_per_second(const struct plan_prediction *p)
{
    return (double)p->layout.batch / p->step;
}

static double sent(const struct plan_prediction *p)
{
    double all = 0;
    for (int i = 0; i < PLAN_BYTES; i++)
        all += p->bytes[i];
    return all;
}

/* 12.3 MB, in a buffer. */
static const char *amount(char *to, size_t size, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    int u = 0;
    while (bytes >= 999.5 && u < 5) {
        bytes /= 1000;
        u++;
    }
    snprintf(to, size, bytes < 9.95 && u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return to;
}

static const char *schedule(char *to, size_t size, const struct plan_layout *l)
{
    if (l->partitions <= 1)
        snprintf(to, size, "-");
    else if (l->kind == PIPELINE_1F1B_INTERLEAVED)
        snprintf(to, size, "%s:%d", kinds[l->kind], l->chunks);
    else
        snprintf(to, size, "%s", kinds[l->kind]);
    return to;
}

/* 4s: four parts, norms on parts of the sequence; 4c: of the sequence alone; 4e: of the experts. */
static const char *parts(char *to, size_t size, const struct plan_layout *l)
{
    snprintf(to, size, "%d%s", l->parts, plan_divides[l->how].letter);
    return to;
}

static const char *offload(const struct plan_layout *l)
{
    static const char *const what[] = {"", "activations", "optimizer", "activations,optimizer"};
    return what[l->offload_activations + 2 * l->offload_optimizer];
}

static void print_row(const struct plan_prediction *p)
{
    char order[32], memory[32], bytes[32], share[32];
    const struct plan_layout *l = &p->layout;
    printf("%6s %6d %6d %6d  %-18s %4d %-7s %11.3f %10.5g %6.1f%% %9.3f %9.3f %9.3f %9s %9s%s%s%s\n",
           parts(share, sizeof share, l), l->partitions, l->copies, l->micros, schedule(order, sizeof order, l),
           l->zero, l->partitions > 1 && l->copies > 1 ? l->spread ? "spread" : "cluster" : "-", p->step * 1e3,
           samples_per_second(p), p->bubble * 100, p->parts * 1e3, p->exposed * 1e3, p->update * 1e3,
           amount(memory, sizeof memory, p->memory), amount(bytes, sizeof bytes, sent(p)), *offload(l) ? " host: " : "",
           offload(l), p->extended ? " *" : "");
}

static void print_table(const struct planner *p, const struct plan_result *r)
{
    bool extended = false;
    char memory[32];
    const struct plan_search *s = &r->search;
    printf("%s%d rank%s: %d layouts", p->plan->measure ? "measured here; " : "", s->ranks, s->ranks > 1 ? "s" : "",
           s->considered);
    if (s->impossible)
        printf(", %d impossible (%s)", s->impossible, s->why);
    if (s->too_large)
        printf(", %d too large for memory (the least takes %s)", s->too_large,
               amount(memory, sizeof memory, s->least_memory));
    if (s->slower)
        printf(", %d pruned by their lower bound", s->slower);
    printf("\n");
    if (!r->n)
        return;
    printf("%6s %6s %6s %6s  %-18s %4s %-7s %11s %10s %7s %9s %9s %9s %9s %9s\n", "parts", "stages", "copies", "micro",
           "schedule", "zero", "place", "step (ms)", "samples/s", "bubble", "parts", "allreduce", "update", "memory",
           "sent");
    for (int i = 0; i < r->n && (!p->top || i < p->top); i++) {
        print_row(&r->list[i]);
        extended |= r->list[i].extended;
    }
    if (extended)
        printf("* extended from the simulation of fewer microbatches\n");
}

static void print_scaling(const struct plan_result *r, int n)
{
    const struct plan_prediction *first = NULL;
    printf("\n%6s %11s %10s %10s\n", "ranks", "step (ms)", "samples/s", "efficiency");
    for (int i = 0; i < n; i++) {
        if (!r[i].n) {
            printf("%6d %11s %10s %10s\n", r[i].search.ranks, "-", "-", "-");
            continue;
        }
        const struct plan_prediction *best = &r[i].list[0];
        first = first ? first : best;
        double one = samples_per_second(first) / ranks_of(&first->layout);
        printf("%6d %11.3f %10.5g %9.1f%%\n", r[i].search.ranks, best->step * 1e3, samples_per_second(best),
               100 * samples_per_second(best) / ranks_of(&best->layout) / one);
    }
}

static void print_details(const struct plan_prediction *q)
{
    char a[6][32];
    printf(q->compiled ? "  memory of the fullest rank's plan: %s = weights %s + gradients %s + optimizer %s + slots "
                         "%s + arena %s\n"
                       : "  memory of the fullest rank: %s = weights %s + gradients %s + optimizer %s + activations %s "
                         "+ work %s\n",
           amount(a[0], 32, q->memory), amount(a[1], 32, q->weights), amount(a[2], 32, q->gradients),
           amount(a[3], 32, q->state), amount(a[4], 32, q->activations), amount(a[5], 32, q->work));
    printf("  sent by the busiest rank in a step:");
    for (int i = 0; i < PLAN_BYTES; i++)
        printf("%s %s %s", i ? "," : "", byte_kinds[i], amount(a[0], 32, q->bytes[i]));
    printf("\n  slowest stage: %.1f%% over the mean\n", (q->balance - 1) * 100);
}

/* -- Commands ------------------------------------------------------------------------------------------------------ */

static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=/.:,@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, out);
    fputc('\'', out);
}

/* The training options as they were given, without those that the layout decides. */
static void print_given(FILE *out, const struct options *o)
{
    static const enum option_id decided[] = {OPT_train,       OPT_partitions,       OPT_microbatches,
                                             OPT_stage_order, OPT_data_parallel,    OPT_zero,
                                             OPT_placement,   OPT_tensor_parallel,  OPT_sequence_parallel,
                                             OPT_offload,     OPT_context_parallel, OPT_expert_parallel};
    for (int id = 0; id < NOPTIONS; id++) {
        const struct option_row *row = &option_table[id];
        bool passed = !strncmp(row->group, "Training", 8) || !strcmp(row->group, "Many ranks") || id == OPT_dim ||
                      id == OPT_shape || id == OPT_march || id == OPT_target;
        for (size_t k = 0; k < sizeof decided / sizeof *decided; k++)
            passed &= id != (int)decided[k];
        for (int i = 0; passed && i < o->given[id].n; i++) {
            fprintf(out, " --%s%s", row->long_name, row->kind == OPTION_NEEDED ? "=" : "");
            if (row->kind == OPTION_NEEDED)
                print_word(out, o->given[id].at[i]);
        }
    }
}

static void print_commands(FILE *out, const struct planner *p, const struct plan_layout *l, const char *separator,
                           const char *launcher)
{
    fputs("tccc --train", out);
    print_given(out, p->o);
    if (l->partitions > 1)
        fprintf(out, " --partitions=%d", l->partitions);
    if (l->micros > 1)
        fprintf(out, " --microbatches=%d", l->micros);
    if (l->partitions > 1)
        fprintf(out, " --pipeline=%s", kinds[l->kind]);
    if (l->partitions > 1 && l->kind == PIPELINE_1F1B_INTERLEAVED)
        fprintf(out, ":chunks=%d", l->chunks);
    if (l->parts > 1)
        fprintf(out, " --%s=%d%s", option_table[plan_divides[l->how].option].long_name, l->parts,
                l->how == TENSOR_SEQUENCE ? " --sequence-parallel" : "");
    if (l->how == TENSOR_EXPERTS && p->plan->batch) /* its size must be known */
        fprintf(out, " --dim=%s=%lld", p->plan->batch, (long long)(l->batch / l->copies));
    if (*offload(l))
        fprintf(out, " --offload=%s", offload(l));
    if (l->copies > 1)
        fputs(" --data-parallel", out);
    if (l->zero)
        fprintf(out, " --zero=%d", l->zero);
    fputc(' ', out);
    print_word(out, p->model);
    fprintf(out, " -o step.so%s", separator);
    if (ranks_of(l) > 1 && !launcher)
        fprintf(out, "mpirun -np %d ", ranks_of(l));
    else if (ranks_of(l) > 1)
        fputs(launcher, out);
    fprintf(out, "tccc-train step.so --batch-size %lld", (long long)l->batch);
    if (l->spread && l->partitions > 1 && l->copies > 1)
        fputs(" --placement=spread", out);
    fputs(" --data FILE", out);
}

void plan_report_text(const struct planner *p, const struct plan_result *r, int n)
{
    const struct plan_prediction *last = NULL;
    for (int i = 0; i < n; i++) {
        if (i)
            printf("\n");
        print_table(p, &r[i]);
        last = r[i].n ? &r[i].list[0] : last;
    }
    if (n > 1)
        print_scaling(r, n);
    if (!last)
        return;
    printf("\nthe best on %d rank%s:\n", ranks_of(&last->layout), ranks_of(&last->layout) > 1 ? "s" : "");
    print_details(last);
    printf("  ");
    print_commands(stdout, p, &last->layout, "\n  ", NULL);
    printf("\n");
}

/* Ranks fill the nodes in order, as the cluster file has it; all of a node's cores are theirs. What tccc makes lies in
 * the folder that sbatch was called in, which all nodes see. */
void plan_report_sbatch(const struct planner *p, const struct plan_result *r, int n)
{
    const struct plan_prediction *best = NULL;
    for (int i = 0; i < n; i++)
        best = r[i].n ? &r[i].list[0] : best;
    if (!best)
        return;
    int ranks = ranks_of(&best->layout), each = p->cluster.devices < ranks ? p->cluster.devices : ranks;
    if (p->cluster.divided) /* ranks share a node's devices */
        each = (ranks + p->cluster.nodes - 1) / p->cluster.nodes;
    printf("#!/bin/sh\n#SBATCH --job-name=tccc-train\n#SBATCH --nodes=%d\n#SBATCH --ntasks=%d\n"
           "#SBATCH --ntasks-per-node=%d\n#SBATCH --exclusive\n",
           (ranks + each - 1) / each, ranks, each);
    if (!strncmp(option_text(p->o, OPT_target, ""), "cuda", 4))
        printf("#SBATCH --gpus-per-node=%d\n", each);
    printf("# %d samples a step, predicted: %.4g ms\nset -e\n", (int)best->layout.batch, best->step * 1e3);
    print_commands(stdout, p, &best->layout, "\n", "srun ");
    printf("\n");
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

static json_t *layout_json(const struct planner *p, const struct plan_prediction *q)
{
    const struct plan_layout *l = &q->layout;
    char *commands = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&commands, &size);
    if (f) {
        print_commands(f, p, l, " && ", NULL);
        fclose(f);
    }
    json_t *bytes = json_object();
    for (int i = 0; i < PLAN_BYTES; i++)
        json_object_set_new(bytes, byte_kinds[i], json_real(q->bytes[i]));
    json_t *j = json_pack(
        "{si,ss,sb,si,si,si,ss,si,si,ss,ss,sI,sf,sf,sf,sf,sf,sf,sf,sf,sf,sf,sb,s{sf,sf,sf,sf,sf,sf},so,ss}", "parts",
        l->parts, "divided", l->parts > 1 ? option_table[plan_divides[l->how].option].long_name : "", "sequence",
        l->how == TENSOR_SEQUENCE, "partitions", l->partitions, "copies", l->copies, "microbatches", l->micros,
        "pipeline", kinds[l->kind], "chunks", l->chunks, "zero", l->zero, "offload", offload(l), "placement",
        l->spread ? "spread" : "cluster", "batch", (json_int_t)l->batch, "step_ms", q->step * 1e3, "samples_per_second",
        samples_per_second(q), "pipeline_ms", q->pipeline * 1e3, "compute_ms", q->compute * 1e3, "bubble", q->bubble,
        "average_ms", q->average * 1e3, "parts_ms", q->parts * 1e3, "exposed_ms", q->exposed * 1e3, "update_ms",
        q->update * 1e3, "balance", q->balance, "extended", q->extended, "memory", "all", q->memory, "weights",
        q->weights, "gradients", q->gradients, "optimizer", q->state, "activations", q->activations, "work", q->work,
        "sent", bytes, "commands", commands ? commands : "");
    free(commands);
    return j;
}

void plan_report_json(const struct planner *p, const struct plan_result *r, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++) {
        const struct plan_search *s = &r[i].search;
        json_t *layouts = json_array();
        for (int k = 0; k < r[i].n && (!p->top || k < p->top); k++)
            json_array_append_new(layouts, layout_json(p, &r[i].list[k]));
        json_array_append_new(all, json_pack("{si,si,si,si,si,so}", "ranks", s->ranks, "considered", s->considered,
                                             "too_large", s->too_large, "impossible", s->impossible, "slower",
                                             s->slower, "layouts", layouts));
    }
    json_t *top = json_pack("{ss,ss,so}", "model", p->model, "cluster", p->cluster_file, "plans", all);
    json_dumpf(top, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(top);
}
