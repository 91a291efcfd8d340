"""Kernels on disk: found by what their code, and all that it mentions, is now; else traced anew."""
import functools
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import textwrap
import types

import pytest
import torch

import torch_tpu  # noqa: F401  registers the device
from torch_tpu.pallas import jax_op, stored

jax = pytest.importorskip("jax", reason="kernels are written in JAX")

PROGRAM = """
    import sys
    import jax, torch, torch_tpu
    import helpers
    from torch_tpu import pallas

    N = int(sys.argv[1])
    jax.config.update("jax_enable_x64", N == 2)

    @pallas.jax_op("edited::below")
    def below(x: jax.Array) -> jax.Array:
        return body(x)

    exec(f"def body(x): return x * {N}")

    @pallas.jax_op("edited::module")
    def module(x: jax.Array) -> jax.Array:
        return helpers.body(x) + helpers.BLOCK

    @jax.custom_vjp
    def v(x):
        return x * 1.0

    exec(f"def backward(saved, g): return (g * {N},)")
    v.defvjp(lambda x: (v(x), None), backward)

    @pallas.jax_op("edited::vjp")
    def vjp(x: jax.Array) -> jax.Array:
        return v(x)

    class C:
        scale = N

    @pallas.jax_op("edited::cls")
    def cls(x: jax.Array) -> jax.Array:
        return x * C.scale

    @pallas.jax_op("edited::config")
    def config(x: jax.Array) -> jax.Array:
        return jax.numpy.arange(2)

    x = torch.ones(2, device="tpu", requires_grad=True)
    vjp(x).sum().backward()
    x, g = x.detach(), x.grad
    print(below(x)[0].item(), module(x)[0].item(), g[0].item(), cls(x)[0].item(), config(x).element_size() // 4)
"""


def test_an_edit_is_seen_by_the_next_process(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    for n in 1, 2:
        (tmp_path / "helpers.py").write_text(f"BLOCK = {10 * n}\ndef body(x):\n    return x * {n}\n")
        r = subprocess.run([sys.executable, "program.py", str(n)], env=env, cwd=tmp_path, text=True,
                           capture_output=True)
        assert r.returncode == 0, r.stderr
        assert list(map(float, r.stdout.split())) == [n, 11 * n, n, n, n]


class Options:
    block = 3


SOME = Options()


def reads_an_object(x):
    return x * SOME.block


def reads_by_name(x):
    return x * getattr(Options, "block")


def reads_the_environment(x):
    return x * int(os.environ["BLOCK"])


def reads_a_file(x):
    return x * float(open("block").read())


def imports_the_users(x):
    import conftest
    return x * conftest.BLOCK


def hands_a_module_on(x):
    return reads_by_name(textwrap)


@pytest.mark.parametrize("fn", [reads_an_object, reads_by_name, reads_the_environment, reads_a_file, imports_the_users,
                                hands_a_module_on, torch.ones(1), jax.numpy.ones(1)])
def test_what_cannot_be_told_is_not_stored(fn):
    assert stored.digest_of("a::b", functools.partial(max, fn), "") is None


def told(fn):
    found = stored.digest_of("a::b", fn, "")
    assert found is not None and found == stored.digest_of("a::b", fn, "")
    return found


def scaled(x):
    import jax.numpy as jnp
    return jnp.dot(x, x) * math.pi * Options.block


@jax.jit
def jitted(x):
    return scaled(x)


@jax.custom_jvp
def with_jvp(x):
    return x


def test_what_is_told(monkeypatch):
    helpers = types.ModuleType("helpers_of_test")
    helpers.inner = types.ModuleType("helpers_of_test.inner")
    helpers.inner.block = 1
    monkeypatch.setitem(globals(), "helpers", helpers)
    exec("def uses(x): return x * helpers.inner.block", globals())
    with_jvp.defjvp(lambda p, t: (p[0], t[0]))
    kinds = {f: told(f) for f in (scaled, jitted, with_jvp, uses, jax.nn.relu)}  # noqa: F821
    assert len(set(kinds.values())) == len(kinds)
    monkeypatch.setattr(Options, "block", 4)
    helpers.inner.block = 2
    with_jvp.defjvp(lambda p, t: (p[0], 2 * t[0]))
    changed = [f for f in (scaled, jitted, with_jvp, uses) if told(f) != kinds[f]]  # noqa: F821
    assert changed == [scaled, jitted, with_jvp, uses]  # noqa: F821


def test_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_folder", lambda: str(tmp_path))
    monkeypatch.setattr(stored, "MOST", 3)
    for i in range(5):
        stored.save("digest", str(i), i)
    stored.save("digest", "odd", {1, 2})  # no JSON
    assert len(list(tmp_path.iterdir())) == 3 and stored.load("digest", "4", int) == 4

    def full(*args):
        raise OSError("no space")

    with monkeypatch.context() as m:
        m.setattr(os, "replace", full)
        stored.save("digest", "9", 9)
    assert len(list(tmp_path.iterdir())) == 3
    for text in "[1]", "{", json.dumps({"call": "4"}), "null":
        for path in tmp_path.iterdir():
            path.write_text(text)
        assert stored.load("digest", "4", int) is None
    stored.save("digest", "4", "not a number")
    assert stored.load("digest", "4", int) is None


def test_an_entry_of_other_settings_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_folder", lambda: str(tmp_path))
    stored.save("digest", "a", 1)
    assert stored.load("digest", "a", int) == 1 and stored._settings() == {}
    with jax.default_matmul_precision("float32"):
        assert stored.load("digest", "a", int) is None
    assert importlib.metadata.version("jax") in stored._versions()
    monkeypatch.setattr(stored, "_versions", lambda: ["0", "0"])
    assert stored.load("digest", "a", int) is None


def test_a_text_on_disk_that_does_not_parse_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_folder", lambda: str(tmp_path))

    def thrice(x: jax.Array) -> jax.Array:
        return x * 3

    op, x = jax_op("test_pallas_stored::thrice", thrice), torch.ones(2, device="tpu")
    assert op(x).tolist() == [3, 3] and len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "value": "no text"}))
    op._known.clear()
    assert op._text("cpu", [x]).results == op._specs([x]) == op._text("cpu", [x]).args
