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
  function project(p, c) {
    const x = p[0] - c[0], y = p[1] - c[1], z = p[2] - c[2];
    const a = Math.cos(turn) * x + Math.sin(turn) * y, d = -Math.sin(turn) * x + Math.cos(turn) * y;
    const s = zoom * 0.8 * height / size;
    return [width / 2 + s * a, height * 0.88 - s * (Math.cos(tilt) * z + Math.sin(tilt) * d)];
  }
  function line(a, b, colour, wide) {
    pen.strokeStyle = colour; pen.lineWidth = wide; pen.beginPath(); pen.moveTo(a[0], a[1]); pen.lineTo(b[0], b[1]);
    pen.stroke();
  }
  function draw() {
    pen.clearRect(0, 0, width, height);
    const joints = data.joints[frame], markers = data.markers[frame], root = joints[0];
    const c = [root[0], root[1], 0], step = 500, n = 4;
    const gx = Math.round(c[0] / step) * step, gy = Math.round(c[1] / step) * step;
    for (let k = -n; k <= n; k++) {
      line(project([gx + k * step, gy - n * step, 0], c), project([gx + k * step, gy + n * step, 0], c), '#e2e8f0', 1);
      line(project([gx - n * step, gy + k * step, 0], c), project([gx + n * step, gy + k * step, 0], c), '#e2e8f0', 1);
    }
    for (const [a, b] of data.bones) line(project(joints[a], c), project(joints[b], c), '#2b6cb0', 3);
    pen.fillStyle = '#c53030';
    for (const m of markers) if (m) { const q = project(m, c); pen.fillRect(q[0] - 2, q[1] - 2, 4, 4); }
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


def player(motion: Motion, read: Callable[[int, int], np.ndarray], spans: Sequence[tuple[int, int]]) -> str:
    """Return the HTML of a take that plays.

    Args:
        motion: the tracked motion.
        read: read(start, end) gives the markers of some frames, (end - start, M, 3) [m], in the figure's axes, NaN
            where unseen.
        spans: (first frame, end) of what to look at.
    """
    if not len(motion):
        return "<p>none</p>"
    step = max(1, round(motion.fps / FPS), -(-len(motion) // MOST_FRAMES))
    rows = np.arange(0, len(motion), step)
    frames = forward(motion.skeleton, motion.poses[rows])
    names = [joint.name for joint in motion.skeleton.joints]
    ends = [(site.name, site.joint) for site in motion.skeleton.sites if site.name.endswith(".end")]
    points = np.stack([frames.position(name) for name in (*names, *(name for name, _ in ends))], axis=1)
    shown = np.concatenate([read(int(row), int(row) + 1) for row in rows])
    if motion.skeleton.up != "z":  # the page has z up
        points, shown = (np.stack([p[..., 0], -p[..., 2], p[..., 1]], axis=-1) for p in (points, shown))
    index = {name: k for k, name in enumerate(names)}
    bones = [(index[j.name], index[j.parent]) for j in motion.skeleton.joints if j.parent is not None]
    bones += [(len(names) + k, index[joint]) for k, (_, joint) in enumerate(ends)]
    tall = float(np.quantile(np.ptp(points[..., 2], axis=1), 0.9)) * 1000.0
    data = {
        "joints": np.round(points * 1000.0).astype(int).tolist(),
        "markers": [[_point(p) for p in row] for row in shown],
        "bones": bones, "step": int(step), "fps": motion.fps, "size": max(tall, 1.0) * 1.15, "spans": list(spans),
    }  # fmt: skip
    links = " ".join(f'<a href="#" data-frame="{a}">{a}-{b - 1}</a>' for a, b in spans[:50])
    return (
        '<canvas id="take" width="900" height="460" style="border:1px solid #e2e8f0;touch-action:none"></canvas>'
        '<p><button id="take-play">Play</button> <input id="take-frame" type="range" min="0" value="0" '
        'style="width:640px"> <span id="take-label"></span></p>'
        f"<p>Drag to turn, scroll to zoom. {f'Frames to look at: {links}' if links else ''}</p>"
        f"<script>{_SCRIPT % json.dumps(data, separators=(',', ':'))}</script>"
    )


def _point(place: np.ndarray) -> list[int] | None:
    return [round(1000.0 * float(x)) for x in place] if np.isfinite(place).all() else None
