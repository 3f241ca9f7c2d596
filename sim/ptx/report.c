/* SPDX-License-Identifier: Apache-2.0 */
/* Failed checks: where they happened, once an instruction and check; a fatal one ends the launch. */
#include <stdarg.h>
#include <stdio.h>

#include "sim/ptx/text_int.h"

static const struct {
    const char *name;
    bool fatal;
} checks[] = {
#define CHECK(id, name, fatal, text) {name, fatal},
#include "sim/ptx/checks.def"
};

static const char *const classes[] = {
#define CLASS(id, name) name,
#include "sim/ptx/classes.def"
};

const char *ptx_check_name(enum ptx_check c)
{
    return (unsigned)c < PTX_NCHECKS ? checks[c].name : "";
}

const char *ptx_class_name(enum ptx_class c)
{
    return (unsigned)c < PTX_NCLASSES ? classes[c] : "";
}

/* The place in the source of the instruction at which the warp is, where the text says it. */
static void source(struct ptx_report *r, const struct ptx_func *f, const struct ptx_insn *at)
{
    const struct ptx_loc *found = NULL;

    if (!at || at < f->code || at >= f->code + f->ncode)
        return;
    for (int i = 0; i < f->nplaces && f->places[i].pc <= at - f->code; i++)
        found = &f->places[i];
    for (const struct ptx_file *file = found ? f->m->files : NULL; file; file = file->next) {
        if (file->number != found->file)
            continue;
        snprintf(r->file, sizeof r->file, "%s", file->name);
        r->source = found->line;
        return;
    }
}

static void fill(struct ptx_report *r, const struct ptx_warp *w, enum ptx_check c, int lane, uint64_t address)
{
    const unsigned *n = w->b->l->block;
    unsigned t = (unsigned)w->id * LANES + (unsigned)lane;
    *r = (struct ptx_report){.check = c, .line = w->at ? w->at->line : 0, .address = address, .count = 1};
    const struct ptx_func *f = w->frame ? w->frame->f : w->b->f;
    snprintf(r->kernel, sizeof r->kernel, "%s", f->name);
    source(r, f, w->at);
    memcpy(r->block, w->b->id, sizeof r->block);
    r->thread[0] = t % n[0];
    r->thread[1] = t / n[0] % n[1];
    r->thread[2] = t / n[0] / n[1];
}

static void add(struct ptx_device *d, const struct ptx_report *r)
{
    pthread_mutex_lock(&d->lock);
    int k = 0;
    while (k < d->nreports && (d->reports[k].check != r->check || d->reports[k].line != r->line ||
                               strcmp(d->reports[k].kernel, r->kernel) != 0))
        k++;
    if (k < d->nreports)
        d->reports[k].count++;
    else if (k < PTX_MAX_REPORTS)
        d->reports[d->nreports++] = *r;
    pthread_mutex_unlock(&d->lock);
}

void ptx_report_host(struct ptx_device *d, enum ptx_check c, uint64_t address, const char *format, ...)
{
    struct ptx_report r = {.check = c, .address = address, .count = 1};
    va_list args;
    snprintf(r.kernel, sizeof r.kernel, "%s", d->activity ? d->activity : "copy");
    va_start(args, format);
    vsnprintf(r.text, sizeof r.text, format, args);
    va_end(args);
    add(d, &r);
}

void ptx_report(struct ptx_warp *w, enum ptx_check c, int lane, uint64_t address, const char *format, ...)
{
    struct ptx_device *d = w->b->d;
    struct ptx_report r;
    va_list args;
    fill(&r, w, c, lane, address);
    va_start(args, format);
    vsnprintf(r.text, sizeof r.text, format, args);
    va_end(args);
    add(d, &r);
    if (!checks[c].fatal)
        return;
    pthread_mutex_lock(&w->b->g->lock);
    if (!w->b->g->error[0])
        ptx_report_text(&r, w->b->g->error, sizeof w->b->g->error);
    pthread_mutex_unlock(&w->b->g->lock);
    w->b->stop = true;
    atomic_store(&w->b->g->stop, true);
}

int ptx_reports(const struct ptx_device *d, const struct ptx_report **list)
{
    *list = d->reports;
    return d->nreports;
}

void ptx_reports_clear(struct ptx_device *d)
{
    d->nreports = 0;
}

void ptx_report_text(const struct ptx_report *r, char *to, size_t room)
{
    char address[40] = "", many[48] = "", place[140] = "";
    if (r->source)
        snprintf(place, sizeof place, " (%s:%d)", r->file, r->source);
    if (r->address)
        snprintf(address, sizeof address, ", address %#llx", (unsigned long long)r->address);
    if (r->count > 1)
        snprintf(many, sizeof many, " (%llu times)", (unsigned long long)r->count);
    if (!r->line) {
        snprintf(to, room, "%s: %s%s: %s%s", ptx_check_name(r->check), r->kernel, address, r->text, many);
        return;
    }
    snprintf(to, room, "%s: kernel %s, line %d%s, block (%u,%u,%u), thread (%u,%u,%u)%s: %s%s",
             ptx_check_name(r->check), r->kernel, r->line, place, r->block[0], r->block[1], r->block[2], r->thread[0],
             r->thread[1], r->thread[2], address, r->text, many);
}

void ptx_fail(struct ptx_parse *p, int line, const char *format, ...)
{
    va_list args;
    int n = snprintf(p->error, PTX_ERROR, "line %d: ", line);
    va_start(args, format);
    vsnprintf(p->error + n, (size_t)(PTX_ERROR - n), format, args);
    va_end(args);
    longjmp(p->out, 1);
}
