"""What `make test` runs after the C tests: the Python tests on every CPU plugin, then each program they made through
libtpu.

On the first plugin a sample of them runs in the other eager modes too (all, with --all), with a sample of PyTorch's own
test data.

One folder of compiled programs serves all runs, so a second run compiles nothing. The programs that the tests emit are
collected as text, and a sample of them (all, with --all) is compiled for the topologies of TOPOLOGIES; what compiled
once is remembered by its digest. Ends with "N passed, N failed".

  python tests/run.py [--all] [--plugin NAME] [--mode debug|fuse] [--programs-only] [pytest arguments]"""
import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
PLUGINS = ["xla-cpu-pjrt", "fastatomstruct-xla-cpu"]
MODES = ["fuse", "debug"]  # besides strict
TOPOLOGIES = ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"]
SAMPLE = 40  # programs for each topology in `make test`
PARTS = 10  # one of so many of the tests runs in each of the other modes in `make test`
TASKS = 80  # of the coverage page, likewise
CACHE = pathlib.Path(
    os.environ.get("TORCH_TPU_TEST_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "torch_tpu_tests"
)


def say(text):
    print(text, flush=True)


def tally(output):
    """(passed, failed) from pytest's closing line; a run without one has failed."""
    lines = re.findall(r"^.*\b\d+ (?:passed|failed|error).* in [\d.]+s.*$", output, re.M)
    if not lines:
        return 0, 1
    count = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", lines[-1])}
    return count.get("passed", 0), count.get("failed", 0) + count.get("error", 0)


def run_pytest(plugin, paths, dump, extra, **settings):
    """The tests on one plugin; a crash of the process is a failure like any other."""
    env = {
        **os.environ,
        "TORCH_TPU_PLUGIN": plugin,
        "TORCH_TPU_CACHE_DIR": str(CACHE / "programs"),
        "TORCH_TPU_DUMP": str(dump),
        "TORCH_TPU_FALLBACK": "silent",
        "CI": "1",
        **settings,
    }  # where torch raises what it warns of elsewhere
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "-W",
        "ignore",
        "--durations=5",
        *paths,
        *extra,
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    passed, failed = tally("".join(lines))
    if process.wait() not in (0, 1):
        say(f"pytest ended with status {process.returncode}")
        failed = max(failed, 1)
    return passed, failed


def run_core():
    """The C tests that want a real plugin, on each of them; those that do not were run by make."""
    import torch_tpu.plugin

    passed = failed = 0
    libtpu = torch_tpu.plugin.KNOWN["libtpu"]() or ""
    for plugin in PLUGINS:
        path = torch_tpu.plugin.KNOWN[plugin]() or ""
        for command in (["build/c/tt_tests"], ["build/c/tt_hlo_values", path], ["build/c/tt_hlo_views", path]):
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                env={**os.environ, "TORCH_TPU_PLUGIN": path, "TT_LIBTPU": libtpu},
            )
            count = re.findall(r"(\d+) passed, (\d+) failed", done.stdout)
            good, bad = map(int, count[-1]) if count else (0, 1)
            bad = max(bad, int(done.returncode != 0))
            say(f"{' '.join(map(os.path.basename, command))} on {plugin}: {good} passed, {bad} failed")
            if bad:
                say((done.stdout + done.stderr)[-3000:])
            passed, failed = passed + good, failed + bad
    return passed, failed


def run_script(*command, **env):
    """One of the tools that checks the tree: passes or fails as a whole."""
    code = subprocess.call([sys.executable, *command], cwd=ROOT, env={**os.environ, **env})
    return int(code == 0), int(code != 0)


def run_mode(mode, plugin, dump, everything):
    """The tests in another eager mode, and PyTorch's samples in it, which have to pass where the coverage page says
    that they do in Strict mode: the sample of both, or everything."""
    start, part = time.time(), MODES.index(mode)
    say(f"---- {mode} mode on {plugin}")
    env = {"TORCH_TPU_EAGER_MODE": mode, "TORCH_TPU_TEST_PART": "0/1" if everything else f"{part}/{PARTS}"}
    passed, failed = run_pytest(plugin, ["tests/torch"], dump, [], **env)
    spread = [] if everything else ["--spread", str(TASKS), "--seed", str(part)]
    good, bad = run_script(
        "-m",
        "torch_tpu.conformance",
        "--check",
        "docs",
        "--quiet",
        *spread,
        TORCH_TPU_PLUGIN=plugin,
        TORCH_TPU_FALLBACK="silent",
        TORCH_TPU_CACHE_DIR=str(CACHE / "programs"),
        **env,
    )
    say(
        f"{mode} mode: {passed} tests passed, {failed} failed; {'all' if everything else TASKS} tasks of the coverage page "
        f"{'differ' if bad else 'are as in strict mode'}; {time.time() - start:.0f} s"
    )
    return passed + good, failed + bad


def compile_for_tpu(dump, everything):
    """Compiles what was dumped for machines that are not here."""
    from torch_tpu.conformance import aot

    if not aot.libtpu():
        say("libtpu is not installed: no program is compiled for TPUs")
        return 0, 1
    programs = aot.collect(dump)  # both plugins emit the same
    total, passed, known, failed, start = len(programs), 0, 0, [], time.time()
    for topology in TOPOLOGIES:
        chosen = (
            programs
            if everything
            else dict(random.Random(topology).sample(sorted(programs.items()), min(SAMPLE, total)))
        )
        counts = aot.compile_all(chosen, [topology], CACHE / "libtpu")
        passed, known, failed = passed + counts[0], known + counts[1], failed + counts[2]
    for job, result in failed:
        say(f"libtpu {job.topology}: {job.file}: {result.get('message') or result['status']}")
    say(
        f"libtpu: of {total} programs {passed} compiled for {', '.join(TOPOLOGIES)} ({known} known good), {len(failed)} failed in {time.time() - start:.0f} s"
    )
    return passed, len(failed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--all", action="store_true", help="every program through libtpu, more samples of every operator"
    )
    parser.add_argument("--plugin", action="append", help="only this plugin")
    parser.add_argument("--mode", choices=["strict", "debug", "fuse"], help="the eager mode in which the tests begin")
    parser.add_argument("--programs-only", action="store_true", help="only compile the programs of the last run")
    args, extra = parser.parse_known_args()
    if args.all:
        os.environ.setdefault("TORCH_TPU_TEST_SAMPLES", "100")
        os.environ.setdefault("TORCH_TPU_TEST_STEPS", "10000")
    if args.mode:
        os.environ["TORCH_TPU_EAGER_MODE"] = args.mode
    named, flags = ([a for a in extra if a.startswith("-") == flag] for flag in (False, True))
    dump = CACHE / "emitted"
    dump.mkdir(parents=True, exist_ok=True)
    os.chmod(CACHE, 0o700)
    total, start = [], time.time()
    if not args.programs_only:
        for old in dump.glob("*.mlir"):
            old.unlink()
        total += [run_script("tools/check_layers.py"), run_script("tools/rows.py", "check"), run_core()]
        for plugin in args.plugin or PLUGINS:
            say(f"---- {plugin}")
            total.append(run_pytest(plugin, named or ["tests/torch", "tests/models"], dump, flags))
            # several processes each; what moves bytes is the same on all plugins, where memory lies is not
            if not named:
                total.append(
                    run_pytest(
                        plugin,
                        ["tests/dist" if plugin == PLUGINS[0] else "tests/dist/test_collectives.py", "-n", "0"],
                        dump,
                        flags,
                    )
                )
            if plugin == PLUGINS[0] and not named and not args.mode:
                total += [run_mode(mode, plugin, dump, args.all) for mode in MODES]
    total.append(compile_for_tpu(dump, args.all))
    passed, failed = (sum(n) for n in zip(*total))
    say(f"{time.time() - start:.0f} s")
    say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
