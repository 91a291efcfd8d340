"""What programs for many devices are made of besides torch's operators: schemas of the rows `torch_tpu::...` of the
lowering table.

A list `groups` is how many groups of ranks there are, how many ranks each has, then the ranks (csrc/ops/collective.c).
Sizes are those of one rank's tensors; only traced programs hold these operators (torch_tpu/aot/collectives.py)."""
import torch

_library = torch.library.Library("torch_tpu", "FRAGMENT")


def _same(x, *_):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _all_gather(x, groups):
    return x.new_empty((x.shape[0] * groups[1], *x.shape[1:]))


def _reduce_scatter(x, op, groups):
    torch._check(
        x.shape[0] % groups[1] == 0, lambda: f"expected dim 0 of size {x.shape[0]} to be divisible by {groups[1]} ranks"
    )
    return x.new_empty((x.shape[0] // groups[1], *x.shape[1:]))


def _all_to_all(x, split_dim, concat_dim, groups):
    torch._check(x.shape[split_dim] % groups[1] == 0,
                 lambda: f"expected dim {split_dim} of size {x.shape[split_dim]} to be divisible by {groups[1]} ranks")
    shape = list(x.shape)
    shape[split_dim] //= groups[1]
    shape[concat_dim] *= groups[1]
    return x.new_empty(shape)


for _schema, _meta in {
    "all_reduce(Tensor x, str op, int[] groups) -> Tensor": _same,
    "all_gather(Tensor x, int[] groups) -> Tensor": _all_gather,
    "reduce_scatter(Tensor x, str op, int[] groups) -> Tensor": _reduce_scatter,
    "all_to_all(Tensor x, int split_dim, int concat_dim, int[] groups) -> Tensor": _all_to_all,
    "collective_broadcast(Tensor x, int[] groups) -> Tensor": _same,  # from the first of each group
    "collective_permute(Tensor x, int[] pairs) -> Tensor": _same,
    "barrier(Tensor x, Tensor after) -> Tensor": _same,
}.items():
    _library.define(_schema)
    _library.impl(_schema.partition("(")[0], _meta, "Meta")
