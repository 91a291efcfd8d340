"""Compiled graphs across processes, options of the compiler, and what can be seen of a compiled call."""
import pytest
import torch
from torch import nn

import torch_tpu

pytestmark = pytest.mark.tpu

STEP = """if True:
    import sys, torch, torch_tpu
    from torch import nn
    from torch._dynamo.utils import counters
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(8), nn.Linear(8, 2)).to("tpu")
    c = torch.compile(model, backend="tpu")
    x = torch.linspace(-1, 1, 15, device="tpu").reshape(5, 3)
    loss = c(x).square().sum()
    loss.backward()
    optimizer = torch.optim.AdamW(model.parameters())
    torch.compile(optimizer.step, backend="tpu")()
    k, aot = torch_tpu.counters(), counters["aot_autograd"]
    print(repr((loss.item(), sum(p.grad.sum().item() for p in model.parameters()), k["compiles"], aot["autograd_cache_hit"], aot["autograd_cache_saved"])))
    print([name for name in ("torch._inductor.lowering", "torch._inductor.codegen.cpp") if name in sys.modules])
"""


@pytest.mark.strict("counts compiles, which fuse puts off")
def test_a_second_process_traces_and_compiles_nothing(python, tmp_path):
    env = {"TORCH_TPU_CACHE_DIR": str(tmp_path / "programs"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs")}
    results = []
    for _ in range(2):
        status, out, err = python(STEP, **env)
        assert status == 0, err
        line, imported = out.splitlines()
        results.append(eval(line))
        assert imported == "[]"  # the parts of inductor that take seconds to import
    first, second = results
    assert first[2] > 0 and first[3:] == (0, 2)
    assert second[2:] == (0, 2, 0)
    torch.testing.assert_close(torch.tensor(second[:2]), torch.tensor(first[:2]))


def test_options_reach_the_compiler(counted):
    torch._dynamo.reset()
    x = torch.ones(5, 7, device="tpu")
    plain = torch.compile(lambda x: (x * 3).sin() + 11, backend="tpu")
    plain(x)
    torch.tpu.synchronize()
    with counted() as c:
        torch.compile(lambda x: (x * 3).sin() + 11, backend="tpu", options={"xla_cpu_enable_fast_math": True})(x)
    assert c.compiles + c.cache_hits_disk == 1  # the same text, other options
    with pytest.raises(RuntimeError, match="xla_no_such_option"):
        torch.compile(lambda x: (x * 3).sin() + 12, backend="tpu", options={"xla_no_such_option": 1})(x)


def test_explain():
    m = nn.Linear(4, 4).to("tpu")

    def f(x):
        y = m(x).relu()
        if y.sum() > 0:
            y = y + 1
        return y.cpu().sum() + 1

    with torch.no_grad():
        told = torch_tpu.explain(f, torch.ones(2, 4, device="tpu"))
    assert len(told.graphs) == 2 and len(told.breaks) == 1
    assert told.graphs[0].flops == 2 * 2 * 4 * 4 and "dot_general" in told.graphs[0].programs[0]
    assert any("_to_copy" in g.host[0] for g in told.graphs if g.host)
    assert "graph break" in str(told)


def test_an_exported_program_as_stablehlo():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return self.linear(x).relu()

    from torch_tpu.export import to_stablehlo

    text = to_stablehlo(torch.export.export(Model(), (torch.ones(4, 3),)))
    assert "dot_general" in text and text.count("%arg") >= 4 and "tensor<4x3xf32>" in text
