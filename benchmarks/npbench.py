"""NPBench by NumPy, by pk.fuse on each engine, and by other libraries where they are installed.

NPBench (github.com/spcl/npbench) is a standard list of NumPy programs. Given the folder of a checkout, this
script runs the checkout's own NumPy files, and beside them its own versions for JAX and Numba; without one,
it runs the rewritten programs of npbench_programs.py. All answers are compared with NumPy's.
"""

import contextlib
import importlib.util
import json
import sys
from pathlib import Path

import npbench_programs
import numpy as np
import racing

LONGEST = 10.0  # seconds of a checkout's program in one call; later ones are not waited for
NORM_ERROR = 1e-5  # NPBench's own bound, unless a program has another
VERSIONS = {"JAX": ["jax"], "Numba": ["numba_npr", "numba_np", "numba_n"]}  # the best first
PRESETS = ["S", "M", "L", "paper"]


class Checkout:
    """The programs of a checkout of NPBench, by name.

    Parameters
    ----------
    folder
        The root of the checkout.
    preset
        The size of their arguments, one of PRESETS.
    """

    def __init__(self, folder, preset):
        self._folder, self._preset = Path(folder), preset
        self._information = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))["benchmark"]
            for path in sorted((self._folder / "bench_info").glob("*.json"))
        }
        if not self._information:
            raise SystemExit(f"error: {folder} is no checkout of NPBench: it has no bench_info/*.json")

    def __iter__(self):
        return iter(
            name
            for name, information in self._information.items()
            if self._path(information, "_numpy").exists() and self._preset in information["parameters"]
        )

    def task(self, name, libraries):
        """Return a program with new arguments, and its versions for these libraries."""
        information = self._information[name]
        values = dict(information["parameters"][self._preset])
        if begin := information.get("init"):
            make = getattr(self._module(information, ""), begin["func_name"])
            made = make(*(values[argument] for argument in begin["input_args"]))
            made = made if len(begin["output_args"]) > 1 else (made,)
            values.update(zip(begin["output_args"], made, strict=True))
        names = information["input_args"]
        arrays = {place for place, each in enumerate(names) if each in information["array_args"]}
        written = tuple(names.index(output) for output in information["output_args"])
        return racing.Task(
            name,
            self._function(information, "_numpy"),
            tuple(values[each] for each in names),
            written,
            information.get("norm_error", NORM_ERROR),
            versions=dict(self._versions(information, libraries)),
            scratch=tuple(arrays - set(written)),
        )

    def _versions(self, information, libraries):
        for library in libraries:
            for suffix in VERSIONS.get(library, []):
                if self._path(information, f"_{suffix}").exists():
                    with contextlib.suppress(Exception):  # a file of theirs that does not load is no version
                        yield library, self._function(information, f"_{suffix}")
                        break

    def _path(self, information, suffix):
        programs = self._folder / "npbench" / "benchmarks" / information["relative_path"]
        return programs / f"{information['module_name']}{suffix}.py"

    def _function(self, information, suffix):
        return getattr(self._module(information, suffix), information["func_name"])

    def _module(self, information, suffix):
        path = self._path(information, suffix)
        specification = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module


def rewritten(options):
    """Yield the tasks of npbench_programs.py."""
    size = "quick" if options.quick else "paper" if "paper" in options.preset else "default"
    for name in racing.wanted(npbench_programs.PROGRAMS, options):
        program = npbench_programs.PROGRAMS[name]
        yield racing.Task(
            name, program.function, program.initialize(size), program.written, numba=program.numba
        )


def main():
    parser = racing.parser(__file__, __doc__.partition("\n\n")[0])
    parser.add_argument("folder", nargs="?", help="of a checkout of NPBench, whose own files are run")
    parser.add_argument("--preset", nargs="+", choices=PRESETS, default=["S"], help="NPBench's sizes (S)")
    options = parser.parse_args()
    if not options.folder:
        return run(options, list(rewritten(options)), None)
    status = 0
    for preset in options.preset:
        checkout = Checkout(options.folder, preset)
        names = racing.wanted(checkout, options)
        tasks = (checkout.task(name, [] if options.no_peers else VERSIONS) for name in names)
        print(f"preset {preset}, {len(names)} programs")
        status |= run(options, tasks, LONGEST, len(names))
    return status


def run(options, tasks, longest, count=None):
    """Race the contenders in all tasks; return the exit status."""
    races = racing.Races(options, len(tasks) if count is None else count, longest)
    for task in tasks:
        races.step(task.name)
        with np.errstate(all="ignore"):
            races.run(task)
    races.close()
    return races.finish()


if __name__ == "__main__":
    sys.exit(main())
