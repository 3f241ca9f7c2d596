/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the passes library, as text. */

const char *passes_version(void);

/* The version of this library, for example "0.1"; static storage. */
const char *
passes_version(void)
{
    return "0.1";
}
