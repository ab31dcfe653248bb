"""Corrupted takes: how far the joints move from the clean result when markers jump, swap, drift, vanish or lie."""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page
from benchmarks.peers.environments import FOLDER, ready
from benchmarks.peers.export import to_urdf
from benchmarks.recordings import read_markers
from posable.formats.conventions import LENGTH_UNITS, turn_up
from posable.mocap.marker_sets import base_name

MM = 1e3
FRAMES = 600  # at most, of each take
TUNED = {"HDM05 dg_06-03_03": "hdm05/HDM_dg_06-03_03_120.c3d"}  # what thresholds were chosen on
HELD_OUT = {
    "CMU 02_01": "cmu/02_01.c3d",
    "HDM05 dg_03-05_02": "hdm05/HDM_dg_03-05_02_120.c3d",
    "CMU 85_12": "cmu/85_12.c3d",
}
ARM = ("SHO", "UPA", "ELB", "FRM", "WRA", "WRB", "FIN")
ARM_JOINTS = ("elbow.R", "wrist.R", "index1.R", "fingers1.R")
EDGE = 12  # frames beside a gap that count with it
PEER_FRAMES = 240  # Momentum tracks so many, the middle ones, of each take
LIMIT = 5.0  # [mm]: for up to 0.5% of spikes and 5% of swaps


@dataclass(frozen=True)
class Case:
    """One way to spoil a take.

    named: a word that must appear in what is said of the result; "" where nothing has to be said. limit [mm]: the
    displacement allowed; None where none is promised. gap, joints: frames and joints compared with interpolation.
    """

    name: str
    markers: ps.Markers
    named: str = ""
    limit: float | None = None
    gap: tuple[int, int] | None = None
    joints: tuple[str, ...] = ()


def with_positions(markers: ps.Markers, positions: np.ndarray) -> ps.Markers:
    """Return the markers at other positions (T, M, 3) [m]."""
    return replace(markers, positions=positions)


def spikes(markers: ps.Markers, share: float, rng: np.random.Generator) -> ps.Markers:
    """Move a share of all samples by 1 m in random directions."""
    places = markers.positions.copy()
    total = places.shape[0] * places.shape[1]
    chosen = rng.choice(total, max(1, round(share * total)), replace=False)
    directions = rng.normal(size=(len(chosen), 3))
    places.reshape(-1, 3)[chosen] += directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return with_positions(markers, places)


def swaps(markers: ps.Markers, share: float, rng: np.random.Generator) -> ps.Markers:
    """Exchange the labels of three pairs, each over its own stretch of the take: near ones, far ones, mirrored ones."""
    places = markers.positions.copy()
    length = max(1, round(share * len(places)))
    for a, b in (("LWRA", "LWRB"), ("LKNE", "RKNE"), ("RELB", "RFRM")):
        start = int(rng.integers(1, max(2, len(places) - length)))
        exchange(markers, places, a, b, slice(start, start + length))
    return with_positions(markers, places)


def exchange(markers: ps.Markers, places: np.ndarray, a: str, b: str, rows: slice = slice(None)) -> None:
    """Exchange two markers in places (T, M, 3), in place."""
    names = [base_name(name) for name in markers.names]
    pair, other = [names.index(a), names.index(b)], [names.index(b), names.index(a)]
    places[rows, pair] = places[rows, other]


def exchanged(markers: ps.Markers, a: str, b: str, share: float) -> ps.Markers:
    """Exchange two labels in a share of the frames, in the middle of the take."""
    places = markers.positions.copy()
    length = round(share * len(places))
    start = (len(places) - length) // 2
    exchange(markers, places, a, b, slice(start, start + length))
    return with_positions(markers, places)


def sides(markers: ps.Markers, only: tuple[str, ...] = ()) -> ps.Markers:
    """Exchange left and right for the whole take, or for markers of some endings alone."""
    places = markers.positions.copy()
    names = [base_name(name) for name in markers.names]
    for name in names:
        if name[0] == "L" and "R" + name[1:] in names and (not only or name[1:] in only):
            exchange(markers, places, name, "R" + name[1:])
    return with_positions(markers, places)


def column(markers: ps.Markers, name: str) -> int:
    """Return the column of a marker by its plain name."""
    return [base_name(other) for other in markers.names].index(name)


def drift(markers: ps.Markers, *names: str, size: float = 0.15) -> ps.Markers:
    """Let markers slide away together by `size` [m] over the middle third of the take, and jump back."""
    places = markers.positions.copy()
    start, end = len(places) // 3, 2 * len(places) // 3
    for name in names:
        places[start:end, column(markers, name), 0] += np.linspace(0.0, size, end - start)
    return with_positions(markers, places)


def bursts(markers: ps.Markers, names: tuple[str, ...], rng: np.random.Generator) -> ps.Markers:
    """Move neighbouring markers by 0.3 m at random for 5 frames, three times."""
    places = markers.positions.copy()
    for part in (1, 2, 3):
        start = part * len(places) // 4
        for name in names:
            places[start : start + 5, column(markers, name)] += rng.normal(0.0, 0.3, (5, 3))
    return with_positions(markers, places)


def cycled(markers: ps.Markers, names: tuple[str, ...], share: float) -> ps.Markers:
    """Give each marker the label of the next in a share of the frames, in the middle of the take."""
    places = markers.positions.copy()
    length = round(share * len(places))
    rows = slice((len(places) - length) // 2, (len(places) + length) // 2)
    columns = [column(markers, name) for name in names]
    places[rows, columns] = places[rows, columns[1:] + columns[:1]]
    return with_positions(markers, places)


def trading(markers: ps.Markers, a: str, b: str) -> ps.Markers:
    """Exchange two labels for 15 of every 40 frames."""
    places = markers.positions.copy()
    for start in range(10, len(places) - 15, 40):
        exchange(markers, places, a, b, slice(start, start + 15))
    return with_positions(markers, places)


def mirrored(markers: ps.Markers, name: str) -> ps.Markers:
    """Put one marker on the other side of the body, mirrored in the middle plane of the pelvis."""
    places = markers.positions.copy()
    left, right, k = (places[:, column(markers, each)] for each in ("LFWT", "RFWT", name))
    across = (left - right) / np.linalg.norm(left - right, axis=-1, keepdims=True)
    beside = ((k - 0.5 * (left + right)) * across).sum(axis=-1, keepdims=True)
    places[:, column(markers, name)] = k - 2.0 * beside * across
    return with_positions(markers, places)


def held(markers: ps.Markers, seconds: float) -> ps.Markers:
    """Repeat one frame for some time in the middle of the take, as a recorder does that lost its cameras."""
    places = markers.positions.copy()
    start = len(places) // 2
    places[start : start + round(seconds * markers.fps)] = places[start - 1]
    return with_positions(markers, places)


def falling(markers: ps.Markers) -> ps.Markers:
    """Let all markers fall by 0.3 m for two frames of every second."""
    places = markers.positions.copy()
    for start in range(round(0.5 * markers.fps), len(places) - 2, round(markers.fps)):
        places[start : start + 2, :, "xyz".index(markers.up or "z")] -= 0.3
    return with_positions(markers, places)


def others(markers: ps.Markers, rng: np.random.Generator) -> Iterator[Case]:
    """Return corruptions that were thought of after the thresholds of the first ones were chosen."""
    hand = ("LWRA", "LWRB", "LFIN")
    yield Case("bursts on LWRA, LWRB and LFIN", bursts(markers, hand, rng), "jump", LIMIT)
    yield Case("LWRA, LWRB, LFIN in a cycle in 5%", cycled(markers, hand, 0.05), "swapped", LIMIT)
    yield Case("LKNE and RKNE trade labels again and again", trading(markers, "LKNE", "RKNE"), "swapped", LIMIT)
    yield Case("LANK mirrored", mirrored(markers, "LANK"), "LANK", LIMIT)
    yield Case("LTHI and LKNE drift 150 mm", drift(markers, "LTHI", "LKNE"))
    yield Case("LFWT and LBWT drift 100 mm", drift(markers, "LFWT", "LBWT", size=0.1), "move apart")
    yield Case("all repeat for 0.1 s", held(markers, 0.1), "repeat", LIMIT)
    yield Case("all fall for 2 frames of every second", falling(markers), "jump", LIMIT)
    yield Case("LFWT never seen", dropout(markers, ("LFWT",), len(markers) / markers.fps, 0), "no sample of LFWT")


def badly_filled(markers: ps.Markers, name: str) -> ps.Markers:
    """Fill 40% of one marker's path by a straight line, as a careless gap fill does."""
    places = markers.positions.copy()
    start, end, k = int(0.3 * len(places)), int(0.7 * len(places)), column(markers, name)
    places[start:end, k] = np.linspace(places[start, k], places[end, k], end - start)
    return with_positions(markers, places)


def dropout(markers: ps.Markers, names: tuple[str, ...] | None, seconds: float, start: int) -> ps.Markers:
    """Take markers away (None: all of them) for some time."""
    places = markers.positions.copy()
    columns = slice(None) if names is None else [column(markers, name) for name in names]
    places[start : start + round(seconds * markers.fps), columns] = np.nan
    return with_positions(markers, places)


def cases(markers: ps.Markers, seed: int = 0) -> Iterator[Case]:
    """Return every way to spoil a take."""
    rng = np.random.default_rng(seed)
    for share in (0.0002, 0.001, 0.005, 0.01):
        limit = LIMIT if share <= 0.005 else None
        yield Case(f"spikes {share:.2%}", spikes(markers, share, rng), "jump", limit)
    for share in (0.01, 0.05, 0.2):
        limit = LIMIT if share <= 0.05 else None
        yield Case(f"swaps {share:.0%}", swaps(markers, share, rng), "swapped", limit)
    yield Case("left and right exchanged", sides(markers), "left and right", LIMIT)
    yield Case("left and right legs exchanged", sides(markers, LEG), "left and right", LIMIT)
    yield Case("RUPA badly filled 40%", badly_filled(markers, "RUPA"), "RUPA")
    yield Case("LKNE drifts 150 mm", drift(markers, "LKNE"), "LKNE")
    for size in (0.002, 0.005, 0.010):
        noisy = markers.positions + rng.normal(0.0, size, markers.positions.shape)
        yield Case(f"noise {MM * size:.0f} mm", with_positions(markers, noisy), "noisy" if size >= 0.005 else "")
    for a, b in (("LTOE", "LMT5"), ("LFHD", "RFHD")):
        for share in (0.05, 0.6, 1.0):
            yield Case(f"{a} and {b} exchanged in {share:.0%}", exchanged(markers, a, b, share), a, LIMIT)
    yield from others(markers, rng)
    yield from dropouts(markers)
    yield from mislabelled(markers)


LEG = ("THI", "KNE", "SHN", "ANK", "HEE", "TOE", "MT5")


def dropouts(markers: ps.Markers) -> Iterator[Case]:
    """Return takes in which a marker, an arm or everything vanishes."""
    arm = tuple("R" + name for name in ARM[1:])
    for seconds in (4 / 120, 0.1, 0.5, 2.0):
        length = round(seconds * markers.fps)
        start = (len(markers) - length) // 2
        if length > 0.6 * len(markers):
            continue
        gap = (start, start + length)
        named = "gap" if seconds >= 0.5 else ""
        for what, names, joints in (("RFRM", ("RFRM",), ARM_JOINTS), ("an arm", arm, ARM_JOINTS), ("all", None, ())):
            gone = dropout(markers, names, seconds, start)
            yield Case(f"{what} gone for {seconds:.3g} s", gone, named if what == "all" else "", None, gap, joints)


def mislabelled(markers: ps.Markers) -> Iterator[Case]:
    """Return takes whose file states a wrong unit or up axis."""
    markers = replace(markers, positions=markers.positions[:120])  # what is said of them needs no more
    for stated, true in (("cm", "in"), ("cm", "mm"), ("m", "cm")):
        factor = LENGTH_UNITS[stated] / LENGTH_UNITS[true]
        wrong = replace(markers, positions=markers.positions * factor, unit=LENGTH_UNITS[stated])
        yield Case(f"{true} stated as {stated}", wrong, f"unit={true!r}")
    yield Case("up wrong", replace(markers, up="y" if markers.up == "z" else "z"), "up=")


# ------------------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Clean:
    """The result without corruption: joints (T, J, 3) [m]."""

    joints: np.ndarray
    names: tuple[str, ...]
    actor: ps.Skeleton


def tracked(markers: ps.Markers, actor: ps.Skeleton | None = None) -> tuple[ps.Skeleton, Any, str]:
    """Return actor (calibrated here unless given), take and everything that was said of them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        actor = actor or ps.calibrate(ps.figures.human(), markers)
        take = ps.track(actor, markers, threads=1)
    words = [str(actor.info["calibration"]), str(take.report), *(str(warning.message) for warning in said)]
    return actor, take, "\n".join(words)


def joints_of(take: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the places (T, J, 3) [m] of all joints, and their names."""
    names = take.motion.skeleton.names
    frames = ps.forward(take.motion.skeleton, take.motion.poses)
    return np.stack([frames.position(name) for name in names], axis=1), tuple(names)


def straight(clean: Clean, gap: tuple[int, int]) -> np.ndarray:
    """Return the clean joints with a gap crossed in straight lines."""
    out = clean.joints.copy()
    start, end = gap
    share = np.linspace(0.0, 1.0, end - start + 2)[1:-1, None, None]
    out[start:end] = (1.0 - share) * out[start - 1] + share * out[end]
    return out


def measure(case: Case, clean: Clean) -> list[Any]:
    """Return the row of a case: displacement, that of interpolation, limit, whether named, verdict."""
    try:
        _, take, words = tracked(case.markers, clean.actor if case.gap is not None else None)
    except ps.PosableError as error:
        return [case.name, None, None, case.limit, "refused" if case.named in str(error) else "NOT NAMED", str(error)]
    joints, _ = joints_of(take)
    rows, line = slice(None), None
    columns = [clean.names.index(name) for name in case.joints] or slice(None)
    if case.gap is not None:
        rows = slice(max(0, case.gap[0] - EDGE), case.gap[1] + EDGE)
        line = straight(clean, case.gap)
        line = MM * float(np.linalg.norm(line - clean.joints, axis=-1)[rows][:, columns].mean())
    off = MM * float(np.linalg.norm(joints - clean.joints[: len(joints)], axis=-1)[rows][:, columns].mean())
    named = "" if not case.named else "named" if case.named in words else "NOT NAMED"
    return [case.name, off, line, case.limit, named, take.report.verdict]


def judged(off: float | None, line: float | None, limit: float | None, reported: str, verdict: str) -> str:
    """Return whether a displacement [mm] is over its bound, and if so, whether that is said.

    The bound is what is allowed, for gaps what straight lines give, and otherwise LIMIT.
    """
    bound = limit if limit is not None else line if line is not None else LIMIT
    if off is not None and off <= bound:
        return ""
    said = reported in ("named", "refused") or verdict.startswith("check this take")
    return "over, named" if said else "over, SILENT"


# ------------------------------------------------------------------------------------------------------- a peer


def beside_momentum(python: Path, markers: ps.Markers, clean: Clean, spoilt: list[Case]) -> dict[str, float]:
    """Return {case: displacement [mm]} of Momentum's tracking from its own clean result, in its own process.

    Its character is the actor of the clean take, with a locator at every marker's site: it has nothing to calibrate.
    """
    names = [base_name(name) for name in markers.names]
    sites = [name for name in names if name in clean.actor.site_names]
    columns, turn = [names.index(site) for site in sites], turn_up(markers.up, clean.actor.up)
    start = max(0, (len(markers) - PEER_FRAMES) // 2)
    rows = slice(start, start + PEER_FRAMES)
    links = {f"m_{site}": site for site in sites}
    links |= {f"j_{k}": joint for k, joint in enumerate(clean.names)}
    takes: dict[str, Any] = {
        f"take_{k}": places[rows][:, columns] if turn is None else places[rows][:, columns] @ turn.T
        for k, places in enumerate([markers.positions, *(case.markers.positions for case in spoilt)])
    }
    with tempfile.TemporaryDirectory() as folder:
        task, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
        inputs: dict[str, Any] = {
            "urdf": to_urdf(clean.actor, links, free_root=True)[0],
            "markers": [f"m_{site}" for site in sites],
            "joints": [f"j_{k}" for k in range(len(clean.names))],
        }
        np.savez(task, **inputs, **takes)
        worker = Path(__file__).parent / "peers" / "momentum_tracking.py"
        subprocess.run([str(python), str(worker), str(task), str(answer)], check=True, capture_output=True, cwd=folder)
        found = dict(np.load(answer))
    out = {}
    for k, case in enumerate(spoilt, start=1):
        off = np.linalg.norm(found[f"take_{k}"] - found["take_0"], axis=-1)
        part = slice(None)
        if case.gap is not None:
            part = slice(max(0, case.gap[0] - EDGE - start), case.gap[1] + EDGE - start)
        joints = [clean.names.index(name) for name in case.joints] or slice(None)
        out[case.name] = MM * float(off[part][:, joints].mean())
    return out


def compared(case: Case) -> bool:
    """Return whether Momentum is given a case: spikes, swaps, and gaps that are within the frames it tracks."""
    if case.gap is not None:
        return case.gap[1] - case.gap[0] <= PEER_FRAMES // 2 and not case.name.startswith("RFRM")
    return case.name.startswith(("spikes", "swaps"))


def missing_rate(markers: ps.Markers) -> list[Any]:
    """Return the row of a C3D file whose rate is 0 wherever it is stated: it is refused, with what to do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "take.c3d"
        ps.save(path, markers)
        data = bytearray(path.read_bytes())
        data[20:24] = bytes(4)  # of the header
        at = data.find(b"RATE")
        while at >= 0:  # name, offset of the next (2), type, dimensions, value
            data[at + 8 : at + 12] = bytes(4)
            at = data.find(b"RATE", at + 1)
        path.write_bytes(data)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                ps.load(path)
            words = "\n".join(str(warning.message) for warning in said)
        except ps.PosableError as error:
            words = str(error)
    words = words.replace(str(path), path.name)
    return ["rate missing", None, None, None, "refused" if "fps=" in words else "NOT NAMED", words]


def load(path: Path) -> ps.Markers:
    """Return the first frames of a take."""
    markers = read_markers(path)
    return replace(markers, positions=markers.positions[:FRAMES])


def table(path: Path, python: Path | None = None) -> tuple[int, list[list[Any]]]:
    """Return the number of frames of a take, and the rows of all its cases; python: of Momentum's environment."""
    markers = load(path)
    actor, take, _ = tracked(markers)
    clean = Clean(*joints_of(take), actor)
    every = list(cases(markers))
    rows = [*(measure(case, clean) for case in every), missing_rate(markers)]
    theirs: dict[str, float] = {}
    if python is not None:
        theirs = beside_momentum(python, markers, clean, [case for case in every if compared(case)])
    return len(markers), [[*row[:3], theirs.get(row[0]), *row[3:5], judged(*row[1:]), row[5]] for row in rows]


def momentum() -> tuple[Path | None, str]:
    """Return the interpreter of Momentum's environment, or None and why there is none."""
    try:
        FOLDER.mkdir(exist_ok=True)
        return ready("momentum"), ""
    except RuntimeError as error:
        return None, str(error)


def evidence(page: Page) -> None:
    """Write the page: a table for each take."""
    assert page.data is not None  # it is among this subject's needs
    page.text(
        "Each take is calibrated and tracked with the human figure, first as it is, then corrupted. *Displacement*: "
        "mean distance of all joints in all frames from the clean result; for gaps, of the joints concerned in the gap "
        f"and {EDGE} frames on either side, tracked with the clean actor, beside straight lines across the gap. "
        f"*Over the bound*: above what is allowed, in gaps above straight lines, elsewhere above {LIMIT:g} mm; such a "
        "take must be questioned by the verdict, or its fault listed among the repairs. "
        f"Most thresholds were chosen on {', '.join(TUNED)} alone. Those for markers that slide or stray, frozen "
        "frames and functional hips were chosen with every take in view, so these rows are no held-out test of them."
    )
    python, why = momentum()
    page.text(
        f"*Momentum*: `pymomentum.marker_tracking.process_markers` (pymomentum-cpu, its defaults) on the middle "
        f"{PEER_FRAMES} frames, in the same run; displacement from its own clean result, measured likewise. It is "
        "given the actor of the clean take, and does not have to calibrate on what is corrupted, as Posable does."
        if python is not None
        else f"Momentum is not beside it: {why}."
    )
    files = {name: page.data / file for name, file in (TUNED if page.quick else {**TUNED, **HELD_OUT}).items()}
    with ProcessPoolExecutor(len(files), mp_context=get_context("spawn")) as takes:
        tables = dict(zip(files, takes.map(table, files.values(), [python] * len(files)), strict=True))
    for name, (frames, rows) in tables.items():
        page.heading(f"{name}{' (tuned on)' if name in TUNED else ''}")
        page.table(
            f"{name}: {frames} frames",
            [
                "corruption",
                "displacement [mm]",
                "straight line [mm]",
                "Momentum [mm]",
                "allowed [mm]",
                "reported",
                "over the bound",
                "verdict",
            ],
            rows,
        )
        page.value(name, {row[0]: row[1] for row in rows})
    over = [f"{name}, {row[0]}" for name, (_, rows) in tables.items() for row in rows if row[6]]
    silent = [f"{name}, {row[0]}" for name, (_, rows) in tables.items() for row in rows if row[6].endswith("SILENT")]
    which = f": {'; '.join(silent)}" if silent else ""
    page.text(f"Over the bound: {len(over)} cases; {len(silent)} of them are not named{which}.")
    page.value("silent", silent)
