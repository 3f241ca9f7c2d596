/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: PTX text in the simulator. What loads is asked for all that it says of its kernels, and each of them
 * runs for a while: a small launch, its parameters addresses of a small buffer, with all checks. What does not load, or
 * does not end well, must come with a message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptxsim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUFFER = 4096, PARAMETERS = 4096, WARP_INSTRUCTIONS = 3000, KERNELS = 4 };

/* Every parameter of 64 bits is the buffer's address, every other one 3. */
static void fill(const struct ptx_kernel *k, unsigned char *params, uint64_t address)
{
    size_t offset, bytes;
    const char *type;

    for (int i = 0; ptx_kernel_param(k, i, &offset, &bytes, &type); i++) {
        if (bytes > PARAMETERS || offset > PARAMETERS - bytes)
            return;
        memset(params + offset, 0, bytes);
        if (bytes == sizeof address)
            memcpy(params + offset, &address, bytes);
        else if (bytes)
            params[offset] = 3;
    }
}

static void run(struct ptx_device *d, const struct ptx_kernel *k, uint64_t address)
{
    unsigned char params[PARAMETERS] = {0};
    char error[PTX_ERROR] = "", text[PTX_ERROR];
    struct ptx_launch l = {.grid = {2, 1, 1}, .block = {33, 1, 1}, .params = params};
    const struct ptx_report *list;
    struct ptx_counters c;
    struct ptx_time t;
    size_t shared, local;
    int size;

    ptx_kernel_needs(k, &shared, &local, &size);
    if (size > PARAMETERS || shared > 1 << 18 || local > 1 << 20 || !*ptx_kernel_name(k))
        return;
    l.params_size = (size_t)size;
    fill(k, params, address);
    if (!ptx_run(d, k, &l, &c, error) && !*error)
        abort(); /* ended without a word */
    ptx_modelled(k, &l, &c, "h100", &t);
    for (int i = 0, n = ptx_reports(d, &list); i < n; i++)
        ptx_report_text(&list[i], text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_config config = {.threads = 1, .checks = true, .limit = WARP_INSTRUCTIONS};
    char error[PTX_ERROR] = "", *text = malloc(size + 1);
    struct ptx_device *d = ptx_device_new(&config, error);
    uint64_t address = d ? ptx_alloc(d, BUFFER, "buffer", error) : 0;
    struct ptx_module *m = NULL;

    if (text && address) {
        memcpy(text, data, size);
        text[size] = '\0';
        m = ptx_load(d, text, size, error);
        if (!m && !*error)
            abort(); /* refused without a word */
    }
    for (int i = 0; m && i < ptx_kernel_count(m) && i < KERNELS; i++)
        run(d, ptx_kernel_at(m, i), address);
    if (m)
        ptx_unload(m);
    if (d)
        ptx_device_free(d);
    free(text);
    return 0;
}
