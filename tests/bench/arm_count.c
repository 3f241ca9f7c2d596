/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of QEMU's user mode (-plugin): at each call of getppid, which marks where a run begins and ends, it writes
 * "count N N N" to standard error: instructions that the program has executed, those of them that calculate with
 * vectors or floats, and accesses to memory. For arm_instructions.sh; the declarations are those of qemu-plugin.h,
 * version 1, which Debian's qemu-user does not bring.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 = 0, READS_AND_WRITES = 3, GETPPID = 173 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*f)(uint64_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t i);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int op, void *to, uint64_t n);
void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *insn, int which, int op, void *to, uint64_t n);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id,
                                          void (*f)(uint64_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                                    uint64_t, uint64_t, uint64_t, uint64_t));

SHOWN int qemu_plugin_version = 1;
static uint64_t instructions, vectors, accesses;

/* Arm's manual, top-level encodings of A64: bits 25 to 28 are x111 for floats and vectors, 0010 for SVE, whose loads and
 * stores have 1 in the highest bit. */
static int calculates(const struct qemu_plugin_insn *insn)
{
    uint32_t code;
    memcpy(&code, qemu_plugin_insn_data(insn), sizeof code);
    return (code >> 25 & 7) == 7 || ((code >> 25 & 15) == 2 && !(code >> 31));
}

static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(block);
    uint64_t floats = 0;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
        floats += (uint64_t)calculates(insn);
        qemu_plugin_register_vcpu_mem_inline(insn, READS_AND_WRITES, ADD_U64, &accesses, 1);
    }
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions, n);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &vectors, floats);
}

static void called(uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == GETPPID)
        fprintf(stderr, "count %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions, vectors, accesses);
}

SHOWN int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
