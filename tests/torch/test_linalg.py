"""Factorisations and what is solved by them: against torch's CPU in values, strides, info, pivots and words, and
natively."""
import pytest
import torch

L = torch.linalg
F, C = torch.float32, torch.complex128
SQUARE = [((3, 2, 4, 4), F), ((4, 4), C), ((0, 3, 3), F), ((0, 0), F), ((70, 70), F)]
OBLONG = [((5, 3), C), ((2, 4, 7), F), ((0, 4), F), ((4, 0), F), ((0, 3, 2), F), ((80, 70), F)]
TOLERANCE = {
    torch.float32: (2e-3, 2e-4),
    torch.complex64: (2e-3, 1e-4),
    torch.float64: (1e-8, 1e-9),
    torch.complex128: (1e-8, 1e-9),
}
square = pytest.mark.parametrize("shape, dtype", SQUARE, ids=str)
oblong = pytest.mark.parametrize("shape, dtype", OBLONG, ids=str)
dtypes = pytest.mark.parametrize("dtype", [F, C], ids=str)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def matrix(*shape, dtype=torch.float32):
    x = torch.randn(shape, dtype=dtype)
    return x + 3 * torch.eye(*shape[-2:], dtype=dtype)


def definite(*shape, dtype=torch.float32):
    x = torch.randn(shape, dtype=dtype)
    return x @ x.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype)


def fallbacks():
    import torch_tpu

    return torch_tpu.counters()["fallbacks"]


def same(fn, *args, **kwargs):
    """fn on the device gives what it gives on the CPU, in values and strides, without the CPU's help."""
    expected = fn(*args, **kwargs)
    before = fallbacks()
    got = fn(*(x.to("tpu") if isinstance(x, torch.Tensor) else x for x in args), **kwargs)
    assert fallbacks() == before
    if isinstance(expected, torch.Tensor):
        expected, got = [expected], [got]
    for e, g in zip(expected, got, strict=True):
        rtol, atol = TOLERANCE.get(e.dtype, (0, 0))
        torch.testing.assert_close(g.cpu(), e, rtol=rtol, atol=atol, equal_nan=True)
        assert e.numel() == 0 or g.stride() == e.stride()


def same_error(fn):
    """fn(place) raises the same on both."""
    said = []
    for device in "cpu", "tpu":
        with pytest.raises(Exception) as e:
            fn(lambda x: x.to(device))
        said.append((type(e.value), str(e.value).splitlines()[0]))
    assert said[0] == said[1]


# ---- Cholesky ----
@square
def test_cholesky_and_what_it_solves(shape, dtype):
    p, b = definite(*shape, dtype=dtype), torch.randn(*shape[:-1], 3, dtype=dtype)
    for upper in False, True:
        same(L.cholesky, p, upper=upper)
        same(torch.cholesky_inverse, p, upper=upper)
        same(torch.cholesky_solve, b, p, upper=upper)


def test_cholesky_reads_one_triangle():
    p = definite(4, 4)
    same(L.cholesky, p.tril() + torch.full_like(p, float("nan")).triu(1))
    same(L.cholesky, p.triu() + torch.full_like(p, float("nan")).tril(-1), upper=True)


def test_cholesky_info_of_the_first_bad_minor():
    p = definite(3, 5, 5)
    p[1, 2, 2] = -1
    p[2, 0, 0] = float("nan")
    before = fallbacks()
    factor, info = L.cholesky_ex(p.to("tpu"))
    assert info.tolist() == L.cholesky_ex(p).info.tolist() == [0, 3, 1]
    torch.testing.assert_close(factor[0].cpu(), L.cholesky(p[0]))
    assert fallbacks() == before


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
def test_cholesky_of_old():
    p = definite(2, 4, 4)
    same(torch.cholesky, p)
    same(torch.cholesky, p, True)
    same_error(lambda to: torch.cholesky(to(-p)))
    same_error(lambda to: torch.cholesky(to(p[0, :3])))


# ---- LU ----
@square
def test_solve_inverse_and_determinants(shape, dtype):
    a, b = matrix(*shape, dtype=dtype), torch.randn(*shape[:-1], 3, dtype=dtype)
    same(L.solve_ex, a, b[..., 0].contiguous())
    same(L.solve_ex, a, b.mT.contiguous(), left=False)
    same(L.inv_ex, a)
    same(torch.ops.aten._linalg_solve_ex, a, b)
    same(torch.ops.aten._linalg_det, a)
    same(torch.ops.aten._linalg_slogdet, a)
    same(torch.ops.aten._linalg_slogdet, a.mT)


def test_solve_broadcasts_batches():
    same(L.solve, matrix(3, 1, 4, 4), torch.randn(2, 4, 3))
    same(L.solve, matrix(4, 4), torch.randn(2, 4, 3))
    same(L.solve, matrix(2, 4, 4), torch.randn(2, 4))
    same(L.lu_solve, *L.lu_factor(matrix(3, 1, 4, 4)), torch.randn(2, 4, 3))
    same(torch.cholesky_solve, torch.randn(2, 4, 3), definite(3, 1, 4, 4))
    same(L.solve_triangular, matrix(3, 1, 4, 4), torch.randn(2, 4, 3), upper=True)
    same(torch.triangular_solve, torch.randn(2, 4, 3), matrix(3, 1, 4, 4))


@oblong
def test_lu(shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    same(L.lu, a)
    if a.numel():
        lu, pivots = L.lu_factor(a)
        same(torch.lu_unpack, lu, pivots)
        same(torch.lu_unpack, lu, pivots, unpack_data=False)


@dtypes
def test_lu_solve(dtype):
    lu, pivots = L.lu_factor(torch.randn(2, 5, 5, dtype=dtype))
    b = torch.randn(2, 5, 3, dtype=dtype)
    for adjoint in False, True:
        same(L.lu_solve, lu, pivots, b, adjoint=adjoint)
        same(L.lu_solve, lu, pivots, b.mT.contiguous(), left=False, adjoint=adjoint)


def test_pivot_ties_and_singular_matrices():
    a = torch.tensor([[2.0, 1, 1], [2, 5, 3], [-2, 1, 0]])
    same(L.lu_factor_ex, a)
    same(L.lu_factor_ex, torch.tensor([[3 + 0j, 1], [2 + 2j, 1]]))  # |re| + |im| decides
    for x in torch.zeros(3, 3), torch.ones(3, 3), torch.tensor([[1.0, 2], [2, 4]]):
        same(L.lu_factor_ex, x)
        same(L.det, x)
        same(L.slogdet, x)
        same(lambda x: L.inv_ex(x).info, x)


# ---- triangular systems ----
@square
def test_triangular_systems(shape, dtype):
    a, b = matrix(*shape, dtype=dtype), torch.randn(*shape[:-1], 3, dtype=dtype)
    a = a if shape[-1] < 70 else a.triu().tril(3)  # else its inverse is huge
    for upper, unit in (False, False), (True, True):
        same(L.solve_triangular, a, b, upper=upper, unitriangular=unit)
        same(L.solve_triangular, a, b.mT.contiguous(), upper=upper, left=False, unitriangular=unit)
        same(torch.triangular_solve, b, a, upper, True, unit)


# ---- QR ----
@oblong
def test_qr(shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    for mode in "reduced", "complete", "r":
        same(L.qr, a, mode)
    same(torch.geqrf, a)
    if a.numel() and shape[-2] >= shape[-1]:
        packed, tau = torch.geqrf(a)
        same(L.householder_product, packed, tau)
        same(L.householder_product, packed, tau[..., :-1].contiguous())
        b = torch.randn(*shape[:-1], 3, dtype=dtype)
        same(torch.ormqr, packed, tau, b, True, False)
        same(torch.ormqr, packed, tau, b.mT.contiguous(), False, True)


def test_qr_of_what_needs_no_reflection_or_scaling():
    same(torch.geqrf, torch.diag(torch.tensor([2.0, -3, 0])))
    same(torch.geqrf, torch.diag(torch.tensor([2j, -3, 0])))
    same(L.qr, torch.tensor([[3e25, 1e25], [4e25, 2e25]]))
    same(L.qr, torch.tensor([[3e-30, 1e-30], [4e-30, 2e-30]]).double())
    same(torch.geqrf, torch.zeros(3, 2))


# ---- LDL ----
@pytest.mark.parametrize(
    "shape, dtype, hermitian",
    [((20, 9, 9), F, False), ((20, 9, 9), torch.complex64, True), ((5, 5), C, False), ((0, 3, 3), F, False)],
    ids=str,
)
def test_ldl(shape, dtype, hermitian):
    a = torch.randn(shape, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    a.diagonal(dim1=-2, dim2=-1).mul_(0.1)  # so that 2 by 2 pivots occur
    same(L.ldl_factor_ex, a, hermitian=hermitian)
    ld, pivots, _ = L.ldl_factor_ex(a, hermitian=hermitian)
    same(L.ldl_solve, ld, pivots, torch.randn(*shape[:-1], 3, dtype=dtype), hermitian=hermitian)


def test_ldl_of_singular_matrices():
    same(L.ldl_factor_ex, torch.zeros(3, 3))
    a = matrix(4, 4)
    a = a + a.mT
    a[0] = a[:, 0] = 0
    same(L.ldl_factor_ex, a)


# ---- least squares ----
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape, dtype", [((2, 5, 3), F), ((3, 5), C), ((0, 3), F), ((3, 0), F)], ids=str)
def test_lstsq(shape, dtype, driver):
    a = torch.randn(shape, dtype=dtype)
    same(L.lstsq, a, torch.randn(*shape[:-1], 4, dtype=dtype), driver=driver)
    same(L.lstsq, a, torch.randn(shape[:-1], dtype=dtype), driver=driver)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd"])
def test_lstsq_of_deficient_rank(driver):
    a = torch.randn(6, 2, dtype=torch.float64) @ torch.randn(2, 4, dtype=torch.float64)
    same(lambda a, b: L.lstsq(a, b, driver=driver)[:3], a, torch.randn(6, 3, dtype=torch.float64))


def test_lstsq_broadcasts_and_refuses():
    same(L.lstsq, torch.randn(5, 1, 3, 2), torch.randn(5, 2, 3, 4))
    x, y = torch.randn(2, 3, 2), torch.randn(2, 3, 4)
    for a, b, driver in [
        (x[0, 0], y[0], None),
        (x[0], y[0, 0], None),
        (x, y[0], None),
        (x, y[:, 0], None),
        (x, y.double(), None),
        (x, torch.randn(5, 3, 4), None),
        (x, y, "foo"),
        (x, y[:, :2], None),
    ]:
        same_error(lambda to: L.lstsq(to(a), to(b), driver=driver))


def test_lstsq_fills_out():
    outs = [
        [
            torch.empty(0, device=d),
            torch.empty(0, device=d),
            torch.empty(0, device=d, dtype=torch.int64),
            torch.empty(0, device=d),
        ]
        for d in ("cpu", "tpu")
    ]
    a, b = torch.randn(2, 5, 3), torch.randn(2, 5, 4)
    expected = L.lstsq(a, b, driver="gels", out=tuple(outs[0]))
    got = L.lstsq(a.to("tpu"), b.to("tpu"), driver="gels", out=tuple(outs[1]))
    for e, g, o in zip(expected, got, outs[1]):
        assert g is o and g.stride() == e.stride()
        torch.testing.assert_close(g.cpu(), e, rtol=1e-3, atol=1e-4)


# ---- errors ----
def test_errors_that_values_tell():
    zero, minus = torch.zeros(2, 2), -torch.eye(2)
    for fn in [
        L.inv,
        L.lu_factor,
        lambda a: L.solve(a, a),
        lambda a: L.inv_ex(a, check_errors=True),
        lambda a: L.solve_ex(a, a, check_errors=True),
        lambda a: L.lu_factor_ex(a, check_errors=True),
    ]:
        same_error(lambda to: fn(to(zero)))
        same_error(lambda to: fn(to(zero.expand(3, 2, 2))))
    same_error(lambda to: L.cholesky(to(minus)))
    same_error(lambda to: L.cholesky_ex(to(minus), check_errors=True))
    L.inv_ex(torch.eye(2, device="tpu"), check_errors=True)


def test_errors_that_shapes_and_dtypes_tell():
    r = torch.randn
    for fn in [
        lambda to: L.lu(to(r(3, 3)), pivot=False),
        lambda to: L.qr(to(r(3, 3)), "foo"),
        lambda to: torch.geqrf(to(r(3))),
        lambda to: L.inv(to(r(3, 2))),
        lambda to: L.cholesky(to(torch.eye(3).bfloat16())),
        lambda to: L.qr(to(r(3, 3).half())),
        lambda to: L.solve(to(r(3, 3)), to(r(4))),
        lambda to: torch.cholesky_solve(to(r(3, 3)), to(r(2, 2))),
    ]:
        same_error(fn)


# ---- gradients ----
@pytest.mark.parametrize(
    "fn",
    [
        L.inv,
        L.det,
        lambda a: L.slogdet(a)[1],
        lambda a: L.cholesky(a @ a.mT + 4 * torch.eye(4, device=a.device)),
        lambda a: L.qr(a)[1],
        lambda a: L.lu(a)[2],
        lambda a: L.solve(a, a.sum(-1)),
        lambda a: L.solve(a, a @ a),
        lambda a: L.lu_factor(a)[0],
        lambda a: L.solve_triangular(a, a, upper=True),
    ],
    ids=["inv", "det", "slogdet", "cholesky", "qr", "lu", "solve vector", "solve", "lu_factor", "solve_triangular"],
)
def test_gradients(fn):
    a = matrix(2, 4, 4)
    grads = []
    before = fallbacks()
    for device in "cpu", "tpu":
        x = a.to(device).requires_grad_()
        y = fn(x)
        grads.append(torch.autograd.grad(y, x, torch.linspace(-1, 1, y.numel()).view(y.shape).to(device))[0].cpu())
    assert fallbacks() == before
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-4)


# ---- size ----
@pytest.mark.strict("looks at the programs of single calls")
def test_programs_do_not_grow_with_the_matrix(tmp_path):
    """The same text, but for the numbers in it, whatever the size beyond a panel's."""
    import os
    import subprocess
    import sys

    code = "import torch, torch_tpu; [torch.linalg.inv_ex(torch.eye(n, device='tpu')) for n in (200, 328)]"
    env = {**os.environ, "TORCH_TPU_DUMP": str(tmp_path), "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    texts = [f.read_text() for f in tmp_path.glob("*.mlir")]
    lines = [t.count("\n") for t in texts if "while" in t]
    assert len(lines) == 2 and lines[0] == lines[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (3, 20), (10, 17), (10, 18), (5, 3), (12, 10), (15, 10), (18, 10)], ids=str)
def test_svd_completes_bases_as_lapack_does(native, shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    for want, got in zip(L.svd(a, full_matrices=True), L.svd(a.to("tpu"), full_matrices=True)):
        torch.testing.assert_close(got.cpu().abs(), want.abs(), rtol=1e-7, atol=1e-9)


def test_svd_completes_bases_of_less_rank(native):
    a = torch.randn(4, 2, dtype=torch.float64) @ torch.randn(2, 7, dtype=torch.float64)
    u, s, vh = (t.cpu() for t in L.svd(a.to("tpu"), full_matrices=True))
    torch.testing.assert_close(vh @ vh.mT, torch.eye(7, dtype=torch.float64))
    torch.testing.assert_close((u * s) @ vh[:4], a)


@pytest.mark.parametrize(
    "rows",
    [[[float("inf"), 1], [1, 1]], [[1, 0], [0, float("inf")]], [[4, 2, 0], [2, float("inf"), 1], [0, 1, 3]]],
    ids=str,
)
def test_cholesky_of_what_is_infinite(native, rows):
    a = torch.tensor(rows, dtype=torch.float32)
    assert L.cholesky_ex(a.to("tpu")).info.item() == L.cholesky_ex(a).info.item()


def test_outs_that_grow_have_the_strides_of_results(native):
    a, b, kept = matrix(2, 4, 4), torch.randn(2, 4, 3), []
    symmetric, (packed, tau) = a @ a.mT, torch.geqrf(a)
    calls = [
        (L.qr, (a,), 2),
        (L.eigh, (symmetric,), 2),
        (L.lu_factor, (a,), 2),
        (L.ldl_factor, (symmetric,), 2),
        (L.householder_product, (packed, tau), 1),
        (torch.cholesky_inverse, (L.cholesky(symmetric),), 1),
        (torch.ormqr, (packed, tau, b), 1),
        (torch.lu_solve, (b, *L.lu_factor(a)), 1),
    ]
    for fn, args, n in calls:
        for device in ("cpu", "tpu"):
            outs = [
                torch.empty(
                    0, device=device, dtype=torch.int32 if k and fn in (L.lu_factor, L.ldl_factor) else torch.float32
                )
                for k in range(n)
            ]
            fn(*(x.to(device) for x in args), out=outs[0] if n == 1 else tuple(outs))
            kept.append([o.stride() for o in outs])
        assert kept[-1] == kept[-2], fn.__name__
