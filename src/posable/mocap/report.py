"""Self-contained HTML reports: what was tracked, retargeted or smoothed, and what to check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from posable._files import write_text
from posable.engine.joints import SLIDE
from posable.errors import PosableError
from posable.mocap.foot_contacts import find_contacts
from posable.mocap.gaps import frame_errors
from posable.mocap.marker_sets import listed
from posable.mocap.unwrap import continuous
from posable.model.joint_values import joint_transform
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

# --- Small drawings as SVG text ---

BLUE, RED, GREY, GREEN = "#2b6cb0", "#c53030", "#a0aec0", "#2f855a"
MOST_POINTS = 1500  # of a curve: more than a screen has


def _svg(width: float, height: float, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif" font-size="11">{body}</svg>'
    )


def _ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return round numbers between two."""
    span = max(high - low, 1e-12)
    step = 10.0 ** np.floor(np.log10(span / count))
    step *= next(k for k in (1, 2, 5, 10) if span / (k * step) <= count + 1)
    return [float(x) for x in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]


def curves(
    lines: Mapping[str, tuple[np.ndarray, str]],
    *,
    seconds: float,
    unit: str,
    marks: Sequence[tuple[float, float, str]] = (),
) -> str:
    """Return curves over time: lines {name: (values (T,), colour)}; marks (from, to [s], colour) shade."""
    width, height, left, bottom = 900.0, 220.0, 50.0, 24.0
    high = max((float(np.nanmax(values)) for values, _ in lines.values() if np.isfinite(values).any()), default=1.0)
    high = high * 1.05 or 1.0

    def x(share: float) -> float:
        return left + share * (width - left - 10.0)

    def y(value: float) -> float:
        return height - bottom - value / high * (height - bottom - 16.0)

    body = []
    for start, end, colour in marks:
        wide = max(1.0, x(end / max(seconds, 1e-9)) - x(start / max(seconds, 1e-9)))
        at = x(start / max(seconds, 1e-9))
        body.append(
            f'<rect x="{at:.1f}" y="10" width="{wide:.1f}" height="{height - bottom - 10:.1f}" '
            f'fill="{colour}" opacity="0.25"/>'
        )
    for tick in _ticks(0.0, high):
        body.append(f'<line x1="{left}" x2="{width - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e2e8f0"/>')
        body.append(f'<text x="{left - 4}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in _ticks(0.0, max(seconds, 1e-9), 8):
        body.append(
            f'<text x="{x(tick / max(seconds, 1e-9)):.1f}" y="{height - 6}" text-anchor="middle">{tick:g} s</text>'
        )
    for k, (name, (values, colour)) in enumerate(lines.items()):
        picked, step = _thin(values)
        points = " ".join(
            f"{x(i * step / max(len(values) - 1, 1)):.1f},{y(float(v)):.1f}"
            for i, v in enumerate(picked)
            if np.isfinite(v)
        )
        body.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
        body.append(f'<text x="{left + 8 + 160 * k}" y="12" fill="{colour}">{escape(name)} [{escape(unit)}]</text>')
    return _svg(width, height, "".join(body))


def _thin(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a curve with few enough points, each the largest of its stretch: no peak is lost."""
    step = max(1, -(-len(values) // MOST_POINTS))
    if step == 1:
        return values, 1
    padded = np.concatenate([values, np.full(-len(values) % step, np.nan)]).reshape(-1, step)
    filled = np.where(np.isfinite(padded), padded, -np.inf).max(axis=1)
    return np.where(np.isfinite(filled), filled, np.nan), step


def bars(values: Mapping[str, float], *, unit: str) -> str:
    """Return horizontal bars, the longest first."""
    rows = sorted(values.items(), key=lambda item: -np.nan_to_num(item[1]))
    high = max((value for _, value in rows if np.isfinite(value)), default=1.0) or 1.0
    body = []
    for k, (name, value) in enumerate(rows):
        y = 14 * k + 12
        body.append(f'<text x="96" y="{y}" text-anchor="end">{escape(name)}</text>')
        body.append(
            f'<rect x="100" y="{y - 9}" width="{max(0.0, np.nan_to_num(value) / high * 440):.1f}" '
            f'height="10" fill="{BLUE}"/>'
        )
        body.append(
            f'<text x="{104 + np.nan_to_num(value) / high * 440:.1f}" y="{y}">{value:.1f} {escape(unit)}</text>'
        )
    return _svg(640, 14 * len(rows) + 8, "".join(body))


def figure_picture(
    skeleton: Skeleton, pose: np.ndarray, targets: np.ndarray | None = None, sites: Sequence[str] = ()
) -> str:
    """Return a stick figure from the front and from the side, with lines from sites to targets (M, 3) [m]."""
    frames = forward(skeleton, pose)
    up = skeleton.up_axis
    across = (1, 0) if up == 2 else (0, 2)
    joints = {joint.name: frames.position(joint.name) for joint in skeleton.joints}
    ends = [(frames.position(site.name), joints[site.joint]) for site in skeleton.sites if site.name.endswith(".end")]
    cloud = np.array(list(joints.values()))
    if targets is not None and np.isfinite(targets).any():
        cloud = np.vstack([cloud, targets[np.isfinite(targets).all(axis=-1)]])
    middle, size = 0.5 * (cloud.max(axis=0) + cloud.min(axis=0)), float(np.ptp(cloud, axis=0).max()) or 1.0
    body = []
    for view, axis in enumerate(across):

        def at(point: np.ndarray, view: int = view, axis: int = axis) -> tuple[float, float]:
            return (
                150.0 + 300.0 * view + 260.0 * (point[axis] - middle[axis]) / size,
                150.0 - 260.0 * (point[up] - middle[up]) / size,
            )

        bones = [(joints[joint.name], joints[joint.parent]) for joint in skeleton.joints if joint.parent is not None]
        for a, b in [*bones, *ends]:
            (x1, y1), (x2, y2) = at(a), at(b)
            body.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{BLUE}" stroke-width="2"/>'
            )
        for site, target in zip(sites, targets if targets is not None else (), strict=False):
            if np.isfinite(target).all():
                (x1, y1), (x2, y2) = at(frames.position(site)), at(target)
                body.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{RED}"/>')
                body.append(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="2" fill="{RED}"/>')
    return _svg(600, 300, "".join(body))


# --- An HTML player for takes ---

PLAYER_FPS = 30.0  # largest frame rate of the player
PLAYER_FRAMES = 1800  # largest number of frames: of a longer take, every k-th is shown

_PLAYER_SCRIPT = """
(function () {
  const data = %s, canvas = document.getElementById('take'), pen = canvas.getContext('2d');
  const slider = document.getElementById('take-frame'), button = document.getElementById('take-play');
  const label = document.getElementById('take-label');
  let turn = 0.6, tilt = 0.25, zoom = 1, playing = false, frame = 0, last = 0;
  const height = canvas.height, width = canvas.width, size = data.size;
  slider.max = data.joints.length - 1;
  function project(p, c, aside) {
    const x = p[0] - c[0], y = p[1] - c[1], z = p[2] - c[2];
    const a = Math.cos(turn) * x + Math.sin(turn) * y, d = -Math.sin(turn) * x + Math.cos(turn) * y;
    const s = zoom * 0.8 * height / size;
    return [width / 2 + (aside || 0) + s * a, height * 0.88 - s * (Math.cos(tilt) * z + Math.sin(tilt) * d)];
  }
  function line(a, b, colour, wide) {
    pen.strokeStyle = colour; pen.lineWidth = wide; pen.beginPath(); pen.moveTo(a[0], a[1]); pen.lineTo(b[0], b[1]);
    pen.stroke();
  }
  function body(joints, bones, colour, aside) {
    let low = 0, high = 0;
    for (const j of joints) { low = Math.min(low, j[2]); high = Math.max(high, j[2]); }
    const c = [joints[0][0], joints[0][1], Math.max(low, high - size)], step = 500, n = data.beside ? 2 : 4;
    const gx = Math.round(c[0] / step) * step, gy = Math.round(c[1] / step) * step;
    function grid(x, y, u, v) {
      line(project([gx + x * step, gy + y * step, 0], c, aside), project([gx + u * step, gy + v * step, 0], c, aside),
        '#e2e8f0', 1);
    }
    for (let k = -n; k <= n; k++) { grid(k, -n, k, n); grid(-n, k, n, k); }
    for (const [a, b] of bones) line(project(joints[a], c, aside), project(joints[b], c, aside), colour, 3);
    return c;
  }
  function draw() {
    pen.clearRect(0, 0, width, height);
    const aside = data.beside ? width / 4 : 0;
    if (data.beside) body(data.beside.joints[frame], data.beside.bones, '#718096', -aside);
    const c = body(data.joints[frame], data.bones, '#2b6cb0', aside);
    pen.fillStyle = '#c53030';
    for (const m of data.markers[frame]) {
      if (m) { const q = project(m, c, aside); pen.fillRect(q[0] - 2, q[1] - 2, 4, 4); }
    }
    const at = frame * data.step;
    const marked = data.spans.some(function (s) { return s[0] <= at && at < s[1]; });
    label.textContent = 'frame ' + at + ', ' + (at / data.fps).toFixed(2) + ' s' + (marked ? ' - look at this' : '');
    label.style.color = marked ? '#c53030' : '#4a5568';
    slider.value = frame;
  }
  function run(now) {
    if (!playing) return;
    if (now - last > 1000 * data.step / data.fps) { last = now; frame = (frame + 1) %% data.joints.length; draw(); }
    requestAnimationFrame(run);
  }
  button.onclick = function () {
    playing = !playing; button.textContent = playing ? 'Pause' : 'Play';
    if (playing) requestAnimationFrame(run);
  };
  slider.oninput = function () { frame = +slider.value; draw(); };
  canvas.onpointermove = function (e) {
    if (e.buttons) { turn += e.movementX / 150; tilt = Math.max(0, Math.min(1.5, tilt + e.movementY / 200)); draw(); }
  };
  canvas.onwheel = function (e) { e.preventDefault(); zoom *= e.deltaY > 0 ? 0.9 : 1.1; draw(); };
  document.querySelectorAll('[data-frame]').forEach(function (a) {
    a.onclick = function (e) { e.preventDefault(); frame = Math.floor(+a.dataset.frame / data.step); draw(); };
  });
  draw();
})();
"""


def player(
    motion: Motion,
    read: Callable[[int, int], np.ndarray] | None,
    spans: Sequence[tuple[int, int]],
    beside: tuple[Motion, float] | None = None,
) -> str:
    """Return an HTML player: skeleton, markers and floor on a canvas, with the frames to check marked.

    Args:
        motion: the tracked motion.
        read: read(start, end) gives the markers of some frames, (end - start, M, 3) [m], in the figure's axes, NaN
            where unseen; None: there are none.
        spans: (first frame, end) of what to look at.
        beside: A motion with as many frames that plays on the left, and the scale at which it is drawn.
    """
    if not len(motion):
        return "<p>none</p>"
    step = max(1, round(motion.fps / PLAYER_FPS), -(-len(motion) // PLAYER_FRAMES))
    rows = np.arange(0, len(motion), step)
    points, bones = _stick_figure(motion, rows)
    shown = np.concatenate([read(int(row), int(row) + 1) for row in rows]) if read else np.zeros((len(rows), 0, 3))
    shown = _upright(shown, motion.skeleton)
    tall = float(np.quantile(np.ptp(points[..., 2], axis=1), 0.9)) * 1000.0
    data: dict[str, object] = {
        "joints": np.round(points * 1000.0).astype(int).tolist(),
        "markers": [[_point(p) for p in row] for row in shown],
        "bones": bones, "step": int(step), "fps": motion.fps, "size": max(tall, 1.0) * 1.15, "spans": list(spans),
    }  # fmt: skip
    if beside is not None:
        other, scale = beside
        places, pairs = _stick_figure(other, np.minimum(rows, len(other) - 1))
        data["beside"] = {"joints": np.round(scale * places * 1000.0).astype(int).tolist(), "bones": pairs}
    legend = "Red: markers. " if shown.size else ""
    links = " ".join(f'<a href="#" data-frame="{a}">{a}-{b - 1}</a>' for a, b in spans[:50])
    return (
        '<canvas id="take" width="900" height="460" style="border:1px solid #e2e8f0;touch-action:none"></canvas>'
        '<p><button id="take-play">Play</button> <input id="take-frame" type="range" min="0" value="0" '
        'style="width:640px"> <span id="take-label"></span></p>'
        f"<p>Drag to turn, scroll to zoom. {legend}{f'Frames to look at: {links}' if links else ''}</p>"
        f"<script>{_PLAYER_SCRIPT % json.dumps(data, separators=(',', ':'))}</script>"
    )


def _upright(places: np.ndarray, skeleton: Skeleton) -> np.ndarray:
    """Return places (..., 3) in the axes of the page, which has z up."""
    return places if skeleton.up_axis == 2 else np.stack([places[..., 0], -places[..., 2], places[..., 1]], axis=-1)


def _stick_figure(motion: Motion, rows: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return places (k, P, 3) [m] of joints and ends in some frames, z up, and the bones between them."""
    skeleton, frames = motion.skeleton, forward(motion.skeleton, motion.poses[rows])
    names = [joint.name for joint in skeleton.joints]
    ends = [(site.name, site.joint) for site in skeleton.sites if site.name.endswith(".end")]
    points = np.stack([frames.position(name) for name in (*names, *(name for name, _ in ends))], axis=1)
    index = {name: k for k, name in enumerate(names)}
    bones = [(index[j.name], index[j.parent]) for j in skeleton.joints if j.parent is not None]
    bones += [(len(names) + k, index[joint]) for k, (_, joint) in enumerate(ends)]
    parents = {joint.parent for joint in skeleton.joints}
    for shape in skeleton.shapes:  # hands and feet of robots, which have no joint at their end
        if shape.joint not in parents and shape.normal is None and len(shape.points):
            tip = shape.points[int(np.linalg.norm(shape.points, axis=1).argmax())]
            place = frames.position(shape.joint) + frames.rotation_matrix(shape.joint) @ tip
            bones.append((points.shape[1], index[shape.joint]))
            points = np.concatenate([points, place[:, None]], axis=1)
    return _upright(points, skeleton), bones


def _point(place: np.ndarray) -> list[int] | None:
    return [round(1000.0 * float(x)) for x in place] if np.isfinite(place).all() else None


# --- Reports as one HTML file that needs no other ---

PART = 1 << 14  # frames worked on at a time
STYLE = """
body { font: 14px/1.5 sans-serif; color: #1a202c; max-width: 960px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: .5em 0 }
td, th { padding: .15em .8em .15em 0; text-align: left; vertical-align: top }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 1.6em; border-bottom: 1px solid #e2e8f0 }
figure { display: inline-block; margin: .5em 1em .5em 0 } figcaption { color: #4a5568 }
"""


def page(title: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return an HTML page of (heading, HTML) sections."""
    body = "".join(f"<h2>{escape(heading)}</h2>{content}" for heading, content in sections)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return an HTML table, or that there is nothing in it."""
    rows = list(rows)
    if head and not rows:
        return "<p>none</p>"
    top = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>" if head else ""
    lines = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{top}{''.join(lines)}</table>"


def write(path: str | PathLike[str], text: str) -> None:
    """Write a page; a file system error is raised as a PosableError."""
    try:
        write_text(path, text)
    except OSError as error:
        raise PosableError(f"report: {path} cannot be written: {error}") from error


def millimetres(values: np.ndarray) -> str:
    """Return mean, median, 95% and largest of lengths [m] in words."""
    good = values[np.isfinite(values)]
    if not good.size:
        return "none"
    return (
        f"mean {good.mean() * 1e3:.2f} mm, median {np.median(good) * 1e3:.2f}, "
        f"95% {np.quantile(good, 0.95) * 1e3:.2f}, worst {good.max() * 1e3:.1f}"
    )


def accelerations(motion: Motion) -> np.ndarray:
    """Return the mean absolute acceleration of the degrees of freedom (T,) [rad/s^2, m/s^2]; zero at both ends."""
    out = np.zeros(len(motion))
    if len(motion) > 2 and motion.skeleton.size:
        poses = continuous(motion.skeleton, motion.poses)
        for start in range(0, len(poses) - 2, PART):  # avoids a copy of the differences of a long take
            bends = np.diff(poses[start : start + PART + 2], n=2, axis=0)
            out[start + 1 : start + 1 + len(bends)] = np.abs(bends).mean(axis=1) * motion.fps**2
    return out


def changes(before: Motion, after: Motion) -> np.ndarray:
    """Return how far each joint was turned [rad], and each that slides moved [m], in each frame (T, k).

    Whole turns, and other values of the same rotation, do not count.
    """
    out = []
    for joint, where in zip(before.skeleton.joints, before.skeleton.slices, strict=True):
        slides = [dof.kind == SLIDE for dof in joint.motion.dofs]
        if not slides:
            continue
        (p, r), (q, s) = (joint_transform(joint.motion, motion.poses[:, where]) for motion in (before, after))
        if any(slides):
            out.append(np.linalg.norm(q - p, axis=-1))
        if not all(slides):
            out.append((r.inv() * s).magnitude())
    return np.stack(out, axis=1) if out and len(before) else np.zeros((len(before), 0))


def take_page(
    take: Any, sites: Sequence[str], read: Callable[[int, int], np.ndarray], path: str | PathLike[str], title: str = ""
) -> None:
    """Write the report of a tracked take, whose markers `read(start, end)` returns as (end - start, M, 3) [m]."""
    report, motion = take.report, take.motion
    seconds = motion.duration
    statuses = [(name, report.count(i)) for i, name in enumerate(report.status_names)]
    summary = [
        ("verdict", report.verdict),
        ("repaired", "; ".join(report.repairs) or "nothing"),
        (
            "frames",
            f"{report.frames} at {motion.fps:g} Hz ({seconds:.1f} s){', stopped early' if report.stopped else ''}",
        ),
        ("tracked", f"in {report.seconds:.2f} s, {report.frames / max(report.seconds, 1e-9):.0f} frames/s"),
        ("marker error", millimetres(take.errors)),
        ("status of frames", ", ".join(f"{name}: {count}" for name, count in statuses)),
        ("markers without a site", listed(report.unmatched) or "none"),
    ]
    calibration = motion.skeleton.info.get("calibration")
    if calibration is not None:
        summary.append(("calibration", str(calibration).splitlines()[0]))
    summary += [("", note) for note in report.notes]
    mean = frame_errors(take.errors) * 1e3
    worst = np.where(np.isfinite(take.errors), take.errors, -np.inf).max(axis=1) * 1e3
    worst = np.where(np.isfinite(worst), worst, np.nan)
    colours = (None, GREEN, RED, GREY)
    marks = [(t / motion.fps, (t + 1) / motion.fps, colours[s]) for t, s in enumerate(report.statuses) if s]
    error_curves = curves(
        {"worst marker": (worst, GREY), "mean": (mean, BLUE)},
        seconds=seconds,
        unit="mm",
        marks=marks[:2000],  # type: ignore[arg-type]  # the status 0 has no colour, and is left out
    )
    pictures = []
    for frame in report.worst_frames():
        picture = figure_picture(motion.skeleton, motion.poses[frame], read(frame, frame + 1)[0], sites)
        k = int(np.nanargmax(np.nan_to_num(take.errors[frame], nan=-1.0)))
        caption = f"frame {frame}, {frame / motion.fps:.2f} s: mean {mean[frame]:.1f} mm, "
        caption += f"{take.names[k]} {worst[frame]:.1f} mm"
        pictures.append(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>")
    limits = sorted(((share, name) for name, share in report.limits.items() if share > 0.0), reverse=True)
    repaired = [(t, report.status_names[s]) for t, s in enumerate(report.statuses) if s][:200]
    sections = [
        ("Summary", table(summary)),
        ("Playback", player(motion, read, report.frames_to_check)),
        ("Error over time", error_curves),
        ("Error of each marker", bars({name: value * 1e3 for name, value in report.marker_errors.items()}, unit="mm")),
        ("Worst frames", "".join(pictures) or "none"),
        (
            "Accelerations",
            curves({"mean of all joints": (accelerations(motion), BLUE)}, seconds=seconds, unit="rad/s²"),
        ),
        ("Limits touched", table([(name, f"{share:.1%} of the frames") for share, name in limits[:30]]) or "none"),
        (
            "Outliers",
            table([(m, a, b - 1) for m, a, b in report.outliers[:200]], ("marker", "from", "to frame")),
        ),
        ("Gaps", table([(m, a, b - 1) for m, a, b in report.gaps[:200]], ("marker", "from", "to frame"))),
        ("Repaired, failed or blind frames", table(repaired, ("frame", "what"))),
    ]
    write(path, page(f"Take: {title or motion.name or 'tracked'}", sections))


def retarget_page(result: Any, path: str | PathLike[str]) -> None:
    """Write the report of a retargeted motion."""
    slips = result.contacts.slips(result) if result.contacts is not None else np.zeros(0)
    steps = result.contacts.steps() if result.contacts is not None else []
    summary = [
        ("frames", f"{len(result)} at {result.fps:g} Hz"),
        ("scaled by", f"{result.scale:.4f}"),
        ("foot contacts", f"{len(steps)}; slipping {millimetres(slips)}"),
        *(("", note) for note in result.notes),
    ]
    mapping = [(role, source, target) for role, (source, target) in result.mapping.items()]
    contacts = [(point, a, b - 1, f"{slip * 1e3:.2f}") for (point, a, b), slip in zip(steps, slips, strict=True)]
    sections = [
        ("Summary", table(summary)),
        *_likeness(result),
        ("Mapping", table(mapping, ("role", "from", "to"))),
        ("Contacts", table(contacts, ("point", "from", "to frame", "slip [mm]"))),
        ("Pictures", _pictures(result)),
        (
            "Accelerations",
            curves({"mean of all joints": (accelerations(result), BLUE)}, seconds=result.duration, unit="rad/s²"),
        ),
        ("Limits touched", _limits(result)),
    ]
    write(path, page(f"Retargeted to {result.skeleton.name}", sections))


def _likeness(result: Any) -> list[tuple[str, str]]:
    """Return sections that show a retargeted motion beside its source, and the direction errors of its bones."""
    if result.source is None or len(result) < 3:
        return [("Playback", player(result, None, ()))]
    from posable.mocap.motion_quality import motion_quality  # the reports of takes do without it

    quality = motion_quality(result, result.source)
    limbs = {
        limb: [angle for bone, angle in quality.errors.items() if bone.startswith(joints)]
        for limb, joints in (("arms", ("shoulder", "elbow")), ("legs", ("hip", "knee")))
    }
    lines = {
        limb: (np.mean(angles, axis=0), colour)
        for (limb, angles), colour in zip(limbs.items(), (BLUE, GREEN), strict=True)
        if angles
    }
    bones = [
        (bone, f"{mean:.1f}", f"{worst:.0f}", quality.blocked.get(bone, ""))
        for bone, (mean, worst) in quality.residuals.items()
    ]
    return [
        ("Source (left) and result", player(result, None, (), (result.source, result.scale))),
        ("Quality", table([(name, f"{value:.4g}") for name, value in quality.items()])),
        ("Bones off", table(bones, ("bone", "mean [°]", "worst [°]", "limit"))),
        ("Errors of bone directions over time", curves(lines, seconds=result.duration, unit="°")),
    ]


def smooth_page(before: Motion, after: Motion, path: str | PathLike[str]) -> None:
    """Write the report of a smoothed motion."""
    contacts = find_contacts(before)
    old, new = accelerations(before), accelerations(after)
    change = changes(before, after)
    summary = [
        ("frames", f"{len(after)} at {after.fps:g} Hz"),
        ("mean acceleration", f"{old.mean():.2f} before, {new.mean():.2f} after [rad/s²]"),
        ("largest change of a joint", f"{change.max(initial=0.0):.4f} [rad, m]"),
        ("feet slip", f"{millimetres(contacts.slips(before))} before; {millimetres(contacts.slips(after))} after"),
    ]
    lines = {"before": (old, GREY), "after": (new, BLUE)}
    sections = [
        ("Summary", table(summary)),
        ("Accelerations", curves(lines, seconds=after.duration, unit="rad/s²")),
        ("Pictures", _pictures(after)),
        ("Limits touched", _limits(after)),
    ]
    write(path, page(f"Smoothed: {after.name}", sections))


def _pictures(motion: Motion) -> str:
    frames = np.unique(np.linspace(0, max(len(motion) - 1, 0), 6).astype(int)) if len(motion) else []
    return "".join(
        f"<figure>{figure_picture(motion.skeleton, motion.poses[t])}<figcaption>frame {t}</figcaption></figure>"
        for t in frames
    )


def _limits(motion: Motion) -> str:
    skeleton = motion.skeleton
    rows = []
    for i, name in enumerate(skeleton.dof_names):
        if skeleton.lower[i] < skeleton.upper[i]:
            at = (motion.poses[:, i] <= skeleton.lower[i] + 1e-6) | (motion.poses[:, i] >= skeleton.upper[i] - 1e-6)
            if at.any():
                rows.append((float(at.mean()), name))
    return table([(name, f"{share:.1%} of the frames") for share, name in sorted(rows, reverse=True)[:30]]) or "none"
