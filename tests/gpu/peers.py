# SPDX-License-Identifier: Apache-2.0
"""What PyTorch takes for a case: peers.py KIND ARGUMENT... prints {"ms": ...} of one operation, or {"skip": why}."""
import json, sys, time


def main(kind, *words):
    try:
        import torch
    except ImportError:
        return {"skip": "no PyTorch"}
    if not torch.cuda.is_available():
        return {"skip": "PyTorch sees no GPU"}
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    sizes = [int(w) for w in words if w.isdigit()]
    if kind == "product":
        a, b = (torch.randn(sizes[0], sizes[0], device="cuda", dtype=types[words[0]]) for _ in range(2))
        run = lambda: a @ b
    elif kind == "attention":
        q, k, v = (torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    elif kind == "attention-training":
        q, k, v = (torch.randn(*sizes, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        d = torch.randn_like(q)
        run = lambda: torch.autograd.grad(torch.nn.functional.scaled_dot_product_attention(q, k, v), (q, k, v), d)
    else:
        a = torch.randn(*sizes, device="cuda")
        run = torch.compile(lambda: a + a.mean(0, keepdim=True))
    with torch.set_grad_enabled(kind == "attention-training"):
        for _ in range(10):
            run()
        times = []
        for _ in range(20):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
    return {"ms": sorted(times)[len(times) // 2], "version": torch.__version__}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
