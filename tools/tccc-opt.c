/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-opt: runs passes over IR text. */
#include "tools/version_int.h"

int
main(int argc, char **argv)
{
    return version_or_help("tccc-opt", "[-p PASSES] X.tcir", argc, argv);
}
