"""Files of exported programs with their executables: what loads them compiles nothing and computes the same."""
import ast
import zipfile

import pytest
import torch
from torch import nn

from torch_tpu import export

pytestmark = pytest.mark.tpu


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.linspace(1, 2, 5), persistent=False)

    def forward(self, ids, *, mask):
        self.calls.add_(1)
        mask.mul_(2)
        y = self.head(self.tokens(ids)).relu() * self.scale + mask
        return {"y": y, "calls": self.calls + 0, "none": None, "two": 2}


def inputs(n=3, device="cpu"):
    return torch.arange(n).to(device) % 5, torch.linspace(-1, 1, 5).to(device)


def saved(file, model, ids, mask, **options):
    export.save(torch.export.export(model, (ids,), {"mask": mask}, **options), file)


def test_another_process_loads_what_is_compiled(python, tmp_path):
    code = f"""if True:
        import torch, torch_tpu
        from torch_tpu import export
        f = export.load({str(tmp_path / "model")!r})
        ids, mask = torch.arange(3).to("tpu"), torch.linspace(-1, 1, 5).to("tpu")
        for _ in range(2):
            r = f(ids, mask=mask)
        k = torch_tpu.counters()
        print(repr([k["compiles"], k["executions"], r["y"].tolist(), r["calls"].item(), r["none"], r["two"], mask.tolist()]))
        s = f.state_dict()
        print(sorted(s), s["calls"].item())
    """
    torch.manual_seed(0)
    model = Model()
    saved(tmp_path / "model", model, *inputs())
    status, out, err = python(code, TORCH_TPU_CACHE_DIR=str(tmp_path / "cache"), TORCH_TPU_CACHE_SHARED=None,
                              TORCH_TPU_EAGER_MODE="strict")
    assert status == 0, err
    ids, mask = inputs()
    with torch.no_grad():
        for _ in range(2):
            r = model(ids, mask=mask)
    values, state = out.splitlines()
    compiles, executions, y, *others = ast.literal_eval(values)
    assert (compiles, executions) == (0, 2) and others == [2, None, 2, mask.tolist()]
    torch.testing.assert_close(torch.tensor(y), r["y"])
    assert state == "['calls', 'head.weight', 'tokens.weight'] 2"


def test_a_loaded_program_checks_its_arguments_and_keeps_ties(tmp_path):
    model = Model()
    saved(tmp_path / "model", model, *inputs())
    assert model.tokens.weight.device.type == "cpu" and model.calls.item() == 0
    f = export.load(tmp_path / "model")
    state = f.state_dict()
    assert state["tokens.weight"].data_ptr() == state["head.weight"].data_ptr()
    ids, mask = inputs(device="tpu")
    with pytest.raises(RuntimeError, match="Expected input at .* to be equal to 3, but got 4"):
        f(*[inputs(4, "tpu")[0]], mask=mask)
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        f(ids)
    with pytest.raises(RuntimeError, match="same device"):
        f(ids, mask=mask.cpu())
    assert state["calls"].item() == 0  # nothing ran


def test_sizes_that_vary(tmp_path):
    length = torch.export.Dim("length", min=2, max=64)
    model = Model()
    ids, mask = inputs(6)
    saved(tmp_path / "model", model, ids, mask, dynamic_shapes={"ids": {0: length}, "mask": None})
    f = export.load(tmp_path / "model")
    for n in (6, 2, 17, 64):
        ids, mask = inputs(n)
        got = f(ids.to("tpu"), mask=mask.to("tpu"))["y"].cpu()
        with torch.no_grad():
            torch.testing.assert_close(got, model(ids, mask=mask)["y"])


def test_damaged_files_are_refused(tmp_path):
    for data in (b"", b"nothing", (b"PK\x05\x06" + bytes(18))):
        (tmp_path / "model").write_bytes(data)
        with pytest.raises(ValueError, match="damaged"):
            export.load(tmp_path / "model")
    saved(tmp_path / "model", Model(), *inputs())
    whole = (tmp_path / "model").read_bytes()
    for at in (len(whole) // 3, len(whole) * 2 // 3):
        (tmp_path / "model").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            export.load(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        export.load(tmp_path / "none")


def test_what_is_no_program_is_not_saved(tmp_path):
    class Found(nn.Module):
        def forward(self, x):
            return x.nonzero()

    with pytest.raises(NotImplementedError, match="not one program"):
        export.save(torch.export.export(Found(), (torch.ones(3),)), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_said(tmp_path):
    class Same(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(TypeError, match="torch.export.export returned, got Same"):
        export.save(Same(), tmp_path / "model")
    with pytest.raises(NotImplementedError, match="computes nothing"):
        export.save(torch.export.export(Same(), (torch.ones(3),)), tmp_path / "model")
    saved(tmp_path / "model", Model(), *inputs())
    for junk in (b"", b"junk"):
        with zipfile.ZipFile(tmp_path / "model") as z, zipfile.ZipFile(tmp_path / "other", "w") as other:
            for name in z.namelist():
                other.writestr(name, junk if name == "graph.pt2" else z.read(name))
        with pytest.raises(ValueError, match="other: damaged"):
            export.load(tmp_path / "other")
