"""The command line, ``pycudakit`` or ``python -m pycudakit``: parses arguments and runs a command."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

import pycudakit
from pycudakit import errors
from pycudakit._cli import bench, demo, info, selftest, trace, tune, wrap


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pycudakit",
        description="NumPy arrays in, NumPy arrays out, computed on a GPU or, without one, the CPU.",
    )
    parser.add_argument("--version", action="version", version=f"pycudakit {pycudakit.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")

    information = command("info", "engines, devices and their links, libraries and versions on this machine")
    information.add_argument("--json", action="store_true", help="as JSON")
    command("demo", "calls that pay, each result checked against NumPy and timed beside it")
    benchmark = command("bench", "a table of times, all engines present against NumPy")
    benchmark.add_argument("--quick", action="store_true", help="up to a million elements, fewer rounds")
    for form in ("json", "html", "markdown"):
        benchmark.add_argument(f"--{form}", metavar="FILE", help=f"write the run as {form}, too")
    benchmark.add_argument("--against", metavar="FILE", help="compare with a run that --json wrote")
    benchmark.add_argument("--only", default="", metavar="NAME", help="functions with this in their names")
    tuning = command(
        "tune", "measure, in a minute, the constants by which `auto` decides on this machine, and save them"
    )
    tuning.add_argument("--force", action="store_true", help="also where other programs use the processors")
    tuning.add_argument("--reset", action="store_true", help="restore the package's default constants")
    tracing = command("trace", "run a script, and report where the time of its calls went")
    tracing.add_argument("-o", "--output", help="also write a trace, for https://ui.perfetto.dev")
    tracing.add_argument("script", help="a Python script")
    words = tracing.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    words.required = False  # the error about a missing script names it alone
    programs = command("pycuda", "run a program that was written for PyCUDA, with pycudakit in its place")
    programs.add_argument("--engine", choices=("auto", "cpu", "cuda"), help="the engine; by default auto")
    programs.add_argument("--debug", action="store_true", help="check the accesses of kernels")
    programs.add_argument("-m", dest="module", metavar="MODULE", help="run a module")
    programs.add_argument("-c", dest="code", metavar="TEXT", help="run a program that is given here")
    programs.add_argument("script", nargs="?", help="a Python script; its arguments follow")
    wrapping = command("wrap", 'write a package of the `extern "C"` functions of a .cu file')
    wrapping.add_argument("file", metavar="FILE.cu", help="the source")
    wrapping.add_argument("--name", required=True, help="the package's name")
    wrapping.add_argument("--to", metavar="FOLDER", help="its folder; by default one of its name")
    for option, text in (("out", "writes, and which may be left out"), ("inout", "reads and writes")):
        wrapping.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="F:P[n]",
            help=f"a pointer with n elements that a function {text}",
        )
    wrapping.add_argument(
        "--returns-status",
        action="append",
        default=[],
        metavar="F",
        help="a function whose result is a status",
    )
    wrapping.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    wrapping.add_argument("--check", action="store_true", help="compare with the folder, and write nothing")
    command("selftest", "functions of every family, on every engine and dtype, against NumPy")
    return parser


def _run(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    if arguments.command == "info":
        for line in [info.as_json()] if arguments.json else info.lines():
            _say(line)
        return 0
    if arguments.command == "bench":
        files = (arguments.json, arguments.html, arguments.markdown, arguments.against)
        return bench.run(_say, arguments.quick, arguments.only, bench.Outputs(*files))
    if arguments.command == "trace":
        return trace.run(_say, arguments.script, arguments.arguments, arguments.output)
    if arguments.command == "pycuda":
        from pycudakit._cli import pycuda_program  # noqa: PLC0415  (no other command needs it)

        program = arguments.script, arguments.module, arguments.code
        return pycuda_program.run(*program, rest, arguments.engine, arguments.debug)
    if arguments.command == "wrap":
        options = wrap.Options(
            name=arguments.name,
            to=arguments.to,
            out=arguments.out,
            inout=arguments.inout,
            statuses=arguments.returns_status,
            force=arguments.force,
            check=arguments.check,
        )
        return wrap.run(_say, arguments.file, options)
    if arguments.command == "tune":
        return tune.run(_say, reset=arguments.reset, force=arguments.force)
    return demo.run(_say) if arguments.command == "demo" else selftest.run(_say)


def _split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words after `pycuda` behind the program: a script, or the value of -m or -c."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 2 if word in ("--engine", "-m", "-c") else 1
        if word in ("-m", "-c", "-") or not word.startswith("-"):
            break
    return list(words[:at]), list(words[at:])


def _say(line: str) -> None:
    print(line, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status: 0; 1 if a check failed or nothing could run; 2 for a wrong call.

    Parameters
    ----------
    argv
        The arguments; by default those of the process.

    Examples
    --------
    >>> from pycudakit.__main__ import main
    >>> main(["info"])  # doctest: +ELLIPSIS
    pycudakit ...
    0
    """
    parser = _parser()
    own = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] = []
    if own[:1] == ["pycuda"]:  # the arguments after the program are the program's
        head, rest = _split_program(own[1:])
        own = ["pycuda", *head]
    arguments = parser.parse_args(own)
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        if arguments.command in ("trace", "pycuda"):
            return _run(arguments, rest)
        with warnings.catch_warnings():  # the commands report a missing engine themselves
            warnings.filterwarnings("ignore", "the .* engine is missing", RuntimeWarning)
            return _run(arguments, rest)
    except errors.Error as error:
        print(f"pycudakit: {error}", file=sys.stderr)
        return 2 if isinstance(error, errors.InvalidArgument) else 1
    except FileNotFoundError as error:  # of the call
        print(f"pycudakit: there is no file {error.filename}" if error.filename else error, file=sys.stderr)
        return 2
    except OSError as error:  # writing to stdout or a file failed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # `pycudakit info | head`
            return 0
        print(f"pycudakit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
