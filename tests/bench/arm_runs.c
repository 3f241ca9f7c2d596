/* SPDX-License-Identifier: Apache-2.0 */
/* arm_runs ARTIFACT: two runs of its first entry point with one thread, inputs 0, open dims WORDS (1) behind the first
 * place and 1 there, the second between two calls of getppid, where the plugin looks. For arm_instructions.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/tccrt.h"

enum { MOST = 64 };

int main(int argc, char **argv)
{
    struct tccrt_model *m = NULL;
    struct tccrt_session *s = NULL;
    struct tcc_tensor in[MOST] = {{0}}, out[MOST];
    int status = argc == 2 ? tccrt_open(argv[1], &m) : TCC_EUSAGE;
    if (status == TCC_OK)
        status = tccrt_session_new(m, &(struct tccrt_options){.threads = 1}, &s);
    const char *entry = status == TCC_OK ? tccrt_entry_name(m, 0) : "";
    int words = getenv("WORDS") ? atoi(getenv("WORDS")) : 1;
    int nin = status == TCC_OK ? tccrt_ninputs(m, entry) : 0, nout = status == TCC_OK ? tccrt_noutputs(m, entry) : 0;
    if (nin > MOST || nout > MOST)
        return 2;
    for (int i = 0; i < nin && status == TCC_OK; i++) {
        struct tccrt_value_info v;
        size_t bytes = 16;
        status = tccrt_input(m, entry, i, &v);
        in[i].rank = v.rank;
        in[i].dtype = v.dtype;
        for (int k = 0; k < v.rank; k++) {
            in[i].dims[k] = v.dims[k] > 0 ? v.dims[k] : k > 0 ? words : 1;
            bytes *= (size_t)in[i].dims[k];
        }
        in[i].data = calloc(bytes, 1);
    }
    for (int i = 0; status == TCC_OK && i < 2; i++) {
        memset(out, 0, sizeof out);
        if (i == 1)
            getppid();
        status = tccrt_run(s, entry, nin, in, nout, out);
    }
    getppid();
    if (status != TCC_OK)
        fprintf(stderr, "%s\n", tccrt_error());
    tccrt_session_free(s);
    tccrt_close(m);
    return status != TCC_OK;
}
