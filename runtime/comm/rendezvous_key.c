/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and seals of ranks that meet (rendezvous.c says what for). All is HMAC-SHA-256:
 *
 *   root        HKDF-Extract("tccc meet 2", TCCC_COMM_SECRET), the empty text where it is not set
 *   transcript  SHA-256(HELLO's head and body, CHALLENGE's number): both ends' fresh numbers, the rank, the size, the
 *               job
 *   keys        HKDF-Expand(root, "tccc up" | "tccc down", transcript): one for each way of each connection
 *   seal        HMAC(key of the way, 64-bit count of messages that way, head, body): 32 bytes behind the body; the
 *               head's length has them
 *   data key    HKDF-Expand(root, "tccc data", SHA-256(TABLE's body)), of the job
 *
 * Numbers are little-endian. A seal that was heard is none of another connection, way or place in the order of
 * messages.
 */
#include <string.h>
#include <sys/random.h>

#include "runtime/comm/rendezvous_int.h"

bool tcr_meet_once(uint8_t out[TCR_MAC])
{
    return getrandom(out, TCR_MAC, 0) == TCR_MAC;
}

static void root_key(uint8_t key[TCR_MAC])
{
    const char *secret = tccrt_env_text("TCCC_COMM_SECRET");

    tcr_hkdf_extract("tccc meet 2", secret ? secret : "", secret ? strlen(secret) : 0, key);
}

void tcr_line_keys(struct line *l, int way, const struct hello *h, const struct challenge *c)
{
    struct head head = {.kind = HELLO, .bytes = sizeof *h};
    uint8_t root[TCR_MAC], transcript[TCR_MAC];
    struct tcr_sha256 sha;

    memcpy(head.magic, tcr_meet_magic, sizeof head.magic);
    tcr_sha256_begin(&sha);
    tcr_sha256_add(&sha, &head, sizeof head);
    tcr_sha256_add(&sha, h, sizeof *h);
    tcr_sha256_add(&sha, c->once, sizeof c->once);
    tcr_sha256_end(&sha, transcript);
    root_key(root);
    tcr_hkdf_expand(root, "tccc up", transcript, l->key[UP]);
    tcr_hkdf_expand(root, "tccc down", transcript, l->key[DOWN]);
    l->count[UP] = l->count[DOWN] = 0;
    l->way = way;
    l->sealed = true;
}

void tcr_line_seal(struct line *l, int way, const struct head *h, const void *a, size_t na, const void *b, size_t nb,
                   uint8_t seal[TCR_MAC])
{
    struct tcr_hmac m;

    tcr_hmac_begin(&m, l->key[way], TCR_MAC);
    tcr_hmac_add(&m, &l->count[way], sizeof l->count[way]);
    tcr_hmac_add(&m, h, sizeof *h);
    tcr_hmac_add(&m, a, na);
    tcr_hmac_add(&m, b, nb);
    tcr_hmac_end(&m, seal);
    l->count[way]++;
}

bool tcr_line_unseal(struct line *l)
{
    uint8_t seal[TCR_MAC];
    uint32_t n = l->head.bytes;

    if (n < TCR_MAC)
        return false;
    tcr_line_seal(l, !l->way, &l->head, l->body, n - TCR_MAC, NULL, 0, seal);
    if (!tcr_mac_same(seal, l->body + n - TCR_MAC))
        return false;
    l->head.bytes = n - TCR_MAC;
    l->body[l->head.bytes] = 0;
    return true;
}

void tcr_meet_data_key(const void *table, size_t bytes, uint8_t key[TCR_MAC])
{
    uint8_t root[TCR_MAC], digest[TCR_MAC];
    struct tcr_sha256 sha;

    tcr_sha256_begin(&sha);
    tcr_sha256_add(&sha, table, bytes);
    tcr_sha256_end(&sha, digest);
    root_key(root);
    tcr_hkdf_expand(root, "tccc data", digest, key);
}
