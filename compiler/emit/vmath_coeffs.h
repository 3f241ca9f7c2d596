/* SPDX-License-Identifier: Apache-2.0 */
/* Minimax polynomials of vmath, lowest power first. Made by build-aux/vmath-coefficients.py; do not edit. */
#ifndef TCC_CPU_VMATH_COEFFS_H
#define TCC_CPU_VMATH_COEFFS_H

/* degree 4 on [-0.350039, 0.350039]; largest error 2^-26.09 */
static const double vm_exp_f32[] = {
    0x1.fffffeaf5f4bfp-2,
    0x1.5554a98866300p-3,
    0x1.55567f5bcd5fap-5,
    0x1.122d040ba161dp-7,
    0x1.6beaf80916d0bp-10,
};

/* degree 10 on [-0.350039, 0.350039]; largest error 2^-61.56 */
static const double vm_exp_f64[] = {
    0x1.0000000000000p-1,
    0x1.5555555555559p-3,
    0x1.555555555553cp-5,
    0x1.111111110f4b4p-7,
    0x1.6c16c16c1fb31p-10,
    0x1.a01a01b0c90e8p-13,
    0x1.a01a0179971b0p-16,
    0x1.71ddf5d916d8dp-19,
    0x1.27e5387dbcb1cp-22,
    0x1.af636ff498da6p-26,
    0x1.1ee87a9dc8e5ap-29,
};

/* degree 8 on [-0.292893, 0.414214]; largest error 2^-30.31 */
static const double vm_log_f32[] = {
    0x1.55554769b8f64p-2,
    -0x1.000006671abdap-2,
    0x1.99a4b620dfa23p-3,
    -0x1.555c519540652p-3,
    0x1.23375b29f3df4p-3,
    -0x1.fc217bca615d6p-4,
    0x1.e6f09e2d667c8p-4,
    -0x1.de3ef4c33c2cfp-4,
    0x1.145a5d9fcc7e7p-4,
};

/* degree 7 on [0.0, 0.0294373]; largest error 2^-66.73 */
static const double vm_log_f64[] = {
    0x1.5555555555555p-1,
    0x1.9999999999dfep-2,
    0x1.249249242b4e9p-2,
    0x1.c71c7258ee5a2p-3,
    0x1.745cde3a657c2p-3,
    0x1.3b20aabd61a6dp-3,
    0x1.0f5cdbbae3adep-3,
    0x1.0f6265a53e9e1p-3,
};

/* degree 7 on [0.0, 0.0294373]; largest error 2^-73.55 */
static const double vm_log5_f64[] = {
    0x1.9999999999996p-2,
    0x1.2492492493034p-2,
    0x1.c71c71c5808a2p-3,
    0x1.745d183242ae7p-3,
    0x1.3b1362ba5a724p-3,
    0x1.1120b4f96c818p-3,
    0x1.de338bc329900p-4,
    0x1.eb103c272d1e9p-4,
};

/* degree 5 on [0.0, 0.623019]; largest error 2^-57.84 */
static const double vm_sin_f64[] = {
    -0x1.5555555555548p-3,
    0x1.111111110f685p-7,
    -0x1.a01a019bd318ap-13,
    0x1.71de3541869dap-19,
    -0x1.ae5e3bc12c6f4p-26,
    0x1.5d86aa172f430p-33,
};

/* degree 5 on [0.0, 0.623019]; largest error 2^-63.85 */
static const double vm_cos_f64[] = {
    0x1.555555555554ap-5,
    -0x1.6c16c16c14e18p-10,
    0x1.a01a019c5e9edp-16,
    -0x1.27e4f7cef53c4p-22,
    0x1.1ee9c46d57c60p-29,
    -0x1.8f9a6f302fb1ap-37,
};

/* degree 11 on [0.0, 0.173289]; largest error 2^-64.05 */
static const double vm_atan_f64[] = {
    -0x1.5555555555554p-2,
    0x1.99999999995f2p-3,
    -0x1.2492492472af2p-3,
    0x1.c71c71b5f45aep-4,
    -0x1.745d14899c0aep-4,
    0x1.3b1369f0c733ap-4,
    -0x1.110c346d52d1cp-4,
    0x1.e16d3eb51786fp-5,
    -0x1.ab5f00c47a50bp-5,
    0x1.7071b7f9a9d04p-5,
    -0x1.11191ba52aa79p-5,
    0x1.ed604e3517452p-7,
};

/* degree 12 on [0.0, 0.25]; largest error 2^-59.86 */
static const double vm_asin_f64[] = {
    0x1.5555555555577p-3,
    0x1.333333332e106p-4,
    0x1.6db6db7213f57p-5,
    0x1.f1c71a9479abbp-6,
    0x1.6e8bdeeb84d8dp-6,
    0x1.1c49efad8c217p-6,
    0x1.ca1f9beace117p-7,
    0x1.75851fcc8ea8cp-7,
    0x1.613ea3d2087b3p-7,
    0x1.e5d8cfc4a6f4cp-9,
    0x1.63a46e103b66ep-6,
    -0x1.5807db4ff36cbp-6,
    0x1.0b49ba492d71fp-5,
};

/* degree 5 on [0.0, 0.390625]; largest error 2^-32.56 */
static const double vm_tanh_f32[] = {
    -0x1.555553a294496p-2,
    0x1.1110662acaa96p-3,
    -0x1.b9ee8f6cb0cb2p-5,
    0x1.638b5351595d1p-6,
    -0x1.0bf4e2cb1a9f4p-7,
    0x1.18e1810be9392p-9,
};

/* degree 8 on [0.0, 3.92]; largest error 2^-27.89 */
static const double vm_erf_f32[] = {
    0x1.06eba8bc4efd9p-3,
    0x1.45f2f9c43a3f1p-1,
    0x1.a4fa5daf550b6p-4,
    -0x1.39cdc96f5e89cp-6,
    -0x1.5057b063ace2fp-13,
    0x1.b4fec0c567c55p-10,
    -0x1.4bc7b6b6a02e1p-11,
    0x1.ed6665511ce19p-14,
    -0x1.36908e2e88931p-17,
};

/* degree 12 on [0.0, 1.0]; largest error 2^-62.74 */
static const double vm_erf_f64[] = {
    0x1.06eba8214db69p-3,
    -0x1.812746b0379e6p-2,
    0x1.ce2f21a042b20p-4,
    -0x1.b82ce3128499cp-6,
    0x1.565bcd0db02d7p-8,
    -0x1.c02db3d8ed016p-11,
    0x1.f9a321a11a9a7p-14,
    -0x1.f4d1df3921968p-17,
    0x1.b9def19cf14b6p-20,
    -0x1.5f1d36c2c4518p-23,
    0x1.f7a4128e46673p-27,
    -0x1.386ac2e9fbb86p-30,
    0x1.0579b2db35154p-34,
};

/* degree 14 on [-0.333333, 0.5]; largest error 2^-66.3 */
static const double vm_erfcx_f64[] = {
    0x1.058671b52c776p-2,
    -0x1.b57034efd3f72p-2,
    0x1.eeea7dc8a78c2p-3,
    -0x1.437f0b68c1070p-4,
    0x1.e94715971f397p-9,
    0x1.ca95ed543e2c3p-8,
    -0x1.bc25a398ec1f4p-11,
    -0x1.016b5bf046799p-10,
    0x1.6d5d059e5b955p-15,
    0x1.6da6e9b9cb4acp-13,
    0x1.cde7b9b6d21b6p-16,
    -0x1.cd298ce4b8a69p-16,
    -0x1.cfe8c169ef9eap-17,
    0x1.fc1fd32f1880fp-21,
    0x1.294d8227a7b38p-19,
};

/* Functions from 0 to `end`, where they round to 1, in pieces of equal length, which end a bit behind it so that no
 * value is rounded into another: polynomials in -1/2 to 1/2, by power, then by piece. */
enum { VM_PIECES = 8, VM_PIECE_DEGREE = 6 };

struct vm_pieces {
    double end, per_unit;
    double zero; /* behind it 1 - f is 0: no more than the largest error away, and polynomials would be negative */
    double c[VM_PIECE_DEGREE + 1][VM_PIECES];
};

/* largest error 2^-24.91 */
static const struct vm_pieces vm_erf_pieces = {
    3.95983,
    0x1.028856a18fff9p+1,
    3.911,
    {
        {0x1.184c600000000p-2, 0x1.69ae0c0000000p-1, 0x1.d704e80000000p-1, 0x1.f8b2d40000000p-1,
         0x1.ff2a980000000p-1, 0x1.fff0940000000p-1, 0x1.ffff4c0000000p-1, 0x1.fffffc0000000p-1},
        {0x1.0d086a0000000p-1, 0x1.498cf20000000p-2, 0x1.ee7c8a0000000p-4, 0x1.c66f5e0000000p-6,
         0x1.ff926a0000000p-9, 0x1.60ba520000000p-12, 0x1.29f0220000000p-16, 0x1.34544e0000000p-21},
        {-0x1.07c9a60000000p-4, -0x1.e4b0260000000p-4, -0x1.2f075e0000000p-4, -0x1.85e1240000000p-6,
         -0x1.1a26420000000p-8, -0x1.db88ba0000000p-12, -0x1.daa7a00000000p-16, -0x1.1b51a80000000p-20},
        {-0x1.348ea00000000p-5, 0x1.624d7a0000000p-9, 0x1.4d8ee60000000p-6, 0x1.73ced00000000p-7,
         0x1.75385c0000000p-9, 0x1.8e50460000000p-12, 0x1.de888e0000000p-16, 0x1.4c6c560000000p-20},
        {0x1.f008ca0000000p-8, 0x1.2c7b620000000p-7, -0x1.93c8680000000p-13, -0x1.7f01260000000p-9,
         -0x1.3f797e0000000p-10, -0x1.cba2b80000000p-13, -0x1.572f900000000p-16, -0x1.1bba040000000p-20},
        {0x1.33b5620000000p-9, -0x1.86c4d60000000p-10, -0x1.7880b40000000p-10, 0x1.38c6820000000p-13,
         0x1.55428e0000000p-12, 0x1.834f900000000p-14, 0x1.83fd600000000p-17, 0x1.9417e60000000p-21},
        {-0x1.2efb1a0000000p-11, -0x1.a959980000000p-12, 0x1.3a54400000000p-12, 0x1.2d518e0000000p-13,
         -0x1.4a2a340000000p-15, -0x1.b9cad00000000p-16, -0x1.35bf320000000p-18, -0x1.9102e00000000p-22},
    },
};

/* largest error 2^-25.96 */
static const struct vm_pieces vm_gelu_tanh_pieces = {
    5.18466,
    0x1.8ae9a6f44b17bp+0,
    5.18466,
    {
        {0x1.043ba00000000p-2, 0x1.5671e80000000p-1, 0x1.ca13e40000000p-1, 0x1.f439ac0000000p-1,
         0x1.fe58680000000p-1, 0x1.ffdd140000000p-1, 0x1.fffe7c0000000p-1, 0x1.fffff80000000p-1},
        {0x1.f669d40000000p-2, 0x1.49d5300000000p-2, 0x1.1dd6e60000000p-3, 0x1.45ac380000000p-5,
         0x1.d46da80000000p-8, 0x1.86dc480000000p-11, 0x1.52f7f60000000p-15, 0x1.0fde080000000p-20},
        {-0x1.a80c6e0000000p-5, -0x1.9f4ba60000000p-4, -0x1.2a2c760000000p-4, -0x1.e06a440000000p-6,
         -0x1.cdafae0000000p-8, -0x1.f5f2c40000000p-11, -0x1.160d240000000p-14, -0x1.1751d60000000p-19},
        {-0x1.f8e4f60000000p-6, -0x1.06d0c20000000p-10, 0x1.0015420000000p-6, 0x1.7577360000000p-7,
         0x1.050cc20000000p-8, 0x1.83152c0000000p-11, 0x1.19ddda0000000p-14, 0x1.6808a00000000p-19},
        {0x1.5d82fc0000000p-8, 0x1.dc498a0000000p-8, 0x1.cd52440000000p-11, -0x1.10d27c0000000p-9,
         -0x1.63a7d40000000p-10, -0x1.8788620000000p-12, -0x1.893a4a0000000p-15, -0x1.4b51ac0000000p-19},
        {0x1.c04bfc0000000p-10, -0x1.c85e200000000p-11, -0x1.29d2860000000p-10, -0x1.940ea80000000p-14,
         0x1.f99bb00000000p-13, 0x1.0740140000000p-13, 0x1.96f6a20000000p-16, 0x1.eed4d80000000p-20},
        {-0x1.7bb24e0000000p-12, -0x1.46b7120000000p-12, 0x1.5138440000000p-13, 0x1.0ae8620000000p-13,
         -0x1.0c6c000000000p-26, -0x1.a0eed60000000p-16, -0x1.1c15e20000000p-17, -0x1.f097ac0000000p-21},
    },
};

/* Bits of 2/pi after 64 zero bits, for the reduction of huge arguments. */
static const unsigned long long vm_two_over_pi[] = {
    0x0000000000000000ull,
    0xa2f9836e4e441529ull,
    0xfc2757d1f534ddc0ull,
    0xdb6295993c439041ull,
    0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull,
    0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full,
    0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull,
    0x6bfb5fb11f8d5d08ull,
    0x56033046fc7b6babull,
    0xf0cfbc209af4361dull,
};

#endif
