# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training loop whose network tccc compiles, forward and backward: one line differs. usage: torch_compile.py [STEPS]"""
import sys

import torch
import torch.nn as nn

import tccc


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    compiled = torch.compile(net, backend="tccc")              # the line
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        x = torch.rand(64, 2) * 2 - 1
        target = (x[:, :1] * x[:, 1:] * 4).sin()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(compiled(x), target)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    with torch.no_grad():                                      # another graph, with the weights inside
        x = torch.rand(64, 2) * 2 - 1
        print(f"as eager PyTorch: {torch.allclose(compiled(x), net(x), atol=1e-5)}")
    print(f"last loss {loss.item():.4f}; {tccc.metrics()}")


if __name__ == "__main__":
    main()
