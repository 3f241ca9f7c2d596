/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads are worth having: the physical cores among the CPUs of the affinity mask (two hardware threads of a
 * core share its vector units), at most the CPU quota of the control groups that the process is in.
 */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>

#include "runtime/rt_int.h"

/* The first whitespace-separated word of a file; false: cannot be read. */
static bool read_text(const char *path, char *to, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n;

    if (!f)
        return false;
    n = fread(to, 1, size - 1, f);
    fclose(f);
    to[n] = 0;
    return n > 0;
}

static int count_cores(const cpu_set_t *set)
{
    int cores = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96], text[256];
        bool first = true;

        if (!CPU_ISSET(cpu, set))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (read_text(path, text, sizeof text)) {
            /* "0,4" or "0-1": counted at its first sibling that we may use. */
            for (char *p = text; *p && isdigit((unsigned char)*p);) {
                long lo = strtol(p, &p, 10), hi = *p == '-' ? strtol(p + 1, &p, 10) : lo;

                for (long c = lo; c <= hi && c < cpu && c < CPU_SETSIZE; c++)
                    first = first && !CPU_ISSET((int)c, set);
                p += *p == ',';
            }
        }
        cores += first;
    }
    return cores;
}

/* CPUs' worth of quota, rounded up, of one version-2 group; 0: none. */
static int quota_of(const char *folder)
{
    char path[PATH_MAX], text[128];
    long long quota, period;

    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_text(path, text, sizeof text))
        return sscanf(text, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0
                   ? (int)((quota + period - 1) / period)
                   : 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, text, sizeof text) || (quota = atoll(text)) <= 0)
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, text, sizeof text) || (period = atoll(text)) <= 0)
        return 0;
    return (int)((quota + period - 1) / period);
}

/* The smallest quota of the groups from ours up to the root. */
static int cgroup_limit(void)
{
    char text[4096], *line, *save = NULL;
    int limit = INT_MAX;

    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return limit;
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        char path[2048];
        const char *root;

        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        root = !*controllers ? "/sys/fs/cgroup" : strstr(controllers, "cpu") ? "/sys/fs/cgroup/cpu" : NULL;
        if (!root)
            continue;
        for (;;) {
            char *slash;
            int q;

            snprintf(path, sizeof path, "%s%s", root, group);
            q = quota_of(path);
            if (q > 0 && q < limit)
                limit = q;
            slash = strrchr(group, '/');
            if (!slash || !group[0] || (slash == group && !group[1]))
                break;
            *(slash == group ? slash + 1 : slash) = 0;
        }
    }
    return limit;
}

int tcr_cpu_count(void)
{
    cpu_set_t set;
    int n = 1, limit = cgroup_limit();

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = count_cores(&set);
    if (n > limit)
        n = limit;
    return n < 1 ? 1 : n > TCR_MAX_THREADS ? TCR_MAX_THREADS : n;
}
