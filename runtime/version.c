/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the runtime library, as text. */

const char *tccrt_version(void);

/* The version of the runtime that is linked, for example "0.1"; static storage. */
const char *tccrt_version(void)
{
    return "0.1";
}
