/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --metrics=HOST:PORT: the numbers of the last step and evaluation over HTTP, as text that Prometheus and the likes of
 * it read (prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4), by a thread of rank 0's. It answers one
 * connection after another and gives each two seconds: whoever says nothing delays the next one that long, and training
 * never. Without HOST only this machine's programs reach it.
 */
#include "tools/train/train_int.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECONDS = 2, MOST_REQUEST = 4096, MOST_NAMES = 2 * SCALARS_MOST };

struct train_serve {
    int fd;
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    int64_t step;
    int n;
    struct train_scalar scalars[MOST_NAMES]; /* the last value of each name */
};

/* -- Answers ---------------------------------------------------------------------------------------------- */

static void put_gauge(FILE *out, const char *name, double value)
{
    char own[48];
    size_t n = 0;

    for (; name[n] && n < sizeof own - 1; n++)
        own[n] = name[n] == '/' ? '_' : name[n];
    own[n] = 0;
    fprintf(out, "# TYPE tccc_%s gauge\ntccc_%s ", own, own);
    if (isfinite(value))
        fprintf(out, "%.9g\n", value);
    else
        fputs(isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n", out);
}

/* The page; NULL: no memory. */
static char *page_of(struct train_serve *s, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    if (!out)
        return NULL;
    pthread_mutex_lock(&s->lock);
    put_gauge(out, "train/step", (double)s->step);
    for (int i = 0; i < s->n; i++)
        put_gauge(out, s->scalars[i].name, s->scalars[i].value);
    pthread_mutex_unlock(&s->lock);
    fclose(out);
    return text;
}

/* Can it be read, or written, before that time? However little comes at a time. */
static bool ready(int fd, short what, double until)
{
    struct pollfd p = {.fd = fd, .events = what};
    double left = until - now_ms();

    return left > 0 && poll(&p, 1, (int)left + 1) == 1;
}

static void say(int fd, const char *data, size_t n, double until)
{
    while (n && ready(fd, POLLOUT, until)) {
        ssize_t sent = send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return;
        data += sent;
        n -= (size_t)sent;
    }
}

/* Reads up to the end of the request's head. False: it is none, or too slow. */
static bool hear(int fd, char *request, size_t room, double until)
{
    size_t n = 0;

    while (n < room - 1 && ready(fd, POLLIN, until)) {
        ssize_t got = recv(fd, request + n, room - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        request[n] = 0;
        if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
            return true;
    }
    return false;
}

static void answer(struct train_serve *s, int fd)
{
    static const char *const paths[] = {"GET /metrics ", "GET / "};
    double until = now_ms() + 1e3 * SECONDS;
    char request[MOST_REQUEST], head[160];
    size_t size = 0;
    bool known = false;

    if (!hear(fd, request, sizeof request, until))
        return;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        known |= !strncmp(request, paths[i], strlen(paths[i]));
    char *page = known ? page_of(s, &size) : NULL;
    snprintf(head, sizeof head,
             "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
             "Connection: close\r\n\r\n",
             page    ? "200 OK"
             : known ? "503 Service Unavailable"
                     : "404 Not Found",
             page ? size : 0);
    say(fd, head, strlen(head), until);
    if (page)
        say(fd, page, size, until);
    free(page);
}

static void *serve(void *user)
{
    struct train_serve *s = user;
    int fd;

    while ((fd = accept(s->fd, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED || errno == EMFILE)
        if (fd >= 0) {
            answer(s, fd);
            close(fd);
        } else if (errno == EMFILE) {
            sleep(1);
        }
    return NULL;
}

/* -- Opening ---------------------------------------------------------------------------------------------- */

/* The address in --metrics' list; false: there is none. */
static bool address_of(const struct trainer *t, char *to, size_t room)
{
    for (const char *s = option_text(t->o, OPT_metrics, ""); *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if (memchr(s, ':', n) && n < room) {
            memcpy(to, s, n);
            to[n] = 0;
            return true;
        }
        s += n;
    }
    return false;
}

/* A socket that listens there, or -1 and why not. */
static int listen_at(char *address, const char **why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char *port = strrchr(address, ':'), *host = address;
    int yes = 1, fd = -1;

    *port++ = 0;
    size_t n = strlen(host);
    if (n > 1 && *host == '[' && host[n - 1] == ']') { /* an IPv6 address */
        host[n - 1] = 0;
        host++;
    }
    int code = getaddrinfo(*host ? host : "127.0.0.1", port, &hints, &list);
    *why = code ? gai_strerror(code) : NULL;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                        bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 16) != 0)) {
            *why = strerror(errno);
            close(fd);
            fd = -1;
        }
    }
    if (list)
        freeaddrinfo(list);
    return fd;
}

int train_serve_open(struct trainer *t)
{
    char address[300], shown[300];
    const char *why;

    if (!t->chief || !address_of(t, address, sizeof address))
        return EXIT_FINE;
    struct train_serve *s = t->serve = calloc(1, sizeof *s);
    if (!s)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    snprintf(shown, sizeof shown, "%s", address);
    pthread_mutex_init(&s->lock, NULL);
    s->fd = listen_at(address, &why);
    if (s->fd < 0)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--metrics=%s: cannot listen there: %s", shown,
                          why ? why : "no address");
    s->started = pthread_create(&s->thread, NULL, serve, s) == 0;
    return s->started ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "--metrics=%s: no thread", shown);
}

void train_serve_close(struct trainer *t)
{
    struct train_serve *s = t->serve;

    if (!s)
        return;
    if (s->fd >= 0)
        shutdown(s->fd, SHUT_RDWR); /* accept() returns */
    if (s->started)
        pthread_join(s->thread, NULL);
    if (s->fd >= 0)
        close(s->fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
    t->serve = NULL;
}

void train_serve_scalars(struct trainer *t, int n, const struct train_scalar *scalars)
{
    struct train_serve *s = t->serve;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->step = t->done;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < s->n && strcmp(s->scalars[k].name, scalars[i].name))
            k++;
        if (k < MOST_NAMES) {
            s->scalars[k] = scalars[i];
            s->n += k == s->n;
        }
    }
    pthread_mutex_unlock(&s->lock);
}
