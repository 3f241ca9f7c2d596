/* SPDX-License-Identifier: Apache-2.0 */
#define RANK 3
