"""Solvers, simulations and recurrences of many small steps, by NumPy and by `pk.fuse` on each engine.

Most iterate until a number that they compute is small. They are the programs of solver_programs.py.
"""

import sys

import numpy as np
import racing
from solver_programs import SOLVERS


def main():
    options = racing.parser(__file__, __doc__.partition("\n\n")[0]).parse_args()
    tasks = {body.__name__: (body, arguments) for body, arguments in SOLVERS.items()}
    names = racing.wanted(tasks, options)
    races = racing.Races(options, len(names))
    for name in names:
        function, arguments = tasks[name]
        races.step(name)
        arrays = [place for place, value in enumerate(arguments) if isinstance(value, np.ndarray)]
        races.run(racing.Task(name, function, arguments, tuple(arrays), within=1e-8, numba=True))
    races.close()
    return races.finish()


if __name__ == "__main__":
    sys.exit(main())
