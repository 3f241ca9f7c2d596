/* SPDX-License-Identifier: Apache-2.0 */
/* optional.c - the devices to which open.c refers weakly: a program that refers to this list has them. */
#include "runtime/device/cuda/cuda_int.h"
#include "runtime/device/neuron/neuron_int.h"

tcr_device_opener *const tcr_optional_devices[] = {tcr_device_cuda, tcr_device_neuron, NULL};
