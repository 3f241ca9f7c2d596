# SPDX-License-Identifier: Apache-2.0
"""The tutorial's network (doc/tutorial.md): trained by PyTorch on pictures of digits, exported. usage: train.py FOLDER OUT.pt2 [EPOCHS]

FOLDER holds pictures.idx3-ubyte and labels.idx1-ubyte, as samples/digits/draw.py --training FOLDER draws them.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 5, stride=2)
        self.b = nn.Conv2d(8, 16, 5, stride=2)
        self.c = nn.Linear(16 * 4 * 4, 10)

    def forward(self, picture):
        return self.c(F.relu(self.b(F.relu(self.a(picture)))).flatten(1))


def idx(path, head):
    with open(path, "rb") as f:
        return torch.from_numpy(np.frombuffer(f.read()[head:], np.uint8).copy())


def main():
    folder, output, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 4
    torch.manual_seed(0)
    pictures = idx(os.path.join(folder, "pictures.idx3-ubyte"), 16).view(-1, 1, 28, 28).float() / 255
    labels = idx(os.path.join(folder, "labels.idx1-ubyte"), 8).long()
    net = Digits()
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for epoch in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            loss = F.cross_entropy(net(pictures[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

    net.eval()
    batch = torch.export.Dim("batch", min=1, max=4096)               # any batch from 1 to 4096
    program = torch.export.export(net, (torch.zeros(2, 1, 28, 28),), dynamic_shapes=({0: batch},))
    torch.export.save(program, output)


if __name__ == "__main__":
    main()
