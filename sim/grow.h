/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.h - lists: arrays that get longer one by one, where each time that one is full, it gets twice the room; and
 * chains. As base/grow.h, of which the simulators know nothing.
 */
#ifndef TCCC_SIM_GROW_H
#define TCCC_SIM_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Is there room for one more than the n elements of array `at`, whose room (an integer variable of 32 or 64 bits) is
 * at first that given? False: no memory, or more than the room can count, and all is as it was. `at`, n and `room` are
 * evaluated several times. */
#define GROWN(at, n, room, first) ((n) != (room) || sim_grow(&(at), sizeof *(at), &(room), sizeof(room), (first)))

static inline bool sim_grow(void *at, size_t each, void *room, size_t width, size_t first)
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
