"""Sparse COO and CSR tensors: what torch's CPU kernels do by reading memory, done by operators on the device.

A sparse tensor here is torch's own, over tpu indices and values; csrc/shim/sparse.cpp passes on what torch composes
itself, and sends what neither has to the CPU, counted; kernels here raise NotImplementedError for the layouts and
shapes they do not take. Results have the layout, and their values the numbers, that the CPU gives; the order of an
uncoalesced result's entries may differ."""
import torch

from ._registry import WORDS, decomposes

_coo = torch.library.Library("aten", "IMPL", "SparsePrivateUse1")
_csr = torch.library.Library("aten", "IMPL", "SparseCsrPrivateUse1")
_dense = torch.library.Library("aten", "IMPL", "PrivateUse1")


def _kernel(name, *libraries):
    def keep(fn):
        for library in libraries:
            library.impl(name, fn)
        return fn

    return keep


def _is_sparse(a):
    return a.layout is not torch.strided


def _coo_tensor(indices, values, size, coalesced):
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced, check_invariants=False)


def _places(indices, size):
    """The row-major positions of the entries in the sparse dims, [nnz]."""
    place = torch.zeros_like(indices[0])
    for row, n in zip(indices, size):
        place = place * n + row
    return place


def _rows_columns(a):
    """Row and column of each entry of a sparse matrix of any layout, and its values: three of [nnz, ...]."""
    if a.layout is torch.sparse_coo:
        return (*a._indices().unbind(0), a._values())
    if a.layout is torch.sparse_csr:
        return _expand(a.crow_indices(), a.values().shape[0]), a.col_indices(), a.values()
    if a.layout is torch.sparse_csc:
        return a.row_indices(), _expand(a.ccol_indices(), a.values().shape[0]), a.values()
    raise NotImplementedError(f"sparse matrices of layout {a.layout} as operands on tpu")


def _expand(compressed, nnz):
    entries = torch.arange(nnz, dtype=compressed.dtype, device=compressed.device)
    return torch.searchsorted(compressed, entries, right=True) - 1


# ---- compressed indices of sparse matrices ----
@decomposes("_convert_indices_from_coo_to_csr")
def coo_to_csr(rows, size, out_int32=False):
    bounds = torch.arange(size + 1, dtype=rows.dtype, device=rows.device)
    return torch.searchsorted(rows, bounds).to(torch.int32 if out_int32 else torch.int64)


@decomposes("_convert_indices_from_csr_to_coo")
def csr_to_coo(crow, col, out_int32=False, transpose=False):
    batches, nnz = crow[..., 0].numel(), col.shape[-1]
    dtype = torch.int32 if out_int32 else torch.int64
    entries = torch.arange(nnz, dtype=crow.dtype, device=crow.device).expand(*col.shape).contiguous()
    rows = torch.searchsorted(crow, entries, right=True).sub(1).to(dtype).reshape(-1)
    columns = col.to(dtype).reshape(-1)
    pair = [columns, rows] if transpose else [rows, columns]
    if crow.dim() == 1:
        return torch.stack(pair)
    batch = torch.arange(batches, dtype=dtype, device=crow.device).repeat_interleave(nnz, output_size=batches * nnz)
    outer = []
    for n in reversed(crow.shape[:-1]):
        outer.append(batch % n)
        batch = batch // n
    return torch.stack([*outer[::-1], *pair])


# ---- layouts ----
@_kernel("_coalesce", _coo)
def coalesce(a):
    if a.is_coalesced():
        return a
    indices, values = a._indices(), a._values()
    n = a.sparse_dim()
    if values.shape[0] < 2 or n == 0:
        if n == 0 and values.shape[0]:
            values = values.sum(0, keepdim=True)
            indices = indices[:, :1]
        return _coo_tensor(indices.clone(), values.clone(), a.shape, True)
    places, groups = torch.unique(_places(indices, a.shape[:n]), return_inverse=True)
    sums = values.new_zeros(places.shape[0], *values.shape[1:])
    if values.dtype is torch.bool:
        sums = sums.to(torch.int32).index_add(0, groups, values.to(torch.int32)).to(torch.bool)
    else:
        sums = sums.index_add(0, groups, values)
    rows = []
    for size in reversed(a.shape[:n]):
        rows.append(places % max(size, 1))
        places = places // max(size, 1)
    return _coo_tensor(torch.stack(rows[::-1]), sums, a.shape, True)


@_kernel("_to_sparse_csr", _csr)
def to_csr(a, dense_dim=None):
    return a if a.layout is torch.sparse_csr else a.to_sparse().coalesce().to_sparse_csr(dense_dim)


@_kernel("_to_sparse_csc", _csr)
def to_csc(a, dense_dim=None):
    return a if a.layout is torch.sparse_csc else a.to_sparse().coalesce().to_sparse_csc(dense_dim)


@_kernel("select.int", _csr)
def select(a, dim, index):
    return a.to_sparse().select(dim, index)


# ---- arithmetic ----
def _word(x):
    return WORDS.get(x.dtype, str(x.dtype))


def _check_csr(a):
    if a.layout is torch.sparse_csc:
        raise RuntimeError("crow_indices expected sparse row compressed tensor layout but got SparseCsc")


def _scaled(x, alpha):
    return x if isinstance(alpha, int) and alpha == 1 else x * alpha


def _onto(dense, a, alpha):
    """dense + alpha * a, of one shape and dtype; a is COO."""
    values = _scaled(a._values().to(dense.dtype), alpha)
    if a.sparse_dim() == 0:
        return dense + values.sum(0).to(dense.dtype)
    if values.numel() == 0:
        return dense.clone()
    at = tuple(a._indices().unbind(0))
    if dense.dtype is torch.bool:
        return dense.to(torch.int32).index_put(at, values.to(torch.int32), accumulate=True).to(torch.bool)
    return dense.index_put(at, values, accumulate=True)


@_kernel("add.Tensor", _coo, _csr)
def add(a, b, alpha=1):
    if not _is_sparse(a):
        return _onto(a.to(torch.result_type(a, b)).expand(b.shape), b if b.is_sparse else b.to_sparse(), alpha)
    if isinstance(b, torch.Tensor) and not _is_sparse(b) and a.is_sparse_csr and a.shape == b.shape:
        return _onto(_scaled(b, alpha).to(torch.result_type(a, b)), a.to_sparse(), 1)
    if not isinstance(b, torch.Tensor) or not _is_sparse(b):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: Expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )
    _check_csr(a)
    _check_csr(b)
    if a.is_sparse_csr:
        return (a.to_sparse() + _scaled(b.to_sparse(), alpha)).coalesce().to_sparse_csr()
    if a.dtype is torch.bool and b.dtype is torch.bool:
        raise NotImplementedError('"cadd_sparse" not implemented for \'Bool\'')
    dtype = torch.result_type(a, b)
    values = torch.cat([a._values().to(dtype), _scaled(b._values(), alpha).to(dtype)])
    sum_ = _coo_tensor(torch.cat([a._indices(), b._indices()], 1), values, a.shape, False)
    return sum_.coalesce() if a.is_coalesced() and b.is_coalesced() else sum_


@_kernel("sub.Tensor", _coo, _csr)
def sub(a, b, alpha=1):
    if isinstance(b, torch.Tensor) and a.dtype is torch.bool and b.dtype is torch.bool:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    return torch.add(a, b, alpha=-alpha)


def _into(a, result):
    if not torch.can_cast(result.dtype, a.dtype):
        raise RuntimeError(f"result type {_word(result)} can't be cast to the desired output type {_word(a)}")
    if a.layout is torch.sparse_csr:
        a.resize_as_sparse_(result)
    return a.copy_(result)


@_kernel("add_.Tensor", _coo, _csr)
def add_(a, b, alpha=1):
    result = torch.add(a, b, alpha=alpha)
    if not torch.can_cast(result.dtype, a.dtype):
        raise RuntimeError(f"Can't convert result type {_word(result)} to output {_word(a)} in add operation")
    return _into(a, result)


@_kernel("sub_.Tensor", _coo, _csr)
def sub_(a, b, alpha=1):
    return _into(a, torch.sub(a, b, alpha=alpha))


@_kernel("mul.Tensor", _coo, _csr)
def mul(a, b):
    if not isinstance(b, torch.Tensor) or b.dim() == 0:
        return _with_values(a, lambda v: v * (b.to_dense() if isinstance(b, torch.Tensor) else b))
    if not isinstance(a, torch.Tensor) or a.dim() == 0:
        return mul(b, a)
    if not _is_sparse(a):
        a, b = b, a
    if a.is_sparse_csr:
        return mul(a.to_sparse(), b.to_sparse() if b.is_sparse_csr else b).coalesce().to_sparse_csr()
    if not b.is_sparse:
        return _times_dense(a.coalesce(), b)
    if a.shape != b.shape:
        raise NotImplementedError("mul of sparse tensors of different shapes on tpu")
    a, b = a.coalesce(), b.coalesce()
    n = a.sparse_dim()
    if n != b.sparse_dim() or n == 0:
        raise NotImplementedError("mul of sparse tensors with different sparse dims on tpu")
    mine, theirs = _places(a._indices(), a.shape[:n]), _places(b._indices(), b.shape[:n])
    if theirs.numel() == 0 or mine.numel() == 0:
        return _coo_tensor(a._indices()[:, :0], a._values()[:0] * b._values()[:0], a.shape, True)
    at = torch.searchsorted(theirs, mine).clamp_(max=theirs.shape[0] - 1)
    kept = (theirs[at] == mine).nonzero().squeeze(1)
    return _coo_tensor(a._indices()[:, kept], a._values()[kept] * b._values()[at[kept]], a.shape, True)


def _times_dense(a, b):
    if b.shape != a.shape:
        b = b.expand(a.shape)
    return _coo_tensor(a._indices(), a._values() * b[tuple(a._indices().unbind(0))], a.shape, True)


def _with_values(a, fn):
    if a.is_sparse:
        return _coo_tensor(a._indices(), fn(a._values()), a.shape, a.is_coalesced())
    if a.layout is torch.sparse_csr:
        return torch.sparse_csr_tensor(
            a.crow_indices(), a.col_indices(), fn(a.values()), a.shape, check_invariants=False
        )
    if a.layout is torch.sparse_csc:
        return torch.sparse_csc_tensor(
            a.ccol_indices(), a.row_indices(), fn(a.values()), a.shape, check_invariants=False
        )
    raise NotImplementedError(f"arithmetic on {a.layout} on tpu")


@_kernel("mul.Scalar", _csr)
def mul_scalar(a, b):
    return _with_values(a, lambda v: v * b)


@_kernel("div.Tensor", _coo)
def div(a, b):
    if isinstance(b, torch.Tensor) and b.dim():
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
    return _with_values(a, lambda v: v / b)


@_kernel("mul_.Tensor", _coo, _csr)
def mul_(a, b):
    result = torch.mul(a, b)
    if a.is_sparse and not torch.can_cast(result.dtype, a.dtype):
        raise RuntimeError(f"dtype of values ({_word(result)}) must match dtype of sparse tensor ({_word(a)})")
    return _into(a, result)


@_kernel("mul_.Scalar", _csr)
def mul_scalar_(a, b):
    return _into(a, torch.mul(a, b))


@_kernel("div_.Tensor", _coo)
def div_(a, b):
    return _into(a, torch.div(a, b))


# ---- parts ----
@_kernel("sparse_mask", _coo, _csr)
def sparse_mask(a, mask):
    if a.shape != mask.shape:
        raise RuntimeError("sparse_mask(): operands have incompatible sizes; self has size "
                           f"{list(a.shape)} but mask has size {list(mask.shape)}")
    if mask.layout is not torch.sparse_coo:
        rows, columns, _ = _rows_columns(mask)
        return _with_values(mask, lambda _: (a.to_dense() if _is_sparse(a) else a)[rows, columns])
    a = a.to_dense() if _is_sparse(a) else a
    values = a[tuple(mask._indices().unbind(0))] if mask.sparse_dim() else a.expand_as(mask._values())
    return _coo_tensor(mask._indices().clone(), values.clone(), mask.shape, mask.is_coalesced())


@_kernel("index_select", _coo)
def index_select(a, dim, index):
    dim = dim % a.dim()
    size = (*a.shape[:dim], index.numel(), *a.shape[dim + 1:])
    indices, values = a._indices(), a._values()
    if dim >= a.sparse_dim():
        return _coo_tensor(indices, values.index_select(dim - a.sparse_dim() + 1, index), size, a.is_coalesced())
    n = a.shape[dim]
    wrong = index[(index < -n) | (index >= n)]
    if wrong.numel():
        raise IndexError(
            f"index_select(): index contains {wrong[0].item()} that is out of range for tensor of size {list(a.shape)} at "
            f"dimension {dim}"
        )
    index = torch.where(index < 0, index + n, index)
    at, entry = (index.reshape(-1, 1) == indices[dim]).nonzero().unbind(1)
    indices = indices.index_select(1, entry)
    indices[dim] = at
    return _coo_tensor(indices, values.index_select(0, entry), size, False)


# ---- softmax: entries that differ in dim only are a group; what is not there counts as -inf ----
def _groups(a, dim):
    """The group of each entry, [nnz], and how many there are; None where dim is dense."""
    others = [i for i in range(a.sparse_dim()) if i != dim]
    places = (
        _places(a._indices()[others], [a.shape[i] for i in others]) if others else torch.zeros_like(a._indices()[0])
    )
    found, groups = torch.unique(places, return_inverse=True)
    return groups, found.shape[0]


def _softmax(a, dim, log):
    a, dim = a.coalesce(), dim % a.dim()
    values = a._values()
    if dim >= a.sparse_dim():
        dense = dim - a.sparse_dim() + 1
        return _coo_tensor(a._indices(), values.log_softmax(dense) if log else values.softmax(dense), a.shape, True)
    if values.numel():
        groups, n = _groups(a, dim)
        top = values.new_full((n, *values.shape[1:]), -torch.inf).index_reduce(0, groups, values, "amax")
        values = values - top.index_select(0, groups)
        total = torch.zeros_like(top).index_add(0, groups, values.exp()).index_select(0, groups)
        values = values - total.log() if log else values.exp() / total
    return _coo_tensor(a._indices(), values, a.shape, True)


@_kernel("_sparse_softmax", _coo)
def sparse_softmax(a, dim, half_to_float):
    return _softmax(a, dim, False)


@_kernel("_sparse_log_softmax", _coo)
def sparse_log_softmax(a, dim, half_to_float):
    return _softmax(a, dim, True)


def _softmax_backward(grad, output, dim, log):
    dim = dim % output.dim()
    out = output._values()
    g = grad.to_dense()[tuple(output._indices().unbind(0))]
    if dim >= output.sparse_dim():
        dense = dim - output.sparse_dim() + 1
        total = (g if log else g * out).sum(dense, keepdim=True)
    elif out.numel():
        groups, n = _groups(output, dim)
        total = out.new_zeros((n, *out.shape[1:])).index_add(0, groups, g if log else g * out).index_select(0, groups)
    else:
        total = g
    return _coo_tensor(output._indices(), g - out.exp() * total if log else out * (g - total), output.shape, True)


@_kernel("_sparse_softmax_backward_data", _coo)
def sparse_softmax_backward(grad, output, dim, a):
    return _softmax_backward(grad, output, dim, False)


@_kernel("_sparse_log_softmax_backward_data", _coo)
def sparse_log_softmax_backward(grad, output, dim, a):
    return _softmax_backward(grad, output, dim, True)


# ---- reductions ----
@_kernel("sum", _coo, _csr)
def sum_all(a, dtype=None):
    return (a._values() if a.is_sparse else a.values()).sum(dtype=dtype)


# ---- matrix products: a sparse operand's rows and columns, entry by entry ----
def _product(a, b):
    """a @ b of a sparse and a dense matrix, dense."""
    rows, columns, values = _rows_columns(a)
    product = b.new_zeros(a.shape[0], b.shape[1])
    return product.index_add(0, rows, values.unsqueeze(1) * b.index_select(0, columns)) if values.numel() else product


def _check_product(name, a, b):
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"{name}: Expected dim=2 for both matrices, got {a.dim()} and {b.dim()}")
    for x in (a, b):
        if x.is_sparse and x.sparse_dim() != 2:
            raise RuntimeError(f"addmm: matrices expected, got {x.sparse_dim()}D tensor")
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {_word(a)} but found {_word(b)}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


@_kernel("mm", _coo, _csr)
def mm(a, b):
    _check_product("mm", a, b)
    if _is_sparse(a) and _is_sparse(b):
        if not (a.is_floating_point() or a.is_complex()):
            raise NotImplementedError(f'"sparse_matmul" not implemented for \'{_word(a)}\'')
        product = _product(a, b.to_dense()).to_sparse()
        return product if a.is_sparse or b.is_sparse else product.to_sparse_csr()
    return _product(a, b) if _is_sparse(a) else _product(b.t(), a.t()).t().contiguous()


@_kernel("_sparse_sparse_matmul", _coo, _csr)
def sparse_sparse_matmul(a, b):
    return mm(a, b)


@_kernel("addmm", _coo, _csr)
def addmm(c, a, b, beta=1, alpha=1):
    if _is_sparse(c):
        raise NotImplementedError("addmm into a sparse matrix on tpu")
    product = _scaled(mm(a, b), alpha)
    product = product.to_dense() if _is_sparse(product) else product
    return product.expand(c.shape) if beta == 0 else _scaled(c, beta) + product


@_kernel("mv", _coo, _csr)
def mv(a, x):
    return mm(a, x.unsqueeze(1)).squeeze(1)


@_kernel("bmm", _coo)
def bmm(a, b):
    return torch.bmm(a.to_dense(), b.to_dense() if _is_sparse(b) else b)


@_kernel("sparse_sampled_addmm", _csr)
def sampled_addmm(c, a, b, beta=1, alpha=1):
    if c.layout is not torch.sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected self to have sparse csr layout, but got {c.layout}")
    if c.dim() != 2 or a.dim() != 2 or b.dim() != 2:
        raise NotImplementedError("sampled_addmm of batches on tpu")
    _check_product("sampled_addmm", a, b)
    rows, columns, values = _rows_columns(c)
    dots = (a.index_select(0, rows) * b.t().index_select(0, columns)).sum(1)
    new = values * beta + dots * alpha
    return torch.sparse_csr_tensor(c.crow_indices(), c.col_indices(), new, c.shape, check_invariants=False)


_REDUCE = ("sum", "mean", "amax", "amin")


@_kernel("_sparse_mm_reduce_impl", _csr)
def sparse_mm_reduce(a, b, reduce):
    _check_product("sparse_mm_reduce_impl", a, b)
    if reduce not in _REDUCE:
        raise RuntimeError("reduce argument must be either sum, mean, amax or amin")
    rows, columns, values = _rows_columns(a)
    nnz = values.shape[0]
    terms = values.unsqueeze(1) * b.index_select(0, columns)
    at = rows.long().unsqueeze(1).expand_as(terms)
    result = torch.zeros(a.shape[0], b.shape[1], dtype=terms.dtype, device=terms.device)
    if nnz:
        result = result.scatter_reduce(0, at, terms, reduce, include_self=False)
    if not (reduce in ("amax", "amin") and a.requires_grad | b.requires_grad):
        return result, result.new_empty(0, dtype=rows.dtype)
    entry = torch.arange(nnz, dtype=rows.dtype, device=rows.device).unsqueeze(1)
    hit = torch.where(terms == result.gather(0, at), entry, nnz)
    return result, torch.full(result.shape, nnz, dtype=rows.dtype, device=rows.device).scatter_reduce(
        0, at, hit, "amin"
    )


@_kernel("_sparse_mm_reduce_impl_backward", _csr)
def sparse_mm_reduce_backward(a, grad, b, reduce, arg, mask):
    rows, columns, values = _rows_columns(a)
    share = grad.index_select(0, rows)  # of each entry, [nnz, columns of b]
    if reduce == "mean":
        share = share / a.crow_indices().diff().index_select(0, rows).unsqueeze(1)
    elif reduce in ("amax", "amin"):
        entry = torch.arange(values.shape[0], dtype=arg.dtype, device=arg.device).unsqueeze(1)
        share = torch.where(arg.index_select(0, rows) == entry, share, 0)
    grad_a = grad_b = None
    if mask[0]:
        grad_a = torch.sparse_csr_tensor(
            a.crow_indices(),
            a.col_indices(),
            (share * b.index_select(0, columns)).sum(1),
            a.shape,
            check_invariants=False,
        )
    if mask[1]:
        grad_b = torch.zeros_like(b).index_add(0, columns, share * values.unsqueeze(1))
    return grad_a, grad_b


# ---- made of diagonals ----
@_kernel("_spdiags", _dense)
def spdiags(diagonals, offsets, shape, layout=None):
    """Element j of a diagonal stands in column j."""
    diagonals, offsets = (
        x.reshape(-1, x.shape[-1] if x.dim() else 1) if k == 0 else x.reshape(-1)
        for k, x in enumerate((diagonals, offsets))
    )
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if layout not in (None, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        raise RuntimeError(f"Only output layouts (SparseCoo, SparseCsr, SparseCsc) are supported, got {layout}")
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    column = torch.arange(min(diagonals.shape[1], shape[1]), device=diagonals.device)
    row = column - offsets.to(column.device).unsqueeze(1)
    which, at = ((row >= 0) & (row < shape[0])).nonzero().unbind(1)
    result = _coo_tensor(torch.stack([row[which, at], at]), diagonals[which, at], shape, False)
    return result if layout in (None, torch.sparse_coo) else result.coalesce().to_sparse(layout=layout)
