/* SPDX-License-Identifier: Apache-2.0 */
/* tmpdir.h - where fuzzers keep files of a moment: $TMPDIR, else /tmp. */
#ifndef TCCC_TESTS_FUZZ_TMPDIR_H
#define TCCC_TESTS_FUZZ_TMPDIR_H

#include <stdlib.h>

static inline const char *fuzz_tmpdir(void)
{
    const char *set = getenv("TMPDIR");
    return set && *set ? set : "/tmp";
}

#endif
