"""What torch.profiler shows of the device, why programs were compiled, and the page of a profile."""
import io
import json
import re

import pytest
import torch
import torch_tpu
from torch_tpu import _explain

pytestmark = pytest.mark.tpu


@pytest.fixture(scope="module")
def profile():
    x = torch.ones(5, 7, device="tpu")
    (x + 1).cpu()
    with torch.profiler.profile() as p:
        y = torch.arange(35.0).view(5, 7).to("tpu")
        for _ in range(3):
            y = y * x
        y.sub(1.25, alpha=3).sum().item()
    return p


def test_key_averages_show_the_device(profile):
    counts = {e.key: e.count for e in profile.key_averages()}
    assert counts["tpu::execute"] >= 5 and counts["aten::mul"] >= 3
    assert counts["tpu::copy_to_device"] == 1 and counts["tpu::copy_from_device"] >= 1


def test_a_read_shows_the_window_that_it_runs():
    x = torch.ones(5, 7, device="tpu")
    with torch_tpu.set_eager_mode("fuse"), torch.profiler.profile() as p:
        (x * 3 - x).sum().item()
    counts = {e.key: e.count for e in p.key_averages()}
    assert counts["tpu::flush"] == 1 and counts["tpu::copy_from_device"] == 1


def test_builds_are_shown_where_they_happen(python):
    code = """
import torch
x = torch.ones(3, device="tpu")
with torch.profiler.profile() as p:
    x + 1; x + 1; x * x
print({e.key: e.count for e in p.key_averages()}["tpu::build"])
"""
    assert python(code)[1] == "2\n"


def test_the_chrome_trace_nests_executions_in_operators(profile, tmp_path):
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("ph") == "X"]
    mul = next(e for e in events if e["name"] == "aten::mul")
    assert any(
        e["name"] == "tpu::execute" and mul["ts"] <= e["ts"] and e["ts"] + e["dur"] <= mul["ts"] + mul["dur"] + 1
        for e in events
    )


def test_timeline_is_one_page(profile, tmp_path):
    torch_tpu.timeline(profile, tmp_path / "t.html", title="a <b>")
    page = (tmp_path / "t.html").read_text()
    assert "a &lt;b&gt;" in page and "tpu::execute" in page and not re.search(r"(src|href)=", page)
    events = json.loads(re.search(r"const events=(\[.*?\]), threads", page)[1])
    assert len(events) == len(profile.events()) and "<td>aten::mul<td>" in page


EXPLAINED = """
import torch, torch_tpu
def work(n, dtype):
    x = torch.ones(n, n, device="tpu", dtype=dtype)
    return x @ x
work(3, torch.float32); work(3, torch.float32); work(4, torch.float32); work(4, torch.bfloat16)
torch.ones(4, 4, device="tpu").t() @ torch.ones(4, 4, device="tpu")
torch_tpu.explain()
"""


@pytest.mark.strict("looks at the programs of single calls")
def test_explain_says_what_was_new(python, tmp_path):
    status, out, err = python(EXPLAINED, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_TRACE_STACKS="1")
    assert status == 0, err
    mm = [line for line in out.splitlines() if line.startswith("mm ")]
    assert len(mm) == 4, out
    assert "the first of its operator: float32[3, 3], float32[3, 3]" in mm[0]
    assert "argument 0: float32[3, 3] -> float32[4, 4]; argument 1: float32[3, 3] -> float32[4, 4]" in mm[1]
    assert "argument 0: float32[4, 4] -> bfloat16[4, 4]" in mm[2] and "<string>:5 in work" in mm[2]
    assert (
        "argument 0: float32[4, 4] -> float32[4, 4] in the order of strides [1, 4], a view" in mm[3]
        and "argument 1" not in mm[3]
    )
    assert re.search(r"\d+ programs compiled, \d+ ms", out)
    status, out, err = python(EXPLAINED, TORCH_TPU_CACHE_DIR=str(tmp_path))
    assert status == 0 and "0 programs compiled" in out and "from disk" in out


def test_reasons_compare_with_the_nearest_key(monkeypatch):
    def key(*parts):
        return "\n".join(parts)

    made = [
        ("op", key("mode: strict", "argument 0: a", "argument 1: 1"), "", 1.0),
        ("op", key("mode: debug", "argument 0: b", "argument 1: 2"), "", 1.0),
        ("op", key("mode: debug", "argument 0: b", "argument 1: 3"), "op at f.py:3 in g", 1.0),
        ("window", "", "", 2.0),
    ]
    monkeypatch.setattr(_explain._C, "compiles", lambda: made)
    assert [r["new"] for r in _explain.reasons()] == [
        [],
        ["mode: strict -> debug", "argument 0: a -> b", "argument 1: 1 -> 2"],
        ["argument 1: 2 -> 3"],
        [],
    ]
    out = io.StringIO()
    torch_tpu.explain(file=out)
    assert "a window of calls" in out.getvalue() and "f.py:3 in g" in out.getvalue()
