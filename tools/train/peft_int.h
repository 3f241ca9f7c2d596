/* SPDX-License-Identifier: Apache-2.0 */
/* peft_int.h - adapters of a checkpoint into PEFT's files (peft.c): for tccc-train and tccc-ckpt. */
#ifndef TCCC_TOOLS_TRAIN_PEFT_INT_H
#define TCCC_TOOLS_TRAIN_PEFT_INT_H

#include "tools/data/data_int.h"

bool peft_has_adapters(int n, const struct tccrt_named *tensors);
/* Makes the folder where it is missing. EXIT_FINE, or an exit code after a message. */
int peft_write(const struct options *o, const char *folder, int n, const struct tccrt_named *tensors);

#endif
