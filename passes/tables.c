/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of passes, orders and pipelines, and the check that they agree. */
#include "passes/runner_int.h"

#include <string.h>

#define PASS(name, level, help) bool pass_##name##_run(struct pass_run *r);
#include "passes/passes.def"

static const struct pass passes[] = {
#define PASS(name, level, help) {#name, level, pass_##name##_run, help},
#include "passes/passes.def"
};

static const struct pass_order_row orders[] = {
#define ORDER(first, then, reason) {#first, #then, reason},
#include "passes/order.def"
#undef ORDER
};

static const struct pass_pipeline_row pipelines[] = {
#define PIPELINE(name, passes) {name, passes},
#include "passes/pipelines.def"
#undef PIPELINE
};

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

const struct pass *pass_table(int *n)
{
    *n = LENGTH(passes);
    return passes;
}

const struct pass_order_row *pass_order_table(int *n)
{
    *n = LENGTH(orders);
    return orders;
}

const struct pass_pipeline_row *pass_pipeline_table(int *n)
{
    *n = LENGTH(pipelines);
    return pipelines;
}

const char *pass_of_pipeline(const char *name)
{
    for (int i = 0; i < LENGTH(pipelines); i++)
        if (strcmp(pipelines[i].name, name) == 0)
            return pipelines[i].passes;
    return NULL;
}

static const struct pass_pipeline_row *pipeline_at(const char *name, size_t length)
{
    for (int i = 0; i < LENGTH(pipelines); i++)
        if (strlen(pipelines[i].name) == length && strncmp(pipelines[i].name, name, length) == 0)
            return &pipelines[i];
    return NULL;
}

/* Position of a pass in a plain list (names and commas, braces skipped), counted from *at on, which moves to the end;
 * -1: not there. */
static int position(const char *list, const char *name, int *at)
{
    while (*list) {
        size_t n = strcspn(list, ",{");
        const struct pass_pipeline_row *inner = pipeline_at(list, n);
        if (n == strlen(name) && strncmp(list, name, n) == 0)
            return *at;
        if (inner) {
            int found = position(inner->passes, name, at);
            if (found >= 0)
                return found;
        }
        list += n;
        if (*list == '{')
            list += strcspn(list, "}") + 1;
        list += *list == ',';
        *at += !inner;
    }
    return -1;
}

static bool known(const char *name, size_t length)
{
    for (int i = 0; i < LENGTH(passes); i++)
        if (strlen(passes[i].name) == length && strncmp(passes[i].name, name, length) == 0)
            return true;
    return false;
}

static const char *pipeline_error(const struct pass_pipeline_row *row, char *buffer, size_t size)
{
    for (const char *at = row->passes; *at;) {
        size_t n = strcspn(at, ",{");
        const struct pass_pipeline_row *inner = pipeline_at(at, n);
        if (inner ? inner >= row : !known(at, n)) {
            snprintf(buffer, size, "pipeline %s: unknown pass '%.*s'", row->name, (int)n, at);
            return buffer;
        }
        at += n;
        if (*at == '{')
            at += strcspn(at, "}") + 1;
        at += *at == ',';
    }
    for (int i = 0; i < LENGTH(orders); i++) {
        int from[2] = {0, 0}, first = position(row->passes, orders[i].first, &from[0]),
            then = position(row->passes, orders[i].then, &from[1]);
        if (first >= 0 && then >= 0 && then < first) {
            snprintf(buffer, size, "pipeline %s: '%s' must stand before '%s': %s", row->name, orders[i].first,
                     orders[i].then, orders[i].reason);
            return buffer;
        }
    }
    return NULL;
}

const char *pass_tables_error(char *buffer, size_t size)
{
    const char *error = NULL;

    for (int i = 0; i < LENGTH(orders) && !error; i++) {
        bool first = known(orders[i].first, strlen(orders[i].first)),
             then = known(orders[i].then, strlen(orders[i].then));
        if (!first || !then) {
            snprintf(buffer, size, "order %s, %s: no such pass", orders[i].first, orders[i].then);
            error = buffer;
        }
    }
    for (int i = 0; i < LENGTH(pipelines) && !error; i++)
        error = pipeline_error(&pipelines[i], buffer, size);
    return error;
}
