"""The programs of docs/gallery/, smaller: numbers beside NumPy's, pictures beside those kept here.

PYCUDAKIT_WRITE_PICTURES=1 pytest tests/gallery writes the pictures anew.
"""

import importlib.util
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.skipif(
    not (ROOT / "examples" / "kmeans.py").is_file(), reason="examples/ is not beside the tests"
)
needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "c++")), reason="needs a C++ compiler"
)


@pytest.fixture
def example(monkeypatch):
    """Import a program by its name, without running it."""
    monkeypatch.setenv("PYCUDAKIT_DEVICE_MEMORY", os.environ.get("PYCUDAKIT_DEVICE_MEMORY", ""))

    def load(name):
        found = importlib.util.spec_from_file_location(f"gallery_{name}", ROOT / "examples" / f"{name}.py")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    return load


def looks_as_before(draw, result, name, folder):
    """Tell whether the drawing has the colours of the stored picture, in each part of 8 x 8 points."""
    mpl = pytest.importorskip("matplotlib")
    mpl.rcdefaults()
    from matplotlib import image

    draw(result, folder / "drawn.png")
    drawn = image.imread(folder / "drawn.png")[..., :3]
    rows, columns = (size // 8 for size in drawn.shape[:2])
    parts = drawn[: rows * 8, : columns * 8].reshape(rows, 8, columns, 8, 3).mean((1, 3))
    kept = HERE / f"{name}.png"
    if os.environ.get("PYCUDAKIT_WRITE_PICTURES"):
        image.imsave(kept, parts)
    before = image.imread(kept)[..., :3]
    assert parts.shape == before.shape
    # Letters may be drawn otherwise by another matplotlib.
    assert np.abs(parts - before).mean() < 0.01


@needs_compiler
def test_mandelbrot_zoom(engine, example, tmp_path):
    zoom = example("mandelbrot_zoom")
    frames = zoom.run(60, 45, most=100)
    step = 3.2 / 60
    y, x = np.mgrid[:45, :60]
    c = zoom.MIDDLE[0] + (x - 30) * step + 1j * (zoom.MIDDLE[1] + (y - 22) * step)
    z, times = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(100):
        stays = np.abs(z) < 16
        times += stays
        z = np.where(stays, z * z + c, z)
    times = np.where(times == 100, np.inf, times)
    assert (frames[0] == times).mean() > 0.995  # but on the edge, where the last bit decides
    looks_as_before(zoom.draw, frames, "mandelbrot_zoom", tmp_path)


@needs_compiler
def test_heat_slices(engine, example, tmp_path):
    heat = example("heat_slices")
    result = heat.run(64, 40)
    wanted = heat.by_slices.__wrapped__(heat.plate(64), 40)
    for got in result[1:3]:
        np.testing.assert_allclose(got, wanted, atol=1e-3)
    assert result[0].sum() > result[1].sum() > 0  # heat that reaches the edges is lost
    looks_as_before(heat.draw, result, "heat_slices", tmp_path)


@needs_compiler
def test_life_slices(engine, example, tmp_path):
    life = example("life_slices")
    result = life.run(64, 50)
    wanted = life.by_slices.__wrapped__(result[0].copy(), 50)
    assert 0 < wanted.sum() != result[0].sum()
    np.testing.assert_array_equal(result[1], wanted)
    np.testing.assert_array_equal(result[2], wanted)
    looks_as_before(life.draw, result, "life_slices", tmp_path)


def test_image_pipeline(engine, tmp_path, monkeypatch):
    """Its picture is the gallery's own: whole numbers, which are the same everywhere."""
    image = pytest.importorskip("matplotlib.image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["image_pipeline.py"])
    names = {"__name__": "__main__"}
    path = ROOT / "examples" / "image_pipeline.py"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    made = image.imread(tmp_path / "contact_sheet.png")
    np.testing.assert_array_equal(made, image.imread(ROOT / "docs" / "gallery" / "image_pipeline.png"))


def test_monte_carlo(engine, example, tmp_path):
    option = example("monte_carlo")
    steps = option.run(400_000, 20)
    assert [paths for paths, _, _ in steps] == list(range(20_000, 400_001, 20_000))
    _, price, error = steps[-1]
    assert abs(price - option.closed_form()) < 4 * error
    assert error < steps[0][2] / 4
    looks_as_before(option.draw, steps, "monte_carlo", tmp_path)


def test_histogram_file(engine, example, tmp_path):
    file = example("histogram_file")
    counts, seconds = file.run(200_000)
    file.write(tmp_path / "sizes", 200_000)
    wanted, _ = np.histogram(np.memmap(tmp_path / "sizes", np.float32, "r"), file.BINS)
    np.testing.assert_array_equal(counts, wanted)
    assert seconds > 0
    assert counts.sum() > 199_000
    looks_as_before(file.draw, counts, "histogram_file", tmp_path)


def test_kmeans(engine, example, tmp_path):
    kmeans = example("kmeans")
    x, y, label, centres, sums = result = kmeans.run(20_000)
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(sums))
    distances = (x[:, None] - centres[0]) ** 2 + (y[:, None] - centres[1]) ** 2
    assert (distances.argmin(1) == label).mean() > 0.99  # the centres moved once more
    assert np.hypot(*centres) == pytest.approx(5, abs=0.2)
    looks_as_before(kmeans.draw, result, "kmeans", tmp_path)


@needs_compiler
def test_nbody(engine, example, tmp_path):
    stars = example("nbody")
    seen, speed = stars.run(64, 30)
    rng = np.random.default_rng(3)
    discs = [
        stars.disc(32, (-1.5, -0.6), (0.45, 0.1), rng),
        stars.disc(32, (1.5, 0.6), (-0.45, -0.1), rng),
    ]
    at, moving = (np.concatenate(parts).astype(float) for parts in zip(*discs, strict=True))
    for _ in range(30):
        apart = at[None, :, :3] - at[:, None, :3]
        near = ((apart**2).sum(-1) + stars.SOFT**2) ** -1.5
        moving[:, :3] += 0.01 * (apart * (near * at[:, 3])[..., None]).sum(1)
        at[:, :3] += 0.01 * moving[:, :3]
    np.testing.assert_allclose(seen[-1], at, atol=2e-3)
    np.testing.assert_allclose(speed, moving, atol=2e-2)
    looks_as_before(stars.draw, seen, "nbody", tmp_path)


@needs_compiler
def test_tsetlin(engine, example, tmp_path):
    machine = example("tsetlin")
    accuracy, states = result = machine.run(5000, 8)
    assert abs(accuracy[0] - 0.5) < 0.1
    assert max(accuracy[-4:]) > 0.8  # learning from labels of which 0.6 are right
    assert int(np.arange(20) @ states.astype(np.int64) @ np.arange(24)) == LEARNED
    looks_as_before(machine.draw, result, "tsetlin", tmp_path)


LEARNED = 2_073_986  # the same on every engine


def test_sort_file(engine, example, tmp_path):
    file = example("sort_file")
    seen, largest, right = file.run(100_000, 10_000)
    assert right
    assert largest <= 10_000
    assert np.array_equal(seen[2], np.sort(seen[2]))
    assert (np.diff(seen[1]) < 0).sum() == 9  # where a run ends
    looks_as_before(file.draw, seen, "sort_file", tmp_path)


def test_every_page_has_its_program_and_its_picture():
    pages = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.md")} - {"index"}
    pictures = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert len(pages) == 10
    assert pages == pictures
    assert all((ROOT / "examples" / f"{name}.py").is_file() for name in pages)
    assert pages == {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in pages}
