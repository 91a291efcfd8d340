"""Cache bundles: made in one process, used by another that may not compile; and for TPUs, under the names that a process there looks for."""
import pytest
from torch_tpu import cache
from torch_tpu.aot.__main__ import main
from torch_tpu.plugin import KNOWN

pytestmark = [pytest.mark.tpu, pytest.mark.strict("looks at the programs that a cache holds")]
needs_libtpu = pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")

BUILD = """
import torch, torch_tpu
from torch import nn
from torch_tpu import aot, cache

def build(real):
    torch.manual_seed(0)
    with torch.device("cpu" if real else "meta"):
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    model = model.to("tpu") if real else model.to_empty(device="tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    @torch_tpu.compile_step(fullgraph=True)
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if real:
        x, y = torch.arange(128.).view(8, 16).sin().to("tpu"), (torch.arange(8) % 4).to("tpu")
    else:
        x, y = torch.empty(8, 16, device="tpu"), torch.empty(8, dtype=torch.long, device="tpu")
    return step, (x, y), optimizer
"""
MAKE = BUILD + """
import sys
step, args, optimizer = build(False)
before = torch_tpu.counters()["executions"]
print(aot.fill(step, args, topology=sys.argv[1] if len(sys.argv) > 1 else TOPOLOGY))
assert torch_tpu.counters()["executions"] == before and not optimizer.state and not step.programs
"""
USE = BUILD + """
step, args, optimizer = build(True)
losses = [step(*args) for _ in range(5)]
print(*(loss.cpu().item() for loss in losses))
print(torch_tpu.counters()["compiles"])
"""
ASK = BUILD + """
from torch_tpu import _C
step, args, optimizer = build(True)
_C.show_programs(True)
try:
    step(*args)
except RuntimeError:
    pass
(text,) = _C.shown_programs()
print(repr(text))
"""
TEXT = BUILD + """
from torch_tpu.aot import bundle
step, args, optimizer = build(False)
print(repr(bundle.asked(step, args)[0]))
"""


def run(python, code, folder, **env):
    status, out, err = python(code, TORCH_TPU_CACHE_DIR=str(folder), **{"TORCH_TPU_CACHE_SHARED": None, "TORCH_TPU_CACHE_ONLY": None, **env})
    assert status == 0, err
    return out.strip().splitlines()


def test_a_bundle_serves_a_process_that_may_not_compile(python, tmp_path):
    made, used, pack = tmp_path / "made", tmp_path / "used", tmp_path / "job.pack"
    (name,) = run(python, MAKE.replace("TOPOLOGY", "'here'"), made)
    assert [e[0] for e in cache.entries(made)] == [name + ".ttx"]
    assert cache.main(["--dir", str(made), "pack", str(pack)]) == 0
    used.mkdir(0o700)
    assert cache.main(["--dir", str(used), "unpack", str(pack)]) == 0
    losses, compiles = run(python, USE, used, TORCH_TPU_CACHE_ONLY="1")
    assert compiles == "0"
    assert losses == run(python, USE, tmp_path / "own")[0]
    losses = [float(x) for x in losses.split()]
    assert losses[-1] < losses[0]


def test_without_the_bundle_the_step_says_what_is_missing(python, tmp_path):
    status, _, err = python(USE, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_CACHE_SHARED=None, TORCH_TPU_CACHE_ONLY="1")
    assert status and "TORCH_TPU_CACHE_ONLY is set and the program" in err and str(tmp_path) in err


def test_what_is_asked_for_is_what_a_process_for_tpus_asks(python, tmp_path):
    assert run(python, TEXT, tmp_path) == run(python, ASK, tmp_path, TORCH_TPU_TARGET="tpu")


@needs_libtpu
def test_kinds_of_tpu_have_names_of_their_own(python, tmp_path):
    names = [run(python, MAKE.replace("TOPOLOGY", repr(t)), tmp_path)[0] for t in ("v6e:2x2", "v6e:4x4", "v5e:2x2")]
    assert names[0] == names[1] != names[2]
    assert sorted(e[0] for e in cache.entries(tmp_path)) == sorted(n + ".ttx" for n in set(names))
    assert not cache.verify(tmp_path)


@needs_libtpu
def test_a_script_fills_the_cache_with_all_that_it_asks_for(tmp_path, monkeypatch, python):
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(3, 4, device='tpu')\nprint((x @ x.T).softmax(0).sum().item())\nx.view(99)")
    code = f"""
from torch_tpu.aot import bundle
names, left, status = bundle.of_script([{str(script)!r}], topology="v6e:2x2")
print(len(names), left, status)
"""
    assert run(python, code, tmp_path / "made")[-1] == "4 {} 1"  # full, matmul, softmax, sum; then its error
    assert len(cache.entries(tmp_path / "made")) == 4


@needs_libtpu
def test_what_no_process_asks_for_is_refused(python, tmp_path):
    code = BUILD + """
import pytest
with aot.fake():
    x = torch.zeros(4)
with pytest.raises(ValueError, match="no process asks"):
    aot.compile(torch.sin, (x,), topology="v6e:2x2").fill()
with pytest.raises(TypeError, match="compile_step"):
    aot.fill(torch.sin, (x,), topology="v6e:2x2")
with pytest.raises(NotImplementedError, match="to_empty"):
    aot.fill(torch_tpu.compile_step(torch.sin), (x,), topology="here")
step, args, _ = build(False)
made = aot.compile(step, args, topology="v6e:2x2")
assert made.cost.matrix and made.memory.total and "v6e" in str(made)
print(made.fill() == aot.fill(step, args, topology="v6e:2x2"))
"""
    assert run(python, code, tmp_path)[-1] == "True"


def test_the_command_says_what_is_wrong(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("def three(n=1): return 3\n")
    for what, said in (
        ([], "expected SCRIPT.py:fn"),
        ([f"{script}:three"], "compile_step returned, args.*got int"),
        (["--set", "n=1,2", f"{script}:three"], "one value for each name"),
    ):
        with pytest.raises(SystemExit, match=said):
            main(["bundle", "--topology", "here", *what])
