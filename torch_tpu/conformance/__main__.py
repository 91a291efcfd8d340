"""python -m torch_tpu.conformance [ops|refs|modules|optimizers]... [options]"""
import argparse
import functools
import os
import pathlib
import random
import re
import sys
import tempfile
import time

from . import aot, modules, ops, optimizers, page, pool, report, task

DATABASES = ["ops", "refs", "modules", "optimizers"]


def arguments():
    p = argparse.ArgumentParser(
        prog="python -m torch_tpu.conformance", description="Compares tpu with the CPU on PyTorch's own test data."
    )
    p.add_argument(
        "databases", nargs="*", choices=[*DATABASES, []], help="op_db (the default), python_ref_db, module_db, optim_db"
    )
    p.add_argument("--dtype", help="comma list; unset: each entry's first of " + ", ".join(ops.DEFAULTS))
    for variant in ops.VARIANTS[1:]:
        p.add_argument(f"--{variant}", action="store_true", help=f"{variant} as well")
    p.add_argument(
        "--variants", help="comma list: just these variants; optimizers have " + ", ".join(optimizers.VARIANTS)
    )
    p.add_argument("--compile", action="store_true", help='each entry under torch.compile(backend="tpu")')
    p.add_argument(
        "--aot",
        metavar="TOPOLOGY,...",
        help="compile the programs that were made for these topologies: v5e:2x2,tpu7x:2x2x1",
    )
    p.add_argument("--aot-sample", type=int, metavar="N", help="only N of the programs, spread over the entries")
    p.add_argument("--samples", type=int, default=10, help="of each entry, spread over those there are (10)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    p.add_argument("--timeout", type=float, default=60, help="seconds for one sample")
    p.add_argument("--ops", metavar="REGEX", help="only entries whose name has this")
    p.add_argument(
        "--programs", metavar="FOLDER", help="keep the StableHLO text of the programs here, a folder per task"
    )
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--markdown", metavar="FILE")
    p.add_argument("--html", metavar="FILE", help="one page with a search box")
    p.add_argument(
        "--page", metavar="FOLDER", help="run what the coverage page shows, and write it: coverage.md, .html and .json"
    )
    p.add_argument(
        "--check",
        metavar="FOLDER",
        help="run what the coverage page shows, and fail where it does better or worse than that says",
    )
    p.add_argument("--spread", type=int, metavar="N", help="only N of the tasks, chosen by the seed")
    p.add_argument("--quiet", action="store_true", help="the table only")
    args = p.parse_args()
    if args.page and (args.ops or args.spread):
        p.error("--page writes all of its columns: it takes neither --ops nor --spread")
    return args


def listed(args):
    """The tasks that the arguments ask for."""
    dtypes = args.dtype.split(",") if args.dtype else None
    for database in args.databases or ["ops"]:
        if args.variants:
            variants = args.variants.split(",")
        elif database == "optimizers":
            variants = optimizers.VARIANTS
        else:
            variants = ["forward"] + [v for v in ops.VARIANTS[1:] if getattr(args, v)]
        yield from tasks_of(database, variants, dtypes)


def tasks_of(database, variants, dtypes):
    if database == "modules":
        return modules.tasks(variants, dtypes)
    return optimizers.tasks(variants, dtypes) if database == "optimizers" else ops.tasks(database, variants, dtypes)


def tasks_in(column):
    """Those of a column of the coverage page."""
    return tasks_of(column.database, column.variants, column.dtypes)


def work(args, folder, one, at):
    """Runs one task in a worker."""
    import warnings

    import torch
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("TORCH_TPU_FALLBACK", "silent")
    if args.aot:
        # the values that are compared are those of the programs that are compiled
        os.environ["TORCH_TPU_TARGET"] = "tpu"
    if folder:
        place = pathlib.Path(folder, f"{one.database}-{one.variant}-{one.dtype}", one.entry.replace("/", "_"))
        place.mkdir(parents=True, exist_ok=True)
        os.environ["TORCH_TPU_DUMP"] = str(place)
    module = {"modules": modules, "optimizers": optimizers}.get(one.database, ops)
    return task.run(module.cases(one, args.samples), at, args.seed, args.compile)


def run(args, tasks, folder=None, say=print):
    """Runs tasks; the results in their order."""
    import torch
    torch.set_num_threads(1)  # workers are forked: no thread pool may exist before
    found, start = {}, time.time()
    for one, result in pool.run(tasks, functools.partial(work, args, folder), args.jobs, args.timeout):
        found[one] = {**one._asdict(), "native": True, **result}
        for entry, variant, dtype, text in report.remarks([found[one]]):
            say(f"{entry} {variant} {dtype}: {text[:300]}")
        if len(found) % 100 == 0:
            say(f"{len(found)} of {len(tasks)} in {time.time() - start:.0f} s")
    return [found[one] for one in tasks]


def about(args, seconds):
    import torch

    import torch_tpu.plugin
    return {
        "torch": torch.__version__,
        "plugin": pathlib.Path(torch_tpu.plugin.find()).name,
        "samples": args.samples,
        "seed": args.seed,
        "compiled": args.compile,
        "seconds": round(seconds),
    }


def compile_programs(args, folder):
    """The --aot part: returns how many programs fail."""
    programs = aot.collect(folder)
    if args.aot_sample and len(programs) > args.aot_sample:
        files = sorted(programs.items(), key=lambda item: str(item[1]))
        programs = dict(files[len(files) * i // args.aot_sample] for i in range(args.aot_sample))
    topologies = args.aot.split(",")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "torch_tpu" / "aot"
    start = time.time()

    def progress(done, todo):
        if done % 100 == 0:
            print(f"{done} of {todo} compilations in {time.time() - start:.0f} s", flush=True)

    passed, known, failed = aot.compile_all(programs, topologies, cache, args.jobs, progress=progress)
    print(
        f"{len(programs)} programs for {', '.join(topologies)}: {passed} compile ({known} known before), {len(failed)} do not; {time.time() - start:.0f} s"
    )
    for cause, group in aot.by_cause(failed).items():
        print(f"\n{len(group)} x {cause}\n  {group[0][1].get('message', '')[:300]}")
        names = sorted({str(pathlib.Path(job.file).parent.relative_to(folder)) for job, _ in group})
        print("  " + ", ".join(names[:30]))
        print(f"  {group[0][0].file}")
    return [{"topology": job.topology, "file": job.file, **result} for job, result in failed]


def main():
    args = arguments()
    say = (lambda text: None) if args.quiet else functools.partial(print, flush=True)
    if args.page or args.check:
        tasks = [t for column in page.COLUMNS for t in tasks_in(column)]
    else:
        tasks = list(listed(args))
    tasks = list(dict.fromkeys(tasks))  # an entry's default dtype may be asked for as well
    if args.ops:
        tasks = [t for t in tasks if re.search(args.ops, t.entry)]
    if args.spread and args.spread < len(tasks):
        tasks = random.Random(args.seed).sample(tasks, args.spread)
    start, failed = time.time(), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.programs or (temporary if args.aot else None)
        say(f"{len(tasks)} tasks, {args.jobs} processes")
        results = run(args, tasks, folder, say)
        document = {"about": about(args, time.time() - start), "results": results}
        print(report.table(results))
        if args.aot:
            failed = document["aot"] = compile_programs(args, folder)
    if args.json:
        report.save(args.json, document)
    if args.markdown:
        pathlib.Path(args.markdown).write_text(report.markdown(document))
    if args.html:
        pathlib.Path(args.html).write_text(page.html(document))
    if args.page:
        page.write(args.page, document, tasks_in)
    if args.check:
        wrong = page.differences(page.read(args.check), results)
        print("\n".join([*wrong, f"{len(tasks)} tasks, {len(wrong)} are not as the page says"]))
        return int(bool(wrong))
    return int(bool(failed) or any(r["status"] not in ("pass", "skip") for r in results))


if __name__ == "__main__":
    sys.exit(main())
