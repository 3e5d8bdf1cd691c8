"""Colour conversion and resizing of images against OpenCV and NumPy.

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys

import numpy as np
from harness import Harness

import pycudakit as pk

try:
    import cv2
except ImportError:
    cv2 = None

SIZES = {"4K": (2160, 3840), "8K": (4320, 7680)}


def numpys_grey(image):
    return np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(image.dtype)


def on(engine, function, *arguments):
    with pk.engine(engine):
        return function(*arguments)


def race(harness, work, ours, others, at_least=None, within=1, **keywords):
    """Add a row for each other, whose results may differ by `within`: OpenCV rounds differently."""
    if not harness.wanted(work) or not others:
        return
    harness.step(work)
    pk.set_engine(keywords.get("engine") or harness.engine)
    mine = np.asarray(ours(), np.float64)
    right = True
    for name, other in others.items():
        far = np.abs(mine - other()).max()
        if far > within:
            right = False
            harness.wrong += 1
            print(f"{work}: up to {far:g} from {name}", file=sys.stderr)
    times = harness.time(ours, others, **keywords)
    engine = keywords.get("engine") or harness.engine
    for name in others:
        least = (at_least or {}).get(name)
        harness.row(work, mine.size, engine, times["pycudakit"], name, times[name], least, right)


def grey(harness, rng):
    for name, full in SIZES.items():
        shape = tuple(n // 4 for n in full) if harness.quick else full
        image = rng.integers(0, 256, (*shape, 3), np.uint8)
        others = {"NumPy": functools.partial(numpys_grey, image)} if name == "4K" else {}
        if cv2 is not None:
            others["OpenCV"] = functools.partial(cv2.cvtColor, image, cv2.COLOR_RGB2GRAY)
        ours = functools.partial(pk.image.rgb_to_gray, image)
        is_figure = harness.engine == "cpu" and name == "4K"
        race(harness, f"grey {name} uint8", ours, others, {"OpenCV": 1.0} if is_figure else None)
        if name == "8K":
            engines = [engine for engine in ("cpu", "cuda") if pk.engines()[engine]]
            for engine in engines:
                others[engine] = functools.partial(on, engine, pk.image.rgb_to_gray, image)
            least = dict.fromkeys(others, 0.9)
            race(harness, "grey 8K under auto", ours, others, least, engine="auto")
    for dtype in (np.uint16, np.float32):
        wide = image[: shape[0] // 2, : shape[1] // 2].astype(dtype)
        if cv2 is not None:
            others = {"OpenCV": functools.partial(cv2.cvtColor, wide, cv2.COLOR_RGB2GRAY)}
            ours = functools.partial(pk.image.rgb_to_gray, wide)
            race(harness, f"grey 4K {np.dtype(dtype)}", ours, others)


def resizing(harness, image):
    ways = {"nearest": "INTER_NEAREST", "bilinear": "INTER_LINEAR", "area": "INTER_AREA"}
    for method, way in ways.items():
        for name, (up, down) in {"half": (1, 2), "3/2": (3, 2)}.items():
            shape = tuple(n * up // down for n in image.shape[:2])
            ours = functools.partial(pk.image.resize, image, shape, method)
            theirs = functools.partial(cv2.resize, image, shape[::-1], interpolation=getattr(cv2, way))
            # OpenCV's "nearest" uses pixel corners, and its "area" interpolates to larger sizes.
            alike = method == "bilinear" or (method == "area" and up < down)
            race(harness, f"{method} {name}", ours, {"OpenCV": theirs}, within=1 if alike else 255)


def others(harness, rng):
    shape = tuple(n // 4 for n in SIZES["4K"]) if harness.quick else SIZES["4K"]
    plane = rng.integers(0, 200, shape, np.uint8)
    colour = rng.integers(0, 256, (*shape, 3), np.uint8)
    if cv2 is None:
        return
    for work, ours, theirs in (
        ("grey to colour", pk.image.gray_to_rgb, lambda a: cv2.cvtColor(a, cv2.COLOR_GRAY2RGB)),
        ("equalize_histogram", pk.image.equalize_histogram, cv2.equalizeHist),
        (
            "threshold 100",
            lambda a: pk.image.threshold(a, 100),
            lambda a: cv2.threshold(a, 100, 255, cv2.THRESH_BINARY)[1],
        ),
        (
            "threshold Otsu",
            pk.image.threshold,
            lambda a: cv2.threshold(a, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)[1],
        ),
        ("flip", pk.image.flip, lambda a: cv2.flip(a, 1)),
        ("rotate90", pk.image.rotate90, lambda a: cv2.rotate(a, cv2.ROTATE_90_COUNTERCLOCKWISE)),
        (
            "normalize",
            pk.image.normalize,
            lambda a: cv2.normalize(a, None, 0, 1, cv2.NORM_MINMAX, cv2.CV_32F),
        ),
    ):
        pair = functools.partial(ours, plane), {"OpenCV": functools.partial(theirs, plane)}
        race(harness, f"{work} 4K", *pair)
    resizing(harness, colour)


def main():
    harness = Harness(__doc__.splitlines()[0], 18)
    rng = np.random.default_rng(0)
    grey(harness, rng)
    others(harness, rng)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
