/* run: decoder */
/* build: tccc decoder.onnx --dim batch_size=1 --state=auto,capacity=64 -o decoder.so */
#include <stdint.h>
#include <stdio.h>

#include <tccrt.h>

/* The position behind a run of five tokens, where `state.md` puts it, and after a reset. */
int main(void)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    int64_t ids[5] = {1, 2, 3, 4, 5};
    struct tcc_tensor in = {ids, TCC_I64, 2, {1, 5}}, out = {0};
    int64_t filled;

    if (tccrt_open("decoder.so", &model) || tccrt_session_new(model, NULL, &session) ||
        tccrt_run(session, "main", 1, &in, 1, &out)) {
        fprintf(stderr, "%s\n", tccrt_error());
        return 1;
    }
    struct tcc_tensor before;
    if (tccrt_state_get(session, "position", &before))
        return 1;
    filled = *(int64_t *)before.data;
@block@
    if (tccrt_state_get(session, "position", &t))
        return 1;
    printf("%lld, then %lld\n", (long long)filled, (long long)*(int64_t *)t.data);
    return filled == 5 && *(int64_t *)t.data == 0 ? 0 : 1;
}
