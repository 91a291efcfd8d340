"""Fake quantization in all its forms, and products of 8-bit operands: values and gradients as the CPU's."""
import itertools

import pytest
import torch
from test_nn_ops import agree


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_fake_quantize_per_tensor(dev, dtype):
    x = torch.randn(4, 6, dtype=dtype) * 2
    x[0, 0], x[1, 1] = float("nan"), 0.25  # 2.5 steps: to even
    agree(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), x, dev=dev)
    for on in (0, 1):
        agree(lambda x, s, z, e: torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, e, -8, 7),
              x, torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32), torch.tensor([on]), dev=dev, grad=False)


def test_fake_quantize_per_channel(dev):
    scale = torch.rand(6) / 3 + 0.05
    for axis, zero_point in itertools.product((1, -1), (torch.randint(-2, 3, (6,), dtype=torch.int32), torch.rand(6))):
        agree(
            lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s.detach(), z.detach(), axis % 2, -8, 7),
            torch.randn(4, 6) * 3,
            scale,
            zero_point,
            dev=dev,
            grad=axis == 1,
        )


def test_learnable_fake_quantize(dev):
    for zero_point in (1.0, -2.0, 30.0):
        agree(
            lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, -8, 7, 0.5),
            torch.randn(4, 6),
            torch.tensor([0.1]),
            torch.tensor([zero_point]),
            dev=dev,
        )
    agree(
        lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 1, -8, 7, 0.5),
        torch.randn(40, 3, 2) * 3,
        torch.rand(3) / 3 + 0.05,
        torch.tensor([0.3, -1.2, 2.0]),
        dev=dev,
        tol=1e-3,
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_moving_average_observer(dev, symmetric):
    x = torch.randn(4, 6)

    def steps(device, rows, values):
        state = [torch.full((rows,), v).to(device) for v in (float("inf"), -float("inf"), 1.0)] + [
            torch.zeros(rows, dtype=torch.int32).to(device)
        ]
        out = []
        for k, on in enumerate((1, 1, 0)):
            flags = [torch.tensor([on]).to(device), torch.tensor([1]).to(device)]
            y = (values * (k + 1)).to(device).requires_grad_()
            r = torch.fused_moving_avg_obs_fake_quant(y, *flags, *state, 0.1, 0, 255, 0, rows > 1, symmetric)
            out += [r.detach(), torch.autograd.grad(r.sum(), y)[0], *[s.clone() for s in state]]
        return out

    for rows, values in ((1, x), (4, x), (1, x.abs()), (1, x * 1e-6)):
        for got, want in zip(steps(dev, rows, values), steps("cpu", rows, values)):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got.cpu(), want)


def test_scaled_mm_saturates_as_the_cpu(dev):
    f8 = torch.float8_e4m3fn
    a, b = torch.randn(16, 32).to(f8), torch.randn(48, 32).to(f8)
    for out, scale in itertools.product((torch.float32, torch.bfloat16, f8), (1.0, 300.0)):
        args = [a, b, torch.tensor(scale), torch.tensor(2.0)]
        want = torch._scaled_mm(args[0], args[1].t(), *args[2:], out_dtype=out)
        args = [x.to(dev) for x in args]
        got = torch._scaled_mm(args[0], args[1].t(), *args[2:], out_dtype=out)
        assert got.dtype == out
        torch.testing.assert_close(got.cpu().float(), want.float(), rtol=1e-2, atol=1e-2, equal_nan=True)
    rows, columns, bias = torch.rand(16, 1), torch.rand(1, 48), torch.arange(48.0).bfloat16()
    agree(
        lambda a, b, r, c, bias: torch._scaled_mm(a, b.t(), r, c, bias, out_dtype=torch.bfloat16),
        a,
        b,
        rows,
        columns,
        bias,
        dev=dev,
        grad=False,
        tol=1e-2,
    )
    F = torch.nn.functional
    agree(
        lambda a, b, r, c: F.scaled_mm(
            a, b.t(), r, F.ScalingType.RowWise, c, F.ScalingType.RowWise, output_dtype=torch.bfloat16
        ),
        a,
        b,
        rows,
        columns,
        dev=dev,
        grad=False,
        tol=1e-2,
    )


def test_int_mm_of_signed_and_unsigned_bytes(dev):
    b = torch.randint(-128, 128, (8, 16), dtype=torch.int8)
    for a in (torch.randint(-128, 128, (17, 8), dtype=torch.int8), torch.randint(0, 256, (17, 8), dtype=torch.uint8)):
        agree(torch._int_mm, a, b, dev=dev)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_are_resized_in_fixed_point(dev, mode):
    """To one: where a weight lies between two integers, the last bit of torch's own decides."""
    x = torch.randint(0, 256, (2, 3, 9, 40), dtype=torch.uint8)
    for smooth, align, size in (
        (False, False, (20, 13)),
        (True, False, (5, 2)),
        (False, True, (5, 6)),
        (True, False, (20, 40)),
    ):
        agree(
            lambda x: torch.nn.functional.interpolate(x, size, mode=mode, antialias=smooth, align_corners=align),
            x,
            dev=dev,
            tol=1,
        )
    agree(
        lambda x: torch.nn.functional.interpolate(x, (5, 6), mode=mode),
        torch.randint(0, 256, (1, 7, 9, 11), dtype=torch.uint8),
        dev=dev,
        tol=1,
    )


@pytest.mark.tpu
def test_quantized_tensors_are_refused(dev):
    with pytest.raises(TypeError, match="cannot have dtype QInt8"):
        torch.quantize_per_tensor(torch.randn(3).to(dev), 0.1, 0, torch.qint8)
