"""The time until the first result of a sum of two tensors, in PyTorch's ways and in pycudakit's.

Each way runs in its own process, twice: with an empty disk cache, and with the cache of the first run.
Times are from the source to the result, without importing the libraries.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pycudakit as pk

try:
    import torch
    from torch.utils import cpp_extension
except ImportError:
    sys.exit("This needs PyTorch: pip install torch")

BINDING = """
torch::Tensor sum(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.sizes() == b.sizes() && a.dtype() == b.dtype());
    auto out = torch::empty_like(a);
    const int64_t n = a.numel();
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "sum", [&] {
        auto x = a.data_ptr<scalar_t>(), y = b.data_ptr<scalar_t>(), z = out.data_ptr<scalar_t>();
        %s
    });
    return out;
}
"""
LOOP = "for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];"
KERNEL = """
template <typename T> __global__ void add(const T *a, const T *b, T *out, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
LAUNCH = "add<<<(n + 255) / 256, 256>>>(x, y, z, n);"


def by_load_inline(a, b):
    if a.is_cuda:
        declared = "torch::Tensor sum(torch::Tensor a, torch::Tensor b);"
        made = cpp_extension.load_inline("own_sum", declared, KERNEL + BINDING % LAUNCH, functions="sum")
    else:
        made = cpp_extension.load_inline("own_sum", BINDING % LOOP, functions="sum", extra_cflags=["-O2"])
    return made.sum(a, b)


def by_torch_compile(a, b):
    return torch.compile(lambda a, b: a + b)(a, b)


def by_kernel(a, b):
    module = pk.SourceModule("#include <stdint.h>\n" + KERNEL, no_extern_c=True)
    out = a.cpu().clone()
    add = module.get_function("add<float>")
    add.launch(a.numel(), a.cpu().numpy(), b.cpu().numpy(), pk.Out(out.numpy()), a.numel())
    return out


def by_evaluate(a, b):
    out = a.clone()
    where = {"a": a, "b": b} if a.is_cuda else {"a": a.numpy(), "b": b.numpy()}
    pk.evaluate("a + b", where, out=out if a.is_cuda else out.numpy())
    return out


WAYS = {
    "torch.utils.cpp_extension.load_inline": by_load_inline,
    "torch.compile": by_torch_compile,
    "pk.SourceModule": by_kernel,
    "pk.evaluate": by_evaluate,
}


def processor_time():
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(name, device):
    """Print the wall-clock seconds and the processor seconds of one way."""
    pk.set_engine(device)
    a = torch.ones(1000, device=device)
    began, used = time.perf_counter(), processor_time()
    if WAYS[name](a, a)[-1] != 2:
        raise SystemExit(f"{name} is wrong")
    print(time.perf_counter() - began, processor_time() - used)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the tensors are")
    parser.add_argument("--only", default="", help="ways whose names have this in them")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        return measure(asked.measure, asked.device)
    print(f"{'':38}{'first':>10}{'processor':>11}{'again':>10}{'processor':>11}")
    for name in (name for name in WAYS if asked.only in name):
        with tempfile.TemporaryDirectory() as folder:
            kept = ("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "PYCUDAKIT_CACHE_DIR")
            environment = {**os.environ, **{name: str(Path(folder, name)) for name in kept}}
            command = [sys.executable, __file__, "--measure", name, "--device", asked.device]
            line = f"{name:38}"
            for width in (10, 10):
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    line += f"  none: {(done.stderr.strip().splitlines() or ['ended'])[-1]}"
                    break
                seconds, used = map(float, done.stdout.split()[-2:])
                line += f"{seconds:{width - 2}.2f} s{used:9.2f} s"
        print(line)
    return None


if __name__ == "__main__":
    main()
