# SPDX-License-Identifier: Apache-2.0
"""The gradient of grid_sampler_2d as a decomposition, as ATen's grid_sampler_2d_backward computes it: for which PyTorch has none."""


def _clip(at, size):
    """Within 0 .. size - 1, and the derivative, which is 0 on the border, too."""
    import torch
    return at.clamp(0, size - 1), torch.where((at <= 0) | (at >= size - 1), 0.0, 1.0).to(at.dtype)


def _reflect(at, low, high):
    """Reflected by the borders low / 2 and high / 2, and the derivative."""
    import torch
    if low == high:
        return torch.zeros_like(at), torch.zeros_like(at)
    least, span = low / 2, (high - low) / 2
    off = at - least
    sign = torch.where(off < 0, -1.0, 1.0).to(at.dtype)
    off = off.abs()
    flips = (off / span).floor()
    extra = off - flips * span
    even = flips - 2 * (flips / 2).floor() == 0
    return torch.where(even, extra + least, span - extra + least), torch.where(even, sign, -sign)


def _source(coordinate, size, padding, align_corners):
    """Where -1 .. 1 lies among `size` elements, and the derivative."""
    scale = (size - 1) / 2 if align_corners else size / 2
    at = (coordinate + 1) * scale if align_corners else ((coordinate + 1) * size - 1) / 2
    if padding == 0:
        return at, scale
    sign = 1.0
    if padding == 2:
        at, sign = _reflect(at, 0, 2 * (size - 1)) if align_corners else _reflect(at, -1, 2 * size - 1)
    at, inside = _clip(at, size)
    return at, inside * sign * scale


def grid_sampler_2d_backward(grad, x, grid, mode, padding, align_corners, wanted):
    """By x and by the grid; modes bilinear (0) and nearest (1)."""
    import torch
    if mode == 2:
        return NotImplemented
    n, c, h, w = x.shape
    shape = (n, 1, grid.shape[1] * grid.shape[2])
    column, d_column = _source(grid[..., 0], w, padding, align_corners)
    row, d_row = _source(grid[..., 1], h, padding, align_corners)
    flat, values = grad.reshape(n, c, -1), x.reshape(n, c, -1)
    by_x, by_column, by_row = torch.zeros_like(values), 0, 0
    if mode == 1:
        corners = [(row.round(), column.round(), None, None, None)]
    else:
        top, left = row.floor(), column.floor()
        down, right = row - top, column - left
        corners = [(top, left, (1 - down) * (1 - right), -(1 - down), -(1 - right)), (top, left + 1, (1 - down) * right, 1 - down, -right),
                   (top + 1, left, down * (1 - right), -down, 1 - right), (top + 1, left + 1, down * right, down, right)]
    for r, s, weight, d_s, d_r in corners:
        inside = ((r >= 0) & (r < h) & (s >= 0) & (s < w)).reshape(shape)
        at = (r.clamp(0, h - 1) * w + s.clamp(0, w - 1)).to(torch.int64).reshape(shape).expand(n, c, shape[2])
        part = torch.where(inside, flat, 0.0)
        if wanted[0]:
            by_x = by_x.scatter_add(2, at, part if weight is None else part * weight.reshape(shape))
        if wanted[1] and weight is not None:
            dot = (part * values.gather(2, at)).sum(1).reshape(grid.shape[:3])
            by_column, by_row = by_column + dot * d_s, by_row + dot * d_r
    if not wanted[1]:
        return by_x.reshape(x.shape), None
    by_grid = torch.zeros_like(grid) if mode == 1 else torch.stack([by_column * d_column, by_row * d_row], -1)
    return by_x.reshape(x.shape) if wanted[0] else None, by_grid
