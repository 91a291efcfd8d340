"""Eigenvalues, singular values and what torch builds on them: against the CPU, natively.

Vectors are free in sign or phase, so they are judged by what they multiply to."""
import pytest
import torch

ALL = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.fixture(autouse=True)
def native():
    """Nothing in this file may run on the CPU behind the caller's back."""
    import torch_tpu
    before = dict(torch_tpu.counters()["fallbacks"])
    yield
    assert torch_tpu.counters()["fallbacks"] == before


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
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 3, 5, 5), (24, 24)])
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


@pytest.mark.parametrize("matrix", [torch.zeros(5, 5), torch.eye(6), torch.ones(5, 5), torch.diag(torch.tensor([1e-20, 1.0, -1e20, 1e20]))])
def test_eigh_of_equal_values(dev, matrix):
    values, vectors = torch.linalg.eigh(matrix.to(dev))
    torch.testing.assert_close(values.cpu(), torch.linalg.eigvalsh(matrix), rtol=1e-5, atol=1e-6)
    close(vectors.mH @ vectors, torch.eye(len(matrix)), torch.float32)


def test_eigh_of_nothing_and_out(dev):
    for shape in [(0, 0), (0, 3, 3), (2, 0, 0)]:
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


def test_a_larger_matrix_is_no_larger_program(dev, tmp_path, python):
    code = "import torch; torch.linalg.eigh(torch.eye({0}, device='tpu'))"
    lengths = []
    for n in (8, 96):
        folder = tmp_path / str(n)
        assert python(code.format(n), TORCH_TPU_DUMP=str(folder))[0] == 0
        lengths.append(sum(f.stat().st_size for f in folder.glob("*.mlir")))
    assert lengths[1] < lengths[0] * 1.1


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


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
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
