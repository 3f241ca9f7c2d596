#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export that solve, factor and decompose matrices, with PyTorch's results: NAME/model.pt2 as cases.py writes them.

usage: linalg.py DIR [PATTERN]

Eigenvectors and singular vectors are compared by what does not depend on their signs; matrices are square, tall, wide, of one and no elements, singular, of both floats.
"""
import sys
import torch
from cases import CASES, case, main, t

F32, F64 = torch.float32, torch.float64
L = torch.linalg
CASES.clear()


def near(n, *batch, dtype=F32):
    """Matrices that are far from singular, symmetric parts positive definite."""
    return t(*batch, n, n, dtype=dtype) + 2.5 * n ** 0.5 * torch.eye(n, dtype=dtype)


def spd(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def rebuilt(u, s, vh):
    k = s.shape[-1]
    return (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], s, u.mT @ u, vh @ vh.mT


def eigen(w, v):
    return (v * w.unsqueeze(-2)) @ v.mT, w, v.mT @ v


def lu_product(p, l, u):
    return p @ l @ u, l, u, p


for dtype, tag in ((F32, "f32"), (F64, "f64")):
    tol = "2e-4 2e-5" if dtype == F32 else "1e-11 1e-12"
    for shape in ((1,), (2,), (5,), (3, 2, 4), (0,), (2, 0)):
        n, batch = shape[-1], shape[:-1]
        name = f"{'x'.join(map(str, shape))}_{tag}"
        a, b = near(n, *batch, dtype=dtype), t(*batch, n, 3, dtype=dtype)
        case(f"inv_{name}", lambda x: (L.inv(x), torch.inverse(x), L.inv_ex(x)[0]), a, tol=tol)
        case(f"solve_{name}", lambda x, y: (L.solve(x, y), L.solve(x, y.mT, left=False), L.solve(x, y[..., 0])), a, b, tol=tol)
        case(f"solve_ex_{name}", lambda x, y: L.solve_ex(x, y), a, b, tol=tol)
        case(f"cholesky_{name}", lambda x: (L.cholesky(spd(x)), L.cholesky(spd(x), upper=True), *L.cholesky_ex(spd(x))), a, tol=tol)
        case(f"cholesky_solve_{name}", lambda x, y: (torch.cholesky_solve(y, L.cholesky(spd(x))), torch.cholesky_solve(y, L.cholesky(spd(x), upper=True), upper=True)), a, b, tol=tol)
        case(f"cholesky_inverse_{name}", lambda x: torch.cholesky_inverse(L.cholesky(spd(x))), a, tol=tol)
        case(f"triangles_{name}", lambda x, y: (L.solve_triangular(x, y, upper=True), L.solve_triangular(x, y, upper=False, unitriangular=True), L.solve_triangular(x, y.mT, upper=True, left=False),
             torch.triangular_solve(y, x)[0], torch.triangular_solve(y, x, upper=False, transpose=True, unitriangular=True)[0]), a, b, tol=tol)
        case(f"det_{name}", lambda x: (L.det(x), torch.det(x), *L.slogdet(x), torch.logdet(spd(x)), torch.logdet(-x)), a, tol=tol)
        case(f"lu_{name}", lambda x: (*L.lu_factor(x), *lu_product(*L.lu(x)), *torch.lu_unpack(*L.lu_factor(x))), t(*batch, n, n, dtype=dtype), tol=tol)
        case(f"lu_solve_{name}", lambda x, y: (L.lu_solve(*L.lu_factor(x), y), L.lu_solve(*L.lu_factor(x), y.mT, left=False), L.lu_solve(*L.lu_factor(x), y, adjoint=True), torch.lu_solve(y, *L.lu_factor(x))),
             a, b, tol=tol)
        case(f"eigh_{name}", lambda x: (*eigen(*L.eigh(x + x.mT)), *eigen(*L.eigh(x, UPLO="U")), L.eigvalsh(x)), t(*batch, n, n, dtype=dtype), tol=tol)
        case(f"exp_{name}", lambda x: (L.matrix_exp(x), torch.matrix_exp(x * 0.01), L.matrix_exp(x * 3 - 1)), t(*batch, n, n, dtype=dtype), tol=tol)
    for shape in ((1, 1), (3, 3), (5, 2), (2, 5), (2, 4, 3), (3, 0), (0, 3)):
        name = f"{'x'.join(map(str, shape))}_{tag}"
        a = t(*shape, dtype=dtype)
        case(f"qr_{name}", lambda x: (*L.qr(x), L.qr(x, mode="r")[1]), a, tol=tol)
        if 0 not in shape:
            case(f"qr_complete_{name}", lambda x: L.qr(x, mode="complete"), a, tol=tol)
            case(f"pinv_{name}", lambda x: (L.pinv(x), L.pinv(x, rtol=0.6), L.pinv(x, atol=0.5, rtol=0.1), torch.pinverse(x)), a, tol=tol)
            case(f"rank_{name}", lambda x: (L.matrix_rank(x), L.matrix_rank(x, atol=0.5), L.matrix_rank(x, rtol=0.5), L.cond(x)), a, tol=tol)
        case(f"lu_of_{name}", lambda x: lu_product(*L.lu(x)), a, tol=tol)
        case(f"svd_{name}", lambda x: (*rebuilt(*L.svd(x, full_matrices=False)), L.svdvals(x), torch.svd(x)[1]), a, tol=tol)
        if 0 not in shape:
            case(f"svd_full_{name}", lambda x: rebuilt(*L.svd(x)), a, tol=tol)
        if shape[-2] >= shape[-1]:
            case(f"geqrf_{name}", lambda x: (*torch.geqrf(x), L.householder_product(*torch.geqrf(x)), torch.orgqr(*torch.geqrf(x))), a, tol=tol)
case("pinv_by_tensors", lambda x, y: (L.pinv(x, atol=y, rtol=y), L.matrix_rank(x, atol=y)), t(3, 4, 2), t(3, lo=0.1, hi=2))
case("pinv_hermitian", lambda x: L.pinv(x + x.mT, hermitian=True), t(4, 4), tol="1e-3 1e-4")
case("singular", lambda x: (L.det(x), *L.slogdet(x), *L.lu_factor_ex(x), L.inv_ex(x)[1], L.solve_ex(x, x)[1], L.matrix_rank(x), *rebuilt(*L.svd(x)), L.pinv(x), *eigen(*L.eigh(x + x.mT))),
     torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]))
for layout, of in (("rows", lambda x: x), ("columns", lambda x: x.mT.contiguous().mT)):
    case(f"saved_factors_{layout}", lambda x, y: (*torch.ops.aten._linalg_solve_ex(x, y)[:3], *torch.ops.aten._linalg_det(x), *torch.ops.aten._linalg_slogdet(x)), of(near(3, 2)), t(2, 3, 2))
case("not_definite", lambda x: L.cholesky_ex(x)[1], torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]]))
case("extremes", lambda x: (L.svdvals(x), L.eigvalsh(x @ x.mT)), torch.tensor([[1e-140, 3e-140, 2e-150], [0.0, 5e-141, 1e-140]], dtype=F64), tol="1e-11 0")
case("wide_range", lambda x: L.svdvals(x), torch.diag(torch.tensor([1e10, 1.0, 1e-10], dtype=F64)) @ (torch.eye(3, dtype=F64) + 0.1), tol="1e-6 1e-9")
case("broadcast", lambda x, y, z: (L.solve(x, y), L.solve(x, z), L.solve_triangular(x, y, upper=True), L.lu_solve(*L.lu_factor(x), y)), near(3, 2, 1), t(4, 3, 2), t(3, 2))
case("vectors", lambda x, y, z: (L.solve(x, y), L.solve(x[0], z)), near(3, 2), t(2, 3), t(3))
case("powers", lambda x: (L.matrix_power(x, -2), L.matrix_power(x, -1), L.matrix_power(x, 3)), near(3, 2))
case("norms", lambda x: (L.matrix_norm(x, "nuc"), L.matrix_norm(x, 2), L.matrix_norm(x, -2), L.norm(x, "nuc"), L.norm(x), L.matrix_norm(x, 1), L.matrix_norm(x, -1), L.matrix_norm(x, float("inf")), L.matrix_norm(x, -float("inf")), L.norm(x, 1), L.norm(x, 2)), t(3, 4))
case("norms_of_dims", lambda x: (L.matrix_norm(x, 2, dim=(2, 0), keepdim=True), L.matrix_norm(x, 1, dim=(2, 0)), L.matrix_norm(x, float("inf"), dim=(2, 0), keepdim=True), L.norm(x, "nuc", dim=(0, 1)), L.matrix_norm(x, dim=(0, 2))), t(3, 4, 2))
case("tensorinv", lambda x: (L.tensorinv(x.reshape(2, 3, 6), ind=2), L.tensorinv(x.reshape(6, 3, 2), ind=1)), near(6))
case("tensorsolve", lambda x, y: L.tensorsolve(x.reshape(2, 3, 3, 2), y), near(6), t(2, 3))
case("batch_open", lambda x, y: (L.solve(x, y), L.cholesky(spd(x)), *L.qr(x), *eigen(*L.eigh(spd(x))), L.det(x), *rebuilt(*L.svd(y, full_matrices=False)), L.pinv(y)), near(3, 4), t(4, 3, 2), dynamic=({0: "n"}, {0: "n"}))
case("sizes_open", lambda x, y: (L.solve(x, y), L.inv(x), L.cholesky(spd(x)), *L.qr(y), L.svdvals(y)), near(4), t(4, 3), dynamic=({0: "n", 1: "n"}, {0: "n", 1: "m"}))


def indefinite(x):
    return x + x.mT


def parts(z):
    return torch.view_as_real(z).unbind(-1)


def any_eigen(x):
    """What does not depend on the order of eigenvalues nor on the phase of vectors: both parts sorted, the residual, the vectors' lengths."""
    (wr, wi), (vr, vi), (er, ei) = parts(L.eig(x)[0]), parts(L.eig(x)[1]), parts(L.eigvals(x))
    rest = x @ vr - (vr * wr.unsqueeze(-2) - vi * wi.unsqueeze(-2)), x @ vi - (vr * wi.unsqueeze(-2) + vi * wr.unsqueeze(-2))
    return wr.sort()[0], wi.sort()[0], *rest, (vr * vr + vi * vi).sum(-2), (wi == 0).sum(-1), er.sort()[0], ei.sort()[0]


def ldl(x, b):
    factors = L.ldl_factor(indefinite(x))
    return *factors, *L.ldl_factor_ex(indefinite(x)), L.ldl_solve(*factors, b), indefinite(x) @ L.ldl_solve(*factors, b) - b


for dtype, tag in ((F32, "f32"), (F64, "f64")):
    tol = "2e-4 2e-5" if dtype == F32 else "1e-10 1e-11"
    for shape in ((1,), (2,), (3,), (4, 5), (9,), (20,), (0,), (2, 0)):
        n, name = shape[-1], f"{'x'.join(map(str, shape))}_{tag}"
        case(f"eig_{name}", any_eigen, t(*shape, n, dtype=dtype), tol=tol)
        case(f"ldl_{name}", ldl, t(*shape, n, dtype=dtype), t(*shape, 2, dtype=dtype), tol=tol)
case("eig_rotations", any_eigen, torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 2]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[1, 0, 0], [0, 2, 0], [0, 0, 3]]], dtype=F64), tol="1e-10 1e-11")
case("eig_scales", any_eigen, torch.tensor([[1e-6, 1e8, 0], [1e-9, 2, 1e5], [0, 3e-6, 4]], dtype=F64), tol="1e-8 1e-5")
case("eig_defective", lambda x: parts(L.eigvals(x)), torch.tensor([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]], dtype=F64), tol="1e-10 1e-11")
case("ldl_pairs", ldl, torch.tensor([[0.0, 1, 2, 0], [0, 0, 3, 1], [0, 0, 0, 4], [0, 0, 0, 0]], dtype=F64), t(4, 2, dtype=F64), tol="1e-10 1e-11")
case("ldl_singular", lambda x: L.ldl_factor_ex(indefinite(x)), torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 2]]))
case("ldl_broadcast", lambda x, b: L.ldl_solve(*L.ldl_factor(indefinite(x)), b), t(3, 3), t(4, 3, 2))
case("eig_open", any_eigen, t(4, 4), dynamic=({0: "n", 1: "n"},), tol="2e-4 2e-5")

if __name__ == "__main__":
    sys.exit(main())
