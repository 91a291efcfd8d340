"""torch_tpu.conformance: that it sees what is wrong, survives crashes and hangs, and agrees with the coverage page."""
import json
import os
import pathlib
import threading
import time

import pytest
import torch

from torch_tpu.conformance import aot, compare, modules, optimizers, ops, page, pool, report, task
from torch_tpu.conformance.__main__ import tasks_of
from torch_tpu.conformance.place import Place

pytestmark = pytest.mark.tpu
DOCS = pathlib.Path(__file__).parents[2] / "docs"
EVERYTHING = int(os.environ.get("TORCH_TPU_TEST_SAMPLES", "3")) > 3  # make test-all


def status(run, **rules):
    """The status of one case."""
    return task.run([task.Case(run, rules=compare.Rules(**rules))])


def on(device, mine, cpu):
    """A case that computes one thing on tpu and another on the CPU."""
    return lambda place: (mine if place.device.type == device else cpu)(place)


X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("mine, cpu, says", [
    (lambda p: p(X) + 1, lambda p: p(X) + 1, "pass"),
    (lambda p: p(X) + 1, lambda p: p(X) + 1.01, "not close"),
    (lambda p: p(X).double(), lambda p: p(X), "dtype"),
    (lambda p: p(X)[:1], lambda p: p(X), "shape"),
    (lambda p: p(X).cpu(), lambda p: p(X), "device"),
    (lambda p: p(X).clone(), lambda p: p(X)[:], "a copy"),
    (lambda p: p(X).t()[:2, :2], lambda p: p(X)[:2, :2], "a view with strides"),
    (lambda p: p(X)[:, 1:], lambda p: p(X)[:, :2], "offset 1"),
    (lambda p: [p(X)], lambda p: [p(X), p(X)], "1 results"),
    (lambda p: True, lambda p: False, "True, CPU has False"),
    (lambda p: p(X).fill_(float("nan")), lambda p: p(X).fill_(float("inf")), "not close"),
])
def test_a_case_is_wrong_where_it_differs(mine, cpu, says):
    result = status(on("tpu", mine, cpu))
    assert result["status"] == ("pass" if says == "pass" else "wrong") and says in result.get("message", "pass"), result


def test_inputs_that_change_are_compared():
    result = status(on("tpu", lambda p: p(X).sum(), lambda p: p(X).add_(0).sum()))
    assert result["status"] == "pass"
    result = status(on("tpu", lambda p: [p(X), 0][1], lambda p: [p(X).add_(1), 0][1]))
    assert result["status"] == "wrong" and "input 0 afterwards" in result["message"]
    result = status(on("tpu", lambda p: [p(X).resize_(1, 3), 0][1], lambda p: [p(X).add_(0), 0][1]))
    assert result["status"] == "wrong" and "shape [1, 3], expected [2, 3]" in result["message"]


def test_nan_is_no_zero():
    nan = torch.tensor([1.0, float("nan"), float("inf")])
    assert compare.same_values(nan, nan.clone())
    assert not compare.same_values(nan, nan.nan_to_num()) and not compare.same_values(
        nan, torch.tensor([1.0, 0.0, float("inf")])
    )


def test_strides_of_new_tensors_are_counted():
    result = status(on("tpu", lambda p: (p(X) + 1).t().contiguous().t(), lambda p: p(X) + 1))
    assert (result["status"], result["strides"]) == ("pass", 1)


def test_random_results_are_compared_by_shape_and_dtype():
    assert status(lambda p: torch.rand(3, device=p.device))["status"] == "pass"
    assert status(on("tpu", lambda p: torch.rand(4, device=p.device), lambda p: torch.rand(3)))["status"] == "wrong"
    # Drawing numbers that do not matter excuses nothing.
    result = status(on("tpu", lambda p: p(X) + 1, lambda p: [torch.rand(3), p(X)][1]))
    assert result["status"] == "wrong"


def test_the_cpu_may_be_the_one_that_is_inexact():
    def off(mine, cpu):  # relative errors
        return lambda place: (place(X) + 1) * (1 if place.wide else 1 + (mine if place.device.type == "tpu" else cpu))

    assert status(off(0, 0.01))["status"] == status(off(-0.01, 0.01))["status"] == "pass"
    assert status(off(0.01, 0))["status"] == status(off(0.05, 0.01))["status"] == "wrong"


def test_which_of_equal_elements_is_free_only_where_it_is_said():
    ties = torch.tensor([2.0, 1.0, 1.0, 3.0])
    first, last = torch.tensor([1, 0]), torch.tensor([2, 0])
    run = on("tpu", lambda p: p(first), lambda p: p(last))
    assert status(run)["status"] == "wrong"
    assert status(run, chosen=ties)["status"] == "pass"
    assert status(on("tpu", lambda p: p(torch.tensor([3, 0])), lambda p: p(last)), chosen=ties)["status"] == "wrong"
    assert (
        status(on("tpu", lambda p: p(torch.tensor([1, 1])), lambda p: p(torch.tensor([1, 2]))), chosen=ties)["status"]
        == "wrong"
    )


def test_refusals_have_their_status():
    def refuse(error):
        def run(place):
            if place.device.type == "tpu":
                raise error
            return place(X)
        return run

    assert status(refuse(NotImplementedError("no")))["status"] == "unsupported"
    assert status(refuse(ValueError("no")))["status"] == "fail"

    def cpu_refuses(place):
        raise ValueError("no")

    assert status(cpu_refuses)["status"] == "skip"


def test_what_runs_on_the_cpu_is_not_native(monkeypatch):
    monkeypatch.setattr(
        task, "fallbacks", iter([task.collections.Counter(), task.collections.Counter({"op": 2})]).__next__
    )
    result = status(lambda p: p(X))
    assert (result["status"], result["native"], result["fallbacks"]) == ("pass", False, {"op": 2})


def test_copies_share_what_the_originals_share():
    base = torch.arange(12.0)
    view = base[2:8].view(2, 3).t()
    p = Place("tpu")
    b, v, again = p([base, view, view])
    assert v is again and v.stride() == view.stride() and v.storage_offset() == 2
    b.add_(1)
    torch.testing.assert_close(v.cpu(), view + 1)
    assert Place("cpu", wide=True)(torch.ones(2, requires_grad=True)).dtype is torch.float64
    assert p(torch.ones(2, requires_grad=True)).is_leaf and p("cpu") == p.device


def _trouble(one, at):
    at(0)
    if one == "crash":
        os.write(2, b"Check failed: because\n")
        os.abort()
    if one == "hang":
        time.sleep(60)
    if one == "raise":
        raise ValueError("why")
    return {"status": "pass"}


def test_crashes_and_hangs_cost_one_task():
    tasks = ["a", "crash", "b", "hang", "raise", "c"]
    found = dict(pool.run(tasks, _trouble, jobs=2, timeout=2, renew=2))
    assert {k: r["status"] for k, r in found.items()} == {
        "a": "pass",
        "crash": "crash",
        "b": "pass",
        "hang": "timeout",
        "raise": "fail",
        "c": "pass",
    }
    assert "Check failed: because" in found["crash"]["message"] and "why" in found["raise"]["message"]


def test_a_worker_that_dies_while_it_waits_costs_no_task():
    def work(one, at):
        threading.Timer(0.05, os._exit, (0,)).start()
        return {"status": "pass"}

    found = {}
    for one, result in pool.run(range(3), work, jobs=1):
        found[one] = result["status"]
        time.sleep(0.5)
    assert found == {0: "pass", 1: "pass", 2: "pass"}


def test_the_page_takes_all_entries(python):
    code, _, error = python(
        "import sys, runpy; sys.argv[1:] = ['--ops', 'add', '--page', 'x']; runpy.run_module('torch_tpu.conformance', run_name='__main__')"
    )
    assert code == 2 and "takes neither --ops nor --spread" in error


def test_workers_are_renewed():
    pids = [r["pid"] for _, r in pool.run(range(6), lambda one, at: {"pid": os.getpid()}, jobs=1, renew=2)]
    assert len(set(pids)) == 3 and os.getpid() not in pids


def test_databases_have_the_tasks_of_torch():
    assert len(list(ops.tasks("ops", ["forward"], ["float32"]))) > 600
    assert {t.dtype for t in ops.tasks("ops", ["forward"], None)} > {"float32", "int64"}
    assert len(list(ops.tasks("refs", ["forward"], None))) > 300
    assert len(list(modules.tasks(["forward", "backward"], None))) == 2 * len(modules.database())
    assert {t.variant for t in optimizers.tasks(optimizers.VARIANTS, None)} == set(optimizers.VARIANTS)


def test_failed_compilations_are_grouped_by_cause():
    failed = [(aot.Job("v5e:2x2", str(i), ""), {"message": m}) for i, m in enumerate(
        ["op %12 = f64[3,4] not done", "op %1 = f64[5] not done", "other"])]
    assert [len(g) for g in aot.by_cause(failed).values()] == [2, 1]


@pytest.fixture
def cli(python, tmp_path):
    """Runs the command; (status, output, the JSON it wrote)."""

    def run(*arguments):
        code = f"import sys, runpy; sys.argv[1:] = {[*arguments, '--json', str(tmp_path / 'x.json')]!r}; runpy.run_module('torch_tpu.conformance', run_name='__main__')"
        done = python(code, timeout=7200 if EVERYTHING else 300)
        return done[0], done[1] + done[2], json.loads((tmp_path / "x.json").read_text())

    return run


def test_command_runs_every_variant_and_writes_its_files(cli, tmp_path):
    code, output, found = cli(
        "ops",
        "modules",
        "optimizers",
        "--ops",
        "^(addcmul|nn.Linear|Muon|chalf)$",
        "--backward",
        "--inplace",
        "--out",
        "--samples",
        "2",
        "--markdown",
        str(tmp_path / "x.md"),
        "--html",
        str(tmp_path / "x.html"),
    )
    by = {(r["entry"], r["variant"]): r for r in found["results"]}
    assert {by["addcmul", v]["status"] for v in ("forward", "backward", "inplace", "out")} == {"pass"}
    assert by["nn.Linear", "backward"]["native"] and by["Muon", "single"]["status"] == "pass"
    assert by["chalf", "forward"]["status"] == "fail" and code == 1 and "ComplexHalf" in output
    assert "chalf" in (tmp_path / "x.md").read_text() and '"addcmul"' in (tmp_path / "x.html").read_text()


def test_command_runs_compiled_entries_and_compiles_their_programs_for_tpus(cli):
    if not aot.libtpu():
        pytest.skip("libtpu is not installed")
    code, output, found = cli(
        "--compile", "--backward", "--aot", "v5e:2x2", "--ops", "^(cosh|equal|nn.functional.linear)$", "--samples", "2"
    )
    (equal,) = [r for r in found["results"] if r["entry"] == "equal"]
    assert equal["status"] == "skip" and "Dynamo does not trace it" in equal["message"]
    assert code == 0 and len(found["results"]) == 5 and found["aot"] == [] and " programs for v5e:2x2" in output, output


def test_figures_count_what_the_cpu_does():
    results = [
        {"status": "pass", "native": True},
        {"status": "pass", "native": False},
        {"status": "wrong", "native": True},
        {"status": "skip", "native": True},
    ]
    figures = report.figures(results)
    assert (figures["tested"], figures["pass"], figures["native"], figures["wrong"], figures["skip"]) == (3, 2, 1, 1, 1)


def test_a_task_that_does_better_than_the_page_is_reported_too():
    one = {
        "database": "ops",
        "entry": "abs",
        "variant": "forward",
        "dtype": "float32",
        "status": "pass",
        "native": True,
    }
    bad = {**one, "status": "wrong", "message": "x", "strides": False, "fallbacks": {}}
    slow = {**one, "native": False, "strides": False, "fallbacks": {"abs": 1}}
    for told, right in (([], one), ([{**bad, "fallbacks": []}], bad), ([{**slow, "fallbacks": ["abs"]}], slow)):
        assert [bool(page.differences({"exceptions": told}, [r])) for r in (one, bad, slow)] == [
            r is not right for r in (one, bad, slow)
        ]


# ---- the page ----
written = pytest.mark.skipif(not (DOCS / "coverage.json").exists(), reason="make coverage has not been run")


@written
def test_page_adds_up():
    """The figures on top are those of torch's databases and of the exceptions below them."""
    data = page.read(DOCS)
    assert [c["title"] for c in data["columns"]] == [c.title for c in page.COLUMNS]
    for column, told in zip(page.COLUMNS, data["columns"]):
        tasks = [t._asdict() for t in tasks_of(column.database, column.variants, column.dtypes)]
        assert report.figures(page.expected(data, tasks)) == {
            k: v for k, v in told.items() if k != "title"
        }, column.title
    assert (DOCS / "coverage.md").read_text() == page.markdown(data)


@written
def test_page_tells_what_the_code_does(cli):
    code, output, found = cli("--check", str(DOCS), "--quiet", *(() if EVERYTHING else ("--spread", "150")))
    assert code == 0 and len(found["results"]) >= 150, output


def test_results_that_chance_made_alike_are_random_still():
    """A case whose result depends on what it draws, but is the same for most seeds."""
    def run(place):
        return place(X) + float(torch.rand(1) > 0.8) if place.device.type == "cpu" else place(X) - 1

    assert status(run)["status"] == "pass"
