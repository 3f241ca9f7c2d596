/* SPDX-License-Identifier: Apache-2.0 */
/* Written by dtype_digests.py: digests of ml_dtypes' and NumPy's conversions.
 * { type, all codes to f32, f32 to codes (not saturating), f32 to codes (saturating) } */
{ TCC_F16, 0x1f87f165810ea7c5ull, 0x8c081b56fcff3c39ull, 0x8c081b56fcff3c39ull },
{ TCC_BF16, 0xcf8e09175d8f5ba5ull, 0xfaf34cc430a6c325ull, 0xfaf34cc430a6c325ull },
{ TCC_F8E4M3FN, 0xdad1d9c50f749ca5ull, 0x143c6f3fb3238421ull, 0x8c2b24659b839b21ull },
{ TCC_F8E4M3FNUZ, 0xf51851cb11c63018ull, 0x4495ce3dbbd7d3a5ull, 0x262af3b1b84bcda1ull },
{ TCC_F8E5M2, 0x6c1e56b6fb09c905ull, 0x719df972cdb47ca5ull, 0x2298c676c91c9119ull },
{ TCC_F8E5M2FNUZ, 0x94ae6fc493d49818ull, 0xa2b51cff8c3c0da5ull, 0x35826da371de9aa1ull },
{ TCC_F4E2M1, 0x2403bb76b85dfea5ull, 0xd047d629ccb2c59dull, 0xd047d629ccb2c59dull },
{ TCC_F8E8M0, 0x6d2c8b41c3f0e5a5ull, 0x5e7e8fa496936ac5ull, 0xaded6f962373c3c5ull },
