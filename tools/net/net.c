/* SPDX-License-Identifier: Apache-2.0 */
/* --net=NAME[:SIZES][,KEY=VALUE]...: which network of nets.def, and the file that it becomes. */
#include "base/format.h"
#include "tools/net/net_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/values/values_int.h"

static const struct net_row nets[] = {
#define NET(name, form, takes, builder, variant, help) \
    {#name, NET_##form, NET_TAKES_##takes, net_build_##builder, variant},
#include "tools/net/nets.def"
};
enum { NNETS = sizeof nets / sizeof *nets };

enum { MOST_WIDTH = 1 << 16, MOST_LAYERS = 1024, MOST_CLASSES = 1 << 24 };

/* "mlp, resnet18, ...", for messages. */
static void net_names(char *to, size_t room)
{
    size_t used = 0;
    *to = '\0';
    for (int i = 0; i < NNETS && used < room; i++)
        used += (size_t)snprintf(to + used, room - used, "%s%s", i ? ", " : "", nets[i].name);
}

/* -- Words ------------------------------------------------------------------------------------------------------- */

static bool wrong(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(char *error, const char *format, ...)
{
    FORMAT_INTO(error, ERROR_SIZE, format);
    return false;
}

/* A whole number from 1 to `most`, and nothing behind it but `end`. */
static bool read_count(const char **at, int64_t most, int64_t *to)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    long long v = strtoll(*at, &end, 10);
    *at = end;
    *to = v;
    return !errno && v >= 1 && v <= most;
}

static bool find_row(const char *text, size_t n, struct net_spec *s, char *error)
{
    char names[200];
    for (int i = 0; i < NNETS; i++)
        if (strlen(nets[i].name) == n && !strncmp(nets[i].name, text, n))
            s->row = &nets[i];
    net_names(names, sizeof names);
    return s->row || wrong(error, "no network is called '%.*s'; there are %s", n > 60 ? 60 : (int)n, text, names);
}

/* KEY=VALUE; *at moves behind it. */
static bool read_setting(const char **at, struct net_spec *s, char *error)
{
    const struct {
        const char *key;
        int64_t most, *to;
    } counts[] = {{"heads=", MOST_WIDTH, &s->heads},
                  {"classes=", MOST_CLASSES, &s->classes},
                  {"vocabulary=", MOST_CLASSES, &s->vocabulary}};
    const char *text = *at;
    char *end;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strncmp(text, counts[i].key, strlen(counts[i].key))) {
            *at += strlen(counts[i].key);
            return (read_count(at, counts[i].most, counts[i].to) && (!**at || **at == ',')) ||
                   wrong(error, "%.40s: expected a whole number from 1 to %lld", text, (long long)counts[i].most);
        }
    if (strncmp(text, "dropout=", 8))
        return wrong(error,
                     "'%.40s' is no setting of a network; expected %sheads=, classes=, vocabulary= or dropout=", text,
                     s->row->form == NET_PLAIN ? "" : "sizes first, then ");
    s->dropout = strtod(text + 8, &end);
    *at = end;
    return (end > text + 8 && s->dropout >= 0 && s->dropout < 1 && (!*end || *end == ',')) ||
           wrong(error, "%.40s: expected a share from 0 to below 1", text);
}

/* What stands behind the colon, up to the settings. */
static bool read_sizes(const char **at, struct net_spec *s, char *error)
{
    const char *text = *at;
    bool layers = s->row->form == NET_LAYERS;
    if (layers) {
        bool ok = read_count(at, MOST_WIDTH, &s->sizes[1]);
        s->sizes[0] = 1;
        if (ok && **at == 'x') {
            s->sizes[0] = s->sizes[1];
            ++*at;
            ok = s->sizes[0] <= MOST_LAYERS && read_count(at, MOST_WIDTH, &s->sizes[1]);
        }
        s->nsizes = 2;
        return (ok && (!**at || **at == ',')) ||
               wrong(error, "%.40s: expected a width, or LAYERSxWIDTH, as in %s:2x128", text, s->row->name);
    }
    while (**at >= '0' && **at <= '9') {
        if (s->nsizes == NET_SIZES || !read_count(at, MOST_WIDTH, &s->sizes[s->nsizes++]) || (**at && **at != ','))
            return wrong(error, "%.40s: expected at most %d widths from 1 to %d, as in %s:64,64", text, NET_SIZES,
                         MOST_WIDTH, s->row->name);
        if (**at && (*at)[1] >= '0' && (*at)[1] <= '9')
            ++*at;
        else
            break;
    }
    return true;
}

static bool settle(struct net_spec *s, char *error)
{
    const char *name = s->row->name;
    if (s->row->form == NET_LAYERS && !s->nsizes)
        return wrong(error, "%s: how wide? Say %s:2x128, layers and width", name, name);
    if (s->heads && strcmp(name, "transformer"))
        return wrong(error, "heads= is for transformer");
    if (s->vocabulary && s->row->takes != NET_TAKES_SEQUENCES)
        return wrong(error, "vocabulary= is for networks of sequences");
    if (strcmp(name, "transformer"))
        return true;
    if (!s->heads) /* heads of 64 channels, or of as many as there are */
        s->heads = s->sizes[1] % 64 || s->sizes[1] < 128 ? 1 : s->sizes[1] / 64;
    return s->sizes[1] % s->heads == 0 ||
           wrong(error, "heads=%lld doesn't divide the width %lld", (long long)s->heads, (long long)s->sizes[1]);
}

bool net_spec_read(const char *text, struct net_spec *s, char *error)
{
    size_t n = strcspn(text, ":,");
    const char *at = text + n;
    *s = (struct net_spec){.dropout = -1};
    if (!find_row(text, n, s, error))
        return false;
    if (*at == ':') {
        at++;
        if (s->row->form == NET_PLAIN)
            return wrong(error, "%s has its own sizes", s->row->name);
        if (!read_sizes(&at, s, error))
            return false;
        if (!s->nsizes)
            return wrong(error, "%.40s: expected sizes behind the colon", text);
    }
    while (*at == ',') {
        at++;
        if (!read_setting(&at, s, error))
            return false;
    }
    return (!*at || wrong(error, "'%.40s': expected a comma and a setting", at)) && settle(s, error);
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

int net_make(const struct options *o, const struct net_spec *spec, const struct net_data *data, uint64_t seed,
             struct wire_buffer *to, int64_t *parameters)
{
    struct net n = {.ctx = ir_ctx_new(), .spec = spec, .data = data, .seed = seed};
    struct ir_protect frame;
    volatile bool ok = false;
    *to = (struct wire_buffer){0};
    if (n.ctx && IR_PROTECT(n.ctx, &frame)) {
        struct net_value x = {"input", data->rank + 1, {-1}};
        memcpy(x.dims + 1, data->dims, (size_t)data->rank * sizeof *data->dims);
        net_finish(&n, x, spec->row->build(&n, x, spec->row->variant), to);
        ok = !to->failed;
        ir_unprotect(n.ctx);
    }
    *parameters = n.parameters;
    free(n.nodes.data);
    free(n.tensors.data);
    if (n.ctx)
        ir_ctx_free(n.ctx);
    return ok ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "no memory");
}
