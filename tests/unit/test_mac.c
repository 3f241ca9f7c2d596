/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, HMAC and HKDF by the vectors of FIPS 180-4 (NIST's examples), RFC 4231 and RFC 5869; seals of a
 * connection. */
#include <check.h>

#include "tests/unit/suite.h"
#undef fail
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/rendezvous_int.h"

static const char *hex(const uint8_t d[TCR_MAC])
{
    static char text[2 * TCR_MAC + 1];

    for (int i = 0; i < TCR_MAC; i++)
        snprintf(text + 2 * i, 3, "%02x", d[i]);
    return text;
}

START_TEST(digests)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    struct tcr_sha256 h;
    uint8_t d[TCR_MAC];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcr_sha256_begin(&h);
        tcr_sha256_add(&h, cases[i].text, strlen(cases[i].text));
        tcr_sha256_end(&h, d);
        ck_assert_str_eq(hex(d), cases[i].digest);
    }
    tcr_sha256_begin(&h);
    for (int i = 0; i < 1000000; i++)
        tcr_sha256_add(&h, "a", 1);
    tcr_sha256_end(&h, d);
    ck_assert_str_eq(hex(d), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

START_TEST(macs)
{
    struct tcr_hmac m;
    uint8_t d[TCR_MAC], key[131], key2[TCR_MAC];

    memset(key, 0x0b, 20);
    tcr_hmac_begin(&m, key, 20);
    tcr_hmac_add(&m, "Hi There", 8);
    tcr_hmac_end(&m, d);
    ck_assert_str_eq(hex(d), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    tcr_hmac_begin(&m, "Jefe", 4);
    tcr_hmac_add(&m, "what do ya want ", 16);
    tcr_hmac_add(&m, "for nothing?", 12);
    tcr_hmac_end(&m, d);
    ck_assert_str_eq(hex(d), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    tcr_hmac_begin(&m, key, sizeof key);
    tcr_hmac_add(&m, "Test Using Larger Than Block-Size Key - Hash Key First", 54);
    tcr_hmac_end(&m, d);
    ck_assert_str_eq(hex(d), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    memset(key, 0x0b, 22); /* RFC 5869, A.3: no salt, no info */
    tcr_hkdf_extract("", key, 22, key2);
    ck_assert_str_eq(hex(key2), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
    memcpy(d, key2, sizeof d);
    ck_assert(tcr_mac_same(d, key2));
    for (int i = 0; i < TCR_MAC; i++) {
        d[i] ^= 0x80;
        ck_assert(!tcr_mac_same(d, key2));
        d[i] ^= 0x80;
    }
}
END_TEST

/* What one end seals the other takes once, in order, from that end; no bit of it may differ. */
START_TEST(seals)
{
    struct hello h = {.rank = 1, .size = 2, .job = 3};
    struct challenge c = {{4}};
    struct line up = {.fd = -1}, down = {.fd = -1};
    size_t n = sizeof(struct head) + 5 + TCR_MAC;

    tcr_line_keys(&up, UP, &h, &c);
    tcr_line_keys(&down, DOWN, &h, &c);
    ck_assert(tcr_line_say(&up, CARD, "12345", 5, NULL, 0));
    ck_assert_uint_eq(up.out_size, n);
    for (size_t bit = 0; bit <= 8 * n; bit++) { /* the last as it was sent */
        struct line l = down;

        if (bit < 8 * n)
            up.send[bit / 8] ^= (unsigned char)(1 << bit % 8);
        memcpy(&l.head, up.send, sizeof l.head);
        l.body = malloc(n);
        memcpy(l.body, up.send + sizeof l.head, n - sizeof l.head);
        if (l.head.bytes == n - sizeof l.head)
            ck_assert_int_eq(tcr_line_unseal(&l), bit == 8 * n);
        if (bit < 8 * n) {
            up.send[bit / 8] ^= (unsigned char)(1 << bit % 8);
        } else { /* said again, or said back, it is wrong */
            l.head.bytes = (uint32_t)(n - sizeof l.head);
            ck_assert(!tcr_line_unseal(&l));
            l.head.bytes = (uint32_t)(n - sizeof l.head);
            l.count[UP] = l.count[DOWN] = 0;
            l.way = UP;
            ck_assert(!tcr_line_unseal(&l));
        }
        free(l.body);
    }
    free(up.send);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mac");
    TCase *t = tcase_create("mac");

    tcase_add_test(t, digests);
    tcase_add_test(t, macs);
    tcase_add_test(t, seals);
    suite_add_tcase(s, t);
    return run_tests(s);
}
