/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX simulator: loads PTX text, executes kernels with every access checked, counts. It has memory of its own:
 * device addresses are never readable by the host. A device and what belongs to it is used by one thread at a time;
 * different devices are independent. Functions that can fail return false, NULL or 0 and write why into `error`
 * (PTX_ERROR bytes). Nothing here prints or exits.
 */
#ifndef TCCC_PTXSIM_H
#define TCCC_PTXSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_ERROR 512
#define PTX_MAX_REPORTS 64

enum ptx_check {
#define CHECK(id, name, fatal, text) PTX_CHECK_##id,
#include "sim/ptx/checks.def"
    PTX_NCHECKS
};

enum ptx_class {
#define CLASS(id, name) PTX_CLASS_##id,
#include "sim/ptx/classes.def"
    PTX_NCLASSES
};

struct ptx_config {
    int threads;             /* host threads that run blocks; 0: as many as the process may use */
    uint64_t seed;           /* order of warps and moments at which asynchronous copies arrive */
    bool checks;             /* initialisation, races; bounds and alignment are always checked */
    uint64_t limit;          /* warp instructions a block may execute; 0: 2^36 */
    int shared_limit;        /* bytes of shared memory a block may have; 0: 232448 (sm_90) */
};

/* Counts of one launch, over all blocks. Sectors are 32 bytes. */
struct ptx_counters {
    uint64_t warp_instructions, lane_instructions;
    uint64_t by_class[PTX_NCLASSES];                          /* warp instructions */
    uint64_t global_requests, global_sectors, ideal_sectors;  /* ideal: distinct bytes, rounded up to sectors */
    uint64_t shared_requests, shared_wavefronts;              /* conflicts: wavefronts beyond the ideal */
    uint64_t shared_ideal;
    uint64_t barriers, divergent_branches, mma, async_copies;
    /* 128-byte lines touched for the first time in the launch, of the device's memory */
    uint64_t memory_bytes;
    uint64_t peer_bytes;                                      /* and of other devices' */
    /* at the rate of 16-bit types: a tf32 FLOP counts as two, an 8-bit one as half */
    uint64_t mma_flops, wgmma_flops;
    uint64_t path_cycles;                                     /* of each block by itself, with its waits, added up */
};

/* One failed check. The same check at the same instruction is reported once, with how often it failed. */
struct ptx_report {
    enum ptx_check check;
    char kernel[128];        /* entry or function whose instruction it is */
    int line;                /* of the PTX text */
    char file[120]; int source;          /* of what that was made of, and its line, where .loc says so (else "") */
    unsigned block[3], thread[3];
    uint64_t address, count; /* address: 0 where there is none */
    char text[320];          /* what was expected and found */
};

struct ptx_device;
struct ptx_module;
struct ptx_kernel;           /* belongs to its module */

struct ptx_device *ptx_device_new(const struct ptx_config *config, char *error);
void ptx_device_free(struct ptx_device *d);

/* From now on kernels do all but write the device's memory, which stays as it is, and initialisation and races are left
 * out: for looks at the time. */
void ptx_time_only(struct ptx_device *d);

/* Memory. `name` (copied; may be NULL) stands in reports. Addresses are multiples of 256; free: false for what is no
 * live allocation. */
uint64_t ptx_alloc(struct ptx_device *d, size_t bytes, const char *name, char *error);
bool ptx_free(struct ptx_device *d, uint64_t address, char *error);
bool ptx_is_device(const struct ptx_device *d, uint64_t address);      /* one of its addresses, live or not */
/* all within live or mapped memory */
bool ptx_valid(const struct ptx_device *d, uint64_t at, size_t bytes, char *error);
bool ptx_write(struct ptx_device *d, uint64_t to, const void *from, size_t bytes, char *error);
bool ptx_read(struct ptx_device *d, void *to, uint64_t from, size_t bytes, char *error);
bool ptx_fill(struct ptx_device *d, uint64_t to, int byte, size_t bytes, char *error);

/* Device to device, another one's too. Bytes that nobody wrote stay so. */
bool ptx_copy(struct ptx_device *d, uint64_t to, struct ptx_device *from_device, uint64_t from, size_t bytes,
              char *error);
/* Makes memory of the host accessible under its own address until ptx_unmap(). */
bool ptx_map_host(struct ptx_device *d, void *memory, size_t bytes, const char *name, char *error);
/* A range of addresses, `align` a power of two, that ptx_map() fills in parts with memory of ptx_memory_new(). 0: none
 * is left. */
uint64_t ptx_reserve(struct ptx_device *d, size_t bytes, size_t align);
struct ptx_memory;
struct ptx_memory *ptx_memory_new(const struct ptx_device *home, size_t bytes);
void ptx_memory_free(struct ptx_memory *m);                   /* after the last ptx_unmap() of it */
bool ptx_map(struct ptx_device *d, uint64_t at, struct ptx_memory *m, size_t offset, size_t bytes, char *error);
bool ptx_unmap(struct ptx_device *d, uint64_t at, char *error);

/* Devices whose allocations the next launches of this one reach, too (n at most PTX_PEERS; the devices are begun
 * together: ptx_begin()). */
#define PTX_PEERS 16
void ptx_peers(struct ptx_device *d, struct ptx_device *const *peers, int n);

/* Ranges within allocations that the next launches may touch: an access to such an allocation must lie within one of
 * them, a write within one that is writable. n 0: everything. The list is copied. */
struct ptx_range { uint64_t address, bytes; bool writable; char name[40]; };
bool ptx_ranges(struct ptx_device *d, const struct ptx_range *list, int n);

/* Before a launch, copy or fill on behalf of a chain `slot` of a partial order: accesses of earlier ones conflict
 * unless clock[their slot] >= their id (clock: PTX_SLOTS entries, valid until the next call; NULL: all of them happened
 * before). */
#define PTX_SLOTS 64
void ptx_begin(struct ptx_device *d, int slot, uint64_t id, const uint64_t *clock, const char *activity);

/* Loads PTX text of `size` bytes. An instruction outside the subset is an error that names its line. */
struct ptx_module *ptx_load(struct ptx_device *d, const char *text, size_t size, char *error);
void ptx_unload(struct ptx_module *m);
const struct ptx_kernel *ptx_find(const struct ptx_module *m, const char *name);
int ptx_kernel_count(const struct ptx_module *m);
const struct ptx_kernel *ptx_kernel_at(const struct ptx_module *m, int i);
const char *ptx_kernel_name(const struct ptx_kernel *k);
/* Address and size of a .global or .const variable; 0: there is none. */
uint64_t ptx_global(const struct ptx_module *m, const char *name, size_t *bytes);
/* Parameter i of a kernel: its offset and size in the parameter block, its type as PTX writes it. False past the
 * last. */
bool ptx_kernel_param(const struct ptx_kernel *k, int i, size_t *offset, size_t *bytes, const char **type);
/* Bytes of static shared and of local memory a thread; registers by their declarations (an upper bound). */
void ptx_kernel_needs(const struct ptx_kernel *k, size_t *shared, size_t *local, int *params);
int ptx_kernel_registers(const struct ptx_kernel *k);         /* of a thread, estimated from what is live at once */
int ptx_kernel_threads(const struct ptx_kernel *k);           /* of a block, at most */

struct ptx_launch {
    unsigned grid[3], block[3];
    size_t shared;           /* dynamic */
    const void *params;      /* the parameter block */
    size_t params_size;
    unsigned cluster[3];     /* blocks of a cluster; 0: what the kernel says, else 1 */
    /* all blocks at once: they may wait for each other. On one host thread, which holds them all */
    bool cooperative;
    /* so many clusters run (blocks, where there are none), spread over the grid, for a look at the time: counters are
     * the whole grid's by proportion, and what the others would have written is not. 0: all; not of a cooperative
     * launch */
    uint64_t sample;
};
/* Runs a kernel to its end. False: it could not be launched (`error`), or a fatal check failed (`error` is that
 * report's text). Counters (may be NULL) are set in every case. Reports are added to the device's. */
bool ptx_run(struct ptx_device *d, const struct ptx_kernel *k, const struct ptx_launch *l,
             struct ptx_counters *counters, char *error);

/* Modelled time of a launch with these counters on a machine (sim/machines.def). False: no such machine, or it does not
 * fit one. */
/* occupancy: blocks an SM */
struct ptx_time { uint64_t cycles; double seconds; int occupancy, registers; const char *bound; };
bool ptx_modelled(const struct ptx_kernel *k, const struct ptx_launch *l, const struct ptx_counters *c,
                  const char *machine, struct ptx_time *t);

/* Tensor maps as the driver makes them (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col), without a context: 128 bytes,
 * at a multiple of 64. 0, or a CUresult: it does not take these numbers. */
int ptx_map_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *step,
                  int interleave, int swizzle, int l2, int fill);
int ptx_map_im2col(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                   const int *lower, const int *upper,
                   unsigned channels, unsigned pixels, const uint32_t *step, int interleave, int swizzle, int l2,
                       int fill);

int ptx_reports(const struct ptx_device *d, const struct ptx_report **list);
void ptx_reports_clear(struct ptx_device *d);
const char *ptx_check_name(enum ptx_check c);
const char *ptx_class_name(enum ptx_class c);
/* "kernel k, line 12 (op.cu:3), block (0,0,0), thread (3,0,0): text" in `to`. */
void ptx_report_text(const struct ptx_report *r, char *to, size_t room);

#endif
