/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of QEMU's user mode (-plugin): instructions that a program executes and accesses to memory, as "N N" on
 * standard error when it ends. For arm_instructions.sh; the declarations are those of qemu-plugin.h, version 1, which
 * Debian's qemu-user does not bring.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SHOWN __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 = 0, READS_AND_WRITES = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*f)(uint64_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t i);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int op, void *to, uint64_t n);
void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *insn, int which, int op, void *to, uint64_t n);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*f)(uint64_t, void *), void *user);

SHOWN int qemu_plugin_version = 1;
static uint64_t instructions, accesses;

static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions, n);
    for (size_t i = 0; i < n; i++)
        qemu_plugin_register_vcpu_mem_inline(qemu_plugin_tb_get_insn(block, i), READS_AND_WRITES, ADD_U64, &accesses,
                                             1);
}

static void ended(uint64_t id, void *user)
{
    (void)id;
    (void)user;
    fprintf(stderr, "%" PRIu64 " %" PRIu64 "\n", instructions, accesses);
}

SHOWN int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
