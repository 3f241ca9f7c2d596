/* SPDX-License-Identifier: Apache-2.0 */
/* artifact_int.h - from a lowered module to the artifact's own object: descriptor, plan, weights, C entry points'
 * table. */
#ifndef TCC_ARTIFACT_INT_H
#define TCC_ARTIFACT_INT_H

#include "compiler/target.h"

/* The plan as bytes (struct tcc_plan and its tables). Library ops it calls are listed in `libs`, in the order of their
 * numbers. */
struct artifact_plan { const uint8_t *bytes; uint64_t size; int nlibs; const char **libs; };
struct artifact_plan artifact_plan(struct ir_ctx *ctx, const struct kn_program *p);

/* Entry points that the user sees: pipelines where there are some (the functions are then their parts), else all
 * functions, shape versions of one thing being one. They have the first numbers. */
int artifact_nentries(const struct kn_program *p);
const char *artifact_entry_name(const struct kn_program *p, int i);
/* without pipelines; of several versions, the first */
const struct kn_entry *artifact_entry(const struct kn_program *p, int i);

struct cpu_isa;
struct tccdata_picture;
struct artifact_options {
    const char *name;                        /* C identifier that prefixes symbols */
    const char *symbol;                      /* its descriptor's, without _model: `name`, or of a part of `name` */
    int nothers;                             /* descriptors of the same for other devices, by such symbols */
    const char *const *others;
    const struct cpu_isa *isa;               /* whose objects they are */
    int nversions;                           /* best first */
    const char *const *isas;                 /* struct tcc_version.isa of each */
    const char *const *prefixes;             /* kernel i of version v is PREFIXk<i> */
    const bool *on_host;                     /* by kernel: has it such functions? NULL: all have */
    int nimages;                             /* struct tcc_pimage, best first */
    const struct target_image *images;
    const char *device;                      /* struct target.device */
    bool shared;                             /* also define tccc_model */
    bool entries;                            /* and the C functions NAME_ENTRY, one an entry point */
    bool hidden;                             /* NAME_model is not exported by what the object becomes part of */
    /* weights go to this file name beside the artifact; "random:SEED": they are made when it is opened; NULL:
     * embedded */
    const char *sidecar;
    const char *source;                      /* digest of the input and flags */
};
/* Writes the object file; the sidecar's contents are written to sidecar_path when there is one. False after a
 * diagnostic. */
bool artifact_object(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *o, const char *path,
                     const char *sidecar_path);
/* The entry points' functions. model: the symbol of the descriptor. */
struct elf;
bool artifact_entries(struct ir_ctx *ctx, const struct kn_program *p, const struct artifact_options *o, struct elf *elf,
                      int model);
/* other characters than letters and digits become _ */
const char *artifact_identifier(struct ir_ctx *ctx, const char *name);
/* What stands behind NAME_ for each entry point: its name so, with a number behind it (f_2) where an earlier one or the
 * artifact itself (NAME_model) has that already. */
const char **artifact_identifiers(struct ir_ctx *ctx, const struct kn_program *p);
/* The C header of -H: the entry points' functions, the descriptor. Beside the header of another `source` and the same
 * name it is an error of the C compiler. */
bool artifact_header(struct ir_ctx *ctx, const struct kn_program *p, const char *name, const char *source,
                     const struct tccdata_picture *pictures, const char *path);
/* Has the function an input of pictures, and all such are as `given` has them? Else false after a diagnostic. */
bool artifact_takes_pictures(struct ir_ctx *ctx, const struct ir_func *fn, const struct tccdata_picture *given);

#endif
