"""A take that plays in the browser: skeleton, markers and floor on a canvas, frames to look at marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from posable.model.kinematics import forward
from posable.model.motion import Motion

FPS = 30.0  # that are shown at most
MOST_FRAMES = 1800  # of a take; of a longer one every so many

_SCRIPT = """
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
    const c = [joints[0][0], joints[0][1], 0], step = 500, n = data.beside ? 2 : 4;
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
    """Return the HTML of a take that plays.

    Args:
        motion: the tracked motion.
        read: read(start, end) gives the markers of some frames, (end - start, M, 3) [m], in the figure's axes, NaN
            where unseen; None: there are none.
        spans: (first frame, end) of what to look at.
        beside: A motion with as many frames that plays on the left, and the scale at which it is drawn.
    """
    if not len(motion):
        return "<p>none</p>"
    step = max(1, round(motion.fps / FPS), -(-len(motion) // MOST_FRAMES))
    rows = np.arange(0, len(motion), step)
    points, bones = _stick_figure(motion, rows)
    shown = np.concatenate([read(int(row), int(row) + 1) for row in rows]) if read else np.zeros((len(rows), 0, 3))
    shown = _upright(shown, motion.skeleton.up)
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
    links = " ".join(f'<a href="#" data-frame="{a}">{a}-{b - 1}</a>' for a, b in spans[:50])
    return (
        '<canvas id="take" width="900" height="460" style="border:1px solid #e2e8f0;touch-action:none"></canvas>'
        '<p><button id="take-play">Play</button> <input id="take-frame" type="range" min="0" value="0" '
        'style="width:640px"> <span id="take-label"></span></p>'
        f"<p>Drag to turn, scroll to zoom. {f'Frames to look at: {links}' if links else ''}</p>"
        f"<script>{_SCRIPT % json.dumps(data, separators=(',', ':'))}</script>"
    )


def _upright(places: np.ndarray, up: str | None) -> np.ndarray:
    """Return places (..., 3) in the axes of the page, which has z up."""
    return places if up == "z" else np.stack([places[..., 0], -places[..., 2], places[..., 1]], axis=-1)


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
    return _upright(points, skeleton.up), bones


def _point(place: np.ndarray) -> list[int] | None:
    return [round(1000.0 * float(x)) for x in place] if np.isfinite(place).all() else None
