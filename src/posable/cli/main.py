"""`posable VERB ...`: the entry point of the command line. An error is printed as one line and sets the exit code.

A verb is a module of this package, named in `VERBS`, with

- a docstring: "`usage`: what it does.", then what else `--help` says;
- `EXAMPLE`, a command line that works, shown by `posable --help`;
- `add(parser)`, which adds its arguments to the parser named like the module, with hyphens;
- `run(args)`, which does the work and returns `REACHED` or `NOT_REACHED`.
"""

import argparse
import io
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import posable as ps

VERBS: tuple[str, ...] = (
    "studio",
    "solve",
    "explain",
    "follow",
    "control",
    "keyframes",
    "reach",
    "calibrate",
    "track",
    "retarget",
    "smooth",
    "convert",
    "render",
    "info",
    "bench",
    "warm-up",
)

REACHED, NOT_REACHED, WRONG_CALL = 0, 1, 2
INTERRUPTED = 130  # what shells report for a program that Control-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, that of the process by default, and return its exit code: 0, 1, 2, or 130 after Control-C."""
    argv = list(sys.argv[1:] if argv is None else argv)
    warnings.showwarning = _warn
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, io.StringIO())
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # characters that the terminal lacks are shown as codes
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]  # of a text file
    try:
        if not argv:
            _parsers(VERBS)[0].print_help(sys.stderr)
            return WRONG_CALL
        parser, of_verbs = _parsers(_verbs_needed(argv[0]))
        args, unknown = parser.parse_known_args(argv)
        if unknown:
            of_verbs[argv[0]].refuse(unknown[0])
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit would fail as well
        return NOT_REACHED
    except KeyboardInterrupt:
        print("posable: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ps.PosableError, ps.CompilingForbidden, OSError, MemoryError) as error:
        print(f"posable: {_one_line(error)}", file=sys.stderr)
        return WRONG_CALL


def _warn(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Print a warning of Posable as one line; warnings of libraries are hidden."""
    if issubclass(category, ps.PosableWarning):
        print(f"warning: {message}", file=sys.stderr)


def _verbs_needed(word: str) -> tuple[str, ...]:
    """Return the verbs to import for a command line that starts with `word`: one, or all for `--help`."""
    if word.startswith("-"):
        return VERBS
    if word not in VERBS:
        raise ps.errors.unknown("verb", word, VERBS)
    return (word,)


class Parser(argparse.ArgumentParser):
    """A parser that reports a wrong call in one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with a command line, and end with exit code 2."""
        for pattern, words in PHRASES:
            message = re.sub(pattern, words, message)
        self.exit(WRONG_CALL, f"{self.prog}: {message}; see {self.prog} --help\n")

    def refuse(self, word: str) -> NoReturn:
        """Report a word that is no argument, with the flag that it resembles."""
        if not word.startswith("-"):
            self.error(f"unexpected argument {word!r}")
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        self.error(str(ps.errors.unknown("argument", word.partition("=")[0], flags)))


PHRASES = (  # what argparse says, and how it is said here
    (r"argument (\S+): invalid int value: ", r"\1: expected an integer, got "),
    (r"argument (\S+): invalid float value: ", r"\1: expected a number, got "),
    (r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)", r"\1: expected one of \3, got \2"),
    (r"argument (\S+): expected one argument", r"\1: expected a value"),
    (r"the following arguments are required: ", "expected "),
    (r"^argument ", ""),
)


def _parsers(verbs: Sequence[str]) -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of command lines, and those of the verbs by name."""
    parser = Parser(
        prog="posable",
        description="Inverse kinematics: state goals for a figure, get a pose that meets them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"posable {ps.__version__}")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    examples, of_verbs = [], {}
    for verb in verbs:
        module = import_module(f"posable.cli.{verb.replace('-', '_')}")
        head, _, more = (module.__doc__ or "").partition("\n")
        what = head.partition("`: ")[2]
        text = " ".join([what[:1].upper() + what[1:], *more.split()])
        of_verbs[verb] = subparsers.add_parser(
            verb, help=what.rstrip("."), description=textwrap.fill(text, 78),
            epilog=f"example:\n  {module.EXAMPLE}", formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        module.add(of_verbs[verb])
        of_verbs[verb].add_argument("--json", action="store_true", help="print the result as JSON")
        of_verbs[verb].set_defaults(run=module.run)
        examples.append(f"  {module.EXAMPLE}")
    exit_codes = "exit codes: 0 reached, 1 not reached, 2 wrong call or bad file"
    parser.epilog = "\n".join((["examples:", *examples, ""] if examples else []) + [exit_codes])
    return parser, of_verbs


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".rstrip(": ")
    head, *rest = str(error).splitlines() or [type(error).__name__]
    line = " ".join([head, "; ".join(line.strip(" -") for line in rest)]).strip()
    return "".join(c if c.isprintable() else " " for c in line)  # names in files may contain terminal escape codes


if __name__ == "__main__":
    sys.exit(main())
