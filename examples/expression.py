"""A whole expression in one pass: the Mandelbrot set, an iteration at a time."""

import numpy as np

import pycudakit as pk

WIDTH, HEIGHT, STEPS = 64, 24, 50

x = np.linspace(-2.2, 0.8, WIDTH, dtype=np.float32)  # a row
y = np.linspace(-1.2, 1.2, HEIGHT, dtype=np.float32)[:, None]  # a column: the two broadcast together
re, im = np.zeros((2, HEIGHT, WIDTH), np.float32)
count = np.zeros((HEIGHT, WIDTH), np.int32)

for _ in range(STEPS):
    inside = pk.evaluate("re*re + im*im < 4")
    re, im = (
        pk.evaluate("where(inside, re*re - im*im + x, re)"),
        pk.evaluate("where(inside, 2*re*im + y, im)"),
    )
    pk.evaluate("count + inside", out=count)

shades = np.array(list(" .:-=+*#%@"))
for row in shades[pk.evaluate("astype(count * 9 // STEPS, int64)")]:
    print("".join(row).rstrip())
