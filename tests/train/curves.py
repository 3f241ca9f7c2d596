#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes curves.txt: 50 losses of training with each loss, as PyTorch computes them (tests/curves.tap compares). The network is x + x W, W = 0 at first, for each of its inputs; plain
SGD, batches of 4 of the 20 samples in their order.

usage: curves.py >curves.txt
A case: "case NAME LR OPTION", "INPUT TYPE DIMS VALUES" for each input, "losses VALUES".
"""
import torch, torch.nn.functional as F

torch.manual_seed(9)
D, N = 5, 20


def case(name, lr, option, inputs, target, loss):
    w = torch.zeros(D, D, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr)
    dims = lambda t: "x".join(map(str, t.shape))
    numbers = lambda t: " ".join(f"{v:.9g}" for v in t.reshape(-1).tolist())
    print(f"case {name} {lr} {option}")
    for key, v in list(zip(("x", "i0", "i1"), inputs)) + ([("target", target)] if target is not None else []):
        print(f"{key} {'int64' if v.dtype == torch.int64 else 'float32'} {dims(v)} {numbers(v)}")
    losses = []
    for step in range(50):
        rows = slice(step % 5 * 4, step % 5 * 4 + 4)
        ys = [x[rows] + x[rows] @ w for x in inputs]
        value = loss(*ys, target[rows]) if target is not None else loss(*ys)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    print("losses", " ".join(f"{v:.9g}" for v in losses))


def focal(x, t):
    p = torch.sigmoid(x)
    p_t = p * t + (1 - p) * (1 - t)
    return ((0.25 * t + 0.75 * (1 - t)) * F.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - p_t) ** 2).mean()


def dice(x, t):
    p = torch.sigmoid(x)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


def ctc(x, t):
    lengths = (t >= 0).sum(1)
    return F.ctc_loss(torch.log_softmax(x, 2).transpose(0, 1), t.clamp(min=0), torch.full((len(x),), x.shape[1]), lengths)


x, a, b = torch.randn(N, D), torch.randn(N, D), torch.randn(N, D)
labels, values, hard = torch.randint(0, D, (N,)), torch.randn(N, D), (torch.rand(N, D) > 0.5).float()
p = torch.softmax(torch.randn(N, D), 1)
case("cross_entropy", 0.2, "cross_entropy:label_smoothing=0.1", [x], labels, lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1))
case("batchmean", 0.05, "mse:reduction=batchmean", [x], values, lambda y, t: F.mse_loss(y, t, reduction="sum") / 4)
case("none", 0.2, "mse:reduction=none", [x], values, F.mse_loss)
case("l1", 0.2, "l1", [x], values, F.l1_loss)
case("smooth_l1", 0.2, "smooth_l1:beta=0.5", [x], values, lambda y, t: F.smooth_l1_loss(y, t, beta=0.5))
case("huber", 0.2, "huber:delta=0.7", [x], values, lambda y, t: F.huber_loss(y, t, delta=0.7))
case("bce", 0.2, "bce_with_logits", [x], hard, F.binary_cross_entropy_with_logits)
case("kl", 0.05, "kl:reduction=batchmean", [x], p, lambda y, t: F.kl_div(y, t, reduction="batchmean"))
case("focal", 0.5, "focal", [x], hard, focal)
case("dice", 0.5, "dice", [x], hard, dice)
case("triplet", 0.05, "triplet:input=y,positive=o0,negative=o1", [x, a, b], None, F.triplet_margin_loss)
case("cosine", 0.1, "cosine:input=y,other=o0,margin=0.1", [x, a], torch.randint(0, 2, (N,)) * 2 - 1, lambda y, o, t: F.cosine_embedding_loss(y, o, t, margin=0.1))
case("sum", 0.1, "cross_entropy:input=y + 0.5*cross_entropy:input=o0,reduction=sum", [x, a], labels, lambda y, o, t: F.cross_entropy(y, t) + 0.5 * F.cross_entropy(o, t, reduction="sum"))
s = torch.randn(N, 6, D)
t = torch.randint(1, D, (N, 3))
t[::3, 2] = -1
case("ctc", 0.1, "ctc", [s], t, ctc)
