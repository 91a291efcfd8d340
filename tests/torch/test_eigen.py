"""Eigenvalues, singular values and what torch builds on them: against the CPU, natively.

Vectors are free in sign or phase, so they are judged by what they multiply to."""
import pytest
import torch

pytestmark = pytest.mark.usefixtures("native")

ALL = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def tolerance(dtype):
    return 200 * torch.finfo(dtype).eps


def close(got, wanted, dtype, scale=1.0):
    error = (got.cpu() - wanted).abs().max().item() if wanted.numel() else 0.0
    assert got.shape == wanted.shape and error <= tolerance(dtype) * max(1.0, scale), error


def hermitian(*shape, dtype):
    a = torch.randn(*shape, dtype=dtype)
    return a + a.mH


# ---- Hermitian ----
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (24, 24)])
def test_eigh_reconstructs(dev, dtype, shape):
    a = hermitian(*shape, dtype=dtype)
    values, vectors = torch.linalg.eigh(a.to(dev))
    wanted = torch.linalg.eigh(a)
    close(values, wanted[0], dtype, shape[-1])
    assert values.dtype == wanted[0].dtype and vectors.stride() == wanted[1].stride()
    v = vectors.cpu()
    close((v * values.cpu().unsqueeze(-2).to(dtype)) @ v.mH, a, dtype, shape[-1])
    close(v.mH @ v, torch.eye(shape[-1], dtype=dtype).expand(shape), dtype)


def test_eigh_reads_one_triangle(dev):
    a = torch.randn(5, 5, dtype=torch.complex64)
    for uplo in "LUlu":
        close(torch.linalg.eigvalsh(a.to(dev), uplo), torch.linalg.eigvalsh(a, uplo), a.dtype, 5)
    with pytest.raises(RuntimeError, match="UPLO"):
        torch.linalg.eigh(a.to(dev), "X")


@pytest.mark.parametrize(
    "matrix", [torch.zeros(5, 5), torch.eye(6), torch.ones(5, 5), torch.diag(torch.tensor([1e-20, 1.0, -1e20, 1e20]))]
)
def test_eigh_of_equal_values(dev, matrix):
    values, vectors = torch.linalg.eigh(matrix.to(dev))
    torch.testing.assert_close(values.cpu(), torch.linalg.eigvalsh(matrix), rtol=1e-5, atol=1e-6)
    close(vectors.mH @ vectors, torch.eye(len(matrix)), torch.float32)


def test_eigh_of_nothing_and_out(dev):
    for shape in [(0, 0), (0, 3, 3), (2, 0, 0), (1, 1)]:
        values, vectors = torch.linalg.eigh(torch.zeros(*shape).to(dev))
        assert values.shape == shape[:-1] and vectors.shape == shape
    a = hermitian(4, 4, dtype=torch.float32).to(dev)
    values, vectors = torch.empty(0, device=dev), torch.empty(0, device=dev)
    torch.linalg.eigh(a, out=(values, vectors))
    close(vectors @ torch.diag(values) @ vectors.mH, a.cpu(), torch.float32, 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_eigh_gradient(dev, dtype):
    a = hermitian(4, 4, dtype=dtype)
    grads = []
    for x in (a.clone().requires_grad_(), a.to(dev).requires_grad_()):
        values, vectors = torch.linalg.eigh(x + x.mH)
        (values.exp().sum() + (vectors.abs() ** 3).sum()).backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads)


@pytest.mark.strict("looks at the programs of single calls")
def test_a_larger_matrix_is_no_larger_program(dev, tmp_path, python):
    code = "import torch; torch.linalg.eigh(torch.eye({0}, device='tpu')); torch.linalg.svdvals(torch.eye({0}, device='tpu'))"
    lengths = []
    for n in (8, 96):
        folder = tmp_path / str(n)
        assert python(code.format(n), TORCH_TPU_DUMP=str(folder))[0] == 0
        lengths.append(sum(f.stat().st_size for f in folder.glob("*.mlir")))
    assert lengths[1] < lengths[0] * 1.1


# ---- singular values ----
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(1, 3), (2, 6, 4)])
def test_svd_reconstructs(dev, dtype, shape):
    a = torch.randn(*shape, dtype=dtype)
    k = min(shape[-2:])
    for full in (False, True):
        got, wanted = torch.linalg.svd(a.to(dev), full_matrices=full), torch.linalg.svd(a, full_matrices=full)
        u, s, vh = (x.cpu() for x in got)
        close(s, wanted.S, dtype, 4)
        assert [x.stride() for x in got] == [x.stride() for x in wanted]
        close((u[..., :k] * s.unsqueeze(-2).to(dtype)) @ vh[..., :k, :], a, dtype, 4)
        close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1), dtype)
        close(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=dtype).expand(*shape[:-2], -1, -1), dtype)


@pytest.mark.parametrize(
    "name, matrix",
    [
        ("zero", torch.zeros(6, 6)),
        ("ones", torch.ones(6, 6)),
        ("identity", torch.eye(6)),
        ("rank 2", torch.randn(6, 2) @ torch.randn(2, 6)),
        ("large", torch.eye(6) * 1e30),
        ("small", torch.ones(6, 6) * 1e-30),
    ],
)
def test_svd_without_full_rank(dev, name, matrix):
    u, s, vh = (x.cpu() for x in torch.linalg.svd(matrix.to(dev)))
    scale = matrix.abs().max().item() or 1.0
    torch.testing.assert_close(s / scale, torch.linalg.svdvals(matrix) / scale, rtol=1e-5, atol=1e-5)
    close(u @ u.mH, torch.eye(6), torch.float32)
    close(vh @ vh.mH, torch.eye(6), torch.float32)
    close((u * s) @ vh / scale, matrix / scale, torch.float32, 4)


def test_svd_of_nothing(dev):
    for shape in [(0, 3), (3, 0), (2, 0, 0), (0, 2, 3)]:
        for full in (False, True):
            got, wanted = torch.linalg.svd(torch.zeros(*shape).to(dev), full), torch.linalg.svd(
                torch.zeros(*shape), full
            )
            for x, y in zip(got, wanted):
                torch.testing.assert_close(x.cpu(), y)


def test_svd_says_what_torch_says(dev):
    with pytest.raises(RuntimeError, match="driver"):
        torch.linalg.svd(torch.eye(2).to(dev), driver="gesvd")


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_svd_gradient(dev, shape):
    a = torch.randn(*shape, dtype=torch.complex128)
    grads = []
    for x in (a.clone().requires_grad_(), a.to(dev).requires_grad_()):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        (s.exp().sum() + (u.abs() ** 3).sum() + (vh.abs() ** 3).sum()).backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads)


# What torch composes of the above.
COMPOSED = {
    "pinv": lambda a: torch.linalg.pinv(a),
    "pinv with tolerances": lambda a: torch.linalg.pinv(
        a, atol=torch.tensor(0.1, device=a.device), rtol=torch.tensor([[0.0], [0.5]], device=a.device)
    ),
    "pinv hermitian": lambda a: torch.linalg.pinv(a @ a.mH, hermitian=True),
    "pinverse": lambda a: torch.pinverse(a),
    "matrix_rank": lambda a: torch.linalg.matrix_rank(a),
    "matrix_rank hermitian": lambda a: torch.linalg.matrix_rank(a @ a.mH, hermitian=True),
    "cond": lambda a: torch.linalg.cond(a),
    "cond -2": lambda a: torch.linalg.cond(a, -2),
    "norm nuc": lambda a: torch.linalg.norm(a, "nuc", dim=(-2, -1)),
    "norm 2": lambda a: torch.linalg.matrix_norm(a, 2),
    "svdvals": lambda a: torch.linalg.svdvals(a),
    "svd": lambda a: torch.svd(a).S,
    "eigvalsh": lambda a: torch.linalg.eigvalsh(a @ a.mH, "U"),
    "matrix_power": lambda a: torch.linalg.matrix_power(a @ a.mH, 5),
    "multi_dot": lambda a: torch.linalg.multi_dot([a[0, 0], a[0, 0].mT, a[1, 0], a[1, 0].mT]),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(dev, name):
    torch.manual_seed(3)
    a = torch.randn(2, 1, 4, 3, dtype=torch.float64)
    wanted, got = COMPOSED[name](a), COMPOSED[name](a.to(dev))
    torch.testing.assert_close(got.cpu(), wanted)


def test_low_rank_and_lobpcg(dev):
    torch.manual_seed(0)
    a = (torch.randn(20, 3, dtype=torch.float64) @ torch.randn(3, 12, dtype=torch.float64)).to(dev)
    for u, s, v in (torch.svd_lowrank(a, 5), torch.pca_lowrank(a, 5, center=False)):
        torch.testing.assert_close((u * s) @ v.mH, a)
    h = (a @ a.mH + torch.eye(20, dtype=torch.float64, device=dev))
    values, _ = torch.lobpcg(h, k=2)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(h).flip(0)[:2], rtol=1e-5, atol=1e-5)


# ---- without symmetry ----
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(2, 2), (2, 3, 5, 5)])
def test_eig_as_lapack(dev, dtype, shape):
    """In its order, and with vectors scaled as it does: but for signs, the same numbers."""
    a = torch.randn(*shape, dtype=dtype)
    got, wanted = torch.linalg.eig(a.to(dev)), torch.linalg.eig(a)
    close(got.eigenvalues, wanted.eigenvalues, dtype, 5)
    close(torch.linalg.eigvals(a.to(dev)), wanted.eigenvalues, dtype, 5)
    close(got.eigenvectors.abs(), wanted.eigenvectors.abs(), dtype, 20)
    assert [x.stride() for x in got] == [x.stride() for x in wanted]
    values, vectors = got.eigenvalues.cpu(), got.eigenvectors.cpu()
    close(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), dtype, 5)
    if not dtype.is_complex:  # pairs are conjugate to the last bit, and real values have real vectors
        assert torch.equal(values.sum(-1).imag, torch.zeros(shape[:-2]))
        assert vectors.imag.masked_select((values.imag == 0).unsqueeze(-2).expand(shape)).count_nonzero() == 0


SPECIAL = {
    "zero": torch.zeros(4, 4),
    "identity": torch.eye(4),
    "triangle": torch.ones(5, 5).triu() + torch.diag(torch.arange(5.0)),
    "permutation": torch.eye(4).roll(1, 0),  # needs an exceptional shift
    "rotation": torch.tensor([[0.0, -1.0], [1.0, 0.0]]),
    "jordan": torch.eye(4) * 2 + torch.ones(3).diag(1),
    "companion": torch.tensor([[10.0, -35.0, 50.0, -24.0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
    "one": torch.tensor([[3.0]]),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_eig_of_special_matrices(dev, name, dtype):
    a = SPECIAL[name].to(dtype)
    values, vectors = (x.cpu() for x in torch.linalg.eig(a.to(dev)))
    assert (a.to(values.dtype) @ vectors - vectors * values).abs().max() < 1e-12 * max(1.0, a.abs().max().item())
    assert (vectors.norm(dim=0) - 1).abs().max() < 1e-12
    wanted = torch.linalg.eigvals(a)
    # a Jordan block's are known to a root of eps
    assert (values.unsqueeze(0) - wanted.unsqueeze(1)).abs().amin(0).max() < 1e-3


def test_eig_of_nothing_and_of_nan(dev):
    for shape in [(0, 0), (2, 0, 0), (0, 3, 3)]:
        got, wanted = torch.linalg.eig(torch.zeros(*shape).to(dev)), torch.linalg.eig(torch.zeros(*shape))
        for x, y in zip(got, wanted):
            torch.testing.assert_close(x.cpu(), y)
    bad = torch.stack([torch.eye(3), torch.full((3, 3), float("nan"))]).to(dev)
    values = torch.linalg.eigvals(bad).cpu()
    assert values[0].eq(1).all() and values[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_eig_gradient_and_out(dev, dtype):
    a = torch.randn(4, 4, dtype=dtype)
    grads = []
    for x in (a.clone().requires_grad_(), a.to(dev).requires_grad_()):
        values, vectors = torch.linalg.eig(x)
        (values.abs().sum() + (vectors.abs() ** 3).sum()).backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads)
    out = torch.empty(0, dtype=torch.complex128, device=dev)
    torch.testing.assert_close(torch.linalg.eigvals(a.to(dev), out=out).cpu(), torch.linalg.eigvals(a))


# ---- the exponential ----
@pytest.mark.parametrize("dtype", ALL)
def test_matrix_exp(dev, dtype):
    a = torch.randn(3, 2, 5, 5, dtype=dtype) * torch.tensor([1e-3, 1.0, 20.0]).view(3, 1, 1, 1)
    wanted, got = torch.linalg.matrix_exp(a.to(torch.complex128)), torch.linalg.matrix_exp(a.to(dev)).cpu()
    size = wanted.abs().amax((-1, -2), keepdim=True)
    wanted = wanted if dtype.is_complex else wanted.real
    close(got / size, (wanted / size).to(dtype), dtype, 2)


def test_matrix_exp_of_other_sizes(dev):
    for a in (
        torch.zeros(0, 0),
        torch.zeros(0, 3, 3),
        torch.tensor([[1000.0]]),
        torch.tensor([[-3.0]]),
        torch.zeros(4, 4),
        torch.eye(2).mul(float("nan")),
    ):
        torch.testing.assert_close(torch.linalg.matrix_exp(a.to(dev)).cpu(), torch.linalg.matrix_exp(a), equal_nan=True)
    half = torch.linalg.matrix_exp(torch.ones(2, 2, dtype=torch.bfloat16, device=dev))
    assert half.dtype == torch.bfloat16 and abs(half[0, 0].item() - 4.1945) < 0.02


def test_matrix_exp_gradient(dev):
    a = torch.randn(2, 4, 4, dtype=torch.complex128)
    grads = []
    for x in (a.clone().requires_grad_(), a.to(dev).requires_grad_()):
        torch.linalg.matrix_exp(x).abs().sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads)


# ---- distances ----
@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, float("inf")])
def test_distances_and_gradients(dev, p):
    x, y = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    y[2] = x[0, 1]  # a distance of 0
    results = []
    for d in ("cpu", dev):
        a, b = x.detach().to(d).requires_grad_(), y.detach().to(d).requires_grad_()
        across, inside = torch.cdist(a, b, p), torch.nn.functional.pdist(b, p)
        (across.square().sum() + inside.square().sum()).backward()
        grads = [a.grad, b.grad] if p else []  # of p = 0 the CPU leaves some of them unset
        results.append([t.detach().cpu() for t in (across, inside, *grads)])
        assert p or d == "cpu" or (a.grad.count_nonzero() + b.grad.count_nonzero()).item() == 0
    for got, wanted in zip(*results):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]
)
def test_cdist_by_products(dev, mode):
    results = []
    for d in ("cpu", dev):
        torch.manual_seed(1)
        a, b = torch.randn(30, 6).to(d).requires_grad_(), torch.randn(2, 8, 6).to(d)
        distances = torch.cdist(a, b, compute_mode=mode)
        distances.sum().backward()
        results.append([distances.detach().cpu(), a.grad.cpu()])
    for got, wanted in zip(*results):
        torch.testing.assert_close(got, wanted)


def test_distances_of_nothing(dev):
    for n, columns in [(1, 3), (0, 3), (4, 0)]:
        x = torch.randn(n, columns)
        a = x.to(dev).requires_grad_()
        got = torch.nn.functional.pdist(a)
        torch.testing.assert_close(got.detach().cpu(), torch.nn.functional.pdist(x))
        got.sum().backward()
        assert a.grad.cpu().count_nonzero() == 0
        torch.testing.assert_close(torch.cdist(a, a).detach().cpu(), torch.cdist(x, x))
    a = torch.randn(3, 5).to(dev).requires_grad_()
    torch.cdist(a, torch.zeros(0, 4, 5).to(dev)).sum().backward()
    assert a.grad.cpu().count_nonzero() == 0


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_eigenvalues_of_very_small_and_large_matrices(size):
    a = torch.ones(6, 6) * size
    a[0, 1] *= 2
    want, got = (torch.linalg.eigvals(a.to(d)).abs().max().cpu() for d in ("cpu", "tpu"))
    torch.testing.assert_close(got, want)
