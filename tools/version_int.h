/* SPDX-License-Identifier: Apache-2.0 */
/* --help and --version of a tool that has no other option yet. */
#ifndef TCCC_TOOLS_VERSION_INT_H
#define TCCC_TOOLS_VERSION_INT_H

#include <stdio.h>
#include <string.h>

static inline int
version_or_help(const char *tool, const char *usage, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("%s (tccc) %s\n", tool, PACKAGE_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: %s %s\n", tool, usage);
        return 0;
    }
    fprintf(stderr, "usage: %s %s\n", tool, usage);
    return 2;
}

#endif
