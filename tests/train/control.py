#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes control.txt: what PyTorch makes of a parameter that is frozen at first, has a rate of its own, and of averaged weights (tests/control.tap compares). The network is
y = x + x W, scores = y + tanh(y) V, both 0 at first; 10 epochs of batches of 4 of the 20 samples in their order, warm restarts, clipping.

usage: control.py >control.txt
A case: "case NAME OPTIMIZER", "losses VALUES" of the steps, "evals VALUES" of the epochs, with the averages of W and V; before them "x DIMS VALUES" and "target DIMS VALUES".
"""
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(3)
D, N = 5, 20
x, target = torch.randn(N, D), torch.randint(0, D, (N,))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(D, D))
        self.v = torch.nn.Parameter(torch.zeros(D, D))

    def forward(self, x):
        y = x + x @ self.w
        return y + torch.tanh(y) @ self.v


def case(name, text, make, start):
    net = Net()
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = make([{"params": [net.w], "lr": 0.01}, {"params": [net.v]}])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 2, 0.0)
    losses, evals = [], []
    for epoch in range(10):
        net.w.requires_grad_(epoch >= start)
        for k in range(0, N, 4):
            loss = F.cross_entropy(net(x[k:k + 4]), target[k:k + 4])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.grad is not None], 0.2)
            optimizer.step()
            average.update_parameters(net)
            losses.append(loss.item())
        scheduler.step()
        with torch.no_grad():
            evals.append(F.cross_entropy(average(x), target).item())
    print("case", name, text)
    print("losses", " ".join(f"{v:.9g}" for v in losses))
    print("evals", " ".join(f"{v:.9g}" for v in evals))


print("x", f"{N}x{D}", " ".join(f"{v:.9g}" for v in x.reshape(-1).tolist()))
print("target", N, " ".join(map(str, target.tolist())))
o = torch.optim
case("adam", "adam:lr=0.05;w:lr=0.01,from=3", lambda p: o.Adam(p, lr=0.05), 3)
case("sgd", "sgd:lr=0.3,momentum=0.9,dampening=0.2;w:lr=0.01,from=2", lambda p: o.SGD(p, lr=0.3, momentum=0.9, dampening=0.2), 2)
case("plain", "adamw:lr=0.05;w:lr=0.01", lambda p: o.AdamW(p, lr=0.05), 0)
