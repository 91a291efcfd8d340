"""Attention of parts on several processes is that of one: tensor parallel, and torch's context_parallel."""
import attention
import pytest
import torch


def alone(causal, length=64, groups=4, dtype=torch.float32):
    return attention.attend(
        *(x.float().requires_grad_() for x in attention.made(causal, length, groups, dtype)), causal
    )


def agrees(got, want, rtol=1e-4, atol=1e-4):
    for a, b in zip(got, want):
        torch.testing.assert_close(a.float(), b.detach(), rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "ranks, causal, balanced, rotate, groups, mode",
    [
        (2, False, False, "allgather", 4, "fuse"),
        (2, True, True, "allgather", 4, "strict"),
        (4, False, False, "alltoall", 2, "strict"),
        (4, True, False, "allgather", 4, "strict"),
        (4, True, True, "allgather", 4, "fuse"),
        (4, True, True, "alltoall", 2, "strict"),
    ],
)
def test_context_parallel(world, two, ranks, causal, balanced, rotate, groups, mode):
    ran = (world if ranks == 4 else two).run(attention.ring, causal, balanced, rotate, groups, torch.float32, mode=mode)
    want = alone(causal, groups=groups)
    for got, after in ran:
        agrees(got, want)
        agrees([after], want)


def test_context_parallel_of_halves(world):
    want = alone(True, dtype=torch.bfloat16)
    for got, _ in world.run(attention.ring, True, True, "allgather", 4, torch.bfloat16):
        assert got[0].dtype == torch.bfloat16
        agrees(got, want, 0.05, 0.05)


@pytest.mark.parametrize("options", [{"dropout_p": 0.5, "is_causal": True}, {"attn_mask": True}])
def test_context_parallel_refuses_what_it_cannot(two, options):
    for words in two.run(attention.refused, options):
        assert "without dropout or a mask" in words


@pytest.mark.parametrize("flash", [True, False])
def test_heads_and_batches_are_split(world, flash):
    want = alone(True, 16, 2)
    for got, taken in world.run(attention.placed, flash):
        agrees(got, want)
        assert taken == flash
