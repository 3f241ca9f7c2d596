/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_int.h - private to tccc --tune (tune.c): what times kernels, a GPU (tune_device.c) or the simulator's model
 * (tune_sim.c).
 */
#ifndef TCC_TOOLS_TUNE_INT_H
#define TCC_TOOLS_TUNE_INT_H

#include "tools/prove/records_int.h"

enum { TUNE_TEXT = 1024 };

/* All functions that can fail return false and write why into `error` (TUNE_TEXT bytes). */
struct tune_clock {
    char name[160];                  /* of the machine, for people and tables */
    void *state;
    /* The image whose functions are launched next; what was loaded before is gone. */
    bool (*load)(struct tune_clock *c, const struct tcc_pimage *image, char *error);
    /* Memory of the device with these bytes, or, data NULL, with any; free: all of it. */
    bool (*memory)(struct tune_clock *c, size_t bytes, const void *data, uint64_t *at, char *error);
    void (*free)(struct tune_clock *c);
    struct tcc_map_driver maps;
    /* Seconds that a launch of the function takes. work: its operations, as far as is known. */
    bool (*time)(struct tune_clock *c, const char *symbol, const struct records_shape *s, const uint64_t *params,
        size_t size, double work,
                 double *seconds, char *error);
    void (*close)(struct tune_clock *c);
};
/* Room for one more address behind the n that are there. */
bool tune_room(uint64_t **list, int n, int *room, char *error);
/* For code of that architecture. device: "cuda", "cuda:K". False: `error` says why not. */
bool tune_device(struct tune_clock *c, const char *device, const char *arch, char *error);
bool tune_sim(struct tune_clock *c, const char *arch, char *error);

#endif
