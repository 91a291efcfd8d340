"""Programs of torch.compile name the user's lines, and are the same programs wherever these lie."""

import re
import textwrap

import torch

import torch_tpu
from torch_tpu import _C

SOURCE = """
    import torch

    def step(x, w):
        y = x @ w
        z = torch.where(y > 0, y, y.sin())
        return z.sum()

    def loop(x):
        return torch.while_loop(
            lambda i, y: i < 4,
            lambda i, y: (i + 1,
                          y.cos()),
            (torch.zeros((), dtype=torch.int32, device=x.device), x))[1]

    def dynamic(x):
        return x.exp().sum()
"""


def module_in(folder):
    folder.mkdir()
    file = folder / "users.py"
    file.write_text(textwrap.dedent(SOURCE))
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names, str(file)


def texts_of(call):
    torch._dynamo.reset()
    with torch_tpu.set_eager_mode("strict"):  # fuse mode would ask for the programs later
        _C.show_programs(False)
        try:
            call()
        finally:
            texts = _C.shown_programs()
    return texts


def lines_of(text, operation):
    """{(file, line)} of the lines of an operation."""
    lines = [line for line in text.splitlines() if f"stablehlo.{operation}" in line]
    found = [re.search(r' loc\("(.*)":(\d+):0\)$', line) for line in lines]
    return {(m[1], int(m[2])) if m else None for m in found}


def run_step(names):
    x = torch.randn(5, 7, device="tpu", requires_grad=True)
    w = torch.randn(7, 3, device="tpu", requires_grad=True)
    loss = torch.compile(names["step"], backend="tpu", fullgraph=True)(x, w)
    with torch.autograd.set_multithreading_enabled(False):  # texts are kept for each thread
        loss.backward()


def test_forward_and_backward(tmp_path):
    names, file = module_in(tmp_path / "a")
    texts = texts_of(lambda: run_step(names))
    (forward,) = [t for t in texts if "stablehlo.sine" in t]
    (backward,) = [t for t in texts if "stablehlo.cosine" in t]
    assert lines_of(forward, "dot_general") == {(file, 5)}
    assert lines_of(forward, "sine") == {(file, 6)}
    assert lines_of(forward, "reduce") == {(file, 7)}
    assert lines_of(backward, "dot_general") == {(file, 5)}
    assert lines_of(backward, "cosine") == {(file, 6)}


def test_loops_and_sizes(tmp_path):
    names, file = module_in(tmp_path / "a")
    x = torch.randn(9, device="tpu")
    (text,) = [
        t
        for t in texts_of(lambda: torch.compile(names["loop"], backend="tpu", fullgraph=True)(x))
        if "stablehlo.cosine" in t
    ]
    assert lines_of(text, "cosine") == {(file, 13)}
    texts = texts_of(lambda: torch.compile(names["dynamic"], backend="tpu", dynamic=True)(x))
    assert [lines_of(t, "exponential") for t in texts if "exponential" in t] == [{(file, 17)}]


def test_other_folders_compile_nothing(tmp_path):
    first, second = [module_in(tmp_path / name) for name in ("a", "b")]
    before = texts_of(lambda: run_step(first[0]))
    count = torch_tpu.counters()["cache_misses"]
    after = texts_of(lambda: run_step(second[0]))
    assert torch_tpu.counters()["cache_misses"] == count
    assert any(first[1] in t for t in before) and any(second[1] in t for t in after)
    keys = [{_C.cache_key(t) for t in texts if "users.py" in t} for texts in (before, after)]
    assert keys[0] == keys[1] and len(keys[0]) == 2
    plain = [re.sub(r' loc\(".*$', "", t, flags=re.MULTILINE) for t in before if "users.py" in t]
    assert {_C.cache_key(t) for t in plain} == keys[0]


