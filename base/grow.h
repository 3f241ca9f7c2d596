/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.h - lists: arrays that get longer one by one, where each time that one is full, it gets twice the room; and
 * chains.
 */
#ifndef TCC_GROW_H
#define TCC_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Is there room for one more than the n elements of array `at`, whose room (an integer variable of 32 or 64 bits) is
 * at first that given? False: no memory, or more than the room can count, and all is as it was. `at`, n and `room` are
 * evaluated several times. */
#define GROWN(at, n, room, first) ((n) != (room) || tcc_grow(&(at), sizeof *(at), &(room), sizeof(room), (first)))

static inline bool tcc_grow(void *at, size_t each, void *room, size_t width, size_t first)
{
    uint32_t narrow = 0;
    uint64_t wide = 0;
    void *old, *grown;

    memcpy(&old, at, sizeof old);
    memcpy(width == sizeof narrow ? (void *)&narrow : (void *)&wide, room, width);
    wide = wide + narrow ? 2 * (wide + narrow) : first;
    narrow = (uint32_t)wide;
    if (wide > (width == sizeof narrow ? INT32_MAX : INT64_MAX) / each || !(grown = realloc(old, wide * each)))
        return false;
    memcpy(at, &grown, sizeof grown);
    memcpy(room, width == sizeof narrow ? (void *)&narrow : (void *)&wide, width);
    return true;
}

/* Room for one more element than the n of a list that seldom gets longer. False: no memory, and all is as it was. */
#define ONE_MORE(at, n) tcc_resize(&(at), sizeof *(at), (size_t)(n) + 1)

static inline bool tcc_resize(void *at, size_t each, size_t n)
{
    void *old, *grown;

    memcpy(&old, at, sizeof old);
    if (n > SIZE_MAX / each || !(grown = realloc(old, n * each)))
        return false;
    memcpy(at, &grown, sizeof grown);
    return true;
}

/* Has array `at` at least n elements, of the `has` that it is said to have, new ones zero? False: no memory.
 * All three are evaluated several times. */
#define RESERVED(at, has, n)                                                              \
    ((n) <= (has) || (tcc_resize(&(at), sizeof *(at), (n)) &&                             \
                      (memset((at) + (has), 0, ((n) - (has)) * sizeof *(at)), (has) = (n), true)))

/* Takes an element out of a list that it may be in. */
#define UNLINK(first, element)                        \
    do {                                              \
        __typeof__(first) *at_ = &(first);            \
        while (*at_ && *at_ != (element))             \
            at_ = &(*at_)->next;                      \
        if (*at_)                                     \
            *at_ = (*at_)->next;                      \
    } while (0)

#endif
