/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options that say how parameters are updated:
 *
 *   optimizer    NAME[:key=value,...][;PATTERN:key=value,...]    patterns as of a shell, over parameter names; the
 *                first match holds
 *   schedule     NAME[:key=value,...]                            or NAME,key=value for what every schedule has
 *   loss scale   N | dynamic[:key=value,...]
 *
 * A pair is split at its first `=`; a backslash before , : ; = or \ takes the character as it is.
 */
#include "passes/train/optim_int.h"
#include "passes/train/precision_int.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum value_kind { KIND_RATE, KIND_FRACTION, KIND_FLAG, KIND_NORM, KIND_COUNT, KIND_FACTOR, KIND_EPOCH, KIND_COUNTS };

static const struct {
    const char *name;
    enum value_kind kind;
} option_names[] = {
#define OPTION_NAME(name, kind, meaning) {#name, KIND_##kind},
#include "passes/train/optim.def"
};
static const char *const optimizer_names[] = {
#define OPTIMIZER(name, meaning) #name,
#include "passes/train/optim.def"
};
static const struct {
    enum optim_kind optimizer;
    enum optim_option option;
    double value;
} options[] = {
#define OPTION(optimizer, option, value) {OPTIM_##optimizer, OPT_##option, value},
#include "passes/train/optim.def"
};
const struct optim_slot optim_slots[] = {
#define SLOT(optimizer, slot, shape, option) {OPTIM_##optimizer, #slot, SLOT_##shape, OPT_##option},
#include "passes/train/optim.def"
};
const int optim_nslots = (int)(sizeof optim_slots / sizeof *optim_slots);

static const struct {
    const char *name, *alias;
    enum value_kind kind;
} setting_names[] = {
#define SETTING_NAME(name, alias, kind, meaning) {#name, #alias, KIND_##kind},
#include "passes/train/lr_schedule.def"
};
static const char *const schedule_names[] = {
#define SCHEDULE(name, meaning) #name,
#include "passes/train/lr_schedule.def"
};
static const struct {
    enum schedule_kind schedule;
    enum schedule_setting setting;
    double value;
} settings[] = {
#define SETTING(schedule, setting, value) {SCHEDULE_##schedule, SET_##setting, value},
#include "passes/train/lr_schedule.def"
};
#define COUNT_OF(a) ((int)(sizeof(a) / sizeof *(a)))

struct reader {
    struct ir_ctx *ctx;
    const char *option, *text, *at; /* the command-line option, its text, where we are */
};

static bool fail(struct reader *r, const char *what)
{
    static const struct ir_where nowhere;
    return ir_error(r->ctx, &nowhere, "%s=%s: %s", r->option, r->text, what);
}

/* Up to a character of `ends` that no backslash escapes. */
static char *word(struct reader *r, const char *ends)
{
    char *w = IR_NEWN(r->ctx, strlen(r->at) + 1, char);

    for (size_t n = 0; *r->at && !strchr(ends, *r->at); r->at++) {
        if (*r->at == '\\' && r->at[1] && strchr(",:;=\\", r->at[1]))
            r->at++;
        w[n++] = *r->at;
    }
    return w;
}

static const char *names(struct ir_ctx *ctx, int n, const char *const *of)
{
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = ir_internf(ctx, "%s%s%s", text, i ? ", " : "", of[i]);
    return text;
}

static int name_index(int n, const char *const *of, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(of[i], name))
            return i;
    return -1;
}

static bool flag_word(const char *text, double *value)
{
    if (!strcmp(text, "true") || !strcmp(text, "True"))
        *value = 1;
    else if (!strcmp(text, "false") || !strcmp(text, "False"))
        *value = 0;
    else
        return false;
    return true;
}

/* A number of the kind; COUNTS are read elsewhere. */
static bool number(struct reader *r, const char *key, const char *text, enum value_kind kind, double *value)
{
    static const char *const wants[] = {"a number that is not negative",
                                        "a number from 0 up to, not including, 1",
                                        "0 or 1",
                                        "0 or 2",
                                        "a whole number from 1",
                                        "a number that is not negative",
                                        "a whole number that is not negative"};
    char *end;
    bool fine;

    if (kind == KIND_FLAG && flag_word(text, value))
        return true;
    *value = strtod(text, &end);
    fine = *text && !*end && isfinite(*value) && *value >= 0;
    if (kind == KIND_FRACTION)
        fine = fine && *value < 1;
    else if (kind == KIND_FLAG)
        fine = fine && (*value == 0 || *value == 1);
    else if (kind == KIND_NORM)
        fine = fine && (*value == 0 || *value == 2);
    else if (kind == KIND_EPOCH)
        fine = fine && *value == floor(*value) && *value < 1e15;
    else if (kind == KIND_COUNT)
        fine = fine && *value >= 1 && *value == floor(*value) && *value < 1e15;
    return fine || fail(r, ir_internf(r->ctx, "%s must be %s, not '%s'", key, wants[kind], text));
}

/* -- Optimizer */

static bool read_option(struct reader *r, enum optim_kind optimizer, struct optim_group *group)
{
    const char *key = word(r, "=,;"), *known = "";
    double value;

    if (*r->at != '=')
        return fail(r, ir_internf(r->ctx, "expected OPTION=VALUE, got '%s'", key));
    r->at++;
    for (int i = 0; i < COUNT_OF(options); i++) {
        const char *name = option_names[options[i].option].name;
        if (options[i].optimizer != optimizer)
            continue;
        if (!strcmp(name, key)) {
            if (!number(r, key, word(r, ",;"), option_names[options[i].option].kind, &value))
                return false;
            group->value[options[i].option] = value;
            return true;
        }
        known = ir_internf(r->ctx, "%s%s%s", known, *known ? ", " : "", name);
    }
    return fail(r, ir_internf(r->ctx, "%s has no option '%s'; it has %s", optimizer_names[optimizer], key, known));
}

static bool check_group(struct reader *r, enum optim_kind optimizer, const struct optim_group *first,
                        const struct optim_group *group)
{
    if (optimizer == OPTIM_sgd && group->value[OPT_nesterov] != 0 &&
        (group->value[OPT_momentum] == 0 || group->value[OPT_dampening] != 0))
        return fail(r, "nesterov requires a momentum and no dampening");
    if (first->value[OPT_lr] == 0 && group->value[OPT_lr] != 0)
        return fail(r, "a group's learning rate is kept as a ratio to the first one, which is 0");
    return true;
}

static bool read_options(struct reader *r, struct optim_config *c, struct optim_group *group)
{
    do {
        r->at++;
        if (!read_option(r, c->kind, group))
            return false;
    } while (*r->at == ',');
    return true;
}

static bool read_optimizer(struct reader *r, struct optim_config *c)
{
    VEC(struct optim_group) groups = {0};
    struct optim_group first = {0};
    const char *name = word(r, ":;");
    int kind = name_index(OPTIM_N, optimizer_names, name);

    if (kind < 0)
        return fail(r, ir_internf(r->ctx, "unknown optimizer '%s'; expected one of %s", name,
                                  names(r->ctx, OPTIM_N, optimizer_names)));
    c->kind = (enum optim_kind)kind;
    for (int i = 0; i < COUNT_OF(options); i++)
        if (options[i].optimizer == c->kind)
            first.value[options[i].option] = options[i].value;
    if (*r->at == ':' && !read_options(r, c, &first))
        return false;
    VEC_PUSH(r->ctx, groups, first);
    while (*r->at == ';') {
        struct optim_group group = first;
        r->at++;
        group.pattern = word(r, ":;");
        if (*r->at != ':' || !*group.pattern)
            return fail(r, "expected ;PATTERN:OPTION=VALUE for a group of parameters");
        if (!read_options(r, c, &group))
            return false;
        VEC_PUSH(r->ctx, groups, group);
    }
    if (*r->at)
        return fail(r, ir_internf(r->ctx, "nothing was expected at '%s'", r->at));
    for (int i = 0; i < groups.n; i++)
        if (!check_group(r, c->kind, &first, &groups.at[i]))
            return false;
    VEC_GIVE(groups, c->groups, c->ngroups);
    return true;
}

const struct optim_group *optim_group_of(const struct optim_config *c, const char *parameter)
{
    for (int i = 1; i < c->ngroups; i++)
        if (!fnmatch(c->groups[i].pattern, parameter, 0))
            return &c->groups[i];
    return &c->groups[0];
}

/* -- Schedule */

static bool read_counts(struct reader *r, const char *key, char *text, struct schedule_config *s)
{
    VEC(int64_t) counts = {0};

    for (char *next; text; text = next) {
        double v;
        next = strchr(text, '/');
        if (next)
            *next++ = '\0';
        if (!number(r, key, text, KIND_COUNT, &v))
            return false;
        if (counts.n && counts.at[counts.n - 1] > (int64_t)v)
            return fail(r, ir_internf(r->ctx, "%s must ascend", key));
        VEC_PUSH(r->ctx, counts, (int64_t)v);
    }
    VEC_GIVE(counts, s->milestones, s->nmilestones);
    return true;
}

static bool read_setting(struct reader *r, struct schedule_config *s)
{
    const char *key = word(r, "=,"), *known = "";
    double value;
    char *text;

    if (*r->at != '=')
        return fail(r, ir_internf(r->ctx, "expected SETTING=VALUE, got '%s'", key));
    r->at++;
    text = word(r, ",");
    if (!strcmp(key, "unit")) {
        s->by_step = !strcmp(text, "step");
        return s->by_step || !strcmp(text, "epoch") || fail(r, "unit must be step or epoch");
    }
    if (!strcmp(key, "warmup")) {
        if (!strcmp(text, "0"))
            return true;
        if (!number(r, key, text, KIND_COUNT, &value))
            return false;
        s->warmup = (int64_t)value;
        return true;
    }
    for (int i = 0; i < COUNT_OF(settings); i++) {
        enum schedule_setting id = settings[i].setting;
        if (settings[i].schedule != s->kind)
            continue;
        if (!strcmp(setting_names[id].name, key) || !strcmp(setting_names[id].alias, key)) {
            s->value[id] = 0;
            return setting_names[id].kind == KIND_COUNTS ? read_counts(r, key, text, s)
                                                         : number(r, key, text, setting_names[id].kind, &s->value[id]);
        }
        known = ir_internf(r->ctx, "%s%s, ", known, setting_names[id].name);
    }
    return fail(
        r, ir_internf(r->ctx, "%s has no setting '%s'; it has %swarmup, unit", schedule_names[s->kind], key, known));
}

static bool read_schedule(struct reader *r, struct schedule_config *s)
{
    const char *name = word(r, ":,");
    int kind = name_index(SCHEDULE_N, schedule_names, name);

    if (kind < 0)
        return fail(r, ir_internf(r->ctx, "unknown schedule '%s'; expected one of %s", name,
                                  names(r->ctx, SCHEDULE_N, schedule_names)));
    s->kind = (enum schedule_kind)kind;
    for (int i = 0; i < COUNT_OF(settings); i++)
        if (settings[i].schedule == s->kind)
            s->value[settings[i].setting] = settings[i].value;
    while (*r->at) {
        r->at++;
        if (!read_setting(r, s))
            return false;
    }
    for (int i = 0; i < COUNT_OF(settings); i++)
        if (settings[i].schedule == s->kind && isnan(s->value[settings[i].setting]))
            return fail(r, ir_internf(r->ctx, "%s requires %s=...", name, setting_names[settings[i].setting].name));
    return true;
}

/* -- The rest */

/* --loss-scale=dynamic: the numbers that it takes, and torch.amp.GradScaler's defaults. */
static const struct {
    const char *key, *range;
    size_t at;
    double value, above, below; /* default; limits, not included */
    bool whole;
} scaler_settings[] = {
    {"init", "a number above 0 that float32 can hold", offsetof(struct optim_scaler, init), 65536, 0, 0x1p128, false},
    {"growth", "a number above 1", offsetof(struct optim_scaler, growth), 2, 1, 0x1p128, false},
    {"backoff", "a number between 0 and 1", offsetof(struct optim_scaler, backoff), 0.5, 0, 1, false},
    {"interval", "a whole number from 1", offsetof(struct optim_scaler, interval), 2000, 0, 0x1p31, true},
};

static double *scaler_value(struct optim_scaler *s, int i)
{
    return (double *)(void *)((char *)s + scaler_settings[i].at);
}

static bool read_scaler_setting(struct reader *r, struct optim_scaler *s)
{
    const char *key = word(r, "=,"), *known = "";

    if (*r->at != '=')
        return fail(r, ir_internf(r->ctx, "expected SETTING=VALUE, found '%s'", key));
    r->at++;
    const char *text = word(r, ",");
    for (int i = 0; i < COUNT_OF(scaler_settings); i++) {
        char *end;
        double v = strtod(text, &end);

        known = ir_internf(r->ctx, "%s%s%s", known, i ? ", " : "", scaler_settings[i].key);
        if (strcmp(scaler_settings[i].key, key))
            continue;
        if (!*text || *end || !(v > scaler_settings[i].above && v < scaler_settings[i].below) ||
            (scaler_settings[i].whole && v != floor(v)))
            return fail(r, ir_internf(r->ctx, "%s must be %s, not '%s'", key, scaler_settings[i].range, text));
        *scaler_value(s, i) = v;
        return true;
    }
    return fail(r, ir_internf(r->ctx, "dynamic has no setting '%s'; it has %s", key, known));
}

static bool read_scale(struct reader *r, struct optim_config *c)
{
    struct optim_scaler *s = &c->scaler;
    char *end;

    s->dynamic = !strncmp(r->text, "dynamic", 7) && (!r->text[7] || r->text[7] == ':');
    if (!s->dynamic) {
        s->init = strtod(r->text, &end);
        return (*r->text && !*end && s->init > 0 && s->init < 0x1p128) ||
               fail(r, "expected a number above 0, or dynamic[:init=N,growth=X,backoff=X,interval=N]");
    }
    for (int i = 0; i < COUNT_OF(scaler_settings); i++)
        *scaler_value(s, i) = scaler_settings[i].value;
    r->at += 7;
    while (*r->at) {
        r->at++;
        if (!read_scaler_setting(r, s))
            return false;
    }
    return true;
}

static bool read_slot_type(struct reader *r, struct optim_config *c)
{
    c->slot_type = !strcmp(r->text, "bf16") ? TCC_BF16 : TCC_F32;
    return c->slot_type == TCC_BF16 || !strcmp(r->text, "float32") || fail(r, "expected float32 or bf16");
}

static struct reader reader(struct ir_ctx *ctx, const char *option, const char *text, const char *otherwise)
{
    if (!text)
        text = otherwise;
    return (struct reader){ctx, option, text, text};
}

const struct optim_config *optim_parse(struct ir_ctx *ctx, const struct train_options *o)
{
    struct optim_config *c = IR_NEW(ctx, struct optim_config);
    struct reader optimizer = reader(ctx, "--optimizer", o->optimizer, "sgd:lr=0.01");
    struct reader schedule = reader(ctx, "--lr-schedule", o->schedule, "constant");
    struct reader slots = reader(ctx, "--optimizer-state", o->optimizer_state, "float32");
    struct reader scale = reader(ctx, "--loss-scale", o->loss_scale, "1");
    struct precision_config precision;

    if (!read_optimizer(&optimizer, c) || !read_schedule(&schedule, &c->schedule) || !read_slot_type(&slots, c) ||
        !read_scale(&scale, c) || !precision_parse(ctx, o, &precision))
        return NULL;
    if (!o->loss_scale)
        c->scaler = (struct optim_scaler){0};
    if (!(o->clip_norm >= 0)) { /* infinite: the norm alone is wanted */
        struct reader clip = reader(ctx, "--clip-norm", ir_internf(ctx, "%g", o->clip_norm), NULL);
        fail(&clip, "expected a number that is not negative");
        return NULL;
    }
    if (o->ema != 0 && !(o->ema > 0 && o->ema < 1)) {
        struct reader ema = reader(ctx, "--ema", ir_internf(ctx, "%g", o->ema), NULL);
        fail(&ema, "expected a number above 0 and below 1");
        return NULL;
    }
    c->ema = o->ema;
    c->clip_norm = o->clip_norm;
    c->master = precision.mode == PRECISION_BF16_MASTER || o->updates == TRAIN_UPDATES_MASTER;
    c->rounding =
        precision.mode == PRECISION_BF16_SR || o->updates == TRAIN_UPDATES_ROUNDED || c->slot_type == TCC_BF16;
    return c;
}

bool optim_check(struct ir_ctx *ctx, const struct train_options *o)
{
    return optim_parse(ctx, o) != NULL;
}
