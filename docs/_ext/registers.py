"""Directives that generate tables from the package, so that they are always up to date.

```{solver} newton          every option of a solver with its default
```{goal} Position          the same for a goal
```{solver-table}           all solvers, from the registry
```{goal-table}             all goals
```{dependencies} core      requirements in pyproject.toml: core, or one of its extras
```{help} solve             the output of `posable solve --help`
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import posable as ps
from posable.cli.main import VERBS, main

ROOT = Path(__file__).parents[2]
COMMON = {  # parameters that are the same everywhere
    "body": "A site or a joint.",
    "point": "(3,) [m]: the point of the body, in its frame; its origin by default.",
}
NOT_GOALS = {"Goal", "Spring", "Box", "Capsule", "Hull", "Mesh", "PointCloud", "Sphere", "Wall"}


def goal_names() -> list[str]:
    """Return the names of the goals, as posable.goals has them."""
    every = [getattr(ps.goals, name) for name in ps.goals.__all__]
    return [c.__name__ for c in every if inspect.isclass(c) and c.__name__ not in NOT_GOALS]


def page_of_goal(name: str) -> str:
    """Return the name of a goal's page: HalfSpace is goals/half-space."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def arguments(text: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring: what is outside its sections, and what `Args:` says of each parameter."""
    outside, said, section, name = [], {}, "", ""
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Attributes|Returns|Raises):", line):
            section = line
        elif line and not line.startswith(" "):
            section = ""
        if not section:
            outside.append(line)
        elif section in ("Args:", "Attributes:"):
            entry = re.fullmatch(r"    (\*{0,2}\w+): (.*)", line)
            if entry:
                name, said[entry[1]] = entry[1], entry[2]
            elif line.strip() and name and line.startswith("     "):
                said[name] += " " + line.strip()
            else:
                name = ""
    return "\n".join(outside), said


def sentences_on(text: str, names: list[str]) -> tuple[str, dict[str, str], dict[str, str]]:
    """Split a docstring: what it says at large, what it says of each option, and sentences that only mention one.

    Sentences on an option begin with its name: "damping: of the first step.", "target (..., 3) [m] in the world." They
    end where the next one begins, or with the paragraph; indented paragraphs are examples.
    """
    paragraphs = [p for p in re.split(r"\n\s*\n", text) if not p.startswith(" ")]
    text = " ¶ ".join(" ".join(p.split()) for p in paragraphs)
    one = "|".join(sorted(names, key=len, reverse=True))
    shape = r"(?: \([^)]*\))?(?: \[[^\]]*\])?"
    head = re.compile(rf"(?:^|(?<=[.;)¶] ))((?:{one}){shape}(?:(?:, | and )(?:{one}){shape})*)(?=[ :.;])(:?) ?")
    found = [match for match in head.finditer(text) if match[2] or re.search(r"[\])]$", match[1])]
    said: dict[str, str] = {}
    for match, after in zip(found, [*(match.start() for match in found[1:]), len(text)], strict=False):
        shapes = " ".join(dict.fromkeys(re.findall(r"\([^)]*\)|\[[^\]]*\]", match[1])))
        rest = text[match.end() : after].partition("¶")[0].strip(" ;")
        rest = f"{shapes}{':' if shapes and match[2] else ''} {rest}".strip()
        for name in re.findall(rf"\b(?:{one})\b", re.sub(r"\([^)]*\)|\[[^\]]*\]", "", match[1])):
            said.setdefault(name, re.sub(r" ([.;])", r"\1", rest))
    plain = text.replace("¶ ", "")
    parts = re.split(r"(?<=[.;]) ", plain)
    passing = {name: part.strip(" ;") for name in names for part in parts[::-1] if re.search(rf"\b{name}\b", part)}
    return plain[: found[0].start()].strip() if found else plain, said, passing


def spelt(value: Any) -> str:
    """Return a default as one would write it."""
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    if isinstance(value, tuple):
        return f"({', '.join(spelt(item) for item in value)})"
    return repr(value)


def ancestors_text(cls: type) -> list[str]:
    """Return the docstrings of a class and its parents, its own first."""
    return [inspect.cleandoc(c.__doc__) for c in cls.__mro__ if c.__doc__ and c.__module__.startswith("posable")]


def said_of_all(cls: type, names: list[str]) -> dict[str, str]:
    """Return what a class and its parents say of each option: of it, or where they mention it."""
    said: dict[str, str] = {}
    mentioned: dict[str, str] = {}
    for text in ancestors_text(cls):
        outside, given = arguments(text)
        _, more, passing = sentences_on(outside, names)
        said, mentioned = {**more, **given, **said}, {**passing, **mentioned}
    common = {name: COMMON[name] for name in names if name in COMMON}
    return {name: capital(text) for name, text in {**mentioned, **common, **said}.items()}


def capital(text: str) -> str:
    """Return a sentence with a capital at its start, unless it starts with a name."""
    first = text.partition(" ")[0]
    return text if "_" in first or "(" in first else text[:1].upper() + text[1:]


def parameters(cls: type) -> list[inspect.Parameter]:
    """Return the parameters of a goal; those that it hands on to its parent are the parent's own."""
    own = list(inspect.signature(cls).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in own):
        rest = [p for p in inspect.signature(cls.__mro__[1]).parameters.values() if p.kind is p.KEYWORD_ONLY]
        own = [p for p in own if p.kind is not p.VAR_KEYWORD] + rest
    return list({p.name: p for p in own}.values())


class Generated(SphinxDirective):
    """A directive whose content is Markdown made by `lines`."""

    has_content = False
    required_arguments = 0
    optional_arguments = 1
    final_argument_whitespace = True

    def lines(self) -> list[str]:
        """Return Markdown."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Parse it as part of the page."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)

    @property
    def argument(self) -> str:
        """The argument of the directive."""
        return self.arguments[0] if self.arguments else ""


def code(text: str) -> str:
    """Return text as inline code of Markdown."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return a docstring's sentence as Markdown: no markup except code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<>|$\[\]\\])", r"\\\1", p) for p in parts)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table of Markdown."""
    return ["", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)), ""]


class SolverDirective(Generated):
    """The options of a solver."""

    def lines(self) -> list[str]:
        """Return the options with defaults and meaning."""
        cls = ps.solvers.get(self.argument)
        fields = dataclasses.fields(cls)
        said = said_of_all(cls, [field.name for field in fields])
        rows = [[code(f.name), code(spelt(f.default)), prose(said.get(f.name, ""))] for f in fields]
        call = f'ps.solve(figure, goals, solver="{self.argument}")'
        example = next((f for f in fields if f.name not in ("alpha", "beta")), fields[0])
        made = f'ps.solvers.get("{self.argument}")({example.name}={spelt(example.default)})'
        own = f"ps.solve(figure, goals, solver={made})"
        return [
            "```python", call, own, "```", "",
            *table(["option", "default", "meaning"], rows),
            f"Default of `max_iterations`: {cls.iterations}. "
            f"Code: `{cls.__module__.replace('.', '/')}.py`.",
        ]  # fmt: skip


class GoalDirective(Generated):
    """A goal's parameters."""

    def lines(self) -> list[str]:
        """Return the parameters with defaults and meaning."""
        cls = getattr(ps.goals, self.argument)
        params = parameters(cls)
        said = said_of_all(cls, [p.name for p in params])
        rows = [
            [code(p.name), "required" if p.default is p.empty else code(spelt(p.default)), prose(said.get(p.name, ""))]
            for p in params
        ]
        return table(["parameter", "default", "meaning"], rows)


class SolverTable(Generated):
    """All solvers of the registry."""

    def lines(self) -> list[str]:
        """Return a table with a link to each page."""
        rows = [[f"[{code(name)}]({name}.md)", prose(ps.solvers.get(name).summary)] for name in ps.solvers.names()]
        return table(["name", "method"], rows)


class GoalTable(Generated):
    """All goals."""

    def lines(self) -> list[str]:
        """Return a table with a link to each page."""
        rows = []
        for name in goal_names():
            first = inspect.cleandoc(getattr(ps.goals, name).__doc__ or "").splitlines()[0]
            rows.append([f"[{code(name)}]({page_of_goal(name)}.md)", prose(re.split(r"[:.]( |$)", first)[0])])
        return table(["goal", "purpose"], rows)


class Present(Generated):
    """A hidden table of contents of those pages that exist: results are written by benchmarks, and may not be there."""

    has_content = True

    def lines(self) -> list[str]:
        """Return a table of contents; the argument is its caption."""
        self.env.note_reread()  # pages come without a change to the one that lists them
        names = [name for name in self.content if (ROOT / "docs" / f"{name}.md").exists()]
        return ["```{toctree}", f":caption: {self.argument}", ":hidden:", "", *names, "```"]


class Dependencies(Generated):
    """The requirements of pyproject.toml, verbatim."""

    def lines(self) -> list[str]:
        """Return a list of requirements."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
        extras = project["optional-dependencies"]
        wanted = project["dependencies"] if self.argument == "core" else extras[self.argument]
        return [" ".join(code(requirement) for requirement in wanted)]


class Help(Generated):
    """What a verb's --help prints."""

    def run(self) -> list[nodes.Node]:
        """Run the command line in this process and show what it prints."""
        text = help_of(self.argument)
        block = nodes.literal_block(text, text)
        block["language"] = "text"
        return [block]


def help_of(verb: str) -> str:
    """Return what `posable VERB --help` prints, at a width of 96 characters."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS="96", NO_COLOR="1")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([verb, "--help"] if verb else ["--help"])
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    return printed.getvalue().rstrip()


class Verbs(Generated):
    """Every verb: its example and its help."""

    names: ClassVar[tuple[str, ...]] = VERBS

    def run(self) -> list[nodes.Node]:
        """Return one section for each verb."""
        from importlib import import_module

        out: list[nodes.Node] = []
        for verb in self.names:
            section = nodes.section(ids=[f"posable-{verb}"])
            section += nodes.title("", "", nodes.literal("", f"posable {verb}"))
            example = f"$ {import_module('posable.cli.' + verb.replace('-', '_')).EXAMPLE}"
            for text, language in ((example, "console"), (help_of(verb).partition("\n\nexample:")[0], "text")):
                block = nodes.literal_block(text, text)
                block["language"] = language
                section += block
            out.append(section)
        return out


DIRECTIVES = {
    "solver": SolverDirective, "goal": GoalDirective, "solver-table": SolverTable, "goal-table": GoalTable,
    "present": Present, "dependencies": Dependencies, "help": Help, "verbs": Verbs,
}  # fmt: skip


def list_results(app: Any, name: str, source: list[str]) -> None:
    """Give the page of results, which a benchmark writes, the table of contents that the sidebar needs."""
    if name == "results/index" and "{toctree}" not in source[0]:
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def setup(app: Any) -> dict[str, Any]:
    """Add the directives."""
    for name, directive in DIRECTIVES.items():
        app.add_directive(name, directive)
    app.connect("source-read", list_results)
    return {"parallel_read_safe": True}
