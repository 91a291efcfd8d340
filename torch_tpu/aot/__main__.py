"""python -m torch_tpu.aot: what a program would be on a TPU.

report SCRIPT.py:fn --topology NAME[,NAME...] [--set NAME=VALUE[,VALUE...]] [--sweep] [--html FILE]
    fn(**values of --set) is called where tensors take no memory (torch_tpu.aot.fake) and returns (function, args): what
    is compiled. It gets topology= too if it takes that, for torch_tpu.aot.mesh. Of several topologies and values each
    combination is compiled; --sweep prints one line for each. Ends with 1 if one does not compile or fit.
doctor SCRIPT.py:fn [--set NAME=VALUE]
    Whether that is one program, and else what keeps it from being one, with the line. Ends with 1 if it is not.
bundle --topology NAME|here [--pack FILE] [--set NAME=VALUE] SCRIPT.py:fn | SCRIPT.py [ARGUMENT...]
    Puts programs into the cache folder for processes on machines of a topology, or like this one. Of what fn returns,
    (what torch_tpu.compile_step returned, args), the one program, without running it; of a script, which is run, all
    that it asks for. --pack writes the cache folder to one file, as python -m torch_tpu.cache pack does.
topology NAME
    What is known of a slice."""
import argparse
import importlib.util
import inspect
import itertools
import pathlib
import sys

from .. import cache
from ..step import Step
from . import bundle, compile as compile_, doctor, fake, page, report, topology


def _load(spec):
    file, colon, name = spec.rpartition(":")
    if not colon or not pathlib.Path(file).is_file():
        raise SystemExit(f"expected FILE.py:FUNCTION, got {spec!r}" + (f": no file {file}" if colon else ""))
    module_spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(module_spec)
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    module_spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise SystemExit(f"{file} has no function {name!r}")
    return getattr(module, name)


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _settings(given):
    """Every combination of NAME=VALUE,VALUE as a dict."""
    names, values = [], []
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not text:
            raise SystemExit(f"expected NAME=VALUE, got {item!r}")
        names.append(name)
        values.append([_value(v) for v in text.split(",")])
    return [dict(zip(names, combination)) for combination in itertools.product(*values)]


def _one_setting(given):
    settings = _settings(given)
    if len(settings) != 1:
        raise SystemExit(f"expected one value for each name, got --set {' --set '.join(given)}")
    return settings[0]


def _report(args):
    build = _load(args.what)
    takes_topology = "topology" in inspect.signature(build).parameters
    results = []
    for settings in _settings(args.set):
        for name in args.topology.split(","):
            title = " ".join([name, *(f"{k}={v}" for k, v in settings.items())])
            try:
                with fake():
                    fn, inputs = build(**settings, **({"topology": name} if takes_topology else {}))
                results.append((title, compile_(fn, inputs, topology=name)))
                said = results[-1][1]
            except (ValueError, MemoryError, NotImplementedError, RuntimeError) as e:
                results.append((title, e))
                said = f"{title}: {e}"
            if not args.sweep:
                print(said, end="\n\n", flush=True)
    if args.sweep:
        print(report.sweep(results))
    if args.html:
        pathlib.Path(args.html).write_text(page.page(args.what, results), encoding="utf-8")
    return 0 if all(not isinstance(c, Exception) and c.memory.total <= c.memory.available for _, c in results) else 1


def _doctor(args):
    settings = _one_setting(args.set)
    with fake():
        fn, inputs = _load(args.what)(**settings)
    diagnosis = doctor.diagnose(fn, inputs)
    print(diagnosis)
    return 0 if diagnosis.program is not None else 1


def _bundle(args):
    status = 0
    if not args.what:
        raise SystemExit("expected SCRIPT.py:fn or SCRIPT.py [ARGUMENT...]")
    if ".py:" in args.what[0]:
        made = _load(args.what[0])(**_one_setting(args.set))
        if not (isinstance(made, (tuple, list)) and len(made) == 2 and isinstance(made[0], Step)):
            raise SystemExit(f"{args.what[0]}: expected (what torch_tpu.compile_step returned, args), got "
                             f"{type(made).__name__}")
        names = [bundle.fill(*made, topology=args.topology)]
    else:
        names, left, status = bundle.of_script(args.what, topology=args.topology)
        for name, why in left.items():
            print(f"left out: {name}: {why}", file=sys.stderr)
        if status:
            print(f"the script ended with {status}: programs that it would have asked for later are missing", file=sys.stderr)
        status = 1 if status or left else 0
    print(f"{len(names)} programs for {args.topology} in {cache.folder()}")
    if args.pack:
        print(f"{cache.pack(cache.folder(), args.pack)} programs in {args.pack}")
    return status


def _topology(args):
    t = topology(args.name)
    print(t)
    rows = [("devices", f"{len(t.devices)} of kind {t.kind}, on {len({d.process for d in t.devices})} hosts"),
            ("chips", "x".join(map(str, t.shape))),
            ("memory", f"{report.gib(t.memory)} of a device for programs, {report.gib(t.chip.memory)} of a chip"),
            ("HBM", f"{report.amount(t.bandwidth, 'B/s')} of a device"),
            ("links", f"{report.amount(t.ici, 'B/s')} from a device to its neighbours"),
            ("network", f"{report.amount(t.chip.dcn, 'B/s')} from a chip to the data center"),
            *(("peak", f"{report.amount(t.peak(d), 'FLOP/s')} of a device in {d}") for d in t.chip.peak),
            ("source", t.chip.source)]
    for what, value in rows:
        print(f"{what:10} {value}")
    return 0


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m torch_tpu.aot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="command", required=True)
    p = parts.add_parser("report")
    p.add_argument("what", metavar="SCRIPT.py:fn")
    p.add_argument("--topology", required=True, metavar="NAME,...")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE,...")
    p.add_argument("--sweep", action="store_true")
    p.add_argument("--html", metavar="FILE")
    p.set_defaults(run=_report)
    p = parts.add_parser("doctor")
    p.add_argument("what", metavar="SCRIPT.py:fn")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    p.set_defaults(run=_doctor)
    p = parts.add_parser("bundle")
    p.add_argument("what", metavar="SCRIPT.py:fn|SCRIPT.py", nargs=argparse.REMAINDER)
    p.add_argument("--topology", required=True, metavar="NAME|here")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--pack", metavar="FILE")
    p.set_defaults(run=_bundle)
    p = parts.add_parser("topology")
    p.add_argument("name")
    p.set_defaults(run=_topology)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except (ValueError, RuntimeError, cache.CacheError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
