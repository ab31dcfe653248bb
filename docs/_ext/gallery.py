"""The numbered examples as pages: source, output and pictures.

`make pictures` runs the examples and keeps in docs/gallery what they print and draw. The build writes one page for each
from that and from the source itself; the pages are not kept.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
EXAMPLES = DOCS.parent / "examples"
KEPT = DOCS / "gallery"


def numbered() -> list[Path]:
    """Return the numbered examples, in order."""
    return sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


def title_of(path: Path) -> str:
    """Return a readable name: 04_limb_and_swivel is "Limb and swivel"."""
    return path.stem[3:].replace("_", " ").capitalize()


def pictures_of(path: Path) -> list[str]:
    """Return the names of the pictures that an example drew: they begin with its number."""
    return sorted(picture.name for picture in KEPT.glob(f"{path.stem[:2]}_*.png"))


def page_of(path: Path) -> str:
    """Return an example's page, as Markdown."""
    source = path.read_text(encoding="utf8")
    says = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    lines = [f"# {path.stem[:2]}  {title_of(path)}", "", says, ""]
    for picture in pictures_of(path):
        lines += [f"![{title_of(path)}]({picture}){{.example}}", ""]
    lines += [f"```{{literalinclude}} ../../examples/{path.name}", ":language: python", "```", ""]
    printed = KEPT / f"{path.stem}.txt"
    if printed.exists():
        lines += ["It prints:", "", f"```{{literalinclude}} {printed.name}", ":language: text", "```", ""]
    lines += [f"    python examples/{path.name}", ""]
    return "\n".join(lines)


def index() -> str:
    """Return the page of all examples: a picture and a name for each."""
    lines = [
        "# Gallery", "",
        "Each example is one file in `examples/`, runs in a few seconds, prints what it found and draws it.", "",
        '<div class="gallery">',
    ]  # fmt: skip
    for path in numbered():
        first = next(iter(pictures_of(path)), None)
        image = f'<img src="../_images/{first}" alt="{title_of(path)}" loading="lazy">' if first else ""
        lines.append(f'<a href="{path.stem}.html">{image}<span>{path.stem[:2]} {title_of(path)}</span></a>')
    lines += ["</div>", "", "```{toctree}", ":hidden:", "", *(path.stem for path in numbered()), "```", ""]
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    """Write a page where it has changed, so that a second build has nothing to do."""
    if not path.exists() or path.read_text(encoding="utf8") != text:
        path.write_text(text, encoding="utf8")


def generate(app: Any) -> None:
    """Write every page, and remove those whose example no longer exists."""
    pages = {f"{path.stem}.md": page_of(path) for path in numbered()} | {"index.md": index()}
    for old in KEPT.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        write(KEPT / name, text)


def setup(app: Any) -> dict[str, Any]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True}
