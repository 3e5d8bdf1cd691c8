"""A Tsetlin machine, trained by its own kernels, learns XOR from labels of which four in ten are wrong.

    python examples/tsetlin.py [ACCURACY.png]

Twelve bits, and the label is the XOR of the first two. A clause is an AND of some bits and their opposites,
which an automaton each takes in or leaves out; clauses vote, half of them for and half against (Granmo,
2018). One block trains: a thread is a clause, and all meet at a barrier to count the votes. Only integers are
used, so each engine learns the same clauses. The picture needs matplotlib.
"""

import sys
import time

import numpy as np

import pycudakit as pk
from pycudakit import In, InOut, Out

BITS, CLAUSES, VOTES, NOISE = 12, 20, 15, 0.4

module = pk.SourceModule(r"""
#define BITS 12
#define CLAUSES 20
#define VOTES 15
#define MIDDLE 100  // from here on, an automaton takes its literal in

__device__ unsigned draw(unsigned *seed) {  // a PCG; 24 bits
    *seed = *seed * 747796405u + 2891336453u;
    const unsigned word = ((*seed >> ((*seed >> 28) + 4)) ^ *seed) * 277803737u;
    return ((word >> 22) ^ word) >> 8;
}

// A literal is a bit, or, from BITS on, the opposite of one.
__device__ bool literal(const unsigned char *x, int k) { return k < BITS ? x[k] : !x[k - BITS]; }

__device__ bool holds(const unsigned char *own, const unsigned char *x, bool of_nothing) {
    bool any = false;
    for (int k = 0; k < 2 * BITS; ++k)
        if (own[k] >= MIDDLE) {
            if (!literal(x, k)) return false;
            any = true;
        }
    return any || of_nothing;
}

__global__ void train(unsigned char *states, unsigned *seeds, const unsigned char *x, const unsigned char *y,
                      int n) {
    __shared__ int votes[CLAUSES];
    const int clause = threadIdx.x;
    unsigned char *own = states + clause * 2 * BITS;
    unsigned seed = seeds[clause];
    const unsigned seldom = (1 << 24) * 10 / 39;  // 1 / 3.9
    const bool is_for = clause % 2 == 0;
    for (int i = 0; i < n; ++i) {
        const unsigned char *bits = x + i * BITS;
        const bool true_here = holds(own, bits, true);
        votes[clause] = true_here ? (is_for ? 1 : -1) : 0;
        __syncthreads();
        int sum = 0;
        for (int c = 0; c < CLAUSES; ++c) sum += votes[c];
        __syncthreads();
        sum = sum > VOTES ? VOTES : sum < -VOTES ? -VOTES : sum;
        const unsigned missing = y[i] ? VOTES - sum : VOTES + sum;
        if (draw(&seed) >= (1u << 24) / (2 * VOTES) * missing) continue;
        if (is_for == (y[i] != 0)) {  // to be true for more such examples
            for (int k = 0; k < 2 * BITS; ++k) {
                const bool rare = draw(&seed) < seldom;
                if (true_here && literal(bits, k)) own[k] += !rare && own[k] < 2 * MIDDLE - 1;
                else own[k] -= rare && own[k] > 0;
            }
        } else if (true_here) {  // to be false for such ones
            for (int k = 0; k < 2 * BITS; ++k) own[k] += !literal(bits, k) && own[k] < MIDDLE;
        }
    }
    seeds[clause] = seed;
}

__global__ void classify(const unsigned char *states, const unsigned char *x, unsigned char *guess, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int sum = 0;
    for (int c = 0; c < CLAUSES; ++c)
        if (holds(states + c * 2 * BITS, x + i * BITS, false)) sum += c % 2 == 0 ? 1 : -1;
    guess[i] = sum >= 0;
}
""")
train, classify = module.get_function("train"), module.get_function("classify")


def examples(count, noise, rng):
    """Return bits, and labels of which such a part is wrong."""
    x = rng.integers(2, size=(count, BITS), dtype=np.uint8)
    return x, (x[:, 0] ^ x[:, 1] ^ (rng.random(count) < noise)).astype(np.uint8)


def run(count=5000, epochs=40):
    """Return the accuracy on clean labels before and after each epoch, and the automata."""
    rng = np.random.default_rng(1)
    x, y = examples(count, NOISE, rng)
    clean, truth = examples(5000, 0, rng)
    states = rng.integers(99, 101, size=(CLAUSES, 2 * BITS), dtype=np.uint8)
    seeds = rng.integers(2**32, size=CLAUSES, dtype=np.uint32)
    guess, accuracy = np.empty(len(clean), np.uint8), []
    for epoch in range(epochs + 1):
        if epoch:
            train(InOut(states), InOut(seeds), In(x), In(y), count, block=(CLAUSES, 1, 1), grid=(1, 1))
        classify.launch(len(clean), In(states), In(clean), Out(guess), len(clean))
        accuracy.append(float((guess == truth).mean()))
    return accuracy, states


def clause(states):
    """Return a clause in words."""
    taken = [f"{'not ' if k >= BITS else ''}x{k % BITS}" for k in np.flatnonzero(states >= 100)]
    return " and ".join(taken) or "nothing"


def draw(result, path):
    """Draw the accuracy, and which literals each clause has taken in."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    accuracy, states = result
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
    left.plot(accuracy, "o-", markersize=3)
    left.axhline(1 - NOISE, color="grey", linestyle=":")
    left.set(xlabel="epoch", title="accuracy (dotted: of the labels it learns from)", ylim=(0.4, 1.03))
    right.imshow(states, cmap="RdBu_r", vmin=0, vmax=199, aspect="auto")
    right.set(xlabel="literal: a bit, or from 12 on its opposite", ylabel="clause", title="red: taken in")
    right.set_yticks(range(0, CLAUSES, 4))
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    began = time.perf_counter()
    result = run()
    accuracy, states = result
    seconds = time.perf_counter() - began
    print(f"accuracy {accuracy[0]:.3f} at first, {accuracy[-1]:.3f} at last, in {seconds:.1f} s")
    print("for:", clause(states[0]), "| against:", clause(states[1]))
    if len(sys.argv) > 1:
        draw(result, sys.argv[1])
