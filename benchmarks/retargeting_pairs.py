"""Every clip on every figure, judged by the bounds of a good result: `python -m benchmarks.retargeting_pairs --help`.

It prints how many pairs keep each bound and the worst pairs of each measure, so that a cause that many of them share
is found before a cause of one of them. Keep some clips and figures out of it while something is tuned.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.retargeting_bounds import least_bones, least_tracking
from posable.mocap.retarget import Retargeted
from posable.model.body_plan import body_plan

BOUNDS = {
    "joint limits exceeded [% of frames]": 0.0,
    "velocity limits exceeded [% of frames]": 0.0,
    "jumps over 0.5 rad [frames]": 0.0,
    "self penetration over 1 cm [% of frames]": 0.5,
    "ground penetration over 1 cm [% of frames]": 0.5,
    "slip of standing feet, mean [mm]": 5.0,
    "slip of standing feet, largest [mm]": 20.0,
    "soles from their support, mean [mm]": 5.0,
    "arm bones off [deg]": 6.0,
    "leg bones off [deg]": 6.0,
    "tracking error [% of a leg]": 7.5,  # 45 mm of the G1's 0.6 m
    "time [ms a frame]": 2.0,
}
SHOWN = (*BOUNDS, "mean acceleration [rad/s2]", "tracking error [mm]")

LEAST = ("arm bones, least [deg]", "leg bones, least [deg]", "tracking, least [mm]", "tracking, same posture [mm]")


def clip(path: Path, frames: int) -> ps.Motion:
    """Return the first frames of a file's motion at about 30 frames a second."""
    whole = ps.load(path).motion
    assert whole is not None
    step = max(1, round(whole.fps / 30.0))
    return ps.Motion(whole.skeleton, whole.poses[::step][:frames], whole.fps / step, path.stem)


def judged(motion: ps.Motion, figure: ps.Skeleton) -> tuple[Retargeted, dict[str, float]]:
    """Return a motion on a figure and its measures."""
    begin = time.process_time()
    result = ps.retarget(motion, figure, threads=1)
    spent = time.process_time() - begin
    measures = dict(ps.motion_quality(result, result.source))
    measures["time [ms a frame]"] = 1e3 * spent / len(result)
    measures["tracking error [% of a leg]"] = 0.1 * measures["tracking error [mm]"] / body_plan(figure).leg
    return result, measures


def least(result: Retargeted) -> dict[str, float]:
    """Return what joint limits allow on a figure, and the tracking error in the source's posture."""
    alone = least_tracking(result), least_tracking(result, posture=True)
    return dict(zip(LEAST, (*least_bones(result), *alone), strict=True))


def main() -> None:
    """Run every clip on every figure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", nargs="+", type=Path, required=True)
    parser.add_argument("--figures", nargs="+", required=True, help="files, or names of built-in figures")
    parser.add_argument("--frames", type=int, default=240, help="of each clip (240)")
    parser.add_argument("--worst", type=int, default=5, help="pairs shown of each measure (5)")
    parser.add_argument("--json", type=Path, help="file to write all measures to")
    parser.add_argument("--bounds", action="store_true", help="also what joint limits and proportions allow (slow)")
    parser.add_argument("--save", type=Path, help="folder to write the motions to, as NPZ of poses")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, float]] = {}
    clips = [clip(path, args.frames) for path in args.clips]
    for name in args.figures:
        figure = ps.load(name).skeleton if Path(name).exists() else getattr(ps.figures, name)()
        label = Path(name).stem
        ps.retarget(ps.Motion(clips[0].skeleton, clips[0].poses[:20], clips[0].fps), figure, threads=1)
        for motion in clips:
            pair = f"{motion.name} on {label}"
            result, rows[pair] = judged(motion, figure)
            if args.bounds:
                rows[pair] |= least(result)
            if args.save:
                args.save.mkdir(parents=True, exist_ok=True)
                np.savez(args.save / f"{pair}.npz", poses=result.poses, fps=result.fps)
            print(f"{pair:40s}", *(f"{rows[pair].get(key, np.nan):8.3g}" for key in (*SHOWN, *LEAST)), flush=True)
    print()
    print_summary(rows, args.worst)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


def print_summary(rows: dict[str, dict[str, float]], worst: int) -> None:
    """Print how many pairs keep each bound, and the worst of each measure."""
    kept = np.ones(len(rows), dtype=bool)
    for key in (*SHOWN, *LEAST):
        values = np.array([row.get(key, np.nan) for row in rows.values()])
        if np.isnan(values).all():
            continue
        bound = BOUNDS.get(key, np.inf)
        within = ~(values > bound)
        if not key.startswith("time"):
            kept &= within
        order = np.argsort(-np.nan_to_num(values, nan=-np.inf))[:worst]
        names = [f"{list(rows)[k]} {values[k]:.3g}" for k in order]
        share = f"{100.0 * within.mean():5.1f}% within {bound:g}" if np.isfinite(bound) else ""
        print(f"{key:42s} mean {np.nanmean(values):8.3g}  {share:22s} {'; '.join(names)}")
    print(f"{'all bounds but time':42s} {100.0 * kept.mean():5.1f}% of {len(rows)} pairs")


if __name__ == "__main__":
    main()
