/* SPDX-License-Identifier: Apache-2.0 */
/* --net=mlp:64,64: torch.nn.Sequential(Linear, ReLU, ..., Linear), whose layers are called 0, 2, 4. */
#include "tools/net/net_int.h"

struct net_value net_build_dense(struct net *n, struct net_value x, int variant)
{
    const struct net_spec *s = n->spec;
    (void)variant;
    x = net_flat(n, x);
    for (int i = 0; i < s->nsizes; i++) {
        x = net_linear(n, net_text(n, "%d", 2 * i), x, s->sizes[i], NET_LINEAR_TORCH);
        x = net_map(n, "Relu", net_text(n, "%d", 2 * i + 1), x);
        x = net_dropout(n, net_text(n, "%d", 2 * i + 1), x, 0);
    }
    return net_linear(n, net_text(n, "%d", 2 * s->nsizes), x, net_outputs(n), NET_LINEAR_TORCH);
}
