"""Build hook: the README as PyPI shows it, where links into the repository need an address."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES, FILES = (
    "https://github.com/posable/posable/blob/main/",
    "https://raw.githubusercontent.com/posable/posable/main/",
)


def with_addresses(text: str) -> str:
    """Return Markdown with the relative targets of its pictures and links completed."""
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:)", rf"\1{FILES}", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+:|#)", rf"\1{PAGES}", text)


class ReadmeHook(MetadataHookInterface):
    """Gives the package its long description."""

    def update(self, metadata: dict) -> None:
        """Add the README to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_addresses(text)}
