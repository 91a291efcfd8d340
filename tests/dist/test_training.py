"""PyTorch's parallel APIs on 4 processes: losses are those of one."""
import pytest
import torch
import training

WAYS = [
    "ddp",
    "ddp, small buckets",
    "ddp, static",
    "ddp, compiled",
    "fsdp",
    "fsdp, clipped",
    "fsdp, kept",
    "fsdp, meta",
    "hsdp",
    "tp",
    "fsdp x tp",
    "fsdp, compiled",
    "hsdp, compiled",
    "tp, compiled",
    "fsdp x tp, compiled",
]


@pytest.fixture(scope="module")
def alone():
    return {clip: training.train(training.make(), device="cpu", clip=clip) for clip in (None, 0.1)}


@pytest.mark.parametrize("mode", ["strict", "fuse"])
@pytest.mark.parametrize("which", WAYS)
def test_losses(world, alone, which, mode):
    expected = alone[0.1 if "clipped" in which else None]
    for losses in world.run(training.parallel, which, mode=mode):
        assert losses == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mode", ["strict", "fuse"])
@pytest.mark.parametrize(
    "schedule",
    ["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"],
)
def test_pipelines(world, schedule, mode):
    losses = world.run(training.pipeline, schedule, mode=mode)
    alone = training.pipeline_alone(4 if schedule in ("GPipe", "1F1B") else 8)
    assert losses[0 if "V" in schedule else -1] == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_experts_on_other_ranks(world, mode):
    tokens, choice, matrices = training.routed(4)
    tokens.requires_grad_(), matrices.requires_grad_()
    out = torch.einsum("rti,rtio->rto", tokens, matrices[choice]).tanh()
    out.square().sum().backward()
    for rank, (got, of_tokens, of_expert) in enumerate(world.run(training.experts, mode=mode)):
        torch.testing.assert_close(got, out[rank])
        torch.testing.assert_close(of_tokens, tokens.grad[rank])
        torch.testing.assert_close(of_expert, matrices.grad[rank])


def test_zero_redundancy(world, alone):
    for losses in world.run(training.zero):
        assert losses == pytest.approx(alone[None], abs=1e-5)


def test_no_sync_accumulates(world):
    model = training.make()
    x, y = training.batch(0)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    for grads in world.run(training.accumulate):
        for got, p in zip(grads, model.parameters()):
            torch.testing.assert_close(got, p.grad)


def test_uneven_inputs(world):
    ranks = world.run(training.uneven)
    for other in ranks[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ranks[0], other))


@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_ranks_may_branch(world, mode):
    totals = world.run(training.first_logs, mode=mode)
    assert totals == pytest.approx(4 * [totals[0]], abs=1e-6)


def test_checkpoints_are_resharded(world, two, tmp_path):
    folder = str(tmp_path / "checkpoint")
    saved = world.run(training.save, folder)[0]
    for parameters in two.run(training.load, folder):
        assert all(torch.equal(a, b) for a, b in zip(parameters, saved))
    import torch.distributed.checkpoint as dcp
    state = training.make().to("tpu").state_dict()  # one process, no group
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(state.values(), saved))
