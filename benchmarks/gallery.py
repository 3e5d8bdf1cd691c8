"""The programs of docs/gallery/ against the same work in NumPy and SciPy, and the line of times on each page.

    python benchmarks/gallery.py --json here.json
    python benchmarks/gallery.py --from here.json there.json --write

A program and NumPy's version of it run in turn, after a short run of both; a time is the least of its rounds.
Of several files, the first has NumPy's times.
"""

import argparse
import importlib.util
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
from scipy import ndimage

import pycudakit as pk
from pycudakit._cli.idle_processors import are_processors_idle, processor_count
from pycudakit._native.formatting import format_seconds

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "gallery"
PATIENCE = 20.0  # seconds; a longer call is timed once


def load(name):
    """Import a program by its name, without running it."""
    found = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# ---- The same in NumPy --------------------------------------------------------------------------------


def escape_times(middle, width, height, span, most):
    """Return when each point leaves the Mandelbrot set, iterating only points that are still inside."""
    step = span / width
    x = middle[0] + (np.arange(width) - width // 2) * step
    y = middle[1] + (np.arange(height)[:, np.newaxis] - height // 2) * step
    c = (x + 1j * y).ravel()
    times, inside, z = np.full(c.size, np.inf, np.float32), np.arange(c.size), np.zeros_like(c)
    for n in range(most):
        z = z * z + c[inside]
        left = z.real**2 + z.imag**2 >= 256
        if left.any():
            times[inside[left]] = n + 1
            inside, z = inside[~left], z[~left]
    return times.reshape(height, width)


def nbody(at, speed, steps, dt, soft):
    """Move stars that pull at each other, by arrays of all pairs."""
    at, speed = at.copy(), speed.copy()
    for _ in range(steps):
        away = at[np.newaxis, :, :3] - at[:, np.newaxis, :3]
        pull = at[:, 3] * ((away**2).sum(-1) + np.float32(soft**2)) ** np.float32(-1.5)
        speed[:, :3] += np.float32(dt) * (away * pull[..., np.newaxis]).sum(1)
        at[:, :3] += np.float32(dt) * speed[:, :3]
    return at


def monte_carlo(program, paths, batch):
    """Return the price of the option, by NumPy's generator and functions."""
    rng, total = np.random.default_rng(2024), 0.0
    for _ in range(0, paths, batch):
        z = rng.standard_normal(batch, np.float32)
        up = np.maximum(program.GROWN * np.exp(program.SPREAD * z) - program.STRIKE, 0)
        down = np.maximum(program.GROWN * np.exp(-program.SPREAD * z) - program.STRIKE, 0)
        total += ((up + down) * (program.DISCOUNT / 2)).sum(dtype=np.float64)
    return total / paths


def tsetlin(program, count, epochs):
    """Return the accuracy of a Tsetlin machine that is trained by NumPy, an example at a time."""
    rng = np.random.default_rng(1)
    x, y = program.examples(count, program.NOISE, rng)
    clean, truth = program.examples(count, 0, rng)
    states = rng.integers(99, 101, size=(program.CLAUSES, 2 * program.BITS), dtype=np.int16)
    literals, is_for = np.concatenate([x, 1 - x], axis=1) == 1, np.arange(program.CLAUSES) % 2 == 0
    for _ in range(epochs):
        for literal, label in zip(literals, y == 1, strict=True):
            is_true = ~((states >= 100) & ~literal).any(axis=1)
            votes = np.clip(np.where(is_for, 1, -1)[is_true].sum(), -program.VOTES, program.VOTES)
            missing = program.VOTES - votes if label else program.VOTES + votes
            learns = rng.random(program.CLAUSES) < missing / (2 * program.VOTES)
            towards, against = learns & (is_for == label), learns & (is_for != label) & is_true
            is_rare, kept = rng.random(states.shape) < 1 / 3.9, is_true[:, np.newaxis] & literal
            change = np.where(kept, ~is_rare, np.where(is_rare, -1, 0)) * towards[:, np.newaxis]
            change += (against[:, np.newaxis] & ~literal & (states < 100)).astype(change.dtype)
            states = np.clip(states + change, 0, 199).astype(np.int16)
    literals = np.concatenate([clean, 1 - clean], axis=1) == 1
    taken = states >= 100
    is_true = ~(taken & ~literals[:, np.newaxis]).any(axis=2) & taken.any(axis=1)
    return float((((is_true * np.where(is_for, 1, -1)).sum(axis=1) >= 0) == truth).mean())


def pictures(image):
    """Return a picture in grey, blurred, its edges, and with an even histogram, by NumPy and SciPy."""
    grey = np.rint(image @ np.float32([0.299, 0.587, 0.114])).astype(np.uint8)
    blurred = ndimage.gaussian_filter(image, (3, 3, 0))
    rows, columns = (ndimage.sobel(grey.astype(np.float32), axis) for axis in (0, 1))
    edges = np.hypot(rows, columns).clip(0, 255).astype(np.uint8)
    counts = np.bincount(grey.ravel(), minlength=256).cumsum()
    first = counts[counts > 0][0]
    table = np.rint((counts - first).clip(0) * 255 / (grey.size - first)).astype(np.uint8)
    return grey, blurred, edges, table[grey]


def our_pictures(image):
    """Return the same by `pk.image`."""
    grey = pk.image.rgb_to_gray(image)
    return (
        grey,
        pk.image.gaussian_blur(image, 3),
        pk.image.sobel(grey, axis=None),
        pk.image.equalize_histogram(grey),
    )


# ---- The works ----------------------------------------------------------------------------------------
# Each is a function of the size, a part of that of the gallery, which returns the program's function, that of
# NumPy, a comparison of their results, and the words for NumPy's.


def sliced(name, size, steps):
    """Return the work of a program by slices and by a kernel: the fused function against itself in NumPy."""
    program = load(name)
    first = program.plate(size) if name == "heat_slices" else program.run(size, 2)[0]
    return (
        lambda: program.by_slices(first.copy(), steps),
        lambda: program.by_slices.__wrapped__(first.copy(), steps),
        lambda ours, theirs: np.abs(ours.astype(float) - theirs).max() < 1e-3,
        "NumPy",
    )


def heat_slices(part):
    return sliced("heat_slices", 1024, max(2, int(400 * part)))


def life_slices(part):
    return sliced("life_slices", 2048, max(2, int(600 * part)))


def mandelbrot_zoom(part):
    program, most = load("mandelbrot_zoom"), max(50, int(3000 * part))

    def same(ours, theirs):
        return np.mean([np.mean(a != b) for a, b in zip(ours, theirs, strict=True)]) < 0.02

    def by_numpy():
        return [escape_times(program.MIDDLE, 360, 270, 3.2 / 8**zoom, most) for zoom in range(6)]

    return lambda: program.run(most=most), by_numpy, same, "NumPy"


def image_pipeline(part):
    side = int(3000 * part)
    image = np.random.default_rng(0).integers(256, size=(side, side * 4 // 3, 3), dtype=np.uint8)

    def same(ours, theirs):
        return all(np.abs(a.astype(int) - b).max() <= 2 for a, b in zip(ours[:2], theirs[:2], strict=True))

    return lambda: our_pictures(image), lambda: pictures(image), same, "NumPy and SciPy"


def monte_carlo_work(part):
    program, paths = load("monte_carlo"), int(20 * part) * 1_000_000

    def same(ours, theirs):
        return abs(ours[-1][1] - theirs) < 0.05

    batch = min(paths, program.BATCH)
    return (
        lambda: program.simulated(pk.random.default_rng(2024), paths, batch),
        lambda: monte_carlo(program, paths, batch),
        same,
        "NumPy",
    )


def on_engine_numpy(run, same):
    """Return a work whose program runs in NumPy under the engine of that name."""

    def by_numpy():
        with pk.engine("numpy"):
            return run()

    return run, by_numpy, same, "NumPy"


def kmeans(part):
    program = load("kmeans")
    return on_engine_numpy(
        lambda: program.run(int(4_000_000 * part)), lambda a, b: np.allclose(a[3], b[3], atol=1e-3)
    )


def histogram_file(part):
    program = load("histogram_file")

    def same(ours, theirs):  # each engine writes a file of its own
        return (np.abs(ours[0] - theirs[0]) <= 10 + 8 * np.sqrt(ours[0] + theirs[0])).all()

    return on_engine_numpy(lambda: program.run(int(100_000_000 * part)), same)


def sort_file(part):
    program = load("sort_file")
    return on_engine_numpy(
        lambda: program.run(int(32_000_000 * part), int(4_000_000 * part)), lambda a, b: a[2] and b[2]
    )


def nbody_work(part):
    program, steps = load("nbody"), max(3, int(300 * part) // 3 * 3)

    def by_numpy():
        rng, half = np.random.default_rng(3), 512
        discs = [
            program.disc(half, (-1.5, -0.6), (0.45, 0.1), rng),
            program.disc(half, (1.5, 0.6), (-0.45, -0.1), rng),
        ]
        at, speed = (np.concatenate(parts) for parts in zip(*discs, strict=True))
        return nbody(at, speed, steps, 0.01, program.SOFT)

    def same(ours, theirs):
        return np.median(np.abs(ours[0][-1] - theirs)) < 0.02

    return lambda: program.run(1024, steps), by_numpy, same, "NumPy"


def tsetlin_work(part):
    program, epochs = load("tsetlin"), max(1, int(40 * part))
    return (
        lambda: program.run(5000, epochs),
        lambda: tsetlin(program, 5000, epochs),
        # Both learn; the accuracy still moves by a tenth from epoch to epoch.
        lambda ours, theirs: part < 1 or min(ours[0][-1], theirs) > 0.75,
        "NumPy",
    )


WORKS = {
    "heat_slices": heat_slices,
    "life_slices": life_slices,
    "mandelbrot_zoom": mandelbrot_zoom,
    "image_pipeline": image_pipeline,
    "monte_carlo": monte_carlo_work,
    "histogram_file": histogram_file,
    "kmeans": kmeans,
    "nbody": nbody_work,
    "tsetlin": tsetlin_work,
    "sort_file": sort_file,
}


# The works that are larger than those of the programs.
SIZES = {
    "heat_slices": "by slices, for a plate of 1024 x 1024",
    "life_slices": "by slices, for a board of 2048 x 2048",
    "image_pipeline": "for a picture of 12 megapixels",
}


# ---- Measuring and writing ----------------------------------------------------------------------------


def seconds_of(function):
    """Return the result of a call, and its time: its own, if it measures the part that counts."""
    began = time.perf_counter()
    result = function()
    own = result[1] if isinstance(result, tuple) and isinstance(result[1], float) else None
    return result, time.perf_counter() - began if own is None else own


def measure(name, part, rounds):
    """Return the least times of a work: NumPy's, and those of the engines of this machine."""
    ours, theirs, same, label = WORKS[name](part)
    engines = {"cpu": f"{processor_count()} cores"}
    if pk.engines()["cuda"]:
        engines["cuda"] = pk.devices()[0].name.removeprefix("NVIDIA ").split()[0]

    def on(engine):
        with pk.engine(engine):
            return ours()

    contenders = {label: theirs, **{title: lambda engine=each: on(engine) for each, title in engines.items()}}
    for engine in engines:  # compiles kernels, and wakes threads
        with pk.engine(engine):
            WORKS[name](min(part, 0.05))[0]()
    times, results = {}, {}
    for turn in range(rounds):
        for title, function in contenders.items():
            if turn and times[title] > PATIENCE:
                continue
            results[title], seconds = seconds_of(function)
            times[title] = min(seconds, times.get(title, seconds))
    for title in engines.values():
        if not same(results[title], results[label]):
            raise SystemExit(f"{name}: the results of {title} are not those of {label}")
    return times


def line(name, times):
    """Return the line of a page."""
    detail = f" {SIZES[name]}" if name in SIZES else ""
    return f"Times{detail}: {', '.join(f'{title} {format_seconds(each)}' for title, each in times.items())}."


def write(name, times):
    """Put the line of times below the picture of a page."""
    path = PAGES / f"{name}.md"
    text = re.sub(r"^Times.*: .*\.\n\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    head, picture, rest = re.split(r"^(!\[.*\n)", text, maxsplit=1, flags=re.MULTILINE)
    path.write_text(f"{head}{picture}\n{line(name, times)}\n{rest}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a part of each work, to try the script")
    parser.add_argument("--json", type=Path, help="write the times into this file")
    parser.add_argument(
        "--from",
        type=Path,
        nargs="+",
        dest="files",
        help="files of other runs, joined: the first with a time counts",
    )
    parser.add_argument("--write", action="store_true", help="put the lines into docs/gallery/")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    options = parser.parse_args()
    found = {}
    for file in options.files or ():
        for name, times in json.loads(file.read_text(encoding="utf-8")).items():
            for title, seconds in times.items():
                found.setdefault(name, {}).setdefault(title, seconds)
    if not options.files:
        if not (options.force or options.quick or are_processors_idle()):
            sys.exit(
                "other programs keep the processors busy: times would mean little (--force measures anyway)"
            )
        for name in (each for each in WORKS if options.only in each):
            found[name] = measure(name, 0.05 if options.quick else 1, 1 if options.quick else options.rounds)
            print(f"{name:16} {line(name, found[name])}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.write:
        for name, times in found.items():
            write(name, times)


if __name__ == "__main__":
    main()
