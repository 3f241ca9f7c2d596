# SPDX-License-Identifier: Apache-2.0
"""Gradients of ATen ops as decompositions, for which PyTorch has none: what eager PyTorch's kernels compute. NotImplemented: not of these options."""


def _distances_part(d, g, c, p):
    """What a pair's difference d, with the gradient g by its distance c, gives to its first point; None: no such p."""
    import torch
    if p == 2.0:
        part = d * g / c
    elif p == 1.0:
        return torch.sign(d) * g
    elif p < 1.0 or p == float("inf"):
        return None
    else:
        part = torch.sign(d) * d.abs().pow(p - 1) * g / c.pow(p - 1)
    return torch.where(c == 0, torch.zeros_like(part), part)


def _cdist_backward(grad, x1, x2, p, cdist):
    """The gradient by x1 of the distances cdist = |x1 - x2|_p; 0 where they are 0."""
    part = _distances_part(x1.unsqueeze(-2) - x2.unsqueeze(-3), grad.unsqueeze(-1), cdist.unsqueeze(-1), p)
    return NotImplemented if part is None else part.sum(-2)


def _pdist_backward(grad, x, p, pdist):
    import torch
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind(0)
    part = _distances_part(x.index_select(0, first) - x.index_select(0, second), grad.unsqueeze(-1), pdist.unsqueeze(-1), p)
    return NotImplemented if part is None else torch.zeros_like(x).index_add(0, first, part).index_add(0, second, -part)


def _replication_pad_backward(grad, x, padding):
    """Each element of the border goes to the one that it repeats."""
    import torch
    for k in range(len(padding) // 2):
        d = x.dim() - 1 - k
        at = (torch.arange(grad.shape[d]) - padding[2 * k]).clamp(0, x.shape[d] - 1)
        sizes = [x.shape[i] if i == d else n for i, n in enumerate(grad.shape)]
        grad = grad.new_zeros(sizes).index_add(d, at, grad)
    return grad


def _shrink_backward(grad, x, bound):
    import torch
    return torch.where((x >= -bound) & (x <= bound), 0.0, grad)


def _masked_scatter_backward(grad, mask, sizes):
    """Element k of the source lies where the k-th of the mask is set."""
    import torch
    mask = mask.expand(grad.shape).reshape(-1)
    n = 1
    for size in sizes:
        n = n * size
    at = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, n)
    return grad.new_zeros([n + 1]).scatter(0, at, grad.reshape(-1)).narrow(0, 0, n).reshape(sizes)


def _bags(indices, offsets, padding):
    """Of each index: its bag, and does it count?"""
    import torch
    at = torch.arange(indices.shape[0], dtype=offsets.dtype)
    return torch.searchsorted(offsets, at, right=True) - 1, indices != padding


def _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, most, rows, by_frequency, mode, sparse, weights=None, padding=-1):
    import torch
    if by_frequency or sparse:
        return NotImplemented
    table = grad.new_zeros([rows, grad.shape[1]])
    if mode == 2:
        return table.scatter_add(0, most.clamp(min=0), torch.where(most >= 0, grad, 0.0))
    bag, counts = _bags(indices, offsets, padding)
    part = grad.index_select(0, bag)
    if mode == 1:
        sizes = grad.new_zeros([grad.shape[0]]).index_add(0, bag, counts.to(grad.dtype)).clamp(min=1)
        part = part / sizes.index_select(0, bag).unsqueeze(1)
    elif weights is not None:
        part = part * weights.unsqueeze(1)
    return table.index_add(0, indices, torch.where(counts.unsqueeze(1), part, 0.0))


def _embedding_bag_weights_backward(grad, table, indices, offsets, offset2bag, mode, padding=-1):
    import torch
    bag, counts = _bags(indices, offsets, padding)
    return torch.where(counts, (grad.index_select(0, bag) * table.index_select(0, indices)).sum(1), 0.0)


def _fractional_max_pool_backward(n):
    def gradient(grad, x, kernel, sizes, indices):
        """Each window's gradient to the element that its index says."""
        import torch
        flat = x.new_zeros([*x.shape[:-n], 1]).expand([*x.shape[:-n], x.shape[-n:].numel()])
        return flat.scatter_add(-1, indices.flatten(-n), grad.flatten(-n)).reshape(x.shape)
    return gradient


def _of_nothing_too(own):
    """A loss's gradient, whose own decomposition divides by the number of elements."""
    def gradient(grad, x, target, *options):
        import torch
        return torch.broadcast_tensors(x, target)[0].clone() if x.numel() == 0 or target.numel() == 0 else own(grad, x, target, *options)
    return gradient


def decompositions():
    """{op: function}"""
    import torch
    from torch._decomp import decomposition_table
    aten = torch.ops.aten
    ops = {aten._cdist_backward: _cdist_backward, aten._pdist_backward: _pdist_backward, aten.replication_pad1d_backward: _replication_pad_backward,
           aten.replication_pad2d_backward: _replication_pad_backward, aten.replication_pad3d_backward: _replication_pad_backward, aten.softshrink_backward: _shrink_backward,
           aten.hardshrink_backward: _shrink_backward, aten.masked_scatter_backward: _masked_scatter_backward, aten._embedding_bag_backward: _embedding_bag_backward,
           aten._embedding_bag_per_sample_weights_backward: _embedding_bag_weights_backward}
    table = {op.default: f for op, f in ops.items()}
    for op in aten.mse_loss_backward, aten.smooth_l1_loss_backward, aten.huber_loss_backward:
        table[op.default] = _of_nothing_too(decomposition_table[op.default])
    table[aten.fractional_max_pool2d_backward.default] = _fractional_max_pool_backward(2)
    table[aten.fractional_max_pool3d_backward.default] = _fractional_max_pool_backward(3)
    table[aten.rrelu_with_noise_backward.default] = decomposition_table[aten.rrelu_with_noise_backward.default]
    return table
