"""Decompositions of losses against class indices. One sample is a batch of one."""
import torch

from ._registry import decomposes


def _per_class(grad, g, reduction, count):
    """g, [samples, classes], times the gradient of the reduced loss; count: what the mean divides by."""
    if reduction == 0:
        return g * grad.reshape(-1, 1)
    return g * (grad / count if reduction == 1 else grad)


@decomposes("multi_margin_loss")
def multi_margin_loss(x, target, p=1, margin=1, weight=None, reduction=1):
    """torch's own gives the loss of one vector a dim, as it does multilabel_margin_loss_forward's."""
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    at = target.reshape(-1, 1)
    z = (margin - rows.gather(1, at) + rows).clamp(min=0)
    z = (z if p == 1 else z * z) * (1 if weight is None else weight[at])
    loss = z.scatter(1, at, 0).sum(1) / rows.shape[1]
    return (loss.reshape(target.shape), loss.mean(), loss.sum())[reduction]


@decomposes("multi_margin_loss_backward")
def multi_margin_loss_backward(grad, x, target, p, margin, weight=None, reduction=1):
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    at = target.reshape(-1, 1)
    z = margin - rows.gather(1, at) + rows
    g = (z > 0).to(x.dtype) * (1 if p == 1 else 2 * z) / rows.shape[1]
    if weight is not None:
        g = g * weight[at]
    g = g.scatter(1, at, 0)
    g = g.scatter(1, at, -g.sum(1, keepdim=True))
    return _per_class(grad, g, reduction, rows.shape[0]).reshape(x.shape)


def _labels_of(x, target):
    """x and labels as rows; which labels count (they end at the first negative one), where they point, and 1 minus the
    label's score plus each class's, [samples, labels, classes]."""
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    labels = target.reshape(rows.shape)
    counts = (labels >= 0).to(torch.int32).cumprod(1).bool()
    at = labels.clamp(min=0)
    return rows, labels, counts, at, 1 - rows.gather(1, at).unsqueeze(2) + rows.unsqueeze(1)


@decomposes("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x, target, reduction):
    rows, labels, counts, at, z = _labels_of(x, target)
    is_target = torch.zeros_like(labels).scatter_reduce(1, at, counts.to(labels.dtype), "amax")
    loss = (
        torch.where(counts.unsqueeze(2) & (is_target == 0).unsqueeze(1), z.clamp(min=0), 0).sum((1, 2)) / rows.shape[1]
    )
    loss = (loss.reshape(x.shape[:-1]), loss.mean(), loss.sum())[reduction]
    return loss, is_target.to(x.dtype).reshape(target.shape)


@decomposes("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad, x, target, reduction, is_target):
    rows, _, counts, at, z = _labels_of(x, target)
    hit = (counts.unsqueeze(2) & (is_target.reshape(rows.shape) == 0).unsqueeze(1) & (z > 0)).to(x.dtype)
    g = hit.sum(1).scatter_add(1, at, -hit.sum(2)) / rows.shape[1]
    return _per_class(grad, g, reduction, rows.shape[0]).reshape(x.shape)
