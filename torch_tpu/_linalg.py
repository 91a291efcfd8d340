"""Linear algebra whose errors or results only values tell: torch.cholesky raises, linalg.lstsq has residuals where all
ranks are full. These run as compositions of operators that have rules, one program each, and read a number where
torch's own kernels do."""
import torch

from ._registry import WORDS

_device = torch.library.Library("aten", "IMPL", "PrivateUse1")


def _deliver(out, value):
    """What torch does to out= tensors of these operators: an empty one becomes the result, with its strides."""
    if out.numel() == 0 and out.dtype == value.dtype:
        return out.set_(value)
    if out.shape != value.shape:
        out.resize_(value.shape)
    return out.copy_(value)


# ---- cholesky ----
def cholesky(x, upper=False):
    if x.dim() < 2:
        raise RuntimeError("cholesky: The input tensor A must have at least 2 dimensions.")
    if x.shape[-1] != x.shape[-2]:
        rows, columns = x.shape[-2:]
        raise RuntimeError(f"cholesky: A must be batches of square matrices, but they are {rows} by {columns} matrices")
    factor, info = torch.ops.aten.linalg_cholesky_ex(x, upper=upper)
    torch.ops.aten._linalg_check_errors(info, "cholesky", is_matrix=x.dim() == 2)
    return factor


def _cholesky_out(x, upper=False, *, out):
    value = cholesky(x, upper)
    if out.shape != value.shape:
        out.resize_(value.shape)
    return out.copy_(value)


_device.impl("cholesky", cholesky)
_device.impl("cholesky.out", _cholesky_out)


# ---- lstsq ----
def _check_lstsq(a, b, driver):
    def check(ok, text):
        if not ok:
            raise RuntimeError(text)

    name = "torch.linalg.lstsq:"
    check(a.dim() >= 2, f"{name} input must have at least 2 dimensions.")
    check(b.dim() >= 1, f"{name} other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        said = [WORDS.get(x.dtype, str(x.dtype)) for x in (a, b)]
        check(False, f"{name} Expected input and other to have the same dtype, but got input's dtype {said[0]} "
                     f"and other's dtype {said[1]}")
    apart = a.dim() - b.dim()
    check(0 <= apart <= 1,
          f"{name} input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")
    is_vector = apart == 1
    batches = [torch.empty(shape, device="meta") for shape in (a.shape[:-2], b.shape[: -1 if is_vector else -2])]
    torch.broadcast_tensors(*batches)  # says what does not fit
    check(a.shape[-2] == b.shape[-1 if is_vector else -2],
          f"{name} input.size(-2) should match other.size({-1 if b.dim() == 1 else -2})")
    check(a.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128),
          "This function doesn't handle types other than float and double")
    check(driver in ("gels", "gelsy", "gelsd", "gelss"),
          f"{name} parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    return is_vector


def _by_qr(a, b, rcond):
    """(x, the squared residuals or None) for a of full rank; and, given rcond, a tensor: whether it surely is of
    that."""
    rows, columns = a.shape[-2:]
    tall = rows >= columns
    packed, tau = torch.geqrf(a if tall else a.mH)
    k = min(rows, columns)
    r = packed[..., :k, :].triu()
    full = None
    if rcond is not None:
        identity = torch.eye(k, dtype=a.dtype, device=a.device).expand_as(r)
        inverse = torch.linalg.solve_triangular(r, identity, upper=True)
        # In Frobenius' norm, which is not below the spectral one.
        condition = torch.linalg.matrix_norm(r) * torch.linalg.matrix_norm(inverse)
        full = (condition * rcond < 1).all()
    if tall:
        turned = torch.ormqr(packed, tau, b, transpose=True)
        x = torch.linalg.solve_triangular(r, turned[..., :columns, :], upper=True)
        return x, turned[..., columns:, :].abs().square().sum(-2) if rows > columns else None, full
    y = torch.linalg.solve_triangular(r.mH, b, upper=False)
    y = torch.cat([y, y.new_zeros(*y.shape[:-2], columns - rows, y.shape[-1])], -2)
    return torch.ormqr(packed, tau, y), None, full


def _solve_lstsq(a, b, rcond, driver):
    """(x, squared residuals or None, ranks or None, singular values or None); a and b of equal batch dims."""
    rows, columns = a.shape[-2:]
    if rcond < 0:
        rcond = torch.finfo(a.dtype).eps
    if driver == "gels":
        x, residuals, _ = _by_qr(a, b, None)
        return x, residuals, None, None
    if driver == "gelsy":
        x, _, full = _by_qr(a, b, rcond)
        if full.item():
            return x, None, torch.full(a.shape[:-2], min(rows, columns), device=a.device), None
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    kept = s > rcond * s[..., :1]
    inverse = torch.where(kept, 1 / s, 0).to(a.dtype)
    x = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ b))
    rank = kept.sum(-1)
    if driver == "gelsy":
        return x, None, rank, None
    residuals = None
    if rows > columns and (rank == columns).all().item():
        residuals = (b - a @ x).abs().square().sum(-2)
    return x, residuals, rank, s


def lstsq(a, b, rcond=None, *, driver=None):
    driver = "gelsy" if driver is None else driver
    is_vector = _check_lstsq(a, b, driver)
    rows, columns = a.shape[-2:]
    own, real = a.shape[:-2], a.real.dtype if a.is_complex() else a.dtype
    rcond = torch.finfo(real).eps * max(rows, columns) if rcond is None else rcond
    b = b.unsqueeze(-1) if is_vector else b
    batch = torch.broadcast_shapes(own, b.shape[:-2]) if own != b.shape[:-2] else own
    right = b.shape[-1]
    some = a.new_empty(0, dtype=real)
    longest = max(rows, columns)
    solution = a.new_zeros(*batch, right, longest).mT[..., :columns, :]
    residuals, rank, values = None, None, None
    if a.numel() and b.numel():
        a, b = a.expand(*batch, rows, columns), b.expand(*batch, rows, right)
        x, residuals, rank, values = _solve_lstsq(a, b, rcond, driver)
        solution.copy_(x)
        if own != batch and rank is not None:
            rank, values = (None if v is None else _first(v, own, v.dim() - len(batch)) for v in (rank, values))
    elif rows > columns and driver != "gelsy":
        nothing = driver == "gels" or b.numel() == 0 or columns  # else all of b is left over
        residuals = (
            a.new_zeros(*batch, right, dtype=real)
            if nothing
            else b.abs().square().sum(-2).expand(*batch, right).contiguous()
        )
    if driver == "gels":
        rank = a.new_empty(0, dtype=torch.int64)
    elif rank is None:
        rank = a.new_zeros(own, dtype=torch.int64)
    if values is None:
        values = a.new_zeros(*own, min(rows, columns), dtype=real) if driver in ("gelsd", "gelss") else some
    residuals = some if residuals is None else residuals
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, values


def _first(x, own, inner):
    """x, of wider batch dims, for the matrices that were repeated to make it."""
    lead = x.dim() - inner - len(own)
    x = x[(0,) * lead]
    for i, n in enumerate(own):
        x = x.narrow(i, 0, n)
    return x.contiguous()


def _lstsq_out(a, b, rcond=None, *, driver=None, solution, residuals, rank, singular_values):
    outs = solution, residuals, rank, singular_values
    return tuple(_deliver(out, value) for out, value in zip(outs, lstsq(a, b, rcond, driver=driver)))


_device.impl("linalg_lstsq", lstsq)
_device.impl("linalg_lstsq.out", _lstsq_out)
