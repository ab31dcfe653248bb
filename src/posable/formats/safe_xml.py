"""Safe XML parsing: elements with their byte offsets. No DOCTYPE, no entities, nothing outside the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

import numpy as np

from posable.formats.source import Source, shown


@dataclass
class Element:
    """An element: its tag, attributes, children, and the byte where it starts."""

    tag: str
    attributes: dict[str, str]
    place: int
    children: list[Element] = field(default_factory=list)

    def first(self, tag: str) -> Element | None:
        """Return the first child of a tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Return the children of a tag."""
        return [child for child in self.children if child.tag == tag]


class _Refused(Exception):
    pass


def parse(source: Source) -> Element:
    """Return the root element of an XML file."""
    lead = len(source.data) - len(source.data.lstrip(b" \t\r\n"))
    data = source.data
    if lead and data[lead : lead + 5] == b"<?xml":  # other parsers accept a blank line before it
        stop = data.find(b"?>", lead) + 2
        data = b" " * stop + data[stop:] if stop > 1 else data
        source.note("blanks before the XML declaration were skipped")
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentByteIndex)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def refuse(*_: object) -> int:
        raise _Refused

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = parser.UnparsedEntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except _Refused:
        place = max(parser.CurrentByteIndex, 0)
        raise source.error(
            "refused for safety", offset=place, expected="XML without DOCTYPE", found="a DOCTYPE or an entity"
        ) from None
    except (expat.ExpatError, ValueError, LookupError) as problem:
        place = min(max(parser.ErrorByteIndex, 0), len(source.data))
        reason = expat.ErrorString(parser.ErrorCode) if parser.ErrorCode else str(problem)
        raise source.error(offset=place, expected="well-formed XML", found=f"{reason}") from None
    if not roots:
        raise source.error(offset=0, expected="an XML element", found="none")
    return roots[0]


def numbers(
    source: Source, element: Element | None, name: str, default: list[float], *, infinite: bool = False
) -> np.ndarray:
    """Return the numbers of an attribute, as many as in `default`, or the default if it is missing."""
    text = element.attributes.get(name) if element is not None else None
    if element is None or text is None:
        return np.array(default)
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    fine = not np.isnan(values).any() and (infinite or bool((np.abs(values) < 1e100).all()))
    if len(values) != len(default) or not fine:
        what = "a number" if len(default) == 1 else f"{len(default)} numbers"
        raise source.error(
            offset=element.place, expected=f'{what} in {name}="..." of <{element.tag}>', found=shown(text)
        )
    return values


def number(source: Source, element: Element | None, name: str, default: float, *, infinite: bool = False) -> float:
    """Return the number of an attribute, or the default."""
    return float(numbers(source, element, name, [default], infinite=infinite)[0])


def text(source: Source, element: Element, name: str) -> str:
    """Return a required attribute."""
    value = element.attributes.get(name, "").strip()
    if not value:
        raise source.error(offset=element.place, expected=f'{name}="..." of <{element.tag}>', found="none")
    return value
