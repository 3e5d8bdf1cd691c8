"""The game of life: 1,104 steps of the R-pentomino in one call.

    python examples/game_of_life.py [LIFE.gif]

Five cells grow for 1,103 steps, and leave 116: blocks, blinkers, boats, and six gliders that fly away. The
board goes to the GPU once, comes back once, and in between two buffers take turns. With a name, and Pillow,
all of that is drawn as an animation, whose frames come back in one call, too.
"""

import sys
import time

import numpy as np

import pycudakit as pk

SIZE, STEPS = 640, 1104  # of a board that no glider has crossed by then

module = pk.SourceModule(r"""
__global__ void step(const unsigned char *cells, unsigned char *next, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;
    const int left = x == 0 ? size - 1 : x - 1, right = x == size - 1 ? 0 : x + 1;
    const unsigned char *here = cells + y * size;
    const unsigned char *up = cells + (y == 0 ? size - 1 : y - 1) * size;
    const unsigned char *down = cells + (y == size - 1 ? 0 : y + 1) * size;
    const int neighbours = up[left] + up[x] + up[right] + here[left] + here[right]
                         + down[left] + down[x] + down[right];
    next[y * size + x] = neighbours == 3 || (neighbours == 2 && here[x]);
}

__global__ void look(const unsigned char *cells, unsigned char *frame, int size, int part) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int first = (size - part) / 2;
    if (x < part && y < part) frame[y * part + x] = cells[(first + y) * size + first + x];
}
""")
step, look = module.get_function("step"), module.get_function("look")


def threads_for(size):
    """Return a thread for each cell."""
    return {"block": (32, 8, 1), "grid": (-(-size // 32), -(-size // 8))}


def r_pentomino():
    board = np.zeros((SIZE, SIZE), np.uint8)
    middle = SIZE // 2
    board[middle - 1 : middle + 2, middle - 1 : middle + 2] = [[0, 1, 1], [1, 1, 0], [0, 1, 0]]
    return board


def drawn(cells):
    """Return two rows of cells as a line of text, without the empty cells around them."""
    inside = [np.flatnonzero(cells.any(axis)) for axis in (1, 0)]
    cells = cells[inside[0][0] : inside[0][-1] + 1, inside[1][0] : inside[1][-1] + 1]
    if len(cells) % 2:
        cells = np.vstack([cells, np.zeros_like(cells[:1])])
    return "\n".join(
        "".join(" ▀▄█"[a + 2 * b] for a, b in zip(*rows, strict=True)).rstrip()
        for rows in cells.reshape(-1, 2, cells.shape[1])
    )


def life(steps):
    """Return a program of so many steps, in which two buffers take turns."""
    p = pk.Program("life")
    u, v = p.inout("u", (SIZE, SIZE), np.uint8), p.temp("v", (SIZE, SIZE), np.uint8)
    with p.repeat(steps // 2):
        p.launch(step, u, v, SIZE, **threads_for(SIZE))
        p.launch(step, v, u, SIZE, **threads_for(SIZE))
    return p


def by_numpy(board, steps):
    """Return the board after so many steps of NumPy's."""
    for _ in range(steps):
        rows = np.roll(board, 1, 0) + board + np.roll(board, -1, 0)
        neighbours = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - board
        board = ((neighbours == 3) | ((neighbours == 2) & (board == 1))).astype(np.uint8)
    return board


life(2)(u=r_pentomino())  # wakes the threads
began = time.perf_counter()
board = life(STEPS)(u=r_pentomino())["u"]
seconds = time.perf_counter() - began
call = pk.last_call()
began = time.perf_counter()
is_the_same = np.array_equal(by_numpy(r_pentomino(), STEPS), board)
numpy_seconds = time.perf_counter() - began

middle = slice(SIZE // 2 - 50, SIZE // 2 + 50)
sys.stdout.reconfigure(encoding="utf-8")
print(drawn(board[middle, middle]))
print(f"{STEPS} steps of {SIZE} x {SIZE} cells in {seconds * 1e3:.1f} ms, on the engine {call.engine};")
print(
    f"in {numpy_seconds * 1e3:.1f} ms by NumPy, {'with the same board' if is_the_same else 'which differs'}"
)
print(f"{board.sum()} cells, where 116 are known to be left")


def animate(path, image, every=4, part=200):
    """Write the middle of the board, at every fourth step."""
    count = STEPS // every
    film = pk.Program("film")
    u, v = film.input("u", (SIZE, SIZE), np.uint8), film.temp("v", (SIZE, SIZE), np.uint8)
    frames = film.output("frames", (count, part, part), np.uint8)
    for frame in frames:
        film.launch(look, u, frame, SIZE, part, **threads_for(part))
        with film.repeat(every // 2):
            film.launch(step, u, v, SIZE, **threads_for(SIZE))
            film.launch(step, v, u, SIZE, **threads_for(SIZE))
    pictures = [
        image.fromarray(255 * frame.repeat(3, 0).repeat(3, 1)) for frame in film(u=r_pentomino())["frames"]
    ]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=40, loop=0)
    print(path)


if len(sys.argv) > 1:
    try:
        from PIL import Image
    except ImportError:
        sys.exit("an animation needs Pillow: pip install pillow")
    animate(sys.argv[1], Image)
