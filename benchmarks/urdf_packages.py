"""URDF files that come inside PyPI packages: which load here, which load in Pinocchio, and why not.

    python -m benchmarks.urdf_packages FOLDER ... [--most 400]

Every *.urdf below the folders is loaded by both, in alphabetical order, evenly thinned to at most `--most` files. Where
both load one, the frames of all links at random poses are compared.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import posable as ps


def frames_agree(skeleton: ps.Skeleton, model, data, pin) -> float:
    """Return the largest difference [m, 1] of link frames at three random poses; NaN where none can be compared."""
    rng, worst, compared = np.random.default_rng(0), 0.0, 0
    single = [name for name, joint in zip(skeleton.names, skeleton.joints, strict=True) if joint.motion.size == 1]
    for _ in range(3):
        values = {name: rng.uniform(-0.5, 0.5) for name in single}
        q = pin.neutral(model)
        for k in range(1, model.njoints):
            joint, name = model.joints[k], model.names[k]
            if name in values and joint.nq == 1:
                q[joint.idx_q] = values[name]
            elif name in values and joint.nq == 2:
                q[joint.idx_q : joint.idx_q + 2] = np.cos(values[name]), np.sin(values[name])
        pin.framesForwardKinematics(model, data, q)
        ours = ps.forward(skeleton, skeleton.pose({**dict.fromkeys(skeleton.dof_names, 0.0), **values}))
        for frame, place in zip(model.frames, data.oMf, strict=True):
            if frame.type == pin.FrameType.BODY and frame.name in skeleton._frames:
                worst = max(worst, float(np.abs(ours.matrix(frame.name) - place.homogeneous).max()))
                compared += 1
    return worst if compared else np.nan


def main() -> None:
    """Load every file with both and print the table."""
    import pinocchio as pin

    parser = argparse.ArgumentParser(description="URDF files of PyPI packages, here and in Pinocchio")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=400)
    args = parser.parse_args()
    files = sorted({path for folder in args.folders for path in folder.rglob("*.urdf")})
    files = files[:: max(1, -(-len(files) // args.most))]
    count, reasons, apart = Counter(), Counter(), []
    warnings.simplefilter("ignore")
    for path in files:
        try:
            skeleton = ps.load(path).skeleton
            here, reason = True, ""
        except ps.PosableError as problem:
            here, reason, skeleton = False, str(problem).split(": ", 1)[-1], None
        try:
            model = pin.buildModelFromUrdf(str(path))
            there = True
        except (ValueError, RuntimeError, IndexError):
            there, model = False, None
        count[here, there] += 1
        if not here:
            reasons[reason[:90]] += 1
            if there:
                print("only in Pinocchio:", path.name, reason)
        if skeleton is not None and model is not None:
            gap = frames_agree(skeleton, model, model.createData(), pin)
            if np.isfinite(gap):
                apart.append((gap, path.name))
    print(f"{len(files)} files: loaded here {count[True, True] + count[True, False]}, in Pinocchio "
          f"{count[True, True] + count[False, True]}, in both {count[True, True]}")  # fmt: skip
    for reason, number in reasons.most_common():
        print(f"  {number} times: {reason}")
    apart.sort(reverse=True)
    print("largest differences of link frames:", [(f"{gap:.1e}", name) for gap, name in apart[:5]])


if __name__ == "__main__":
    main()
