/* SPDX-License-Identifier: Apache-2.0 */
/* Failed checks: where they happened, once an instruction and check; a fatal one ends the run. */
#include <stdarg.h>
#include <stdio.h>

#include "sim/neuron/neuron_int.h"

static const struct {
    const char *name;
    bool fatal;
} checks[] = {
#define CHECK(id, name, fatal, text) {name, fatal},
#include "sim/neuron/checks.def"
};

const char *neuron_check_name(enum neuron_check_id c)
{
    return (unsigned)c < NEURON_NCHECKS ? checks[c].name : "";
}

int neuron_engine_of(const struct neuron_sim *s, const struct neuron_instr *i)
{
    int e = 0;
    while (e < NEURON_NENGINES &&
           (!s->p->stream[e].n || i < s->p->stream[e].code || i >= s->p->stream[e].code + s->p->stream[e].n))
        e++;
    return e < NEURON_NENGINES ? e : 0;
}

/* "line 12", or "vector 3" for a program that never was text. */
const char *neuron_line(const struct neuron_sim *s, const struct neuron_instr *i, char to[64])
{
    int e = neuron_engine_of(s, i);
    if (i->line)
        snprintf(to, 64, "line %d", i->line);
    else
        snprintf(to, 64, "%s %d", neuron_engine_name((enum neuron_engine)e), (int)(i - s->p->stream[e].code));
    return to;
}

void neuron_fail(struct run *r, enum neuron_check_id c, const char *format, ...)
{
    struct neuron_sim *s = r->s;
    struct neuron_report new = {.check = c, .line = r->i->line, .engine = r->engine, .count = 1};
    va_list args;
    if (!checks[c].fatal && !s->c.checks)
        return;
    new.engine = neuron_engine_of(s, r->i);
    new.instr = (int)(r->i - s->p->stream[new.engine].code);
    int k = 0;
    while (k < s->nreports &&
           (s->reports[k].check != c || s->reports[k].engine != new.engine || s->reports[k].instr != new.instr))
        k++;
    if (k < s->nreports) {
        s->reports[k].count++;
    } else {
        va_start(args, format);
        vsnprintf(new.text, sizeof new.text, format, args);
        va_end(args);
        if (k < NEURON_MAX_REPORTS)
            s->reports[s->nreports++] = new;
    }
    if (checks[c].fatal && !s->stopped) {
        s->stopped = true;
        neuron_report_text(k < s->nreports ? &s->reports[k] : &new, s->stop_text, sizeof s->stop_text);
    }
}

void neuron_report_text(const struct neuron_report *r, char *to, size_t room)
{
    char where[64], times[48] = "";
    if (r->line)
        snprintf(where, sizeof where, "line %d", r->line);
    else
        snprintf(where, sizeof where, "%s %d", neuron_engine_name((enum neuron_engine)r->engine), r->instr);
    if (r->count > 1)
        snprintf(times, sizeof times, " (%llu times)", (unsigned long long)r->count);
    snprintf(to, room, "%s: %s: %s%s", neuron_check_name(r->check), where, r->text, times);
}

int neuron_sim_reports(const struct neuron_sim *s, const struct neuron_report **list)
{
    *list = s->reports;
    return s->nreports;
}
