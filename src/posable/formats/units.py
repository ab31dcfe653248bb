"""Units of length: what files call them, and how many metres they are."""

from __future__ import annotations

from posable.formats.source import Source

CENTIMETRES = 0.01
INCH = 0.0254
LENGTH_UNITS = {"mm": 1e-3, "cm": 1e-2, "dm": 1e-1, "m": 1.0, "in": INCH, "ft": 0.3048, "um": 1e-6, "km": 1e3}
_SPELLINGS = {"millimeters": "mm", "millimetres": "mm", "centimeters": "cm", "centimetres": "cm", "meters": "m",
              "metres": "m", "meter": "m", "metre": "m", "inches": "in", "inch": "in", "feet": "ft"}  # fmt: skip


def length_unit(source: Source, text: str, *, default: str = "mm") -> float:
    """Return the metres per unit that `text` ("mm", "Meters", ...) names; warn and take `default` if it names none."""
    name = text.strip().lower().rstrip(".")
    name = _SPELLINGS.get(name, name)
    if name not in LENGTH_UNITS:
        source.warn(f"length unit {text.strip()!r} is not known: {default} was taken")
        name = default
    return LENGTH_UNITS[name]
