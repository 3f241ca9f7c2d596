/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: networks by name (nets.def), written as ONNX files whose parameters have the names, shapes and
 * first values of PyTorch's, for tccc-train --net.
 *
 *   net_net       --net's words; the file
 *   net_data      what the data decide: inputs, classes
 *   net_build     nodes, parameters and first values as records of an ONNX file
 *   net_layers    layers that several networks have
 *   net_vision, net_sequence, net_dense   the networks
 */
#ifndef TCCC_TOOLS_NET_INT_H
#define TCCC_TOOLS_NET_INT_H

#include "base/wire.h"
#include "ir/ir.h"
#include "tools/options_int.h"

enum { NET_SIZES = 16 };

/* What a network reads: rows of numbers of any shape, pictures [channels, height, width], sequences of tokens or of
 * rows of numbers. */
enum net_takes { NET_TAKES_NUMBERS, NET_TAKES_PICTURES, NET_TAKES_SEQUENCES };
/* What stands behind the name: nothing, a list of widths (mlp:64,64), layers and a width (lstm:2x128; lstm:128). */
enum net_form { NET_PLAIN, NET_WIDTHS, NET_LAYERS };

struct net;
struct net_value;
struct net_row {
    const char *name;
    enum net_form form;
    enum net_takes takes;
    struct net_value (*build)(struct net *n, struct net_value x, int variant);
    int variant;
};

/* --net's words. heads, classes, vocabulary 0, dropout negative: not said. */
struct net_spec {
    const struct net_row *row;
    int nsizes;
    int64_t sizes[NET_SIZES]; /* NET_LAYERS: layers, width */
    int64_t heads, classes, vocabulary;
    double dropout;
};
/* False after `error` (ERROR_SIZE bytes): what is wrong, and what is known. */
bool net_spec_read(const char *text, struct net_spec *spec, char *error);

/* What the data decide. A sample's dims; tokens: whole numbers below `vocabulary`. classes 0: the target is of floats,
 * and has so many numbers a sample. each: a target for each element of the sequence. */
struct net_data {
    int rank;
    int64_t dims[8];
    bool tokens, each;
    int64_t vocabulary, classes, numbers;
};
/* EXIT_FINE, or an exit code after a message. */
int net_data_read(const struct options *o, const struct net_spec *spec, struct net_data *data);

/* -- Building --------------------------------------------------------------------------------------------------- */

/* A value of the graph: dims[0] is the batch. */
struct net_value {
    const char *name;
    int rank;
    int64_t dims[8];
};
struct net {
    struct ir_ctx *ctx; /* holds names */
    const struct net_spec *spec;
    const struct net_data *data;
    struct wire_buffer nodes, tensors;
    uint64_t seed;
    int values; /* made so far */
    struct net_named *named;
    int64_t parameters;
};

struct net_attr {
    const char *name;
    char kind; /* i, f, I: a list of integers, t: a tensor of floats with these dims */
    int64_t i;
    double f;
    int n;
    const int64_t *ints;
    const float *floats;
};
#define NET_I(name_, value) ((struct net_attr){.name = (name_), .kind = 'i', .i = (value)})
#define NET_F(name_, value) ((struct net_attr){.name = (name_), .kind = 'f', .f = (value)})
#define NET_INTS(name_, count, values) ((struct net_attr){.name = (name_), .kind = 'I', .n = (count), .ints = (values)})
#define NET_ATTRS(...) ((const struct net_attr[]){__VA_ARGS__, {0}})

/* Texts in the context's memory. */
const char *net_text(struct net *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* First values: as torch.nn.init has them, `scale` the bound or the deviation. */
enum net_init { NET_ZEROS, NET_ONES, NET_UNIFORM, NET_NORMAL };
const char *net_param(struct net *n, const char *name, int rank, const int64_t *dims, enum net_init init, double scale);
const char *net_int64s(struct net *n, int count, const int64_t *values);                   /* a constant, i64[count] */
const char *net_floats(struct net *n, int rank, const int64_t *dims, const float *values); /* a constant */
/* A node of several results, which are named from out[0] on; of one. `in` ends with NULL; "" omits an operand. */
void net_node(struct net *n, const char *op, const char *path, const char *const *in, int nout, const char **out,
              const struct net_attr *attrs);
const char *net_node1(struct net *n, const char *op, const char *path, const char *const *in,
                      const struct net_attr *attrs);
#define NET_IN(...) ((const char *const[]){__VA_ARGS__, NULL})
/* The same shape as x. */
struct net_value net_map(struct net *n, const char *op, const char *path, struct net_value x);
struct net_value net_reshape(struct net *n, const char *path, struct net_value x, int rank, const int64_t *dims);
struct net_value net_transpose(struct net *n, const char *path, struct net_value x, const int64_t *perm);
/* The file's bytes, which `to` gets; the network is ended by it. */
void net_finish(struct net *n, struct net_value in, struct net_value out, struct wire_buffer *to);

/* -- Layers ------------------------------------------------------------------------------------------------------ */

/* weight [out, in] and bias. PyTorch's own first values are uniform in +-1 / sqrt(in). */
enum net_linear_init { NET_LINEAR_TORCH, NET_LINEAR_NO_BIAS, NET_LINEAR_SMALL };
struct net_value net_linear(struct net *n, const char *path, struct net_value x, int64_t out,
                            enum net_linear_init init);
struct net_conv {
    int64_t out;
    int kernel, stride, groups;
};
/* Without a bias, padded by kernel / 2; Kaiming's normal by what goes out. */
struct net_value net_conv(struct net *n, const char *path, struct net_value x, struct net_conv c);
struct net_value net_batch_norm(struct net *n, const char *path, struct net_value x);
struct net_value net_layer_norm(struct net *n, const char *path, struct net_value x);
/* `usual`: where --net says nothing. */
struct net_value net_dropout(struct net *n, const char *path, struct net_value x, double usual);
struct net_value net_mean(struct net *n, const char *path, struct net_value x, int first, int count);
struct net_value net_flat(struct net *n, struct net_value x); /* [batch, all else] */
int64_t net_outputs(const struct net *n);                     /* classes, or numbers of the target */

/* -- The networks ------------------------------------------------------------------------------------------------ */

struct net_value net_build_dense(struct net *n, struct net_value x, int variant);
struct net_value net_build_resnet(struct net *n, struct net_value x, int variant);
struct net_value net_build_mobilenet(struct net *n, struct net_value x, int variant);
struct net_value net_build_lstm(struct net *n, struct net_value x, int variant);
struct net_value net_build_transformer(struct net *n, struct net_value x, int variant);

/* The file for --net's text and the data of the command line. EXIT_FINE, or an exit code after a message. */
int net_make(const struct options *o, const struct net_spec *spec, const struct net_data *data, uint64_t seed,
             struct wire_buffer *to, int64_t *parameters);

#endif
