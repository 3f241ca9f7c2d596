/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neuron_int.h - NeuronCores through the simulator (libtccneuron.so.0), which is opened when a session asks for it. Nothing here is linked into
 * artifacts that hold no image: runtime/device/open.c refers to it weakly.
 */
#ifndef TCCRT_DEVICE_NEURON_INT_H
#define TCCRT_DEVICE_NEURON_INT_H

#include "runtime/rt_int.h"

int tcr_device_neuron(const char *name, const struct tcr_device_request *r, struct tcr_device **out);

#endif
