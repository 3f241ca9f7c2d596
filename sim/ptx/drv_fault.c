/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that the environment asks for, to test what a program does about them: TCCC_SIM_VERSION (the CUDA version of
 * the driver, 12040: it refuses PTX of later versions), TCCC_SIM_FAIL=[FUNCTION@]N:RESULT (the Nth call of any function
 * that needs a context or device, or of this one, returns the result, a number or a name of errors.def),
 * TCCC_SIM_LOSE=N (the device is lost when the Nth kernel is to run: an uncorrectable memory error). What of these
 * cannot be read makes cuInit() return CUDA_ERROR_INVALID_VALUE.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"

/* The PTX that drivers of a CUDA version and later ones read (PTX ISA, "Release Notes"). */
static const struct {
    int cuda, ptx;
} versions[] = {{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76},
                {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
                {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}};

bool drv_reads_ptx(const char *ptx)
{
    const char *at = strstr(ptx, ".version");
    int reads = 0, major, minor;
    char *end;
    if (!at)
        return true; /* the parser says what is wrong */
    for (size_t k = 0; k < sizeof versions / sizeof *versions; k++)
        reads = versions[k].cuda <= drv.faults.version ? versions[k].ptx : reads;
    major = (int)strtol(at + strlen(".version"), &end, 10);
    minor = *end == '.' ? atoi(end + 1) : 0;
    return drv.faults.version >= 13000 || 10 * major + minor <= reads;
}

/* A call of these results ends its context (CUDA Driver API, CUresult: "the process must be terminated and
 * relaunched"). */
bool drv_is_sticky(CUresult r)
{
    return r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
           r == CUDA_ERROR_ASSERT || (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED);
}

static bool read_number(const char *name, uint64_t *to)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return true;
    *to = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *to > 0;
}

/* [FUNCTION@]N:RESULT */
static bool read_failure(const char *text)
{
    struct drv_faults *f = &drv.faults;
    const char *at = strchr(text, '@');
    char *end;
    if (at && (size_t)(at - text) >= sizeof f->function)
        return false;
    if (at)
        memcpy(f->function, text, (size_t)(at - text));
    f->fail_at = strtoull(at ? at + 1 : text, &end, 10);
    if (!f->fail_at || *end != ':')
        return false;
    f->with = drv_error_named(end + 1, strlen(end + 1));
    return f->with != CUDA_SUCCESS;
}

CUresult drv_fault_init(void)
{
    const char *fail = getenv("TCCC_SIM_FAIL");
    uint64_t version = 13000;
    bool fine = read_number("TCCC_SIM_VERSION", &version) && read_number("TCCC_SIM_LOSE", &drv.faults.lose_at);
    drv.faults.version = (int)version;
    return fine && (!fail || !*fail || read_failure(fail)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Is it the function that is to fail, with or without the suffix of its form? */
static bool is_meant(const char *function)
{
    size_t n = strlen(drv.faults.function);
    return !n || (!strncmp(function, drv.faults.function, n) && (!function[n] || !strncmp(function + n, "_v", 2)));
}

CUresult drv_fault_call(const char *function)
{
    struct drv_faults *f = &drv.faults;
    return f->fail_at && is_meant(function) && ++f->calls == f->fail_at ? f->with : CUDA_SUCCESS;
}

CUresult drv_fault_launch(CUcontext ctx)
{
    if (!drv.faults.lose_at || ++drv.faults.launches != drv.faults.lose_at)
        return CUDA_SUCCESS;
    drv.devices[ctx->device].lost = true;
    return CUDA_ERROR_ECC_UNCORRECTABLE;
}
