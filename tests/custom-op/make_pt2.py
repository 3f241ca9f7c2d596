# SPDX-License-Identifier: Apache-2.0
"""Writes custom.pt2, custom.x.npy and custom.y.npy: a network with an operator of torch.library's, and what PyTorch (2.9) gives for it."""
import torch, numpy as np
@torch.library.custom_op("mylib::scaled_tanh", mutates_args=())
def scaled_tanh(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    return alpha * torch.tanh(beta * x)
@scaled_tanh.register_fake
def _(x, alpha, beta): return torch.empty_like(x)
class M(torch.nn.Module):
    def __init__(self):
        super().__init__(); torch.manual_seed(0); self.a = torch.nn.Linear(8, 16); self.b = torch.nn.Linear(16, 3)
    def forward(self, x): return self.b(torch.ops.mylib.scaled_tanh(self.a(x), 1.7159, 2/3))
m = M().eval(); x = torch.randn(4, 8)
n = torch.export.Dim("n", min=2, max=64)
e = torch.export.export(m, (x,), dynamic_shapes={"x": {0: n}})
torch.export.save(e, "custom.pt2"); np.save("custom.x.npy", x.numpy()); np.save("custom.y.npy", m(x).detach().numpy())
