"""Attention by the flash kernel: in programs for TPUs, and what it computes."""
import io
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_tpu
from torch_tpu import aot
from torch_tpu.kernels.attention import choices, flash, plain_backward, plain_forward

pytest.importorskip("jax", reason="the kernel is written in Pallas")
SDPA = torch.nn.functional.scaled_dot_product_attention
MASK = torch.rand(200, 300, generator=torch.Generator().manual_seed(1)) > 0.3
MASK[5] = False  # a row without any column


def gradients(fn, args):
    out = fn(*args)
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), args)]


def taken(fn):
    """(what fn returns, how many of its calls were the kernel)."""
    before = choices().get("the flash kernel", 0)
    made = fn()
    return made, choices().get("the flash kernel", 0) - before


CASES = {  # heads, groups, rows, columns, width, of values, mask, causal
    "causal": (2, 2, 600, 500, 64, 80, None, True),
    "grouped, causal": (4, 2, 200, 300, 128, 128, None, True),
    "bool mask": (2, 2, 200, 300, 64, 64, MASK, False),
    "mask of keys": (2, 1, 200, 300, 64, 64, torch.randn(2, 1, 1, 300), False),
    "bias of heads": (2, 2, 200, 300, 64, 64, torch.randn(2, 200, 300), False),
    "wide": (1, 1, 128, 128, 256, 256, None, False),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    heads, groups, rows, columns, width, values, mask, causal = CASES[name]
    shapes = (2, heads, rows, width), (2, groups, columns, width), (2, groups, columns, values)
    args = [torch.randn(s, requires_grad=True) for s in shapes]
    ours = [x.detach().to("tpu").requires_grad_() for x in args]
    options = {"is_causal": causal, "enable_gqa": heads != groups, "scale": 0.2}
    expected = gradients(lambda *a: SDPA(*a, attn_mask=mask, **options), args)
    on_tpu = None if mask is None else mask.to("tpu")
    with flash():
        got, n = taken(lambda: gradients(lambda *a: SDPA(*a, attn_mask=on_tpu, **options), ours))
    assert n == 1
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-3)
    # what it is without JAX
    q, k, v = (x.detach() for x in args)
    m = None if mask is None else mask.reshape((1,) * (4 - mask.dim()) + mask.shape)
    out, logs = plain_forward(q, k, v, m, causal, 0.2, 0)
    plain = [out, *plain_backward(out * 2, q, k, v, m, out, logs, causal, 0.2, 0)]
    torch.testing.assert_close(plain, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype):
    args = [torch.randn(1, 2, 256, 64, dtype=dtype, requires_grad=True) for _ in range(3)]
    ours = [x.detach().to("tpu").requires_grad_() for x in args]
    expected = gradients(lambda *a: SDPA(*a, is_causal=True), [x.detach().float().requires_grad_() for x in args])
    with flash():
        got = gradients(lambda *a: SDPA(*a, is_causal=True), ours)
    for a, b in zip(got, expected):
        assert a.dtype == dtype
        torch.testing.assert_close(a.cpu().float(), b, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("mode", ["fuse", "compile", "step"])
def test_modes(mode):
    """Of queries that are transposed, as models have them."""
    args = [torch.randn(2, 130, 2, 64, requires_grad=True) for _ in range(3)]
    ours = [x.detach().to("tpu").requires_grad_() for x in args]

    def fn(*a):
        y = SDPA(*(x.transpose(1, 2) for x in a), is_causal=True).transpose(1, 2).reshape(2, 130, 128).sin()
        return torch.autograd.grad(y.sum(), a) if mode == "step" else y

    expected = fn(*args) if mode == "step" else gradients(fn, args)
    with flash():
        if mode == "step":
            got = torch_tpu.compile_step(lambda: fn(*ours), fullgraph=True)()
        elif mode == "compile":
            got = gradients(torch.compile(fn, backend="tpu", fullgraph=True), ours)
        else:
            with torch_tpu.set_eager_mode("fuse"):
                got = gradients(fn, ours)
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)


def fake(*shapes, dtype=torch.bfloat16, grad=False):
    with aot.fake():
        return tuple(torch.zeros(s, dtype=dtype, requires_grad=grad) for s in shapes)


def test_a_tenth_of_the_memory():
    args = fake(*[(4, 32, 4096, 128)] * 3)

    def plain(*a):
        with sdpa_kernel(SDPBackend.MATH):
            return SDPA(*a, is_causal=True)

    mine, theirs = (
        aot.compile(f, args, topology="tpu7x:2x2x1") for f in (lambda *a: SDPA(*a, is_causal=True), plain)
    )
    assert mine.program.count("tpu_custom_call") == 1 and "tpu_custom_call" not in theirs.program
    assert mine.memory.temporaries < theirs.memory.temporaries / 10


def test_memory_of_a_backward():
    """No scores, and no keys for each head of a group."""
    args = fake((4, 32, 4096, 128), *[(4, 8, 4096, 128)] * 2, grad=True)
    compiled = aot.compile(
        lambda *a: gradients(lambda *x: SDPA(*x, is_causal=True, enable_gqa=True), a), args, topology="tpu7x:2x2x1"
    )
    assert compiled.program.count("tpu_custom_call") == 3
    assert compiled.memory.temporaries < 4 * 32 * 4096 * 128 * 4  # a tensor like q in float32; scores are 64 of them


@pytest.mark.parametrize("topology", ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"])
def test_compiles_for_tpus(topology):
    """Widths, groups, lengths and masks of each kind as one program; float32 as torch's precision says."""

    def fn(*a):
        made = []
        for i, options in enumerate(({"is_causal": True}, {"enable_gqa": True}, {}, {"attn_mask": a[12]},
                                     {"attn_mask": a[13]})):
            q, k, v = a[3 * (i % 4):3 * (i % 4) + 3]
            made += gradients(lambda *x: SDPA(*x, **options), (q, k, v))
        return made

    args = [
        *fake(*[(1, 2, 1000, 64)] * 3, grad=True),
        *fake((1, 8, 600, 80), *[(1, 2, 700, 80)] * 2, grad=True),
        *fake(*[(1, 1, 384, 256)] * 3, dtype=torch.float32, grad=True),
        *fake(*[(2, 2, 200, 128)] * 3, dtype=torch.float32, grad=True),
        *fake((200, 200), dtype=torch.bool),
        *fake((1, 1, 1, 1000)),
    ]
    args[12] = fake((2, 1, 200, 200), dtype=torch.bool)[0]

    def last(*a):  # the mask of keys is of the first
        return fn(*a[:13], a[13])

    program = aot.compile(last, tuple(args), topology=topology).program
    assert program.count("tpu_custom_call") == 15


def test_a_step_for_a_tpu_and_here():
    """What compile_step records for a TPU holds the kernel; what it runs on the CPU does not."""
    linear = torch.nn.Linear(64, 64).to("tpu")
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)

    def step(x):
        loss = SDPA(linear(x), linear(x), x, is_causal=True).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compiled, x = torch_tpu.compile_step(step, fullgraph=True), torch.randn(1, 2, 256, 64, device="tpu")
    assert aot.compile(compiled, (x,), topology="tpu7x:2x2x1").program.count("tpu_custom_call") == 3
    first = compiled(x).item()
    assert compiled(x).item() < first


def test_what_is_plain():
    q = torch.zeros(1, 2, 128, 64, device="tpu")
    w = torch.zeros(128, 128, device="tpu", requires_grad=True)
    with flash():
        for call in (
            lambda: SDPA(q, q, q, dropout_p=0.1),
            lambda: SDPA(q, q, q, w),
            lambda: SDPA(q[0], q[0], q[0]),
            lambda: SDPA(q[..., :4], q[..., :4], q[..., :4]),
            lambda: SDPA(q.double(), q.double(), q.double()),
            lambda: torch.func.vmap(SDPA)(q[None], q[None], q[None]),
            lambda: torch.func.jvp(lambda x: SDPA(x, q, q), (q,), (q,)),
        ):
            assert taken(call)[1] == 0
        with sdpa_kernel(SDPBackend.MATH):
            assert taken(lambda: SDPA(q, q, q))[1] == 0
        with flash(False):
            assert taken(lambda: SDPA(q, q, q))[1] == 0
        assert taken(lambda: SDPA(query=q, key=q, value=q))[1] == 1
        with pytest.raises(RuntimeError, match="must match"):
            SDPA(q, q[:, :1].expand(1, 3, 128, 64), q)
    assert taken(lambda: SDPA(q, q, q))[1] == 0  # the target is the CPU
    out = io.StringIO()
    torch_tpu.explain(file=out)
    assert "attention, the flash kernel: " in out.getvalue() and "attention, plain: dropout" in out.getvalue()


def test_a_target_by_the_environment(tmp_path):
    """Programs written for a TPU: with JAX, and without."""
    program = """
        import sys, warnings
        if sys.argv[1] == "without":
            sys.modules["jax"] = None
        import torch, torch_tpu
        from torch_tpu import _C
        x = torch.zeros(1, 2, 256, 64, device="tpu")
        _C.show_programs(True, True)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                torch.nn.functional.scaled_dot_product_attention(x, x, x).cpu()  # what nobody reads is not written in fuse
            except RuntimeError:
                pass
        told = any("keeps all scores" in str(w.message) for w in found)
        print(sum("tpu_custom_call" in t for t in _C.shown_programs()), told)
    """
    env = {**os.environ, "TORCH_TPU_TARGET": "tpu", "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    for how, expected in ("without", "0 True"), ("with", "1 False"), ("without", "1 False"):
        command = [sys.executable, "-c", textwrap.dedent(program), how]
        r = subprocess.run(command, env=env, capture_output=True, text=True)
        assert r.stdout.strip() == expected, r.stderr
