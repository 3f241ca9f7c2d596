/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mac.h - SHA-256 (FIPS 180-4), HMAC (RFC 2104) and HKDF (RFC 5869) over it: what ranks that meet prove and seal their
 * messages with (rendezvous.c).
 */
#ifndef TCC_RUNTIME_COMM_MAC_H
#define TCC_RUNTIME_COMM_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCR_MAC 32       /* bytes of a digest, a key and a seal */

struct tcr_sha256 { uint32_t state[8]; uint64_t bytes; uint8_t block[64]; };
void tcr_sha256_begin(struct tcr_sha256 *h);
void tcr_sha256_add(struct tcr_sha256 *h, const void *data, size_t size);
void tcr_sha256_end(struct tcr_sha256 *h, uint8_t out[TCR_MAC]);

struct tcr_hmac { struct tcr_sha256 inner, outer; };
void tcr_hmac_begin(struct tcr_hmac *m, const void *key, size_t size);
void tcr_hmac_add(struct tcr_hmac *m, const void *data, size_t size);
void tcr_hmac_end(struct tcr_hmac *m, uint8_t out[TCR_MAC]);

/* HKDF-Extract(salt, secret), and the first 32 bytes of HKDF-Expand(key, label context). */
void tcr_hkdf_extract(const char *salt, const void *secret, size_t size, uint8_t key[TCR_MAC]);
void tcr_hkdf_expand(const uint8_t key[TCR_MAC], const char *label, const uint8_t context[TCR_MAC],
                     uint8_t out[TCR_MAC]);

/* Takes the same time wherever they differ. */
bool tcr_mac_same(const uint8_t a[TCR_MAC], const uint8_t b[TCR_MAC]);

#endif
