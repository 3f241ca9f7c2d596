/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-run: runs an artifact or a model. */
#include "tools/version_int.h"

int
main(int argc, char **argv)
{
    return version_or_help("tccc-run", "OUT.so|MODEL", argc, argv);
}
