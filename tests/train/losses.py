#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes losses.txt: losses and their gradients by the scores, as PyTorch computes them (tests/train/losses.c compares).

usage: losses.py >losses.txt
A case: "case NAME OPTION", "x DIMS VALUES", "target TYPE DIMS VALUES", "loss VALUE", "grad VALUES".
"""
import torch, torch.nn.functional as F

torch.manual_seed(3)
W5, P3 = [0.5, 2.0, 1.0, 0.25, 3.0], [2.0, 0.5, 1.5]
weight, positive = torch.tensor(W5), torch.tensor(P3)
text = lambda v: "\\,".join(map(str, v))


def show(name, option, x, target, function):
    x = x.clone().requires_grad_()
    loss = function(x, target)
    loss.backward()
    dims = lambda t: "x".join(map(str, t.shape)) or "scalar"
    numbers = lambda t: " ".join(f"{v:.9g}" for v in t.detach().reshape(-1).tolist())
    print(f"case {name} {option}\nx {dims(x)} {numbers(x)}")
    print(f"target {'i64' if target.dtype == torch.int64 else 'f32'} {dims(target)} {numbers(target)}")
    print(f"loss {loss.item():.9g}\ngrad {numbers(x.grad)}")


x, t = torch.randn(4, 5) * 3, torch.tensor([1, 4, 0, 2])
some = torch.tensor([1, -100, 0, 2])
seven = torch.tensor([1, 4, 3, 2])
q = torch.softmax(torch.randn(4, 5), 1)
ce = F.cross_entropy
show("plain", "cross_entropy", x, t, ce)
show("large", "cross_entropy", x * 200, t, ce)
show("sum", "cross_entropy:reduction=sum", x, t, lambda x, t: ce(x, t, reduction="sum"))
show("ignored", "cross_entropy", x, some, ce)
show("ignore_index", "cross_entropy:ignore_index=3", x, seven, lambda x, t: ce(x, t, ignore_index=3))
show("weights", f"cross_entropy:weight={text(W5)}", x, some, lambda x, t: ce(x, t, weight))
show("weights_sum", f"cross_entropy:weight={text(W5)},reduction=sum", x, some, lambda x, t: ce(x, t, weight, reduction="sum"))
show("smooth", "cross_entropy:label_smoothing=0.2", x, some, lambda x, t: ce(x, t, label_smoothing=0.2))
show("smooth_sum", "cross_entropy:label_smoothing=0.2,reduction=sum", x, some, lambda x, t: ce(x, t, label_smoothing=0.2, reduction="sum"))
show("smooth_weights", f"cross_entropy:label_smoothing=0.2,weight={text(W5)}", x, some, lambda x, t: ce(x, t, weight, label_smoothing=0.2))
show("probabilities", "cross_entropy:target_type=float32", x, q, ce)
show("probabilities_smooth", f"cross_entropy:target_type=float32,label_smoothing=0.1,weight={text(W5)}", x, q, lambda x, t: ce(x, t, weight, label_smoothing=0.1))
show("probabilities_sum", "cross_entropy:target_type=float32,reduction=sum", x, q, lambda x, t: ce(x, t, reduction="sum"))
x3, t3 = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))
show("last_axis", "cross_entropy", x3, t3, lambda x, t: ce(x.reshape(-1, 5), t.reshape(-1)))
x4, t4 = torch.randn(2, 5, 3, 2), torch.randint(0, 5, (2, 3, 2))
show("image", "cross_entropy:axis=1,label_smoothing=0.1", x4, t4, lambda x, t: ce(x, t, label_smoothing=0.1))
show("image_weights", f"cross_entropy:axis=-3,weight={text(W5)}", x4, t4, lambda x, t: ce(x, t, weight))
show("one_row", "cross_entropy", torch.randn(5), torch.tensor(2), ce)
logs = torch.log_softmax(x, 1)
show("nll", "nll", logs, some, F.nll_loss)
show("nll_weights", f"nll:weight={text(W5)},ignore_index=2", logs, t, lambda x, t: F.nll_loss(x, t, weight, ignore_index=2))
show("nll_sum", "nll:reduction=sum", logs, t, lambda x, t: F.nll_loss(x, t, reduction="sum"))
a, b = torch.randn(4, 3), torch.randn(4, 3)
b[0, 0] = a[0, 0]
for name, key, f in (("mse", "mse", F.mse_loss), ("l1", "l1", F.l1_loss), ("smooth_l1", "smooth_l1", F.smooth_l1_loss)):
    show(name, key, a, b, f)
    show(name + "_sum", key + ":reduction=sum", a, b, lambda x, t: f(x, t, reduction="sum"))
show("smooth_l1_beta", "smooth_l1:beta=0.3", a, b, lambda x, t: F.smooth_l1_loss(x, t, beta=0.3))
show("smooth_l1_zero", "smooth_l1:beta=0", a, b, lambda x, t: F.smooth_l1_loss(x, t, beta=0))
c, u = torch.randn(4, 3) * 30, torch.rand(4, 3)
bce = F.binary_cross_entropy_with_logits
show("bce", "bce_with_logits", c, u, bce)
show("bce_sum", "bce_with_logits:reduction=sum", c, u, lambda x, t: bce(x, t, reduction="sum"))
show("bce_weights", f"bce_with_logits:weight={text(P3)}", c, u, lambda x, t: bce(x, t, positive))
show("bce_positive", f"bce_with_logits:pos_weight={text(P3)}", c, u, lambda x, t: bce(x, t, pos_weight=positive))
