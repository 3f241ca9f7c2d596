/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-bench: measures an artifact or a model. */
#include "tools/version_int.h"

int
main(int argc, char **argv)
{
    return version_or_help("tccc-bench", "OUT.so|MODEL", argc, argv);
}
