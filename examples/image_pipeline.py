"""A contact sheet of a picture: as it is, grey, blurred, its edges, equalised.

    python examples/image_pipeline.py [PICTURE] [SHEET.png]

Pillow reads the picture; without one, or without Pillow, a small one is made.
"""

import struct
import sys
import zlib
from pathlib import Path

import numpy as np

import pycudakit as pk

try:
    from PIL import Image
except ImportError:
    Image = None

WIDTH = 320  # of each picture on the sheet


def made_up():
    """Return a ball above a chequered floor."""
    y, x = np.mgrid[0:240, 0:320].astype(np.float32)
    picture = np.stack([90 + y / 4, 120 + y / 4, 200 - y / 4], axis=-1)
    tiles = (x * 40 / (y - 120.5) // 8 + 4000 / np.abs(y - 120.5) // 8) % 2
    floor = (y > 150)[..., np.newaxis]
    picture = np.where(floor, 60 + 90 * tiles[..., np.newaxis], picture)
    across, down = (x - 160) / 70, (y - 110) / 70
    height = np.sqrt(np.clip(1 - across**2 - down**2, 0, None))
    light = np.clip(0.6 * height - 0.5 * across - 0.6 * down, 0, 1)[..., np.newaxis]
    ball = (across**2 + down**2 < 1)[..., np.newaxis]
    return np.where(ball, light * [240, 90, 60] + 15, picture).clip(0, 255).astype(np.uint8)


def write_png(path, picture):
    """Write a picture of uint8 in colour, with the standard library alone."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width, _ = picture.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter, 0: none
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes())), chunk(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


arguments = sys.argv[1:]
if arguments and Image is None:
    sys.exit("reading a picture needs Pillow: pip install pillow")
picture = np.asarray(Image.open(arguments[0]).convert("RGB")) if arguments else made_up()
sheet = arguments[1] if len(arguments) > 1 else "contact_sheet.png"

height = max(1, WIDTH * picture.shape[0] // picture.shape[1])
steps = []


def step(name, image):
    """Keep a picture for the sheet, and tell which engine made it."""
    print(f"{name:10} {pk.last_call().engine}")
    steps.append(image if image.ndim == 3 else pk.image.gray_to_rgb(image))
    return image


small = step("picture", pk.image.resize(picture, (height, WIDTH), "area"))
grey = step("grey", pk.image.rgb_to_gray(small))
step("blur", pk.image.gaussian_blur(small, 3))
step("Sobel", pk.image.sobel(grey, axis=None))
step("equalised", pk.image.equalize_histogram(grey))

border = np.full((height, 8, 3), 255, np.uint8)
write_png(sheet, np.hstack([part for image in steps for part in (image, border)][:-1]))
print(sheet)
