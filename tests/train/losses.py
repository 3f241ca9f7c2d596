#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes losses.txt: losses and their gradients by the scores, as PyTorch computes them (tests/train/losses.c compares).

usage: losses.py >losses.txt
A case: "case NAME OPTION", "x DIMS VALUES", "other DIMS VALUES" of further outputs o0 and o1, "target TYPE DIMS VALUES", "loss VALUE", "grad VALUES",
"other_grad K VALUES", and for reduction=none "each VALUES". "case NAME of N rows OPTION": only the run knows how many; gradients are by what is added to each row.
"""
import torch, torch.nn.functional as F

torch.manual_seed(3)
W5, P3 = [0.5, 2.0, 1.0, 0.25, 3.0], [2.0, 0.5, 1.5]
weight, positive = torch.tensor(W5), torch.tensor(P3)
text = lambda v: "\\,".join(map(str, v))


def show(name, option, x, target, function, others=(), each=None, rows=False):
    added = [torch.zeros(v.shape[1:] if rows else v.shape, requires_grad=True) for v in (x, *others)]
    y = [v + p for v, p in zip((x, *others), added)]
    loss = function(*y, target) if target is not None else function(*y)
    loss.backward()
    dims = lambda t: "x".join(map(str, t.shape)) or "scalar"
    numbers = lambda t: " ".join(f"{v:.9g}" for v in t.detach().reshape(-1).tolist())
    print(f"case {name} {'of N rows ' * rows}{option}\nx {dims(x)} {numbers(x)}")
    for o in others:
        print(f"other {dims(o)} {numbers(o)}")
    if target is not None:
        print(f"target {'i64' if target.dtype == torch.int64 else 'f32'} {dims(target)} {numbers(target)}")
    print(f"loss {loss.item():.9g}\ngrad {numbers(added[0].grad)}")
    for k, p in enumerate(added[1:]):
        print(f"other_grad {k} {numbers(p.grad)}")
    if each is not None:
        print(f"each {numbers(each)}")


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
# far on the target's side; in float64, since PyTorch's float32 takes 1 off a sigmoid near 1
far = (u > 0.5).double()
show("bce_far", "bce_with_logits", (far * 2 - 1) * (18 + c.abs() / 4).double(), far, bce)
show("bce_far_positive", f"bce_with_logits:pos_weight={text(P3)}", (far * 2 - 1) * (18 + c.abs() / 4).double(), far, lambda x, t: bce(x, t, pos_weight=positive.double()))

# Reductions
show("batchmean", "cross_entropy:axis=1,reduction=batchmean,label_smoothing=0.1", x4, t4, lambda x, t: ce(x, t, reduction="sum", label_smoothing=0.1) / 2)
show("none", "cross_entropy:reduction=none,label_smoothing=0.1", x, some, lambda x, t: ce(x, t, label_smoothing=0.1),
     each=ce(x, some, label_smoothing=0.1, reduction="none"))
show("none_weights", f"cross_entropy:axis=1,reduction=none,weight={text(W5)}", x4, t4, lambda x, t: ce(x, t, weight), each=ce(x4, t4, weight, reduction="none"))
show("none_probabilities", "cross_entropy:target_type=float32,reduction=none", x, q, ce, each=ce(x, q, reduction="none"))
show("none_nll", "nll:reduction=none", logs, t, F.nll_loss, each=F.nll_loss(logs, t, reduction="none"))
show("none_mse", "mse:reduction=none", a, b, F.mse_loss, each=F.mse_loss(a, b, reduction="none"))
show("mse_batchmean", "mse:reduction=batchmean", a, b, lambda x, t: F.mse_loss(x, t, reduction="sum") / 4)

# Losses of one output
show("huber", "huber", a, b, F.huber_loss)
show("huber_delta", "huber:delta=0.3,reduction=sum", a, b, lambda x, t: F.huber_loss(x, t, delta=0.3, reduction="sum"))
zero = q.clone()
zero[0, 1] = 0
show("kl", "kl", logs, zero, F.kl_div)
show("kl_batchmean", "kl:reduction=batchmean", logs, zero, lambda x, t: F.kl_div(x, t, reduction="batchmean"))
show("kl_log", "kl:log_target=1,reduction=sum", logs, q.log(), lambda x, t: F.kl_div(x, t, log_target=True, reduction="sum"))
show("kl_none", "kl:reduction=none", logs, zero, F.kl_div, each=F.kl_div(logs, zero, reduction="none"))


def focal(x, t, alpha=0.25, gamma=2.0):  # torchvision.ops.sigmoid_focal_loss, reduction mean
    p = torch.sigmoid(x)
    p_t = p * t + (1 - p) * (1 - t)
    loss = bce(x, t, reduction="none") * ((1 - p_t) ** gamma)
    return ((alpha * t + (1 - alpha) * (1 - t)) * loss if alpha >= 0 else loss).mean()


def dice(x, t, smooth=1.0):
    p, axes = torch.sigmoid(x), tuple(range(1, x.dim()))
    return (1 - (2 * (p * t).sum(axes) + smooth) / (p.sum(axes) + t.sum(axes) + smooth)).mean()


hard = (u > 0.5).float()
show("focal", "focal", c / 10, hard, focal)
show("focal_far", "focal", (far * 2 - 1) * (8 + c.abs() / 10).double(), far, focal)
show("focal_soft", "focal:alpha=-1,gamma=3", c / 10, u, lambda x, t: focal(x, t, -1, 3))
show("focal_zero", "focal:alpha=0.5,gamma=0", c / 10, hard, lambda x, t: focal(x, t, 0.5, 0))
mask, spots = (torch.rand(3, 1, 4, 5) > 0.6).float(), torch.randn(3, 1, 4, 5)
show("dice", "dice", spots, mask, dice)
show("dice_smooth", "dice:smooth=0.01", spots, mask, lambda x, t: dice(x, t, 0.01))

# Losses of several outputs
o, m, n = torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4)
names = "input=y,positive=o0,negative=o1"
show("triplet", f"triplet:{names}", o, None, F.triplet_margin_loss, (m, n))
show("triplet_swap", f"triplet:{names},margin=2.5,swap=1,reduction=sum", o, None,
     lambda x, p, q: F.triplet_margin_loss(x, p, q, margin=2.5, swap=True, reduction="sum"), (m, n))
signs = torch.tensor([1, -1, 1, -1, -1])
show("cosine", "cosine:input=y,other=o0", o, signs, F.cosine_embedding_loss, (m,))
show("cosine_margin", "cosine:input=y,other=o0,margin=-0.4,reduction=none", o, signs, lambda x, y, t: F.cosine_embedding_loss(x, y, t, margin=-0.4), (m,),
     F.cosine_embedding_loss(o, m, signs, margin=-0.4, reduction="none"))
show("sum_of_two", "mse:input=y + 0.25*l1:input=o0,reduction=sum", o, n, lambda x, y, t: F.mse_loss(x, t) + 0.25 * F.l1_loss(y, t, reduction="sum"), (m,))
show("sum_of_one", "0.5*mse + 2*huber:delta=0.5", a, b, lambda x, t: 0.5 * F.mse_loss(x, t) + 2 * F.huber_loss(x, t, delta=0.5))

# CTC: the scores' log-softmax is taken; samples first.
s = torch.randn(3, 8, 5)
labels = torch.tensor([[1, 2, 2, 4], [3, -1, -1, -1], [4, 4, 1, -1]])


def ctc(x, t, blank=0, reduction="mean", zero_infinity=False):
    lengths = (t >= 0).sum(1)
    return F.ctc_loss(torch.log_softmax(x, 2).transpose(0, 1), t.clamp(min=0), torch.full((len(x),), x.shape[1]), lengths, blank, reduction, zero_infinity)


show("ctc", "ctc", s, labels, ctc)
show("ctc_blank", "ctc:blank=3,reduction=sum", s, torch.tensor([[1, 2, 2, 4], [0, -1, -1, -1], [4, 4, 1, -1]]), lambda x, t: ctc(x, t, 3, "sum"))
show("ctc_empty", "ctc:reduction=none", s, torch.tensor([[1, 2], [-1, -1], [4, -1]]), lambda x, t: ctc(x, t, reduction="none").mean(),
     each=ctc(s, torch.tensor([[1, 2], [-1, -1], [4, -1]]), reduction="none"))
tight = torch.tensor([[1, 1, 1, 1, 1], [1, 2, 3, 4, -1], [2, -1, -1, -1, -1]])
show("ctc_impossible", "ctc:zero_infinity=1", s, tight, lambda x, t: ctc(x, t, zero_infinity=True))

# Batches without rows, none of whose rows counts, or whose weights are 0: means over nothing are NaN, sums 0.
unseen, light = torch.full((4,), -100), [0.0, 2.0, 1.0, 0.25, 0.0]
for key, f in (("cross_entropy", ce), ("nll", F.nll_loss)):
    for case, v, t in (("none", x[:0], unseen[:0]), ("unseen", x, unseen), ("some", x, some)):
        for reduction in "mean", "sum", "none":
            g = lambda x, t, w=None: f(x, t, w, reduction="mean" if reduction == "none" else reduction)
            each = f(v, t, reduction="none") if reduction == "none" else None
            show(f"{case}_{key}_{reduction}", f"{key}:reduction={reduction}", v, t, g, rows=True, each=each)
        show(f"{case}_{key}_weights", f"{key}:weight={text(W5)}", v, t, lambda x, t: f(x, t, weight), rows=True)
    zeros = torch.tensor([0, 4, 0, 4])
    show(f"light_{key}", f"{key}:weight={text(light)}", x, zeros, lambda x, t: f(x, t, torch.tensor(light)), rows=True)
    show(f"light_{key}_sum", f"{key}:weight={text(light)},reduction=sum", x, zeros, lambda x, t: f(x, t, torch.tensor(light), reduction="sum"), rows=True)
show("none_smooth", "cross_entropy:label_smoothing=0.2", x[:0], t[:0], lambda x, t: ce(x, t, label_smoothing=0.2), rows=True)
show("unseen_smooth", f"cross_entropy:label_smoothing=0.2,weight={text(W5)}", x, unseen, lambda x, t: ce(x, t, weight, label_smoothing=0.2), rows=True)
show("none_probabilities", "cross_entropy:target_type=float32", x[:0], q[:0], ce, rows=True)
show("none_image", "cross_entropy:axis=1", x4[:0], t4[:0], ce, rows=True)
for key, f in (("mse", F.mse_loss), ("l1", F.l1_loss), ("smooth_l1", F.smooth_l1_loss), ("huber", F.huber_loss), ("bce_with_logits", bce), ("kl", F.kl_div), ("focal", focal)):
    target = u if key in ("bce_with_logits", "focal") else b
    for case, v, t in (("none", a[:0], target[:0]), ("some", a, target)):
        show(f"{case}_{key}", key, v, t, f, rows=True)
        if key != "focal":
            show(f"{case}_{key}_sum", key + ":reduction=sum", v, t, lambda x, t: f(x, t, reduction="sum"), rows=True)
show("light_bce", f"bce_with_logits:weight={text([0.0] * 3)}", c, u, lambda x, t: bce(x, t, torch.zeros(3)), rows=True)
show("none_dice", "dice", spots[:0], mask[:0], dice, rows=True)
show("none_triplet", f"triplet:{names}", o[:0], None, F.triplet_margin_loss, (m[:0], n[:0]), rows=True)
show("none_cosine", "cosine:input=y,other=o0", o[:0], signs[:0], F.cosine_embedding_loss, (m[:0],), rows=True)
