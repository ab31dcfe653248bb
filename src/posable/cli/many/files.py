"""Which files are meant, and where each one's result goes."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import posable as ps


def expand(words: Sequence[str]) -> list[str]:
    """Return the files that the words name, in their order, each once; patterns that no shell has expanded are."""
    found: dict[Path, str] = {}
    for word in words:
        names = [word]
        if glob.has_magic(word) and not Path(word).exists():
            names = sorted(name for name in glob.glob(word, recursive=True) if Path(name).is_file())
            if not names:
                raise ps.PosableError(f"{word}: expected a pattern that some file matches, found none")
        for name in names:
            found.setdefault(Path(name).resolve(), name)
    return list(found.values())


def is_folder(out: str | None) -> bool:
    """Return whether an output names a folder: one that is there, or one that ends with a slash."""
    return bool(out) and (Path(out).is_dir() or out.endswith(("/", os.sep)))


def results(sources: Sequence[Path], folder: Path, suffix: str) -> list[Path]:
    """Return where each result goes: under `folder` as the source lies under what all sources have in common.

    Two sources that differ only in their suffix keep it in their names, with an underscore. No result may take the
    place of a source.
    """
    common = os.path.commonpath([source.parent for source in sources])
    stems = [source.relative_to(common).with_name(source.stem) for source in sources]
    often = Counter(stems)
    names = [
        stem if often[stem] == 1 else stem.with_name(f"{stem.name}_{source.suffix.lstrip('.')}")
        for stem, source in zip(stems, sources, strict=True)
    ]
    places = [folder / name.with_name(f"{name.name}{suffix}") for name in names]
    for place, times in Counter(places).items():
        if times > 1:
            raise ps.PosableError(f"{place}: expected one result to be written there, got {times}; rename a file")
    taken = set(places) & set(sources)
    if taken:
        raise ps.PosableError(f"{min(taken)}: the result would replace its own file; choose another folder with -o")
    return places
