/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of protobuf messages for the tests of the ONNX front end: enough to make models, right and wrong ones,
 * without a library that would refuse to write the wrong ones.
 */
#ifndef TESTS_UNIT_ONNX_WRITE_H
#define TESTS_UNIT_ONNX_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct pb {
    uint8_t *at;
    size_t n, room;
};

static inline void pb_raw(struct pb *b, const void *bytes, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2 + 64;
        b->at = realloc(b->at, b->room);
    }
    if (n)
        memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

static inline void pb_varint(struct pb *b, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
        pb_raw(b, &byte, 1);
        v >>= 7;
    } while (v);
}

static inline void pb_int(struct pb *b, int field, int64_t v)
{
    pb_varint(b, (uint64_t)field << 3);
    pb_varint(b, (uint64_t)v);
}

static inline void pb_bytes(struct pb *b, int field, const void *bytes, size_t n)
{
    pb_varint(b, (uint64_t)field << 3 | 2);
    pb_varint(b, n);
    pb_raw(b, bytes, n);
}

static inline void pb_text(struct pb *b, int field, const char *s)
{
    pb_bytes(b, field, s, strlen(s));
}

/* Writes `inner` as field `field` and frees it. */
static inline void pb_message(struct pb *b, int field, struct pb *inner)
{
    pb_bytes(b, field, inner->at, inner->n);
    free(inner->at);
    *inner = (struct pb){0};
}

/* -- ONNX: graph fields 1 node, 5 initializer, 11 input, 12 output */

/* A value of float elements; a dim below 0 is left out, `rank` < 0: no shape. */
static inline void pb_value(struct pb *graph, int field, const char *name, int dtype, int rank, const int64_t *dims)
{
    struct pb info = {0}, type = {0}, tensor = {0}, shape = {0};
    pb_text(&info, 1, name);
    pb_int(&tensor, 1, dtype);
    for (int k = 0; k < rank; k++) {
        struct pb dim = {0};
        if (dims[k] >= 0)
            pb_int(&dim, 1, dims[k]);
        pb_message(&shape, 1, &dim);
    }
    if (rank >= 0)
        pb_message(&tensor, 2, &shape);
    pb_message(&type, 1, &tensor);
    pb_message(&info, 2, &type);
    pb_message(graph, field, &info);
}

/* Begins a node; attributes may follow before pb_message(graph, 1, &node). `inputs`: names separated by spaces. */
static inline void pb_node(struct pb *node, const char *op, const char *inputs, const char *output)
{
    char copy[256];
    strncpy(copy, inputs, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
        pb_text(node, 1, p);
    pb_text(node, 2, output);
    pb_text(node, 4, op);
}

/* Wraps a graph into a model of the given opset. */
static inline struct pb pb_model(struct pb *graph, int opset)
{
    struct pb model = {0}, import = {0};
    pb_int(&model, 1, 8);
    pb_message(&model, 7, graph);
    pb_int(&import, 2, opset);
    pb_message(&model, 8, &import);
    return model;
}

#endif
