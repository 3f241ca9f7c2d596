/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_neff.c - tccc --emit=neff: the programs of an artifact for NeuronCores in the container that the vendor's
 * documents describe: a head of 1024 bytes, then a tar archive. Each program is a folder sgNN with def.json (its
 * tensors as variables, its DMA queues) and program.nbin, the instructions in this project's binary form
 * (doc/neuron.md). An export, for tools that look into containers: nothing reads it back, and the vendor's runtime
 * can't run it, since the encoding of its instructions is not published.
 */
#include "compiler/tccc.h"
#include "runtime/abi.h"
#include "runtime/neuron_isa.h"
#include "tools/run/model_int.h"

#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

/* All of it little-endian and without gaps. */
struct __attribute__((packed)) head {
    uint64_t pkg_version, header_size, data_size, version_major, version_minor;
    uint8_t build_version[128];
    uint32_t num_tpb;
    uint8_t hash[32], uuid[16];
    char name[256];
    uint32_t requested_tpb_count;
    uint8_t tpb_per_node[64];
    uint64_t feature_bits;
    uint32_t lnc_size;
    uint8_t pad[468];
};
_Static_assert(sizeof(struct head) == 1024, "a container's head has 1024 bytes");

/* A file of a tar archive (POSIX ustar), of a fixed date. */
static bool put_file(FILE *tar, const char *name, const void *data, size_t bytes)
{
    static const char zeros[512];
    char block[512] = "";
    unsigned sum = 0;

    snprintf(block, 100, "%s", name);
    memcpy(block + 100, "0000644", 8);
    memcpy(block + 108, "0000000", 8);
    memcpy(block + 116, "0000000", 8);
    snprintf(block + 124, 12, "%011zo", bytes);
    memcpy(block + 136, "00000000000", 12);
    memcpy(block + 148, "        ", 8);
    block[156] = '0';
    memcpy(block + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    fwrite(block, 1, sizeof block, tar);
    fwrite(data, 1, bytes, tar);
    fwrite(zeros, 1, -bytes % 512, tar);
    return !ferror(tar);
}

static const char *use_of(const struct neuron_tensor *t)
{
    switch (t->use) {
    case NEURON_IN: return "input";
    case NEURON_OUT: return "output";
    case NEURON_INOUT: return "state-buffer";
    default: return "tmp-buf";
    }
}

/* Variables by name, and the queues that carry them: a queue belongs to the engine that triggers it. */
static void put_definition(FILE *f, const struct neuron_program *p)
{
    fputs("{\"var\":{", f);
    for (int t = 0; t < p->ntensors; t++)
        fprintf(f, "%s\"%s\":{\"type\":\"%s\",\"var_id\":%d,\"size\":%lld}", t ? "," : "", p->tensors[t].name,
                use_of(&p->tensors[t]), t, (long long)neuron_tensor_bytes(&p->tensors[t]));
    fputs("},\"dma_queue\":{", f);
    for (int e = 0, n = 0; e < NEURON_NENGINES; e++) {
        bool used = false;

        for (int i = 0; i < p->stream[e].n && !used; i++)
            used = neuron_is_dma((enum neuron_op)p->stream[e].code[i].op);
        if (used)
            fprintf(f, "%s\"q_%s\":{\"type\":\"data\",\"owner\":\"%s\",\"num_queues\":%d}", n++ ? "," : "",
                    neuron_engine_name((enum neuron_engine)e), neuron_engine_name((enum neuron_engine)e), 1);
    }
    fputs("},\"engines\":{", f);
    for (int e = 0; e < NEURON_NENGINES; e++)
        fprintf(f, "%s\"%s\":%d", e ? "," : "", neuron_engine_name((enum neuron_engine)e), p->stream[e].n);
    fputs("},\"program\":\"program.nbin\"}\n", f);
}

/* One program's folder. false: `error` says why. */
static bool put_program(FILE *tar, int number, const uint8_t *code, size_t bytes, char *error)
{
    struct neuron_program *p = neuron_decode(code, bytes, error);
    char name[64], *text = NULL;
    size_t length = 0;
    FILE *f = p ? open_memstream(&text, &length) : NULL;
    bool fine = f != NULL;

    if (f) {
        put_definition(f, p);
        fine = !fclose(f);
    }
    snprintf(name, sizeof name, "sg%02d/def.json", number);
    fine = fine && put_file(tar, name, text, length);
    snprintf(name, sizeof name, "sg%02d/program.nbin", number);
    fine = fine && put_file(tar, name, code, bytes);
    free(text);
    if (p)
        neuron_program_free(p);
    return fine;
}

/* The archive of an image's programs; NULL: `error` says why. */
static char *archive(const struct tcc_pimage *m, uint32_t nprograms, size_t *bytes, char *error)
{
    static const char end[1024];
    const uint8_t *code = (const uint8_t *)m + m->code.first;
    const uint64_t *at = (const uint64_t *)(const void *)code;
    char *data = NULL;
    FILE *tar = open_memstream(&data, bytes);
    bool fine = tar != NULL;

    snprintf(error, NEURON_ERROR, "no memory");
    for (uint32_t k = 0, n = 0; fine && k < nprograms; k++)
        if (at[2 * (size_t)k + 1])
            fine = put_program(tar, (int)n++, code + at[2 * (size_t)k], at[2 * (size_t)k + 1], error);
    if (tar) {
        fwrite(end, 1, sizeof end, tar);
        fine = !fclose(tar) && fine;
    }
    if (fine)
        return data;
    free(data);
    return NULL;
}

int emit_neff(const struct options *o, const struct tcc_model *m, const struct tcc_pimage *image, FILE *out)
{
    char error[NEURON_ERROR];
    struct head h = {.pkg_version = 2,
                     .header_size = sizeof h,
                     .version_major = 2,
                     .num_tpb = 1,
                     .requested_tpb_count = 1,
                     .tpb_per_node = {1},
                     .lnc_size = 1};
    size_t bytes;
    if (strstr((const char *)image + image->strings.first + image->machine, NEURON_LNC2))
        h.lnc_size = 2;
    char *data = archive(image, (uint32_t)NEURON_PROGRAMS((int)h.lnc_size) * m->plan->kernels.count, &bytes, error);

    if (!data)
        return tool_error(o, EXIT_BUG, "--emit=neff: %s", error);
    h.data_size = bytes;
    snprintf((char *)h.build_version, sizeof h.build_version, "tccc %s", PACKAGE_VERSION);
    snprintf(h.name, sizeof h.name, "%s", m->name);
    for (int i = 0; i < 2; i++) {
        XXH128_hash_t x = XXH3_128bits_withSeed(data, bytes, (uint64_t)i);

        memcpy(h.hash + 16 * i, &x, 16);
    }
    memcpy(h.uuid, h.hash, sizeof h.uuid); /* of the same model the same, as artifacts are */
    fwrite(&h, 1, sizeof h, out);
    fwrite(data, 1, bytes, out);
    free(data);
    return EXIT_FINE;
}
