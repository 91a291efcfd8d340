"""The models of bench/models.py, small: 50 compiled training steps have the losses of the CPU."""
import importlib.util
import pathlib

import pytest
import torch

pytestmark = pytest.mark.tpu

spec = importlib.util.spec_from_file_location("bench_models", pathlib.Path(__file__).parents[2] / "bench" / "models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)


def images(n):
    return torch.randn(2, 3, n, n), torch.randint(0, 10, (2,))


SMALL = {
    "GPT": (
        lambda: models.GPT(1, 16, 8, heads=2, vocabulary=32),
        lambda: (torch.randint(0, 32, (2, 8)), torch.randint(0, 32, (2, 8))),
    ),
    "ViT": (lambda: models.ViT(1, 16, 2), lambda: images(32)),
    "ResNet": (lambda: models.ResNet(4), lambda: images(8)),
    "MiniLM": (lambda: models.MiniLM(1, 16, 2, 64), lambda: (torch.randint(0, 64, (2, 9)), torch.randint(0, 10, (2,)))),
}


@pytest.mark.parametrize("name", SMALL)
def test_losses_of_50_steps_are_the_cpus(name):
    torch._dynamo.reset()
    steps = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(1)
        make_model, make_data = SMALL[name]
        model, (x, y) = make_model(), make_data()
        steps.append(
            models.torch_step(model.to(device), x.to(device), y.to(device), 1e-3, "tpu" if device == "tpu" else None)
        )
    want, got = ([step().item() for _ in range(50)] for step in steps)
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=1e-3, atol=1e-3)
