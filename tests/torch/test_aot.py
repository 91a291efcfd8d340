"""torch_tpu.aot: programs compiled for TPUs that are not here; what they hold, cost and take is checked against counts
by hand."""
import re
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torch_tpu
from torch_tpu import aot
from torch_tpu.aot import count, hlo, optimized, trace
from torch_tpu.export import to_stablehlo
from torch_tpu.plugin import KNOWN

needs_libtpu = pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")


def counted(fn, *args):
    with torch.no_grad():
        return count.Counter(trace.lower(trace.record(fn, args)).text).cost


class Layer(nn.Module):
    """A decoder's layer with grouped queries."""

    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.size = width // heads
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, groups * self.size, bias=False), nn.Linear(
            width, groups * self.size, bias=False
        )
        self.gate, self.up, self.down = (
            nn.Linear(width, inner, bias=False),
            nn.Linear(width, inner, bias=False),
            nn.Linear(inner, width, bias=False),
        )

    def forward(self, x):
        batch, length, width = x.shape
        y = self.norms[0](x)
        q, k, v = (f(y).view(batch, length, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def test_counts_of_a_matrix_product_are_those_by_hand():
    with aot.fake():
        a, b = torch.zeros(1024, 512, dtype=torch.bfloat16), torch.zeros(512, 256, dtype=torch.bfloat16)
    cost = counted(torch.matmul, a, b)
    assert cost.matrix == {"bf16": 2 * 1024 * 512 * 256} and cost.vector == 0
    assert cost.bytes == 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    cost = counted(torch.matmul, a.float(), b.float())
    assert cost.matrix == {"f32": 2 * 1024 * 512 * 256} and cost.passes == {"bf16": 6 * 2 * 1024 * 512 * 256}


def test_counts_of_an_mlp_are_those_by_hand():
    with aot.fake():
        mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).bfloat16()
        x = torch.zeros(1024, 512, dtype=torch.bfloat16)
    cost = counted(mlp, x)
    assert sum(cost.matrix.values()) == 2 * 2 * 1024 * 512 * 2048
    # each product's operands and result
    by_hand = 2 * (1024 * 512 + 512 * 2048 + 2048 + 1024 * 2048) + 2 * (1024 * 2048 + 2048 * 512 + 512 + 1024 * 512)
    assert cost.bytes == pytest.approx(by_hand, rel=0.01)


def test_counts_of_a_decoder_layer_are_those_by_hand():
    batch, length, width, heads, groups, inner = 2, 256, 512, 8, 4, 1536
    with aot.fake():
        layer, x = Layer(width, heads, groups, inner), torch.zeros(batch, length, width)
    cost = counted(layer, x)
    size, tokens = width // heads, batch * length
    products = (
        2 * tokens * (2 * width * width + 2 * width * groups * size + 3 * width * inner)
        + 2 * 2 * batch * heads * length * length * size
    )
    assert sum(cost.matrix.values()) == products
    act, kv, hidden = 4 * tokens * width, 4 * tokens * groups * size, 4 * tokens * inner
    weights = 4 * (2 * width * width + 2 * width * groups * size + 3 * width * inner)
    by_hand = (weights + act + 4 * act + 2 * kv  # the first norm's sum of squares; q, k and v of what it normalizes
               + 3 * act + 2 * kv  # attention keeps no scores; a result is transposed
               + 3 * act + act  # the output projection with the residual; the second norm's sum of squares
               + 2 * act + 3 * hidden + hidden + 2 * act)  # up; gate with the product; down with the residual
    assert cost.bytes == pytest.approx(by_hand, rel=0.01)


def test_an_optimizer_step_reads_and_writes_each_state_once():
    n = 1000
    with aot.fake():
        w, g = torch.zeros(n, requires_grad=True), torch.zeros(n)
        optimizer = torch.optim.AdamW([w])

    def step(g):
        w.grad = g.clone()
        optimizer.step()

    made = trace.lower(trace.record(step, (g,)))
    assert len(made.written) == 4 and len(made.read) == 1  # w, exp_avg, exp_avg_sq, step; g
    assert count.Counter(made.text).cost.bytes == pytest.approx(7 * 4 * n, rel=0.01)


def test_loops_that_jax_prints_count_as_often_as_they_run():
    text = """module @tt {
  func.func public @main(%arg0: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %4:2 = stablehlo.while(%iterArg = %c, %iterArg_1 = %arg0) : tensor<i32>, tensor<8x8xf32>
    cond {
      %c_2 = stablehlo.constant dense<5> : tensor<i32>
      %5 = stablehlo.compare LT, %iterArg, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %6 = func.call @closed_call(%iterArg_1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg, %c_2 : tensor<i32>
      stablehlo.return %7, %6 : tensor<i32>, tensor<8x8xf32>
    }
    return %4#1 : tensor<8x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> \
tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
"""
    assert count.Counter(text).cost.matrix == {"f32": 5 * 2 * 8**3}


def test_loops_count_as_often_as_they_run():
    text = """module @tt {
  func.func public @main(%arg0: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1, %2 = "stablehlo.while"(%0, %arg0) ({
    ^bb0(%3: tensor<i32>, %4: tensor<8x8xf32>):
      %5 = stablehlo.constant dense<10> : tensor<i32>
      %6 = stablehlo.compare LT, %3, %5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }, {
    ^bb0(%7: tensor<i32>, %8: tensor<8x8xf32>):
      %9 = stablehlo.constant dense<1> : tensor<i32>
      %10 = stablehlo.add %7, %9 : tensor<i32>
      %11 = stablehlo.dot_general %8, %8, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %10, %11 : tensor<i32>, tensor<8x8xf32>
    }) : (tensor<i32>, tensor<8x8xf32>) -> (tensor<i32>, tensor<8x8xf32>)
    return %2 : tensor<8x8xf32>
  }
}
"""
    assert count.Counter(text).cost.matrix == {"f32": 10 * 2 * 8**3}
    assert hlo.parse_type("tensor<2x?x4xbf16, #stablehlo.bounds<?, 16, ?>>") == ((2, 16, 4), "bf16", 2 * 16 * 4 * 2)


def test_a_record_has_every_tensor_once_and_takes_no_memory():
    """A model of 1 TB on whatever this is: tied weights are one parameter of the program, and what is written is its
    result."""
    with aot.fake():
        model = nn.Sequential(nn.Embedding(500000, 500000), nn.Linear(500000, 500000, bias=False))
        model[1].weight = model[0].weight
        model.register_buffer("calls", torch.zeros(()))
        tokens = torch.zeros(4, dtype=torch.long)

    def step(tokens):
        model.calls.add_(1)
        return model(tokens)

    before = torch_tpu.counters()
    made = trace.lower(trace.record(step, (tokens,)))
    after = torch_tpu.counters()
    assert [n for n, _ in made.written] == ["model.calls"] and sorted(n for n, _ in made.read) == [
        "argument 0",
        "model.0.weight",
    ]
    assert [tuple(r.shape) for r in made.results] == [(4, 500000)]
    assert (
        after["peak_bytes"] - before["peak_bytes"] < 2**20
        and after["compiles"] == before["compiles"]
        and after["executions"] == before["executions"]
    )


def test_modules_of_other_devices_are_traced_as_they_are():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))
    made = trace.lower(trace.record(model, (torch.randn(4, 8),)))
    assert {n for n, _ in made.written} == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    # nothing ran; the program takes a random state
    assert model[1].num_batches_tracked == 0 and "tensor<2xui64>" in made.text
    with torch.device("meta"):
        model = nn.Linear(8, 16)
    assert "stablehlo.dot_general" in trace.lower(trace.record(model, (torch.empty(4, 8),))).text


def test_programs_are_written_for_tpus():
    """64-bit integers are no matrix products there, whatever this process runs on."""
    made = trace.lower(trace.record(torch.mm, (torch.ones(4, 4, dtype=torch.long), torch.ones(4, 4, dtype=torch.long))))
    assert not re.search(r"dot_general.*-> tensor<[\dx]*i64>", made.text)


def test_lines_of_a_program_are_the_users():
    with aot.fake():
        layers = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 16)])

    def step(x):
        x = layers[0](x).relu()
        x = layers[1](x)  # its backward is two products
        x.sum().backward()

    products = [
        op for op in _operations(trace.lower(trace.record(step, (torch.ones(4, 16),))).text) if op.name == "dot_general"
    ]
    here = step.__code__.co_firstlineno
    assert [op.place for op in products[:2]] == [f"{__file__}:{here + 1}", f"{__file__}:{here + 2}"]
    assert sorted(op.place for op in products[2:]) == [f"{__file__}:{here + n}" for n in (1, 2, 2)]


def _operations(text):
    return [kernel.op for kernel in count.Counter(text).kernels]


def test_what_is_deferred_is_neither_shown_nor_lost():
    with torch_tpu.set_eager_mode("fuse"):
        deferred = torch.full((3, 7), 2.0, device="tpu") * 4
        made = trace.lower(trace.record(torch.neg, (torch.ones(4, 4),)))
        assert "negate" in made.text and "3x7" not in made.text
        exported = torch.export.export(nn.ReLU(), (torch.ones(4, 4),))
        again = deferred + 1
        assert "3x7" not in to_stablehlo(exported)
    assert again.cpu().eq(9).all() and deferred.cpu().eq(8).all()


def test_what_reads_values_is_refused_by_name():
    with pytest.raises(Exception, match="_local_scalar_dense"):
        trace.record(lambda x: x * x.sum().item(), (torch.ones(3),))


@needs_libtpu
@pytest.mark.strict("looks at the memory of a program without conditions")
def test_a_training_step_compiles_fits_and_has_an_estimate():
    with aot.fake():
        embed, layers = nn.Embedding(1000, 256), nn.ModuleList(Layer(256, 4, 2, 512) for _ in range(2))
        model = nn.ModuleList([embed, layers]).bfloat16()
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.zeros(2, 128, dtype=torch.long)

    def step(tokens):
        x = embed(tokens)
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False)
        loss = F.cross_entropy((x @ embed.weight.T).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    compiled = aot.compile(step, (tokens,), topology="tpu7x:2x2x1")
    state = sum(t.numel() * t.element_size() for _, t in compiled.inputs.written + compiled.inputs.read)
    assert (
        compiled.memory.arguments >= state
        and compiled.memory.outputs < 2**16
        and 0 < compiled.memory.temporaries < compiled.memory.available
    )
    assert len(compiled.inputs.written) == 4 * len(list(model.parameters()))
    assert compiled.estimate.roofline > 0 and compiled.estimate.cycles > 0 and 0 < compiled.estimate.mfu < 1
    assert (
        compiled.estimate.roofline < 20 * compiled.estimate.cycles
        and compiled.estimate.cycles < 20 * compiled.estimate.roofline
    )
    assert len(compiled.serialize()) > 1000 and "fits" not in str(compiled) and "tpu7x:2x2x1" in str(compiled)


@needs_libtpu
def test_a_large_product_comes_to_the_documented_peak():
    """Two ways that know nothing of each other: the documented peak, and libtpu's cycles at the clock that follows from
    it."""
    with aot.fake():
        x = torch.zeros(8192, 8192, dtype=torch.bfloat16)
    for name in ("v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"):
        compiled = aot.compile(torch.matmul, (x, x), topology=name)
        assert compiled.estimate.bound == "compute" and compiled.estimate.mfu == pytest.approx(1)
        assert 0.65 < compiled.estimate.roofline / compiled.estimate.cycles < 1.05
        (product,) = [i for i in optimized.instructions(compiled.optimized()) if i.cycles]
        assert product.opcode == "fusion" and product.times == 1


@needs_libtpu
def test_what_does_not_fit_says_by_how_much_and_where_it_would():
    with aot.fake():
        layer, x = nn.Linear(65536, 65536), torch.zeros(8, 65536)
    with pytest.raises(
        aot.OutOfMemory,
        match=r"does not fit v5e:2x2: it needs 16\.\d+ GiB .* 15\.75 are there: 0\.\d+ too many.*v5p, v6e, tpu7x",
    ) as e:
        aot.compile(layer, (x,), topology="v5e:2x2")
    assert e.value.needed > e.value.available == aot.topology("v5e:2x2").memory
    assert aot.compile(layer, (x,), topology="v6e:2x2").memory.arguments > 16 * 2**30


@needs_libtpu
@pytest.mark.parametrize(
    "name, chips, devices, hosts",
    [
        ("v5e:2x2", 4, 4, 1),
        ("v6e:16x16", 256, 256, 64),
        ("v5p:2x2x2", 8, 8, 2),
        ("tpu7x:2x2x1", 4, 8, 1),
        ("tpu7x:16x16x32", 8192, 16384, 2048),
    ],
)
def test_topologies_are_those_of_libtpu(name, chips, devices, hosts):
    t = aot.topology(name)
    assert (t.chips, len(t.devices), len({d.process for d in t.devices})) == (chips, devices, hosts)
    assert "x".join(map(str, t.shape)) == name.partition(":")[2] and [d.id for d in t.devices] == list(range(devices))
    assert (
        t.peak() * devices == pytest.approx(t.chip.peak["bf16"] * chips)
        and t.memory * devices <= t.chip.memory * chips * 1.01
    )


@needs_libtpu
@pytest.mark.parametrize(
    "name, says",
    [
        ("v9:2x2", "expected GENERATION:AxB"),
        ("v6:4x4", "did you mean v6e:2x2"),
        ("v6e", "has 2 axes, such as"),
        ("tpu7x:2x2", "has 3 axes, such as tpu7x:2x2x1"),
        ("v6e:3x7", "near ones are v6e:"),
        ("", "expected GENERATION"),
    ],
)
def test_unknown_topologies_name_near_ones(name, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        aot.topology(name)


@needs_libtpu
def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="xla_nonsense"):
        aot.compile(torch.neg, (torch.ones(2),), topology="v6e:2x2", options={"xla_nonsense": True})


def test_without_libtpu_the_error_says_what_to_install(monkeypatch):
    from torch_tpu import plugin

    monkeypatch.setitem(plugin.KNOWN, "libtpu", lambda: None)
    with pytest.raises(RuntimeError, match="pip install libtpu"):
        aot.topology("v6e:1x1")


@needs_libtpu
def test_report_of_a_script(tmp_path):
    script, page = tmp_path / "model.py", tmp_path / "report.html"
    script.write_text("""
import torch
from torch import nn

def mlp(width=64):
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 65536 if width > 60000 else 8))
    return model, (torch.zeros(4, width),)

def sharded(topology, batch):
    from torch_tpu import aot
    return aot.shard(nn.Linear(8, 8), aot.mesh(topology)), (torch.zeros(batch, 8),)
""")
    run = [sys.executable, "-m", "torch_tpu.aot"]
    done = subprocess.run(
        [*run, "report", f"{script}:mlp", "--topology", "v5e:2x2", "--set", "width=64,65536", "--html", page],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr == "", done.stderr  # the wide one does not fit
    assert done.stdout.count("by roofline, bound by") == 1 and done.stdout.count("does not fit") == 1
    text = page.read_text()
    assert text.count("<svg") == 3 and "width=65536" in text and "does not fit v5e:2x2" in text
    done = subprocess.run(
        [*run, "report", f"{script}:sharded", "--topology", "v5e:2x2,v6e:2x2", "--set", "batch=1,2", "--sweep"],
        capture_output=True,
        text=True,
    )
    head, *lines = done.stdout.splitlines()
    assert (
        done.returncode == 0
        and head.startswith("compiled for")
        and len(lines) == 4
        and lines[1].startswith("v6e:2x2 batch=1  ")
    ), (done.stderr + done.stdout)
    assert subprocess.run([*run, "topology", "v6e:4x4"], capture_output=True, text=True).stdout.startswith(
        "<v6e:4x4: 16 chips"
    )
    for wrong in (["report", "nofile.py:f", "--topology", "v6e:2x2"], ["topology", "v7:1"]):
        done = subprocess.run([*run, *wrong], capture_output=True, text=True)
        assert done.returncode and "Traceback" not in done.stderr and done.stderr


def line_of(text):
    return next(i for i, line in enumerate(open(__file__), 1) if text in line)


def reads_a_value(x):
    return x * 2 if x.sum() > 0 else x  # the line that reads


def selects(x):
    return x[x > 0]  # the line that selects


def packs(x):
    x = x + 1
    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(x.int(), 1)  # the line that packs


@pytest.mark.parametrize(
    "fn, kind, says",
    [(reads_a_value, "value", "_local_scalar_dense"), (selects, "size", "nonzero"), (packs, "unsupported", "int4pack")],
)
def test_the_doctor_names_what_keeps_it_from_being_one_program(fn, kind, says):
    from torch_tpu.aot import doctor

    diagnosis = doctor.diagnose(fn, (torch.ones(16, 64),))
    (finding,) = diagnosis.findings
    place = line_of("# the line that " + {"value": "reads", "size": "selects", "unsupported": "packs"}[kind])
    assert (
        diagnosis.program is None
        and finding.kind == kind
        and says in finding.what
        and finding.place == f"{__file__}:{place}"
    ), finding


def test_the_doctor_finds_nothing_wrong_with_a_decoder_layer():
    from torch_tpu.aot import doctor

    diagnosis = doctor.diagnose(Layer(64, 4, 2, 128), (torch.zeros(1, 8, 64),))
    assert diagnosis.findings == [] and "one program" in str(diagnosis) and diagnosis.operators["aten.mm.default"] > 3
