#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the sample network on pictures that draw.py draws, and write it as an ONNX file.

usage: train.py digits.onnx [--pictures 30000] [--epochs 6]

Two times conv 3x3, relu, max-pool 2x2, then one dense layer and softmax; 21,000 weights. Trained with PyTorch, written
with onnx.helper, so that the file holds these nodes and nothing else. Input `picture` float32 [N,1,28,28], grey values
0..1 (0 is background); output `probabilities` float32 [N,10]. Prints the accuracy on the held-out images.
"""
import argparse

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import draw


def network():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def as_input(pictures):
    return torch.from_numpy(pictures.astype(np.float32) / 255).unsqueeze(1)


def train(net, count, epochs):
    pictures, labels = draw.dataset(count, seed=1)
    x, y = as_input(pictures), torch.from_numpy(labels.astype(np.int64))
    steps = epochs * (count // 100)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(count).view(-1, 100):
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / (count // 100):.4f}", flush=True)


def accuracy(net):
    pictures, labels = draw.dataset(draw.HELD_OUT_COUNT, draw.HELD_OUT_SEED)
    with torch.no_grad():
        return (net(as_input(pictures)).argmax(1).numpy() == labels).mean()


def write(net, path):
    names = {0: "conv1", 3: "conv2", 7: "dense"}
    weights = [numpy_helper.from_array(p.detach().numpy(), f"{names[k]}.{kind}")
               for k in names for kind, p in net[k].named_parameters()]
    conv = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    pool = dict(kernel_shape=[2, 2], strides=[2, 2])
    node = helper.make_node
    nodes = [node("Conv", ["picture", "conv1.weight", "conv1.bias"], ["c1"], name="conv1", **conv),
             node("Relu", ["c1"], ["r1"], name="relu1"),
             node("MaxPool", ["r1"], ["p1"], name="pool1", **pool),
             node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], name="conv2", **conv),
             node("Relu", ["c2"], ["r2"], name="relu2"),
             node("MaxPool", ["r2"], ["p2"], name="pool2", **pool),
             node("Flatten", ["p2"], ["flat"], name="flatten", axis=1),
             node("Gemm", ["flat", "dense.weight", "dense.bias"], ["logits"], name="dense", transB=1),
             node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1)]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 1, draw.SIZE, draw.SIZE])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])], weights)
    model = helper.make_model(graph, producer_name="tccc samples/digits/train.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--pictures", type=int, default=30000)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    net = network()
    train(net, args.pictures, args.epochs)
    print(f"accuracy on {draw.HELD_OUT_COUNT} held-out images: {100 * accuracy(net):.1f} %")
    write(net, args.output)


if __name__ == "__main__":
    main()
