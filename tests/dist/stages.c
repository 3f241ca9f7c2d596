/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of one stage each, from C: stages ARTIFACT MB, one process a stage. A stage holds its own state and what
 * belongs to none; another stage's variable is a status, and a gather call brings it, bit-equal to that of a session
 * with all stages. No process takes more than MB megabytes for state.
 */
#include "runtime/tccrt.h"
#include "tests/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *what)
{
    printf("FAIL: %s: %s\n", what, tccrt_error());
    return 1;
}

/* Variable i on all ranks: here or not, as its stage says; gathered by the last one. */
static int check_state(struct tccrt_model *m, struct tccrt_session *mine, struct tccrt_session *all, int i, int rank,
                       int ranks)
{
    struct tccrt_value_info info;
    struct tcc_tensor here, whole, copy;
    tccrt_state_info(m, i, &info);
    int stage = tccrt_state_stage(m, i), status = tccrt_state_get(mine, info.name, &here);
    if (status != (stage < 0 || stage == rank ? TCC_OK : TCC_EUSAGE))
        return failed("a variable is where it should not be, or the other way round");
    if (status && !strstr(tccrt_error(), "belongs to stage"))
        return failed("the message does not say whose it is");
    if (tccrt_state_get(all, info.name, &whole))
        return failed("a session with all stages lacks a variable");
    copy = whole;
    copy.data = rank == ranks - 1 ? malloc(bytes_of(&whole) + 1) : NULL;
    if (tccrt_state_gather(mine, info.name, ranks - 1, &copy))
        return failed("gather");
    int differs = rank == ranks - 1 && memcmp(copy.data, whole.data, bytes_of(&whole));
    free(copy.data);
    return differs ? failed("what was gathered differs") : 0;
}

int main(int argc, char **argv)
{
    struct tccrt_comm *world;
    struct tccrt_model *m;
    struct tccrt_session *mine, *all;
    int code = 0;
    if (argc < 3 || tccrt_comm_init(NULL, &world) || tccrt_open(argv[1], &m))
        return failed("open");
    int rank = tccrt_comm_rank(world), ranks = tccrt_comm_size(world);
    struct tccrt_options one = {.threads = 1, .stage = rank + 1}, whole = {.threads = 1};
    if (tccrt_stages(m) != ranks)
        return failed("another number of stages");
    if (tccrt_session_new(m, &one, &mine) || tccrt_session_new(m, &whole, &all))
        return failed("session");
    if (tccrt_run(mine, "init", 0, NULL, 0, NULL) != TCC_EUSAGE)
        return failed("a stage ran without its group");
    if (tccrt_session_group(mine, "pp", world))
        return failed("group");
    if (tccrt_arena_bytes(mine) >= atof(argv[2]) * 1e6)
        return failed("a stage takes the memory of the whole model");
    for (int i = 0; i < tccrt_nstates(m) && !code; i++)
        code = check_state(m, mine, all, i, rank, ranks);
    if (code)
        tccrt_comm_abort(world, "a check has failed");
    printf("stage %d: %.1f MB of %.1f MB\n", rank, (double)tccrt_arena_bytes(mine) / 1e6,
           (double)tccrt_arena_bytes(all) / 1e6);
    tccrt_session_free(mine);
    tccrt_session_free(all);
    tccrt_close(m);
    return tccrt_comm_finalize(world, NULL) || code;
}
