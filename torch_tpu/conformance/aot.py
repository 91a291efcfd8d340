"""Compiles programs for TPU topologies through libtpu, which needs no TPU for it, in processes that may die.

A program that compiled is remembered by its text, the topology and the build of libtpu, so that only what is new or
failed is compiled again."""
import collections
import hashlib
import os
import pathlib
import re

from . import pool

Job = collections.namedtuple("Job", "topology digest file")
QUIET = {"TPU_SKIP_MDS_QUERY": "1", "TPU_STDERR_LOG_LEVEL": "3", "TPU_MIN_LOG_LEVEL": "3", "TPU_LOG_DIR": "disabled",
         "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


# What libtpu cannot do: the text of a program, and the reason. Programs that are written for a TPU
# (TORCH_TPU_TARGET=tpu) hold none of it: these are of programs that were written for a CPU.
REFUSED = [
    (r"custom_call @\w+\(.*api_version = 4", "a function in C is the CPU's"),
    (r'"stablehlo.fft".*f64', "libtpu transforms no 64-bit numbers"),
    (r'"stablehlo.convolution".*-> tensor<[\dx]*u?i64>', "libtpu convolves no 64-bit integers"),
    (r"stablehlo\.dot_general.*-> tensor<[\dx]*u?i64>", "libtpu multiplies no matrices of 64-bit integers"),
    (
        r"stablehlo\.(divide|remainder) .*: tensor<[\dx]+xu?i64>",
        "libtpu takes up to a minute for a quotient of 64-bit integers",
    ),
]


def refusal(text):
    """Why libtpu is known to refuse a program of this text, or None."""
    return next((why for pattern, why in REFUSED if re.search(pattern, text)), None)


def libtpu():
    """The path of libtpu, or None where it is not installed."""
    from torch_tpu.plugin import KNOWN
    return KNOWN["libtpu"]()


def build():
    return hashlib.sha256(str(os.stat(libtpu()).st_size).encode()).hexdigest()[:8]


def collect(folder):
    """{digest of the text: file}: programs of the same text once, and none that libtpu is known to refuse."""
    found = {}
    for file in sorted(pathlib.Path(folder).rglob("*.mlir")):
        text = file.read_bytes()
        if not refusal(text.decode()):
            found.setdefault(hashlib.sha256(text).hexdigest(), file)
    return found


def _work(job, at):
    from torch_tpu import _C
    os.environ.update(QUIET)
    try:
        _C.aot_compile(libtpu(), job.topology, pathlib.Path(job.file).read_text())
        return {"status": "pass"}
    except Exception as e:
        return {"status": "fail", "message": re.sub(r"\s+", " ", str(e))[:600]}


def compile_all(programs, topologies, remembered, jobs=2, timeout=300, progress=lambda done, todo: None):
    """Compiles {digest: file} for each topology. Returns (how many pass, how many of them from memory, [(Job, result)]
    that fail)."""
    remembered = pathlib.Path(remembered)
    remembered.mkdir(parents=True, exist_ok=True)
    memory = remembered / f"compiled-{build()}"
    known = set(memory.read_text().split()) if memory.exists() else set()
    wanted = [Job(t, digest, str(file)) for t in topologies for digest, file in programs.items()]
    todo = [job for job in wanted if f"{job.topology}/{job.digest}" not in known]
    failed, passed = [], len(wanted) - len(todo)
    with open(memory, "a") as good:
        for n, (job, result) in enumerate(pool.run(todo, _work, jobs, timeout, renew=500), 1):
            if result["status"] == "pass":
                passed += 1
                good.write(f"{job.topology}/{job.digest}\n")
                good.flush()
            else:
                failed.append((job, result))
            progress(n, len(todo))
    return passed, len(wanted) - len(todo), failed


def cause(message):
    """A failure's message without what differs between programs: those with the same cause read the same."""
    message = re.sub(r"%?[\w.\-]+ = |<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}|\([^()]*\)|0x[0-9a-f]+|\d+", "_", message)
    return re.sub(r"[\s_]+", " ", message)[:120]


def by_cause(failed):
    """{cause: [(Job, result)]}, the commonest first."""
    groups = collections.defaultdict(list)
    for job, result in failed:
        groups[cause(result.get("message") or result["status"])].append((job, result))
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
