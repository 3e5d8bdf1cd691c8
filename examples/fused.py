"""A whole function in few passes: distances on the globe, and their plan."""

import time

import numpy as np

import pycudakit as pk

PLACES = 2_000_000


def distances_from(latitude, longitude, home):
    """Return the distances to a place in km, the mean of them, and how many lie within 1000 km."""
    a = np.sin((latitude - home[0]) / 2) ** 2
    b = np.cos(latitude) * np.cos(home[0]) * np.sin((longitude - home[1]) / 2) ** 2
    distances = np.empty_like(a)
    distances[:] = 12742.0 * np.arcsin(np.sqrt(a + b))  # stored, since three results read it
    return distances, distances.mean(), np.count_nonzero(distances < 1000)


fused = pk.fuse(distances_from)  # or @pk.fuse above the function

rng = np.random.default_rng(42)
latitude = np.arcsin(rng.uniform(-1, 1, PLACES))  # as many on each square kilometre
longitude = rng.uniform(-np.pi, np.pi, PLACES)
home = np.radians(52.52), np.radians(13.405)

for name, function in (("NumPy", distances_from), ("fused", fused)):
    function(latitude, longitude, home)  # compiles, and starts the threads
    began = time.perf_counter()
    distances, mean, near = function(latitude, longitude, home)
    seconds = time.perf_counter() - began
    print(f"{name}: {seconds * 1e3:.0f} ms; on average {mean:.1f} km away, {near} places within 1000 km")

print(fused.explain(latitude, longitude, home))
