/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set of the NeuronCore target: the text of every instruction is read, written again and equal, through
 * the binary form too; each rule refuses a program with a message that names the line; readers survive truncated and
 * mutated input.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/neuron_isa.h"
#include "tests/unit/suite.h"

/* Every instruction, as neuron_disassemble() writes it. */
static const char all[] =
    "core trn3\n"
    "size N r31\n"
    "size other_2 r7\n"
    "size made r30 = 2*N + -1*other_2 + -5 / 3\n"
    "tensor x in bf16 [256, 512]\n"
    "tensor y out f32 [128, 512]\n"
    "tensor n inout i32 [4]\n"
    "tensor t temp f32 [128, 128]\n"
    "tensor o in f32 [N*N*other_2*3, 4]\n"
    "\n"
    "engine tensor\n"
    "    load_stationary sbuf.bf16[0:128, 0, 128] wait s0>=16\n"
    "    matmul psum.f32[0:128, 2048, 512], sbuf.bf16[0:128, 4096, 512]\n"
    "    matmul psum.f32[0:128, 2048, 4, 128], sbuf.bf16[0:128, 4096, 4@130, 128] accumulate signal s1\n"
    "    pe_transpose psum.bf16[0:64, 4096, 128], sbuf.bf16[0:128, 0, 64]\n"
    "    load_stationary_mx sbuf.f8e4m3x4[0:64, 0, 128], sbuf.u8[0:64, 512, 128]\n"
    "    matmul_mx psum.f32[0:128, 2048, 512], sbuf.f4e2m1x4[0:64, 4096, 512], sbuf.u8[0:64, 8192, 512] accumulate\n"
    "\n"
    "engine scalar\n"
    "    tensor_scalar sbuf.f32[0:128, 0, 16], psum.f32[0:128, 0, 16], 0.5, 3 op0=mul op1=add\n"
    "    tensor_copy sbuf.bf16[0:128, 0, 16], psum.f32[0:128, 0, 16]\n"
    "    activation sbuf.f32[0:128, 0, 512], psum.f32[0:128, 2048, 512] wait s1>=1\n"
    "    activation sbuf.f32[0:128, 0, 512], sbuf.f32[0:128, 4096, 512], 0.125 func=prelu alpha=0.25\n"
    "    activation sbuf.f32[0:128, 0, 512], sbuf.f32[0:128, 4096, 512], 1, sbuf.f32[0:128, 8, 1] func=exp "
    "acc=reset_reduce\n"
    "    read_acc sbuf.f32[0:128, 4, 1]\n"
    "    dma y.f32[0, 128, 512], sbuf.f32[0:128, 0, 512] queue=3 signal s255\n"
    "    dma sbuf.f32[0:128, 0, 4], o.f32[16+48*other_2+-4*N*N*other_2+r3, 128@4*other_2, 4] queue=3\n"
    "    set r3, 7+-2*N*other_2\n"
    "\n"
    "engine gpsimd\n"
    "    tensor_tensor sbuf.i32[32:48, 0, 7], sbuf.i32[0:16, 64, 7@-1], sbuf.i32[64:80, 128, 7@4] op0=mul\n"
    "    tensor_scalar sbuf.i32[0:16, 0, 7], sbuf.i32[0:16, 64, 7], 7 op0=and\n"
    "    tensor_reduce sbuf.f32[0:16, 0, 1], sbuf.f32[0:16, 64, 8] op0=max axes=1\n"
    "    memset sbuf.i32[0:16, 0, 7], 4\n"
    "    iota sbuf.i32[0:128, 0, 4, 128] base=3 channel=512 step0=128 step1=1\n"
    "    affine_select sbuf.f32[0:128, 0, 16], sbuf.f32[0:128, 64, 16] op0=ge channel=1 step0=-1 fill=-inf\n"
    "    local_gather sbuf.f32[0:32, 0, 32], sbuf.f32[0:32, 1024, 64], sbuf.u16[0:32, 4096, 1] per_index=2\n"
    "    dma_gather sbuf.bf16[0:4, 0, 512], x.bf16[0, 256, 512], sbuf.i32[0:4, 8192, 1] queue=15 signal s2\n"
    "    dma_scatter x.bf16[0, 256, 512], sbuf.bf16[0:4, 0, 512], sbuf.i32[0:4, 8192, 1] queue=15 wait s2>=16\n"
    "\n"
    "engine vector\n"
    "    tensor_tensor sbuf.bf16[0:128, 0, 512], psum.f32[0:128, 0, 512], sbuf.bf16[0:128, 0, 512] op0=add\n"
    "    tensor_scalar sbuf.f32[0:128, 0, 2, 8], sbuf.f32[0:128, 64, 2@9, 8], sbuf.f32[0:128, 4, 1], 2 op0=sub op1=mul "
    "rev0\n"
    "    scalar_tensor_tensor sbuf.f32[0:128, 0, 8], sbuf.f32[0:128, 64, 8], 0.100000001, sbuf.f32[0:128, 128, 8] "
    "op0=mul op1=sub rev1\n"
    "    tensor_scalar_reduce sbuf.f32[0:128, 0, 8], sbuf.f32[0:128, 64, 8], 1, sbuf.f32[0:128, 128, 1] op0=mul "
    "op1=add\n"
    "    tensor_reduce sbuf.f32[0:128, 0, 2], sbuf.f32[0:128, 64, 2, 8] op0=add axes=1 negate\n"
    "    tensor_tensor_scan sbuf.f32[0:128, 0, 8], sbuf.f32[0:128, 64, 8], sbuf.f32[0:128, 128, 8], 0 op0=mul op1=add\n"
    "    bn_stats sbuf.f32[0:128, 0, 6], sbuf.f32[0:128, 64, 512]\n"
    "    bn_aggr sbuf.f32[0:128, 64, 2], sbuf.f32[0:128, 0, 6]\n"
    "    reciprocal sbuf.f32[0:128, 0, 6], sbuf.f32[0:128, 64, 6]\n"
    "    tensor_copy sbuf.f8e4m3[0:128, 0+r3, 6], sbuf.f8e5m2[0:128, 64, 6]\n"
    "    tensor_copy_predicated sbuf.f32[0:128, 0, 6], sbuf.f32[0:128, 64, 6], sbuf.u8[0:128, 128, 6]\n"
    "    memset psum.f32[0:128, 0, 6], bits7fc12345\n"
    "    dropout sbuf.f32[0:128, 0, 6], sbuf.f32[0:128, 64, 6] probability=0.5\n"
    "    rng sbuf.u32[0:128, 0, 6]\n"
    "    stream_shuffle sbuf.f32[0:32, 0, 6], sbuf.f32[0:32, 64, 6] "
    "mask=31:30:29:28:27:26:25:24:23:22:21:20:19:18:17:16:15:14:13:12:11:10:9:8:7:6:5:4:3:2:1:255\n"
    "    range_select sbuf.f32[0:128, 0, 6], sbuf.f32[0:128, 64, 6], 2, sbuf.f32[0:128, 128, 1] op0=ge op1=lt base=1 "
    "fill=nan\n"
    "    max8 sbuf.f32[0:128, 0, 8], sbuf.f32[0:128, 64, 16]\n"
    "    find_index8 sbuf.u32[0:128, 0, 8], sbuf.f32[0:128, 64, 16], sbuf.f32[0:128, 256, 8]\n"
    "    match_replace8 sbuf.f32[0:128, 512, 16], sbuf.f32[0:128, 64, 16], sbuf.f32[0:128, 256, 8], -inf\n"
    "    transpose32 sbuf.f32[0:64, 0, 32], sbuf.f32[0:64, 256, 32]\n"
    "    quantize_mx sbuf.f8e5m2x4[0:32, 0, 8], sbuf.u8[0:32, 64, 8], sbuf.bf16[0:32, 128, 8@1, 4@8] margin=1\n"
    "\n"
    "engine sync\n"
    "    set r1, 0\n"
    "    reg_load r2, n.i32[4, 1]\n"
    "    reg_store t.i32[4, 1], r2\n"
    "L3:\n"
    "    dma sbuf.f32[0:128, 0, 512], x.bf16[0+r1, 128, 512] signal s0 signal s3\n"
    "    reg_add r1, r1, 512 wait s3>=16 wait s4>=4294967295+r2\n"
    "    reg_mul r3, r1, r2\n"
    "    reg_and r3, r31, 7\n"
    "    reg_shr r4, r3, 1\n"
    "    dma sbuf.f32[0:4, 0, 99], o.f32[99999996+r4, 4@1, 99]\n"
    "    jump L3, r3, 5 op0=lt\n"
    "    dma_transpose t.f32[0, 128, 128], sbuf.f32[0:128, 0, 128]\n"
    "    dma_add y.f32[0, 128, 512], y.f32[0, 128, 512], sbuf.f32[0:128, 0, 512]\n"
    "    nop signal s5+7\n"
    "    loop 3 wait s6>=1 {\n"
    "        loop r1 {\n"
    "            jump L16, 1, 1 op0=eq\n"
    "L16:\n"
    "        }\n"
    "        reg_add r1, r1, 1\n"
    "    } signal s7\n"
    "    jump L20, 1, 1 op0=eq\n"
    "L20:\n";

START_TEST(round_trip)
{
    char error[NEURON_ERROR] = "";
    bool seen[NEURON_NOPS] = {false};
    size_t size, again_size;
    struct neuron_program *p = neuron_assemble(all, strlen(all), error);
    ck_assert_msg(p != NULL, "%s", error);
    char *text = neuron_disassemble(p);
    ck_assert_str_eq(text, all);
    uint8_t *bytes = neuron_encode(p, &size);
    ck_assert(neuron_is_binary(bytes, size) && !neuron_is_binary(all, sizeof all));
    struct neuron_program *q = neuron_decode(bytes, size, error);
    ck_assert_msg(q != NULL, "%s", error);
    uint8_t *again = neuron_encode(q, &again_size);
    ck_assert(size == again_size && memcmp(bytes, again, size) == 0);
    char *back = neuron_disassemble(q);
    ck_assert_str_eq(back, all);
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int k = 0; k < p->stream[e].n; k++)
            seen[p->stream[e].code[k].op] = true;
    for (int op = 0; op < NEURON_NOPS; op++)
        ck_assert_msg(seen[op], "%s stands nowhere", neuron_op_row((enum neuron_op)op)->name);
    free(text);
    free(back);
    free(bytes);
    free(again);
    neuron_program_free(p);
    neuron_program_free(q);
}
END_TEST

/* What people write and the disassembler does not: blanks, comments, labels on their line, implied strides and
 * types. */
START_TEST(forms)
{
    static const char text[] = "core trn1   # a comment\r\n\n"
                               "tensor x in f32 [ 128,128 ]\n"
                               "engine sync\n"
                               "loop: again: set r0, 0x10\n"
                               "\tdma sbuf.f32[0:128, 0, 128@1],x[0,128@128, 128@1] signal s0+1 queue=0 wait s0>=r1\n"
                               " jump again, r0, -3 op0=gt\n"
                               "jump loop,r0,1 op0=ne";
    static const char want[] = "core trn1\n"
                               "tensor x in f32 [128, 128]\n"
                               "\nengine sync\n"
                               "L0:\n"
                               "    set r0, 16\n"
                               "    dma sbuf.f32[0:128, 0, 128], x.f32[0, 128, 128] wait s0>=0+r1 signal s0\n"
                               "    jump L0, r0, -3 op0=gt\n"
                               "    jump L0, r0, 1 op0=ne\n";
    char error[NEURON_ERROR] = "";
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    ck_assert_msg(p != NULL, "%s", error);
    char *out = neuron_disassemble(p);
    ck_assert_str_eq(out, want);
    free(out);
    neuron_program_free(p);
}
END_TEST

/* -- Rules: one line on an engine, and a part of what is said of it. trn1, or trn3 where the engine's name begins with '3'. */

static const struct {
    const char *engine, *line, *text;
} refused[] = {
    /* Words */
    {"vector", "tensor_copi sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1]", "unknown instruction 'tensor_copi'"},
    {"vector", "tensor_copy sbuf.f33[0:1, 0, 1], sbuf.f32[0:1, 0, 1]", "unknown type 'f33'"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 1]", "expected ','"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], 3", "takes 2 operands"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 1], nowhere[0, 1]", "no tensor 'nowhere'"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0], sbuf.f32[0:1, 0, 1]", "expected the operand's dims"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1] op0=add", "has no attribute 'op0'"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1] hurry", "unknown attribute 'hurry'"},
    {"vector", "tensor_tensor sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1] op0=plus",
     "unknown operation 'plus'"},
    {"vector", "nop wait s256>=1", "256 is out of range"},
    {"vector", "nop wait s1>1", "expected '='"},
    {"vector", "nop wait s0>=1 wait s1>=1 wait s2>=1 wait s3>=1 wait s4>=1", "more than 4 waits"},
    {"vector", "nop signal s0 signal s1 signal s2", "more than 2 signals"},
    {"vector", "nop signal s0+0", "0 is out of range"},
    {"vector", "set r32, 1", "expected a register r0 to r31"},
    {"vector", "jump nowhere, 1, 1 op0=eq", "no label 'nowhere'"},
    {"vector", "a: a: nop", "label 'a' stands twice"},
    {"vector", "loop 3", "expected '{' at the end of the line"},
    {"vector", "loop 3 { nop", "unexpected 'n' at the end of the line"},
    {"vector", "loop 3 {\nnop", "line 7: loop: the loop is not closed"},
    {"vector", "}", "there is no loop to close"},
    {"vector", "loop 3 {\n}\nengine scalar\n}", "line 10: }: there is no loop to close"},
    {"vector", "loop 1 {\nloop 1 {\nloop 1 {\nloop 1 {\nloop 1 {\nloop 1 {\nloop 1 {\nloop 1 {\nloop 1 {",
     "more than 8 loops in one another"},
    {"vector", "loop 3 {\na: nop\n}\njump a, 1, 1 op0=eq", "jumps into a loop or out of one"},
    {"vector", "loop 3 {\njump a, 1, 1 op0=eq\n}\na:", "jumps into a loop or out of one"},
    {"vector", "jump a, 1, 1 op0=add\na:", "expected eq, ne, ge, gt, le or lt, found add"},
    {"vector", "tensor x in f32 [1]", "tensor 'x' stands twice"},
    {"vector", "tensor sbuf in f32 [1]", "cannot be called 'sbuf'"},
    {"vector", "core trn1", "'core' stands behind"},
    {"vector", "size N r1\nsize N r2", "a name or a register that is taken"},
    {"vector", "size N r1\nsize M r1", "a name or a register that is taken"},
    {"vector", "size a r1\nsize b r2\nsize c r3\nsize d r4\nsize e r5\nsize f r6\nsize g r7", "more than 6 sizes"},
    {"vector", "size N r1\nsize M r2 = 3*M + 1", "a size that is made of itself"},
    {"vector", "size N r1\nsize M r2 = 3*L", "no size 'L'"},
    {"vector", "size N r32", "expected a register r0 to r31"},
    {"vector", "tensor u in f32 [M*4]", "no size 'M'"},
    {"vector", "size N r1\ntensor u in f32 [N]", "expected '*'"},
    {"vector", "reg_shr r1, r2", "expected ','"},
    {"vector", "set r2, 1+2*M", "no size 'M'"},
    {"vector", "size N r1\nset r2, 1+2", "expected *SIZE"},
    {"vector", "size N r1\nset r2, 1+2*N*N*N*N", "a size is a factor more than 3 times"},
    {"vector", "size N r1\nset r2, 1+2*N+3*N*N+4*N", "more than 2 terms with sizes"},
    {"sync", "size N r1\ndma sbuf.f32[0:2, 0, 2], t[0, 2@4*N, 2]", "sizes in what is no tensor of sizes"},
    {"vector", "nop !", "unexpected '!'"},
    {"vector", "memset sbuf.f32[0:1, 0, 1], much", "expected a number, found 'much'"},
    /* Engines and cores */
    {"scalar", "memset sbuf.f32[0:1, 0, 1], 0", "the scalar engine has no such instruction"},
    {"sync", "dma_transpose t[0, 128, 128], sbuf.f32[0:128, 0, 128]", "trn1 has no such instruction"},
    {"sync", "dma_gather sbuf.f32[0:4, 0, 128], t[0, 128, 128], sbuf.i32[0:4, 0, 1]",
     "the sync engine has no such instruction"},
    {"gpsimd", "tensor_copy sbuf.f32[0:1, 0, 1], psum.f32[0:1, 0, 1]", "GpSimd does not reach PSUM"},
    /* Places */
    {"tensor", "load_stationary psum.bf16[0:128, 0, 128]", "expected SBUF"},
    {"vector", "tensor_copy t[0, 1], sbuf.f32[0:1, 0, 1]", "expected SBUF or PSUM"},
    {"sync", "dma psum.f32[0:1, 0, 1], t[0, 1]", "expected HBM or SBUF"},
    {"sync", "reg_load r1, t.f32[0, 1]", "expected one word of i32 or u32"},
    {"sync", "reg_store t.i32[0, 2], r1", "expected one word of i32 or u32"},
    /* Partitions */
    {"vector", "memset sbuf.f32[1:2, 0, 1], 0", "1 partitions start at 1"},
    {"vector", "memset sbuf.f32[32:65, 0, 1], 0", "33 partitions start at 32"},
    {"vector", "memset sbuf.f32[64:128, 0, 1], 0\nmemset sbuf.f32[63:128, 0, 1], 0",
     "line 8: memset: operand 1: 65 partitions start at 63"},
    {"vector", "memset sbuf.f32[0:129, 0, 1], 0", "129 is out of range"},
    {"vector", "memset sbuf.f32[2:2, 0, 1], 0", "2 is out of range"},
    {"vector", "tensor_copy sbuf.f32[0:4, 0, 1], sbuf.f32[0:5, 0, 1]", "operand 2 has 5 partitions, another one 4"},
    /* Patterns */
    {"vector", "memset sbuf.f32[0:1, 0, 1, 1, 1, 1, 1], 0", "5 dims: 1 to 4"},
    {"vector", "memset sbuf.f32[0:1, 0, 65536@0], 0", "size 65536 of dim 0"},
    {"vector", "memset sbuf.f32[0:1, 0, 0], 0", "size 0 of dim 0"},
    {"vector", "memset sbuf.u8[0:1, 0, 2@32768], 0", "stride 32768 of dim 0"},
    {"vector", "memset sbuf.f32[0:1, 0, 257, 256@0], 0", "65792 elements: at most 65536 in SBUF"},
    {"vector", "memset psum.u8[0:1, 0, 5000], 0", "5000 elements: at most 4096 in PSUM"},
    {"vector", "memset sbuf.f32[0:1, 2, 1], 0", "byte 2 is no multiple of the 4 of a f32"},
    {"vector", "memset sbuf.f32[0:1, 196604, 2], 0", "bytes 196604 to 196611 of 196608 in SBUF"},
    {"vector", "memset sbuf.f32[0:1, 4, 3@-1], 0", "bytes -4 to 7"},
    {"vector", "memset psum.f32[0:1, 16384, 1], 0", "of 16384 in PSUM"},
    {"sync", "dma sbuf.f32[0:128, 0, 129], t[0, 128@128, 129]", "bytes 0 to 65539 of 65536 in t"},
    {"vector", "tensor_copy sbuf.f32[0:1, 0, 2], sbuf.f32[0:1, 0, 3]",
     "operand 1 has 2 elements a partition, operand 2 3"},
    /* Tensor engine */
    {"tensor", "load_stationary sbuf.i32[0:128, 0, 128]", "multiplies floats, not i32"},
    {"tensor", "load_stationary sbuf.bf16[0:128, 0, 129]", "129 columns: at most 128"},
    {"tensor", "matmul psum.f32[0:128, 0, 512], sbuf.bf16[0:128, 0, 512]", "nothing was loaded"},
    {"tensor", "load_stationary sbuf.bf16[0:128, 0, 64]\nmatmul psum.f32[0:128, 0, 512], sbuf.bf16[0:128, 0, 512]",
     "64 stationary columns, 128 partitions of the result"},
    {"tensor", "load_stationary sbuf.bf16[0:64, 0, 64]\nmatmul psum.f32[0:64, 0, 512], sbuf.bf16[0:128, 0, 512]",
     "stationary rows 0:64"},
    {"tensor", "load_stationary sbuf.bf16[0:64, 0, 64]\nmatmul psum.f32[0:64, 0, 512], sbuf.f32[0:64, 0, 512]",
     "bf16 times f32"},
    {"tensor", "load_stationary sbuf.bf16[0:64, 0, 64]\nmatmul psum.f32[0:64, 0, 520], sbuf.bf16[0:64, 0, 520]",
     "520 moving columns: at most 512"},
    {"tensor", "load_stationary sbuf.bf16[0:64, 0, 64]\nmatmul psum.f32[0:64, 1024, 512], sbuf.bf16[0:64, 0, 512]",
     "more than one bank"},
    {"tensor", "load_stationary sbuf.bf16[0:64, 0, 64]\nmatmul psum.bf16[0:64, 0, 512], sbuf.bf16[0:64, 0, 512]",
     "operand 1 is bf16: expected f32"},
    {"tensor", "pe_transpose psum.f32[0:64, 0, 128], sbuf.bf16[0:64, 0, 64]", "no transpose"},
    {"tensor", "pe_transpose psum.bf16[0:64, 0, 64], sbuf.bf16[0:64, 0, 64]", "operand 1 is bf16: expected f32"},
    /* Lanes */
    {"vector", "tensor_tensor sbuf.f32[0:1, 0, 1], psum.f32[0:1, 0, 1], psum.f32[0:1, 4, 1] op0=add",
     "both inputs lie in PSUM"},
    {"vector", "tensor_tensor sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 4, 1] op0=and",
     "and needs integers of one size"},
    {"vector", "tensor_tensor sbuf.i32[0:1, 0, 1], sbuf.i32[0:1, 0, 1], sbuf.i16[0:1, 4, 1] op0=xor",
     "xor needs integers of one size"},
    {"vector", "tensor_tensor sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 4, 1] op0=pow",
     "pow is GpSimd's alone"},
    {"scalar", "tensor_scalar sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], 1 op0=max",
     "has mul, add and mul then add, not max"},
    {"scalar", "tensor_scalar sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], 1, 2 op0=add op1=mul", "not add then mul"},
    {"vector", "tensor_scalar sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], 1 op0=add op1=mul",
     "op1 without a second operand"},
    {"vector", "tensor_scalar sbuf.i32[0:1, 0, 1], sbuf.i32[0:1, 0, 1], 1, 2 op0=and op1=mul", "do not mix"},
    {"vector", "tensor_scalar sbuf.i32[0:1, 0, 1], sbuf.i32[0:1, 0, 1], sbuf.f32[0:1, 0, 1] op0=and",
     "needs a number, not a column"},
    {"vector", "tensor_scalar sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 1], sbuf.bf16[0:1, 0, 1] op0=add",
     "expected one f32 a partition"},
    {"vector", "tensor_reduce sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 8] op0=max", "axes=0: expected 1 to 1"},
    {"vector", "tensor_reduce sbuf.f32[0:1, 0, 2], sbuf.f32[0:1, 0, 8] op0=max axes=1",
     "operand 1 has 2 elements a partition: expected 1"},
    {"vector", "tensor_reduce sbuf.f32[0:1, 0, 1], sbuf.f32[0:1, 0, 8] op0=eq axes=1", "eq does not reduce"},
    {"vector", "scalar_tensor_tensor sbuf.i32[0:1, 0, 1], sbuf.i32[0:1, 0, 1], 1, sbuf.i32[0:1, 0, 1] op0=and op1=add",
     "computes with numbers, not bits"},
    {"vector", "bn_stats sbuf.f32[0:1, 0, 6], sbuf.f32[0:1, 64, 513]", "513 elements: at most 512"},
    {"vector", "bn_stats sbuf.f32[0:1, 0, 5], sbuf.f32[0:1, 64, 512]", "expected 6"},
    {"vector", "bn_aggr sbuf.f32[0:1, 0, 2], sbuf.f32[0:1, 64, 8]", "expected triples"},
    {"vector", "dropout sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 64, 8] probability=1.5", "probability=1.5"},
    {"vector", "rng sbuf.f32[0:1, 0, 8]", "expected an integer type"},
    {"vector", "stream_shuffle sbuf.f32[0:32, 0, 8], sbuf.f32[0:32, 64, 8]", "no mask is given"},
    {"vector", "transpose32 sbuf.f32[0:32, 0, 8], sbuf.f32[0:32, 64, 8]", "expected multiples of 32"},
    {"vector", "transpose32 sbuf.f32[0:32, 0, 32], sbuf.bf16[0:32, 512, 32]", "operand 1 is f32: expected bf16"},
    {"vector", "range_select sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 64, 8], 0, 1 op0=add op1=lt", "found add"},
    {"vector", "max8 sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 64, 7]", "7 elements: 8 to 16384"},
    {"vector", "max8 sbuf.f32[0:1, 0, 7], sbuf.f32[0:1, 64, 8]", "expected 8"},
    {"vector", "find_index8 sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 64, 8], sbuf.f32[0:1, 0, 8]",
     "operand 1 is f32: expected u32 or i32"},
    {"scalar", "activation sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 64, 8], 1, 2 func=exp", "the bias is a number"},
    {"scalar", "read_acc sbuf.f32[0:1, 0, 2]", "expected 1"},
    {"gpsimd", "iota sbuf.f32[0:1, 0, 8] step0=1", "operand 1 is f32: expected i32"},
    {"gpsimd", "iota sbuf.i32[0:1, 0, 8] step1=1", "step1 without a dim 1"},
    {"gpsimd", "affine_select sbuf.f32[0:1, 0, 8], sbuf.f32[0:1, 0, 8] op0=add", "found add"},
    {"gpsimd", "local_gather sbuf.f32[0:8, 0, 8], sbuf.f32[0:8, 0, 8], sbuf.u16[0:8, 0, 1] per_index=1",
     "expected a multiple of 16"},
    {"gpsimd", "local_gather sbuf.f32[0:16, 0, 17], sbuf.f32[0:16, 0, 8], sbuf.u16[0:16, 0, 1] per_index=1",
     "17 indices are wanted, 16 given"},
    {"gpsimd", "local_gather sbuf.f32[0:16, 0, 8], sbuf.f32[0:16, 0, 8], sbuf.i32[0:16, 0, 1] per_index=1",
     "operand 3 is i32: expected u16"},
    /* DMA */
    {"sync", "dma sbuf.f32[0:128, 0, 127], t[0, 128, 128]", "16384 elements to 16256"},
    {"sync", "dma sbuf.f32[0:128, 0, 128], t[0, 128, 128] queue=16", "queue=16: 0 to 15"},
    {"sync", "dma sbuf.f32[0:128, 0, 128], t[0, 128, 128]\nengine scalar\ndma sbuf.f32[0:128, 0, 128], t[0, 128, 128]",
     "queue=0 belongs to the scalar engine"},
    {"sync", "nop signal s1 signal s1", "signals s1 twice"},
    {"tensor",
     "load_stationary sbuf.bf16[0:64, 0, 64]\npe_transpose psum.f32[0:64, 0, 64], sbuf.bf16[0:64, 0, 64]\nmatmul "
     "psum.f32[0:64, 0, 64], sbuf.bf16[0:64, 0, 64]",
     "nothing was loaded"},
    {"sync", "dma sbuf.f32[0:128, 0, 128], t[0, 128, 128] signal s0+2", "each of the 16 engines of a DMA adds 1"},
    {"gpsimd", "dma_gather sbuf.f32[0:4, 0, 127], t[0, 128, 128], sbuf.i32[0:4, 0, 1]",
     "rows of 128 elements, 127 a partition"},
    {"gpsimd", "dma_gather sbuf.f32[0:4, 0, 128], t[0, 128, 128], sbuf.i32[0:8, 0, 1]",
     "one index i32 or u32 for each of 4"},
    /* MX formats */
    {"vector", "quantize_mx sbuf.f8e4m3x4[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.bf16[0:32, 128, 4]",
     "trn1 has no such instruction"},
    {"3vector", "quantize_mx sbuf.f8e4m3x4[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.bf16[0:32, 128, 8]",
     "operand 3 has 8 elements a partition: expected 4"},
    {"3vector", "quantize_mx sbuf.f8e4m3x4[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.f32[0:32, 128, 4]",
     "operand 3 is f32: expected bf16 or f16"},
    {"3vector", "quantize_mx sbuf.f8e4m3x4[0:16, 0, 1], sbuf.u8[0:16, 64, 1], sbuf.bf16[0:16, 128, 4]",
     "16 partitions: expected a multiple of 32"},
    {"3vector", "quantize_mx sbuf.f4e2m1x4[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.bf16[0:32, 128, 4]",
     "quantises to 8 bits only"},
    {"3vector", "quantize_mx sbuf.u32[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.bf16[0:32, 128, 4]",
     "operand 1 is u32: expected f8e4m3x4"},
    {"3vector", "quantize_mx sbuf.f8e4m3x4[0:32, 0, 1], sbuf.u8[0:32, 64, 1], sbuf.bf16[0:32, 128, 4] margin=2",
     "margin=2: 0 or 1"},
    {"3vector", "tensor_copy sbuf.f8e4m3x4[0:32, 0, 1], sbuf.f8e4m3x4[0:32, 64, 1]", "f8e4m3x4 is for MX instructions"},
    {"3tensor", "load_stationary_mx sbuf.f8e4m3x4[0:32, 0, 4], sbuf.u8[32:64, 64, 4]",
     "operand 2: scales on partitions 32:64, numbers on 0:32"},
    {"3tensor", "load_stationary_mx sbuf.f8e4m3x4[0:32, 0, 4], sbuf.i8[0:32, 64, 4]", "operand 2 is i8: expected u8"},
    {"3tensor",
     "load_stationary_mx sbuf.f8e4m3x4[0:32, 0, 4], sbuf.u8[0:32, 64, 4]\nmatmul psum.f32[0:4, 0, 4], "
     "sbuf.bf16[0:32, 128, 4]",
     "f8e4m3x4 times bf16: MX formats go with MX formats only"},
    {"3tensor",
     "load_stationary_mx sbuf.f8e4m3x4[0:32, 0, 4], sbuf.u8[0:32, 64, 4]\nmatmul_mx psum.f32[0:4, 0, 4], "
     "sbuf.f8e4m3x4[0:32, 128, 4], sbuf.u8[0:32, 256, 5]",
     "operand 2 has 4 elements a partition, operand 3 5"},
};

START_TEST(rules)
{
    char text[1024], error[NEURON_ERROR] = "";
    bool third = *refused[_i].engine == '3';
    snprintf(text, sizeof text,
             "core trn%d\ntensor x in bf16 [256, 512]\ntensor t temp f32 [128, 128]\n\nengine %s\n\n%s\n",
             third ? 3 : 1, refused[_i].engine + third, refused[_i].line);
    struct neuron_program *p = neuron_assemble(text, strlen(text), error);
    ck_assert_msg(!p, "%s is taken", refused[_i].line);
    ck_assert_msg(strncmp(error, "line ", 5) == 0 && atoi(error + 5) >= 7 && strstr(error, refused[_i].text), "%s: %s",
                  refused[_i].line, error);
}
END_TEST

/* The same rules for a program that never was text: it names engine and instruction. */
START_TEST(rules_of_structures)
{
    char error[NEURON_ERROR] = "";
    struct neuron_program *p = neuron_program_new(NEURON_TRN1);
    struct neuron_instr i = {.op = NEURON_OP_NOP};
    ck_assert(neuron_add(p, NEURON_SCALAR, &i) && neuron_check(p, error));
    i = (struct neuron_instr){.op = NEURON_OP_READ_ACC, .noperands = 1};
    i.operand[0] = (struct neuron_operand){.space = NEURON_SBUF,
                                           .type = NEURON_F32,
                                           .ndims = 1,
                                           .reg = NEURON_NO_REGISTER,
                                           .count = 200,
                                           .size = {1},
                                           .stride = {1}};
    ck_assert(neuron_add(p, NEURON_SCALAR, &i) && !neuron_check(p, error));
    ck_assert_msg(strncmp(error, "scalar 1: read_acc: operand 1: partitions", 41) == 0, "%s", error);
    ck_assert_int_eq(neuron_add_tensor(p, &(struct neuron_tensor){.name = "a", .rank = 1, .dims = {4}}), 0);
    ck_assert_int_eq(neuron_find_tensor(p, "a", 1), 0);
    ck_assert(!neuron_set_attr(&i, NEURON_ATTR_FN, (union neuron_value){0}));
    p->stream[NEURON_SCALAR].code[1] = (struct neuron_instr){.op = NEURON_OP_NOP, .nsignals = 1};
    ck_assert(!neuron_check(p, error) && strstr(error, "signal +0"));
    p->stream[NEURON_SCALAR].code[1] = (struct neuron_instr){.op = NEURON_NOPS};
    ck_assert(!neuron_check(p, error) && strstr(error, "scalar 1: no such instruction"));
    neuron_program_free(p);
}
END_TEST

/* -- Input from anywhere -- */

static uint64_t state = 1;
static unsigned draw(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static void survive(struct neuron_program *p, const char *error)
{
    char *text = p ? neuron_disassemble(p) : NULL, again[NEURON_ERROR] = "";
    ck_assert(p || *error);
    if (text) { /* what was taken is a program that keeps the rules: its text is taken, too */
        struct neuron_program *q = neuron_assemble(text, strlen(text), again);
        ck_assert_msg(q != NULL, "%s\n%s", again, text);
        neuron_program_free(q);
    }
    free(text);
    neuron_program_free(p);
}

START_TEST(hostile_text)
{
    char error[NEURON_ERROR] = "", *text = malloc(sizeof all);
    for (size_t n = 0; n < sizeof all; n += 7) {
        char *part = malloc(n ? n : 1); /* so that a read behind the end is seen */
        memcpy(part, all, n);
        *error = 0;
        survive(neuron_assemble(part, n, error), error);
        free(part);
    }
    for (int k = 0; k < 3000; k++) {
        static const char bytes[] = "\0\n #[]@,:+-.0123456789rsLx=>abcdef";
        memcpy(text, all, sizeof all);
        for (unsigned m = 1 + draw(4); m; m--)
            text[draw(sizeof all - 1)] = draw(2) ? bytes[draw(sizeof bytes)] : text[draw(sizeof all - 1)];
        *error = 0;
        survive(neuron_assemble(text, sizeof all - 1, error), error);
    }
    free(text);
}
END_TEST

START_TEST(hostile_bytes)
{
    char error[NEURON_ERROR] = "";
    size_t size;
    struct neuron_program *p = neuron_assemble(all, strlen(all), error);
    uint8_t *bytes = neuron_encode(p, &size), *copy = malloc(size + 1);
    for (size_t n = 0; n <= size; n++) {
        uint8_t *part = malloc(n ? n : 1);
        memcpy(part, bytes, n);
        struct neuron_program *q = neuron_decode(part, n, error);
        ck_assert((q != NULL) == (n == size));
        neuron_program_free(q);
        free(part);
    }
    for (int k = 0; k < 20000; k++) {
        memcpy(copy, bytes, size);
        for (unsigned m = 1 + draw(3); m; m--)
            copy[draw((unsigned)size)] ^= (uint8_t)(draw(2) ? 1u << draw(8) : draw(256));
        *error = 0;
        survive(neuron_decode(copy, size, error), error);
    }
    copy[size] = 0;
    memcpy(copy, bytes, size);
    ck_assert(!neuron_decode(copy, size + 1, error) && strstr(error, "something follows"));
    free(copy);
    free(bytes);
    neuron_program_free(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_isa");
    TCase *t = tcase_create("neuron_isa");
    tcase_add_test(t, round_trip);
    tcase_add_test(t, forms);
    tcase_add_loop_test(t, rules, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(t, rules_of_structures);
    tcase_add_test(t, hostile_text);
    tcase_add_test(t, hostile_bytes);
    suite_add_tcase(s, t);
    return run_tests(s);
}
