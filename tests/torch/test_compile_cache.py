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


def test_logs_tell_what_graphs_become(python):
    code = """if True:
        import torch
        def f(x, v):
            return x.to("cpu") + v, torch.linalg.vector_norm(x) + x.sum()
        x = torch.ones(3, device="tpu")
        torch.compile(lambda x: x.sin() + 1, backend="tpu")(x)
        torch.compile(f, backend="tpu")(x, torch.ones(3))
    """
    status, out, err = python(code, TORCH_LOGS="torch_tpu", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    assert status == 0, err
    assert "a graph of 2 operators, captured; one program" in err and "on the host: aten._to_copy.default" in err


@pytest.mark.strict("asks for the program of a call, which fuse puts off")
def test_building_a_program_is_linear():
    """10,000 operators are well under a second of building; here: twice the operators, twice the work and the text."""
    import sys

    from torch_tpu import _C
    from torch_tpu.compile.program import Program

    aten = torch.ops.aten

    def graph(n):
        with torch._subclasses.FakeTensorMode():
            value = torch.empty(4, 4, device="tpu")
        g = torch.fx.Graph()
        x = h = g.placeholder("x")
        for i in range(n):
            h = g.call_function(
                *[(aten.add.Tensor, (h, x)), (aten.mm.default, (h, x)), (aten.permute.default, (h, [1, 0]))][i % 3]
            )
        for node in g.nodes:
            node.meta["val"] = value
        g.output([h])
        return torch.fx.GraphModule(nn.Module(), g)

    def built(n):
        program, calls = Program(graph(n)), 0

        def count(frame, event, argument):
            nonlocal calls
            calls += 1

        x = torch.ones(4, 4, device="tpu")
        _C.show_programs(True)
        sys.setprofile(count)
        try:
            program([x])
        except RuntimeError:
            pass  # as asked, it is not compiled
        finally:
            sys.setprofile(None)
        (text,) = _C.shown_programs()
        return calls, text.count("\n")

    built(30)  # what is done once
    (calls, lines), (calls2, lines2) = built(600), built(1200)
    assert lines2 <= 2 * lines and lines <= 2 * 600, (lines, lines2)
    assert calls2 < 2.1 * calls, (calls, calls2)
