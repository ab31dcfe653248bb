"""Check that a tag names the version of the package: python scripts/version.py v0.2.0"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """Return the version that the package states."""
    text = (ROOT / "src" / "posable" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/posable/__init__.py states no __version__")
    return found[1]


if __name__ == "__main__":
    if sys.argv[1:] != [f"v{version()}"]:
        raise SystemExit(f"expected the tag v{version()}, got {' '.join(sys.argv[1:]) or 'none'}")
