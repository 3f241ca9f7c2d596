/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of each instruction and the cycles of its engine that they take when repeated, by the vendor's formulas, worked
 * out by hand: test_neuron_time.c, test_neuron_cost.c. */
#ifndef TESTS_UNIT_NEURON_COSTS_H
#define TESTS_UNIT_NEURON_COSTS_H

#define S(type, byte, n) "sbuf." type "[0:128, " #byte ", " #n "]"
#define Q(type, byte, n) "psum." type "[0:128, " #byte ", " #n "]"
#define MM(type, m, n)                                                                                  \
    "load_stationary sbuf." type "[0:128, 0, " #m "]\nmatmul psum.f32[0:" #m ", 0, " #n "], sbuf." type \
    "[0:128, 1024, " #n "]"
#define MASK " mask=1:0:3:2:5:4:7:6:9:8:11:10:13:12:15:14:17:16:19:18:21:20:23:22:25:24:27:26:29:28:31:30"

static const struct {
    const char *core, *engine, *first, *lines;
    double cycles;
} costs[] = {
    /* nc_matmul, 8 and 16 bits, tf32: max(min(64, Nstationary), Nmoving); fp32: 4 times that */
    {"trn1", "tensor", "", MM("bf16", 128, 512), 512},
    {"trn1", "tensor", "", MM("f16", 128, 32), 64},
    {"trn1", "tensor", "", MM("bf16", 32, 16), 32},
    {"trn1", "tensor", "", MM("bf16", 32, 40), 40},
    {"trn1", "tensor", "", MM("f8e4m3", 64, 512), 512},
    {"trn1", "tensor", "", MM("tf32", 128, 512), 512},
    {"trn1", "tensor", "", MM("f32", 128, 512), 4 * 512},
    {"trn1", "tensor", "", MM("f32", 32, 16), 4 * 32},
    {"trn2", "tensor", "", MM("bf16", 128, 512), 512},
    /* MultiplyMoving back to back: max(N, 64); LoadStationary of 128 columns: about 32 */
    {"trn1", "tensor", MM("bf16", 128, 512), "matmul psum.f32[0:128, 0, 512], sbuf.bf16[0:128, 1024, 512]", 512},
    {"trn1", "tensor", MM("bf16", 128, 512), "matmul psum.f32[0:128, 0, 8], sbuf.bf16[0:128, 1024, 8]", 64},
    {"trn1", "tensor", "", "load_stationary sbuf.bf16[0:128, 0, 128]", 32},
    /* nc_transpose: PE max(P, min(64, F)), four times in float32, as nc_matmul, which it is; Vector max(MIN_II, N) */
    {"trn1", "tensor", "", "pe_transpose psum.f32[0:128, 0, 128], sbuf.bf16[0:128, 0, 128]", 128},
    {"trn1", "tensor", "", "pe_transpose psum.f32[0:16, 0, 32], sbuf.bf16[0:32, 0, 16]", 32},
    {"trn1", "tensor", "", "pe_transpose psum.f32[0:100, 0, 16], sbuf.bf16[0:16, 0, 100]", 64},
    {"trn1", "tensor", "", "pe_transpose psum.f32[0:128, 0, 128], sbuf.f32[0:128, 0, 128]", 4 * 128},
    {"trn1", "tensor", "", "pe_transpose psum.f32[0:100, 0, 16], sbuf.f32[0:16, 0, 100]", 4 * 64},
    {"trn1", "vector", "", "transpose32 " S("f32", 8192, 512) ", " S("f32", 0, 512), 512},
    {"trn1", "vector", "", "transpose32 " S("f32", 8192, 32) ", " S("f32", 0, 32), 64},
    /* tensor_tensor: max(MIN_II, N) with one operand in PSUM, or all bf16 in SBUF with add, mul, sub and unit strides;
     * else max(MIN_II, 2 N) */
    {"trn1", "vector", "",
     "tensor_tensor " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " S("f32", 2048, 512) " op0=add", 1024},
    {"trn1", "vector", "",
     "tensor_tensor " S("f32", 8192, 512) ", " Q("f32", 0, 512) ", " S("f32", 2048, 512) " op0=add", 512},
    {"trn1", "vector", "",
     "tensor_tensor " S("bf16", 8192, 512) ", " S("bf16", 0, 512) ", " S("bf16", 2048, 512) " op0=mul", 512},
    {"trn1", "vector", "",
     "tensor_tensor " S("bf16", 8192, 512) ", " S("bf16", 0, 512) ", " S("bf16", 2048, 512) " op0=max", 1024},
    {"trn1", "vector", "",
     "tensor_tensor " S("bf16", 8192, 512) ", " S("bf16", 0, 512 @2) ", " S("bf16", 2048, 512) " op0=sub", 1024},
    {"trn1", "vector", "", "tensor_tensor " S("f32", 8192, 20) ", " S("f32", 0, 20) ", " S("f32", 2048, 20) " op0=add",
     64},
    /* tensor_scalar, one or two operations, on three engines: max(MIN_II, N) */
    {"trn1", "vector", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2 op0=mul", 512},
    {"trn1", "vector", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2, 1 op0=mul op1=max", 512},
    {"trn1", "scalar", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2, 1 op0=mul op1=add", 512},
    {"trn1", "gpsimd", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2 op0=mul", 512},
    {"trn1", "gpsimd", "", "tensor_scalar " S("f32", 8192, 9) ", " S("f32", 0, 9) ", 2 op0=mul", 64},
    {"trn1", "gpsimd", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 0 op0=rsqrt", 4 * 512},
    /* scalar_tensor_tensor: N if both bf16, sub then mul, N even; else 2 N */
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("bf16", 8192, 512) ", " S("bf16", 0, 512) ", 2, " S("bf16", 2048,
                                                                                   512) " op0=sub op1=mul",
     512},
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("bf16", 8192, 511) ", " S("bf16", 0, 511) ", 2, " S("bf16", 2048,
                                                                                   511) " op0=sub op1=mul",
     1022},
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("bf16", 8192, 512) ", " S("bf16", 0, 512) ", 2, " S("bf16", 2048,
                                                                                   512) " op0=mul op1=sub",
     1024},
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2, " S("f32", 2048, 512) " op0=sub op1=mul",
     1024},
    /* tensor_scalar_reduce: max(MIN_II, N) + MIN_II; tensor_reduce: N / 2 if bf16 with add or max, else N; scan:
     * max(MIN_II, 2 N) */
    {"trn1", "vector", "",
     "tensor_scalar_reduce " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2, " S("f32", 4096, 1) " op0=mul op1=add",
     576},
    {"trn1", "vector", "", "tensor_reduce " S("bf16", 8192, 1) ", " S("bf16", 0, 512) " op0=add axes=1", 256},
    {"trn1", "vector", "", "tensor_reduce " S("bf16", 8192, 1) ", " S("bf16", 0, 512) " op0=max axes=1", 256},
    {"trn1", "vector", "", "tensor_reduce " S("bf16", 8192, 1) ", " S("bf16", 0, 512) " op0=min axes=1", 512},
    {"trn1", "vector", "", "tensor_reduce " S("f32", 8192, 1) ", " S("bf16", 0, 512) " op0=add axes=1", 512},
    {"trn1", "vector", "",
     "tensor_scalar_reduce " S("f32", 8192, 20) ", " S("f32", 0, 20) ", 2, " S("f32", 4096, 1) " op0=mul op1=add", 128},
    {"trn1", "vector", "",
     "tensor_tensor_scan " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " S("f32", 2048, 512) ", 0 op0=mul op1=add",
     1024},
    {"trn1", "vector", "",
     "tensor_tensor_scan " S("f32", 8192, 16) ", " S("f32", 0, 16) ", " S("f32", 2048, 16) ", 0 op0=mul op1=add", 64},
    /* bn_stats: max(MIN_II, N); bn_aggr: max(MIN_II, 13 N / 3) */
    {"trn1", "vector", "", "bn_stats " S("f32", 8192, 6) ", " S("f32", 0, 512), 512},
    {"trn1", "vector", "", "bn_stats " S("f32", 8192, 6) ", " S("f32", 0, 32), 64},
    {"trn1", "vector", "", "bn_aggr " S("f32", 8192, 2) ", " S("f32", 0, 192), 832},
    {"trn1", "vector", "", "bn_aggr " S("f32", 8192, 2) ", " S("f32", 0, 6), 64},
    /* reciprocal: max(MIN_II, 8 N) on Vector, max(MIN_II, N) on Scalar */
    {"trn1", "vector", "", "reciprocal " S("f32", 8192, 512) ", " S("f32", 0, 512), 4096},
    {"trn1", "vector", "", "reciprocal " S("f32", 8192, 4) ", " S("f32", 0, 4), 64},
    {"trn1", "scalar", "", "activation " S("f32", 8192, 512) ", " S("f32", 0, 512) " func=reciprocal", 512},
    {"trn1", "scalar", "", "activation " S("f32", 8192, 4) ", " S("f32", 0, 4) " func=reciprocal", 64},
    /* tensor_copy: max(MIN_II, N) on three engines; by a register max(600, N); predicated: N with PSUM, else 2 N */
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0, 512), 512},
    {"trn1", "scalar", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0, 512), 512},
    {"trn1", "gpsimd", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0, 512), 512},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 3) ", " S("f32", 0, 3), 64},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0 + r1, 512), 600},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192 + r1, 1024) ", " S("f32", 0, 1024), 1024},
    {"trn1", "vector", "", "tensor_copy_predicated " S("f32", 8192, 512) ", " Q("f32", 0, 512) ", " S("u8", 4096, 512),
     512},
    {"trn1", "vector", "", "tensor_copy_predicated " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " S("u8", 4096, 512),
     1024},
    {"trn1", "vector", "", "tensor_copy_predicated " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " Q("u8", 0, 512),
     512},
    {"trn1", "vector", "", "tensor_copy_predicated " S("f32", 8192, 32) ", " Q("f32", 0, 32) ", " S("u8", 4096, 32),
     64},
    /* memset: max(MIN_II, N / 2) for zero to bf16 and fp16, else max(MIN_II, N) */
    {"trn1", "vector", "", "memset " S("bf16", 8192, 512) ", 0", 256},
    {"trn1", "vector", "", "memset " S("f16", 8192, 100) ", 0", 64},
    {"trn1", "vector", "", "memset " S("bf16", 8192, 512) ", 1", 512},
    {"trn1", "vector", "", "memset " S("f32", 8192, 512) ", 0", 512},
    /* max(MIN_II, N) */
    {"trn1", "vector", "", "dropout " S("f32", 8192, 512) ", " S("f32", 0, 512) " probability=0.5", 512},
    {"trn1", "vector", "", "stream_shuffle " S("f32", 8192, 512) ", " S("f32", 0, 512) MASK, 512},
    {"trn1", "vector", "", "range_select " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 0, 5 op0=ge op1=lt", 512},
    {"trn1", "vector", "", "dropout " S("f32", 8192, 40) ", " S("f32", 0, 40) " probability=0.5", 64},
    {"trn1", "vector", "", "stream_shuffle " S("f32", 8192, 40) ", " S("f32", 0, 40) MASK, 64},
    {"trn1", "vector", "", "range_select " S("f32", 8192, 40) ", " S("f32", 0, 40) ", 0, 5 op0=ge op1=lt", 64},
    {"trn1", "vector", "", "max8 " S("f32", 8192, 8) ", " S("f32", 0, 512), 512},
    {"trn1", "vector", "", "find_index8 " S("u32", 8192, 8) ", " S("f32", 0, 512) ", " S("f32", 4096, 8), 512},
    {"trn1", "vector", "", "match_replace8 " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " S("f32", 4096, 8) ", 0",
     512},
    {"trn1", "vector", "", "match_replace8 " S("f32", 8192, 16) ", " S("f32", 0, 16) ", " S("f32", 4096, 8) ", 0", 64},
    /* activation: max(MIN_II, N), scale, bias and cast free; activation_reduce: + MIN_II */
    {"trn1", "scalar", "", "activation " S("f32", 8192, 512) ", " S("f32", 0, 512) " func=exp", 512},
    {"trn1", "scalar", "",
     "activation " S("bf16", 8192, 512) ", " S("f32", 0, 512) ", 0.5, " S("f32", 4096, 1) " func=exp", 512},
    {"trn1", "scalar", "", "activation " S("f32", 8192, 20) ", " S("f32", 0, 20) " func=exp", 64},
    {"trn1", "scalar", "",
     "activation " S("f32", 8192, 512) ", " S("f32", 0, 512) " func=exp acc=reset_reduce\nread_acc " S("f32", 4096, 1),
     576},
    {"trn1", "scalar", "",
     "activation " S("f32", 8192, 20) ", " S("f32", 0, 20) " func=exp acc=reset_reduce\nread_acc " S("f32", 4096, 1),
     128},
    /* iota, affine_select: 150 + N; local_gather: 150 + elements / C, C = ((28 + 4 e) / 4 e) / min(4 / bytes, e) */
    {"trn1", "gpsimd", "", "iota " S("i32", 8192, 512) " step0=1", 662},
    {"trn1", "gpsimd", "", "iota " S("i32", 8192, 1) " step0=1", 151},
    {"trn1", "gpsimd", "", "affine_select " S("f32", 8192, 512) ", " S("f32", 0, 512) " op0=ge step0=1", 662},
    {"trn1", "gpsimd", "",
     "local_gather " S("f32", 8192, 440) ", " S("f32", 0, 512) ", " S("u16", 4096, 8) " per_index=4", 310},
    {"trn1", "gpsimd", "",
     "local_gather " S("bf16", 8192, 64) ", " S("bf16", 0, 512) ", " S("u16", 4096, 4) " per_index=1", 158},
    /* Each instruction needs what the one before made: 264 cycles of Scalar were observed; Vector pays about 100 */
    {"trn1", "scalar", "", "activation " S("f32", 0, 1) ", " S("f32", 0, 1) " func=exp", 264},
    {"trn1", "vector", "", "tensor_copy " S("f32", 0, 1) ", " S("f32", 0, 1), 164},
    /* Elements 16 bytes apart or more come at half the rate */
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0, 512 @3), 512},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 512) ", " S("f32", 0, 512 @4), 1024},
    /* v3: 4 elements a cycle for copies and tensor_scalar of 16 bits within SBUF; 2 with PSUM or strides; 2 of f16 for
     * tensor_tensor as against v2 */
    {"trn2", "vector", "", "tensor_copy " S("bf16", 8192, 512) ", " S("f16", 0, 512), 128},
    {"trn2", "vector", "", "tensor_scalar " S("bf16", 8192, 512) ", " S("bf16", 0, 512) ", 2 op0=mul", 128},
    {"trn2", "vector", "", "tensor_copy " S("bf16", 8192, 512) ", " Q("bf16", 0, 512), 256},
    {"trn2", "vector", "", "tensor_copy " S("bf16", 8192, 512) ", " S("bf16", 0, 512 @2), 256},
    {"trn2", "vector", "", "tensor_copy " S("f32", 8192, 512) ", " S("bf16", 0, 512), 512},
    {"trn2", "vector", "", "tensor_scalar " S("bf16", 8192, 512) ", " Q("bf16", 0, 512) ", 2 op0=mul", 256},
    {"trn2", "vector", "", "tensor_scalar " S("f32", 8192, 512) ", " S("f32", 0, 512) ", 2 op0=mul", 512},
    {"trn2", "scalar", "", "tensor_copy " S("bf16", 8192, 512) ", " S("bf16", 0, 512), 512},
    {"trn2", "tensor", "", MM("f32", 128, 512), 4 * 512},
    {"trn2", "vector", "",
     "tensor_tensor " S("f16", 8192, 512) ", " S("f16", 0, 512) ", " S("f16", 2048, 512) " op0=max", 512},
    {"trn1", "vector", "",
     "tensor_tensor " S("f16", 8192, 512) ", " S("f16", 0, 512) ", " S("f16", 2048, 512) " op0=max", 1024},
    /* MX products of four times as many summed points in the time of 16 bits; quantising 4 elements a cycle */
    {"trn3", "tensor", "",
     "load_stationary_mx sbuf.f8e4m3x4[0:128, 0, 128], sbuf.u8[0:128, 512, 128]\n"
     "matmul_mx psum.f32[0:128, 0, 512], sbuf.f8e4m3x4[0:128, 1024, 512], sbuf.u8[0:128, 4096, 512]",
     512},
    {"trn3", "tensor", "", "load_stationary_mx sbuf.f8e4m3x4[0:128, 0, 128], sbuf.u8[0:128, 512, 128]", 32},
    {"trn3", "vector", "", "quantize_mx " S("f8e4m3x4", 8192, 512) ", " S("u8", 16384, 512) ", " S("bf16", 0, 2048),
     512},
    {"trn3", "vector", "", "quantize_mx " S("f8e4m3x4", 8192, 20) ", " S("u8", 16384, 20) ", " S("bf16", 0, 80), 64},
    /* ... of four rows that lie 16 bytes apart or more: half as many */
    {"trn3", "vector", "",
     "quantize_mx " S("f8e4m3x4", 8192, 512) ", " S("u8", 16384, 512) ", sbuf.bf16[0:128, 0, 512@1, 4@512]", 1024},
    /* Sequencers and triggers (ours) */
    {"trn1", "vector", "", "nop", 8},
    {"trn2", "sync", "", "nop", 8},
    {"trn1", "gpsimd", "", "tensor_copy " S("f32", 0, 1) ", " S("f32", 0, 1), 164},
    {"trn1", "tensor", "", "load_stationary sbuf.f32[0:128, 0, 128]", 128},
    {"trn1", "gpsimd", "",
     "tensor_tensor " S("f32", 8192, 512) ", " S("f32", 0, 512) ", " S("f32", 2048, 512) " op0=add", 1174},
    {"trn1", "gpsimd", "", "tensor_reduce " S("f32", 8192, 1) ", " S("f32", 0, 512) " op0=add axes=1", 662},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 512) ", sbuf.f32[0:128, 0+r0, 512]", 600},
    {"trn1", "vector", "", "tensor_copy " S("f32", 8192, 700) ", sbuf.f32[0:128, 0+r0, 700]", 700},
    /* Few elements: what is least */
    {"trn1", "tensor", "", "load_stationary sbuf.f32[0:128, 0, 16]", 16},
    {"trn1", "gpsimd", "", "tensor_tensor " S("f32", 8192, 20) ", " S("f32", 0, 20) ", " S("f32", 2048, 20) " op0=add",
     190},
    {"trn2", "vector", "", "tensor_tensor " S("f16", 8192, 20) ", " S("f16", 0, 20) ", " S("f16", 2048, 20) " op0=max",
     64},
    {"trn1", "vector", "", "tensor_tensor " S("f32", 8192, 20) ", " Q("f32", 0, 20) ", " S("f32", 2048, 20) " op0=add",
     64},
    {"trn1", "vector", "",
     "tensor_tensor " S("bf16", 8192, 20) ", " S("bf16", 0, 20) ", " S("bf16", 2048, 20) " op0=mul", 64},
    {"trn1", "gpsimd", "", "tensor_scalar " S("f32", 8192, 9) ", " S("f32", 0, 9) ", 0 op0=rsqrt", 256},
    {"trn2", "vector", "", "tensor_scalar " S("bf16", 8192, 20) ", " S("bf16", 0, 20) ", 2 op0=mul", 64},
    {"trn2", "vector", "", "tensor_scalar " S("bf16", 8192, 20) ", " Q("bf16", 0, 20) ", 2 op0=mul", 64},
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("bf16", 8192, 20) ", " S("bf16", 0, 20) ", 2, " S("bf16", 2048, 20) " op0=sub op1=mul",
     64},
    {"trn1", "vector", "",
     "scalar_tensor_tensor " S("f32", 8192, 20) ", " S("f32", 0, 20) ", 2, " S("f32", 2048, 20) " op0=sub op1=mul", 64},
    {"trn1", "gpsimd", "", "tensor_reduce " S("f32", 8192, 1) ", " S("f32", 0, 20) " op0=add axes=1", 170},
    {"trn1", "vector", "", "tensor_reduce " S("bf16", 8192, 1) ", " S("bf16", 0, 20) " op0=add axes=1", 64},
    {"trn2", "vector", "", "tensor_copy " S("bf16", 8192, 20) ", " S("bf16", 0, 20), 64},
    {"trn2", "vector", "", "tensor_copy " S("bf16", 8192, 20) ", " Q("bf16", 0, 20), 64},
    {"trn1", "vector", "", "tensor_copy_predicated " S("f32", 8192, 20) ", " S("f32", 0, 20) ", " S("u8", 4096, 20),
     64},
    {"trn1", "gpsimd", "", "affine_select " S("f32", 8192, 20) ", " S("f32", 0, 20) " op0=ge step0=1", 170},
};

#endif
