"""The classic experiments in one run: block size, small transfers, strided access, stages, overlap.

    python benchmarks/experiments.py --html experiments.html --markdown experiments.md --json run.json
    python benchmarks/experiments.py --of run.json --html experiments.html

The page is self-contained, including its plots. Each experiment is a script of its own, too.
"""

import argparse
import html
import io
import json
import sys
from pathlib import Path

import access
import block_size
import overlap
import report
import stages
import transfers

import pycudakit as pk
from pycudakit._cli import bench
from pycudakit._cli.report import described, markdown_table, opening
from pycudakit._native.formatting import html_table

SCRIPTS = {script.__name__: script for script in (block_size, transfers, access, stages, overlap)}
TITLE = "pycudakit: the experiments"
NOTE = "Times are medians of calls on NumPy arrays."
QUICK = " This run was a quick one, to try the scripts: its numbers mean little."


def run(engine, quick):
    """Run all experiments on an engine, and return their results as plain data."""
    found = {}
    for name, script in SCRIPTS.items():
        if engine in script.ENGINES:
            print(name, file=sys.stderr)
            with pk.engine(engine):
                found[name] = script.measure(quick)
        else:
            found[name] = {"note": f"Of the engine {engine} there is nothing to measure: it needs a GPU."}
    return {**bench.described(), "engine": engine, "quick": quick, "experiments": found}


def told(ran):
    """Yield each experiment's name, title, description and results."""
    for name, found in ran["experiments"].items():
        title, _, about = SCRIPTS[name].__doc__.partition("\n\n")
        yield name, title, " ".join(about.split()), found


def note(ran):
    return f"On the engine {ran['engine']}. {NOTE}{QUICK * ran['quick']}"


def markdown(ran):
    """Return a run as Markdown."""
    lines = [f"# {TITLE}", "", note(ran), "", *markdown_table(("machine", ""), described(ran))]
    for name, title, about, found in told(ran):
        lines += [f"## {name}", "", title, "", about, "", found["note"], ""]
        if "rows" in found:
            lines += markdown_table(found["titles"], found["rows"])
    return "\n".join(lines)


def page(ran):
    """Return a run as one HTML page."""
    parts = [*opening(TITLE, note(ran), ran)]
    for name, title, about, found in told(ran):
        parts.append(f"<h2 id='{name}'>{html.escape(title)}</h2><p>{html.escape(about)}</p>")
        parts.append(f"<p>{html.escape(found['note'])}</p>")
        if "rows" in found:
            parts += [drawn(name, found["points"]), html_table(found["titles"], found["rows"])]
    return "\n".join(parts) + "\n"


def drawn(name, points):
    """Return an experiment's plot as embedded SVG, or nothing without matplotlib."""
    file = io.StringIO()
    if not report.draw(file, lambda axes: SCRIPTS[name].draw(axes[0], points)):
        return ""
    return file.getvalue()[file.getvalue().index("<svg") :]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("cuda", "cpu"), help="cuda, if there is a GPU, and else cpu")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer, to try the scripts")
    parser.add_argument("--of", metavar="FILE", help="an earlier run's JSON: nothing is measured")
    for form in ("json", "html", "markdown"):
        parser.add_argument(f"--{form}", metavar="FILE", help=f"write the run as {form} to this file")
    options = parser.parse_args()
    if options.of:
        ran = json.loads(Path(options.of).read_text(encoding="utf-8"))
    else:
        engine = options.engine or ("cuda" if pk.engines()["cuda"] else "cpu")
        if not pk.engines()[engine]:
            parser.error(f"the engine {engine} is not available: {pk.engines()[engine].reason}")
        ran = json.loads(json.dumps(run(engine, options.quick)))
    forms = {"json": lambda ran: json.dumps(ran, indent=1) + "\n", "html": page, "markdown": markdown}
    asked = {form: path for form in forms if (path := getattr(options, form))}
    for form, path in asked.items():
        Path(path).write_text(forms[form](ran), encoding="utf-8")
        print(f"wrote {path}")
    if not asked:
        print(markdown(ran))


if __name__ == "__main__":
    main()
