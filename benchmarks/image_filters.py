"""Image filters against OpenCV, SciPy and CuPy, on a picture of 3840 x 2160, and some on 7680 x 4320.

Each row that has a required figure ends with ok or SHORT. The others are compared where they are installed.
"""

import importlib
import sys

import numpy as np
from harness import Harness

import pycudakit as pk

ROWS, COLUMNS = 2160, 3840


def optional(name):
    """Import a module, or return None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def compare(harness, work, ours, others, within, at_least=None):
    """Run a work with an allowed difference from each other library's result, and print its rows.

    SciPy truncates integers that pycudakit rounds, and OpenCV's Gaussian has fewer bits.
    """
    if not harness.wanted(work) or not others:
        return
    harness.step(work)
    pk.set_engine(harness.engine)
    got = ours()
    wrong = [
        name
        for name, other in others.items()
        if np.abs(got.astype(np.float64) - other().astype(np.float64)).max() > within
    ]
    for name in wrong:
        print(f"{work}: {name} differs", file=sys.stderr)
    harness.wrong += len(wrong)
    times = harness.time(ours, others)
    for name in others:
        harness.row(
            *(work, got.size, harness.engine, times["pycudakit"], name, times[name]),
            *((at_least or {}).get(name), not wrong),
        )


def large(harness, rng, weights):
    """Run the works that have figures on a GPU."""
    rows = harness.size(4 * ROWS * COLUMNS) // (2 * COLUMNS)
    image = rng.integers(0, 256, (rows, 2 * COLUMNS), np.uint8)
    wide = image.astype(np.float32)
    cv2, cupy, on_gpu = optional("cv2"), optional("cupy"), optional("cupyx.scipy.ndimage")
    box, window = {}, {}
    if on_gpu is not None:
        box["CuPy"] = lambda: on_gpu.uniform_filter(cupy.asarray(image), 3).get()
        window["CuPy"] = lambda: on_gpu.convolve(cupy.asarray(wide), cupy.asarray(weights)).get()
    if cv2 is not None:
        border = cv2.BORDER_REFLECT
        box["OpenCV"] = lambda: cv2.blur(image, (3, 3), borderType=border)
        turned = weights[::-1, ::-1].copy()
        window["OpenCV"] = lambda: cv2.filter2D(wide, -1, turned, borderType=border)
    kit = pk.image
    compare(harness, "box 3x3 uint8, 8K", lambda: kit.box_blur(image, 3), box, 2, {"CuPy": 2.0})
    compare(
        harness,
        "convolve 15x15 float32, 8K",
        lambda: kit.convolve(wide, weights),
        window,
        0.01,
        {"CuPy": 12.0},
    )


def main():
    harness = Harness(__doc__.splitlines()[0], 16)
    cv2, ndimage = optional("cv2"), optional("scipy.ndimage")
    rng = np.random.default_rng(0)
    rows = harness.size(ROWS * COLUMNS) // COLUMNS
    image = rng.integers(0, 256, (rows, COLUMNS), np.uint8)
    wide = image.astype(np.float32)
    colour = image[:, : COLUMNS // 3 * 3].reshape(rows, -1, 3)
    weights = rng.standard_normal((15, 15)).astype(np.float32)
    weights /= np.abs(weights).sum()

    def pair(by_opencv, by_scipy=None):
        others = {}
        if cv2 is not None:
            others["OpenCV"] = by_opencv
        if ndimage is not None and by_scipy is not None:
            others["SciPy"] = by_scipy
        return others

    border = cv2.BORDER_REFLECT if cv2 is not None else None
    window = np.ones((15, 15), np.uint8)
    kit = pk.image
    works = [
        (
            "box 3x3 uint8",
            lambda: kit.box_blur(image, 3),
            pair(
                lambda: cv2.blur(image, (3, 3), borderType=border), lambda: ndimage.uniform_filter(image, 3)
            ),
            *(2, {"OpenCV": 1.0, "SciPy": 15.0}),
        ),
        (
            "gaussian sigma 2 uint8",
            lambda: kit.gaussian_blur(image, 2),
            pair(lambda: cv2.GaussianBlur(image, (17, 17), 2, borderType=border)),
            *(2, {"OpenCV": 0.7}),
        ),
        (
            "sobel uint8",
            lambda: kit.sobel(image),
            pair(lambda: cv2.Sobel(image, cv2.CV_8U, 1, 0, borderType=border)),
            *(0, {"OpenCV": 0.7}),
        ),
        (
            "convolve 15x15 float32",
            lambda: kit.convolve(wide, weights),
            pair(
                lambda: cv2.filter2D(wide, -1, weights[::-1, ::-1].copy(), borderType=border),
            ),
            *(0.01, {"OpenCV": 1.0}),
        ),
        (
            "box 3x3 uint8, colour",
            lambda: kit.box_blur(colour, 3),
            pair(lambda: cv2.blur(colour, (3, 3), borderType=border)),
            *(0, None),
        ),
        (
            "box 31x31 uint8",
            lambda: kit.box_blur(image, 31),
            pair(lambda: cv2.blur(image, (31, 31), borderType=border)),
            *(1, None),
        ),
        (
            "box 5x5 float32",
            lambda: kit.box_blur(wide, 5),
            pair(lambda: cv2.blur(wide, (5, 5), borderType=border)),
            *(0.01, None),
        ),
        (
            "gaussian sigma 2 float32",
            lambda: kit.gaussian_blur(wide, 2),
            pair(lambda: cv2.GaussianBlur(wide, (17, 17), 2, borderType=border)),
            *(0.01, None),
        ),
        (
            "laplace float32",
            lambda: kit.laplace(wide),
            pair(lambda: cv2.Laplacian(wide, cv2.CV_32F, borderType=border)),
            *(0.01, None),
        ),
        (
            "maximum 15x15 uint8",
            lambda: kit.maximum_filter(image, 15),
            pair(lambda: cv2.dilate(image, window)),
            *(0, None),
        ),
    ]
    for *work, at_least in works:
        compare(harness, *work, at_least if harness.engine == "cpu" else None)
    if harness.engine == "cuda":
        large(harness, rng, weights)
    if cv2 is not None:
        # OpenCV's repeats the border, which the mode "nearest" does.
        for size, figure in ((3, {"OpenCV": 0.7} if harness.engine == "cpu" else None), (5, None)):
            compare(
                harness,
                f"median {size}x{size} uint8",
                lambda size=size: kit.median_filter(image, size, mode="nearest"),
                {"OpenCV": lambda size=size: cv2.medianBlur(image, size)},
                *(0, figure),
            )
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
