/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of pictures as torchvision has them (nets.def names the papers). */
#include "tools/net/net_int.h"

enum { RELU, RELU6, LINEAR };

/* A convolution, its normalisation, an activation. */
static struct net_value conv_norm(struct net *n, const char *conv, const char *norm, struct net_value x,
                                  struct net_conv c, int activation)
{
    x = net_batch_norm(n, norm, net_conv(n, conv, x, c));
    if (activation == RELU)
        return net_map(n, "Relu", norm, x);
    if (activation == RELU6)
        x.name =
            net_node1(n, "Clip", norm,
                      NET_IN(x.name, net_floats(n, 0, NULL, &(float){0}), net_floats(n, 0, NULL, &(float){6})), NULL);
    return x;
}

/* -- Residual networks ------------------------------------------------------------------------------------------- */

static struct net_value resnet_conv(struct net *n, const char *block, int k, struct net_value x, struct net_conv c,
                                    int activation)
{
    return conv_norm(n, net_text(n, "%s.conv%d", block, k), net_text(n, "%s.bn%d", block, k), x, c, activation);
}

/* Two 3x3 convolutions, or 1x1, 3x3, 1x1 with four times as many channels behind. */
static struct net_value resnet_block(struct net *n, const char *block, struct net_value x, int64_t width, int stride,
                                     bool bottleneck)
{
    struct net_value y = x, same = x;
    int64_t out = bottleneck ? 4 * width : width;
    if (bottleneck) {
        y = resnet_conv(n, block, 1, y, (struct net_conv){width, 1, 1, 1}, RELU);
        y = resnet_conv(n, block, 2, y, (struct net_conv){width, 3, stride, 1}, RELU);
        y = resnet_conv(n, block, 3, y, (struct net_conv){out, 1, 1, 1}, LINEAR);
    } else {
        y = resnet_conv(n, block, 1, y, (struct net_conv){width, 3, stride, 1}, RELU);
        y = resnet_conv(n, block, 2, y, (struct net_conv){width, 3, 1, 1}, LINEAR);
    }
    if (stride != 1 || x.dims[1] != out)
        same = conv_norm(n, net_text(n, "%s.downsample.0", block), net_text(n, "%s.downsample.1", block), x,
                         (struct net_conv){out, 1, stride, 1}, LINEAR);
    y.name = net_node1(n, "Add", block, NET_IN(y.name, same.name), NULL);
    return net_map(n, "Relu", block, y);
}

struct net_value net_build_resnet(struct net *n, struct net_value x, int variant)
{
    static const struct {
        int layers, blocks[4];
        bool bottleneck;
    } rows[] = {{18, {2, 2, 2, 2}, false},
                {34, {3, 4, 6, 3}, false},
                {50, {3, 4, 6, 3}, true},
                {101, {3, 4, 23, 3}, true},
                {152, {3, 8, 36, 3}, true}};
    int row = 0;
    while (rows[row].layers != variant)
        row++;
    x = conv_norm(n, "conv1", "bn1", x, (struct net_conv){64, 7, 2, 1}, RELU);
    x.name = net_node1(n, "MaxPool", "maxpool", NET_IN(x.name),
                       NET_ATTRS(NET_INTS("kernel_shape", 2, ((int64_t[]){3, 3})),
                                 NET_INTS("strides", 2, ((int64_t[]){2, 2})),
                                 NET_INTS("pads", 4, ((int64_t[]){1, 1, 1, 1}))));
    for (int i = 2; i < 4; i++)
        x.dims[i] = (x.dims[i] - 1) / 2 + 1;
    for (int stage = 0; stage < 4; stage++)
        for (int k = 0; k < rows[row].blocks[stage]; k++)
            x = resnet_block(n, net_text(n, "layer%d.%d", stage + 1, k), x, 64 << stage, stage && !k ? 2 : 1,
                             rows[row].bottleneck);
    return net_linear(n, "fc", net_mean(n, "avgpool", x, 2, 2), net_outputs(n), NET_LINEAR_TORCH);
}

/* -- MobileNetV2 ------------------------------------------------------------------------------------------------- */

/* Widened by 1x1, filtered by channel, narrowed by 1x1. */
static struct net_value inverted_residual(struct net *n, const char *path, struct net_value x, int widen, int64_t out,
                                          int stride)
{
    struct net_value y = x;
    int64_t hidden = x.dims[1] * widen;
    int at = 0;
    if (widen != 1) {
        y = conv_norm(n, net_text(n, "%s.conv.%d.0", path, at), net_text(n, "%s.conv.%d.1", path, at), y,
                      (struct net_conv){hidden, 1, 1, 1}, RELU6);
        at++;
    }
    y = conv_norm(n, net_text(n, "%s.conv.%d.0", path, at), net_text(n, "%s.conv.%d.1", path, at), y,
                  (struct net_conv){hidden, 3, stride, (int)hidden}, RELU6);
    y = conv_norm(n, net_text(n, "%s.conv.%d", path, at + 1), net_text(n, "%s.conv.%d", path, at + 2), y,
                  (struct net_conv){out, 1, 1, 1}, LINEAR);
    if (stride == 1 && x.dims[1] == out)
        y.name = net_node1(n, "Add", path, NET_IN(x.name, y.name), NULL);
    return y;
}

struct net_value net_build_mobilenet(struct net *n, struct net_value x, int variant)
{
    static const struct {
        int widen, channels, blocks, stride;
    } rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int at = 1;
    (void)variant;
    x = conv_norm(n, "features.0.0", "features.0.1", x, (struct net_conv){32, 3, 2, 1}, RELU6);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int k = 0; k < rows[r].blocks; k++, at++)
            x = inverted_residual(n, net_text(n, "features.%d", at), x, rows[r].widen, rows[r].channels,
                                  k ? 1 : rows[r].stride);
    x = conv_norm(n, net_text(n, "features.%d.0", at), net_text(n, "features.%d.1", at), x,
                  (struct net_conv){1280, 1, 1, 1}, RELU6);
    x = net_dropout(n, "classifier.0", net_mean(n, "features", x, 2, 2), 0.2);
    return net_linear(n, "classifier.1", x, net_outputs(n), NET_LINEAR_SMALL);
}
