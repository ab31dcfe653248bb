"""Motion as a subject: what `tracking.py` prints of takes, hidden markers and retargeting."""

from __future__ import annotations

from benchmarks import tracking

SECTIONS = (
    ("take", "A take as a user tracks it"),
    ("hidden", "Hidden markers"),
    ("walk", "A walk, tracked and given to others"),
)


def evidence(page) -> None:
    """Write the page, section by section."""
    page.text(
        "Recordings of HDM05 and CMU, tracked with nothing but their marker file and skeleton file, limits on, on "
        "one core unless it says otherwise."
    )
    for name, title in SECTIONS:
        if page.quick and name != "walk":
            continue
        page.heading(title)
        section = getattr(tracking, name)
        _, printed = page.captured(section, page.data)
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        page.value(name, lines)
        page.text("\n".join(f"- {line}" for line in lines))
