/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - the digest that a checkpoint has of itself: the run-time library writes and checks it, the compiler
 * checks it where it takes what a checkpoint says. */
#ifndef TCC_BASE_CHECKPOINT_H
#define TCC_BASE_CHECKPOINT_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/xxh3.h"

/* The digest of a file, metadata "tccc.digest": XXH3-64 of all its bytes, the digest's own 16 digits taken as zeros.
 * "tccc.format" says that there is one, so that no changed byte hides it. Files of before have 16 digits there alone,
 * of the tensors' bytes by name. */
#define CKPT_DIGEST_KEY "tccc.digest"
#define CKPT_DIGEST_KIND "file:"
#define CKPT_FORMAT_KEY "tccc.format"
#define CKPT_FORMAT "2"
#define CKPT_DIGITS 16
#define CKPT_DIGEST (sizeof CKPT_DIGEST_KIND + CKPT_DIGITS)

/* Is the digest one of the file? digest, format: what its metadata have, or NULL. */
static inline bool ckpt_covers_file(const char *digest, const char *format)
{
    return format || (digest && !strncmp(digest, CKPT_DIGEST_KIND, strlen(CKPT_DIGEST_KIND)));
}

/* All bytes; the digest's own digits as zeros. False: it does not stand where it is written. */
static inline bool ckpt_file_digest(const uint8_t *data, size_t size, char text[CKPT_DIGEST])
{
    static const char before[] = "\"" CKPT_DIGEST_KEY "\":\"" CKPT_DIGEST_KIND;
    static const char zeros[] = "0000000000000000";
    size_t n = sizeof before - 1;
    const uint8_t *at = (const uint8_t *)memmem(data, size, before, n), *end = data + size;
    struct tcr_xxh3 x;

    if (!at || (size_t)(end - at) < n + CKPT_DIGITS)
        return false;
    at += n;
    tcr_xxh3_begin(&x);
    tcr_xxh3_add(&x, data, (size_t)(at - data));
    tcr_xxh3_add(&x, zeros, CKPT_DIGITS);
    tcr_xxh3_add(&x, at + CKPT_DIGITS, (size_t)(end - at) - CKPT_DIGITS);
    snprintf(text, CKPT_DIGEST, CKPT_DIGEST_KIND "%016llx", (unsigned long long)tcr_xxh3_end(&x));
    return true;
}

#endif
