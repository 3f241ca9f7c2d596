/* SPDX-License-Identifier: Apache-2.0 */
/* tccc: compiles a model to a native artifact. */
#include "tools/version_int.h"

int
main(int argc, char **argv)
{
    return version_or_help("tccc", "MODEL [-o OUT]", argc, argv);
}
