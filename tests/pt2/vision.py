#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export with torchvision's operators, with their results: NAME/model.pt2 as cases.py writes them. usage: vision.py DIR [PATTERN]"""
import sys
import torch
from torchvision.ops import deform_conv2d, nms, roi_align
from cases import CASES, F32, F64, case, main, t

CASES.clear()


def boxes(n, size, dtype=F32):
    b = t(n, 4, dtype=dtype, lo=0, hi=size / 2)
    b[:, 2:] += b[:, :2]
    return b


def regions(n, size, pictures, dtype=F32):
    return torch.cat([torch.arange(n).remainder(pictures)[:, None].to(dtype), boxes(n, size, dtype)], 1)


for n in (1, 7, 40):
    for threshold in (0.0, 0.3, 0.7, 1.0):
        case(f"nms_{n}_{threshold}", lambda b, s, v=threshold: nms(b, s, v), boxes(n, 8), torch.randperm(n).float() / n)
case("nms_f64", lambda b, s: nms(b, s, 0.5), boxes(20, 8, F64), torch.randperm(20).double())
case("nms_taken", lambda b, s: (b[nms(b, s, 0.4)], s[nms(b, s, 0.4)]), boxes(25, 8), torch.randperm(25).float())
case("nms_open", lambda b, s: nms(b, s, 0.4), boxes(12, 8), torch.randperm(12).float(), dynamic=({0: "n"}, {0: "n"}))
for ratio in (-1, 1, 3):
    for aligned in (False, True):
        for dtype, tag in ((F32, "f32"), (F64, "f64")):
            case(f"roi_align_{ratio}_{aligned}_{tag}", lambda x, r, ratio=ratio, aligned=aligned: roi_align(x, r, (3, 2), 0.5, ratio, aligned), t(2, 3, 7, 9, dtype=dtype), regions(6, 20, 2, dtype))
            case(f"roi_align_backward_{ratio}_{aligned}_{tag}", lambda d, r, ratio=ratio, aligned=aligned: torch.ops.torchvision._roi_align_backward(d, r, 0.5, 3, 2, 2, 3, 7, 9, ratio, aligned),
                 t(6, 3, 3, 2, dtype=dtype), regions(6, 20, 2, dtype))
case("roi_align_outside", lambda x, r: roi_align(x, r, 2, 1.0, 2, True), t(1, 2, 4, 5), torch.tensor([[0, -3.0, -3, 9, 9], [0, 7, 7, 9, 9], [0, 2, 2, 1, 1], [0, 4, 3, 4, 3]]))
case("roi_align_none", lambda x, r: roi_align(x, r, 2, 1.0, 2), t(1, 2, 4, 5), torch.zeros(0, 5))
case("roi_align_open", lambda x, r: roi_align(x, r, 2, 0.25, 2, True), t(2, 3, 7, 9), regions(5, 20, 2), dynamic=({0: "n"}, {0: "r"}))
for groups, per in ((1, 1), (2, 1), (1, 2)):
    for masked in (False, True):
        case(f"deform_conv_{groups}_{per}_{masked}", lambda x, o, w, b, m, masked=masked: deform_conv2d(x, o, w, b, stride=(1, 2), padding=(1, 0), dilation=(1, 2), mask=m if masked else None),
             t(2, 4, 6, 8), t(2, per * 18, 6, 2, lo=-1, hi=1), t(6, 4 // groups, 3, 3), t(6), t(2, per * 9, 6, 2, lo=0, hi=1), tol="1e-4 1e-5")

if __name__ == "__main__":
    sys.exit(main())
