/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that several networks have, as PyTorch's modules of the same names compute and initialise them. */
#include "tools/net/net_int.h"

#include <math.h>

int64_t net_outputs(const struct net *n)
{
    return n->data->classes ? n->data->classes : n->data->numbers;
}

struct net_value net_linear(struct net *n, const char *path, struct net_value x, int64_t out, enum net_linear_init init)
{
    int64_t in = x.dims[x.rank - 1], dims[] = {out, in};
    double bound = 1 / sqrt((double)in);
    bool small = init == NET_LINEAR_SMALL, zero = init != NET_LINEAR_TORCH;
    const char *w = net_param(n, net_text(n, "%s.weight", path), 2, dims, small ? NET_NORMAL : NET_UNIFORM,
                              small ? 0.01 : bound),
               *b = net_param(n, net_text(n, "%s.bias", path), 1, dims, zero ? NET_ZEROS : NET_UNIFORM, bound);
    if (x.rank == 2) {
        x.name = net_node1(n, "Gemm", path, NET_IN(x.name, w, b), NET_ATTRS(NET_I("transB", 1)));
    } else {
        const char *t = net_node1(n, "Transpose", path, NET_IN(w), NULL),
                   *y = net_node1(n, "MatMul", path, NET_IN(x.name, t), NULL);
        x.name = net_node1(n, "Add", path, NET_IN(y, b), NULL);
    }
    x.dims[x.rank - 1] = out;
    return x;
}

struct net_value net_conv(struct net *n, const char *path, struct net_value x, struct net_conv c)
{
    int64_t k = c.kernel, pad = k / 2, s = c.stride, dims[] = {c.out, x.dims[1] / c.groups, k, k};
    int64_t kernel[] = {k, k}, strides[] = {s, s}, pads[] = {pad, pad, pad, pad};
    const char *w =
        net_param(n, net_text(n, "%s.weight", path), 4, dims, NET_NORMAL, sqrt(2 / ((double)c.out * (double)(k * k))));
    x.name = net_node1(n, "Conv", path, NET_IN(x.name, w),
                       NET_ATTRS(NET_INTS("kernel_shape", 2, kernel), NET_INTS("strides", 2, strides),
                                 NET_INTS("pads", 4, pads), NET_I("group", c.groups)));
    x.dims[1] = c.out;
    for (int i = 2; i < 4; i++)
        x.dims[i] = (x.dims[i] + 2 * pad - k) / s + 1;
    return x;
}

struct net_value net_batch_norm(struct net *n, const char *path, struct net_value x)
{
    const int64_t *dims = &x.dims[1];
    const char *in[] = {x.name,
                        net_param(n, net_text(n, "%s.weight", path), 1, dims, NET_ONES, 0),
                        net_param(n, net_text(n, "%s.bias", path), 1, dims, NET_ZEROS, 0),
                        net_param(n, net_text(n, "%s.running_mean", path), 1, dims, NET_ZEROS, 0),
                        net_param(n, net_text(n, "%s.running_var", path), 1, dims, NET_ONES, 0),
                        NULL};
    n->parameters -= 2 * dims[0]; /* statistics are none */
    x.name = net_node1(n, "BatchNormalization", path, in, NET_ATTRS(NET_F("epsilon", 1e-5), NET_F("momentum", 0.9)));
    return x;
}

struct net_value net_layer_norm(struct net *n, const char *path, struct net_value x)
{
    const int64_t *dims = &x.dims[x.rank - 1];
    const char *w = net_param(n, net_text(n, "%s.weight", path), 1, dims, NET_ONES, 0),
               *b = net_param(n, net_text(n, "%s.bias", path), 1, dims, NET_ZEROS, 0);
    x.name = net_node1(n, "LayerNormalization", path, NET_IN(x.name, w, b),
                       NET_ATTRS(NET_I("axis", -1), NET_F("epsilon", 1e-5)));
    return x;
}

struct net_value net_dropout(struct net *n, const char *path, struct net_value x, double usual)
{
    double share = n->spec->dropout >= 0 ? n->spec->dropout : usual;
    if (share <= 0)
        return x;
    x.name = net_node1(n, "Dropout", path, NET_IN(x.name, net_floats(n, 0, NULL, &(float){(float)share})), NULL);
    return x;
}

struct net_value net_mean(struct net *n, const char *path, struct net_value x, int first, int count)
{
    int64_t axes[8];
    for (int i = 0; i < count; i++)
        axes[i] = first + i;
    x.name =
        net_node1(n, "ReduceMean", path, NET_IN(x.name, net_int64s(n, count, axes)), NET_ATTRS(NET_I("keepdims", 0)));
    for (int i = first; i + count < x.rank; i++)
        x.dims[i] = x.dims[i + count];
    x.rank -= count;
    return x;
}

struct net_value net_flat(struct net *n, struct net_value x)
{
    int64_t all = 1;
    if (x.rank == 2)
        return x;
    for (int i = 1; i < x.rank; i++)
        all *= x.dims[i];
    return net_reshape(n, "", x, 2, (int64_t[]){-1, all});
}
