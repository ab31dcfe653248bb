"""`posable info FILE`: show the contents of a file: skeleton, limits, frames, markers, gaps."""

import argparse
import math
from collections import Counter
from typing import Any

import posable as ps
from posable.cli.arguments import (
    add_reading,
    add_robot,
    character_of,
    is_built_in,
    read,
    robot_options,
    show,
    slides_of,
)

EXAMPLE = "posable info walk.bvh"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("file", metavar="FILE", help="any file that Posable reads, or a built-in figure")
    add_reading(parser)
    add_robot(parser)


def run(args: argparse.Namespace) -> int:
    """Print the contents of the file."""
    options = robot_options(args)
    scene = character_of(args.file, **options) if is_built_in(args.file) else read(args, **options)
    show(args, summary(scene, args.file), "\n".join(lines(scene, args.file)), indent=2)
    return 0


def summary(scene: ps.Scene, file: str) -> dict[str, Any]:
    """Return the contents of a scene as plain data."""
    out: dict[str, Any] = {"file": file, "name": scene.name, "notes": list(scene.notes)}
    if scene.has_skeleton:
        out["skeleton"] = _skeleton_data(scene.skeleton)
    out["motions"] = [
        {"name": name, "frames": len(take), "fps": take.fps, "seconds": take.duration}
        for name, take in _takes(scene).items()
    ]
    if scene.markers is not None:
        missing = _gaps(scene.markers)
        out["markers"] = {
            "names": list(scene.markers.names), "frames": len(scene.markers), "fps": scene.markers.fps,
            "up": scene.markers.up, "unseen": dict(zip(scene.markers.names, missing, strict=True)),
        }  # fmt: skip
    out["meshes"] = [
        {"name": mesh.name, "vertices": len(mesh.vertices), "faces": len(mesh.faces)} for mesh in scene.meshes
    ]
    return out


def _skeleton_data(skeleton: ps.Skeleton) -> dict[str, Any]:
    joints = []
    for joint in skeleton.joints:
        where = skeleton.index(joint.name)
        joints.append(
            {
                "name": joint.name, "parent": joint.parent,
                "type": type(joint.motion).__name__, "length": _length(joint),
                "dofs": list(skeleton.dof_names[where]), "lower": [_finite(v) for v in skeleton.lower[where]],
                "upper": [_finite(v) for v in skeleton.upper[where]],
            }
        )  # fmt: skip
    return {
        "name": skeleton.name, "up": skeleton.up, "unit": skeleton.unit, "size": skeleton.size, "joints": joints,
        "sites": list(skeleton.site_names), "couplings": [list(rule) for rule in skeleton.couplings],
        "loops": [list(loop) for loop in skeleton.loops], "named_poses": list(skeleton.named_poses),
        "groups": {name: [list(part) for part in parts] for name, parts in skeleton.info.get("groups", {}).items()},
        "disabled_pairs": [list(pair) for pair in skeleton.disabled_pairs],
        "shapes": [{"name": shape.name, "joint": shape.joint, "kind": shape.kind} for shape in skeleton.shapes],
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _takes(scene: ps.Scene) -> dict[str, ps.Motion]:
    return dict(scene.motions) or ({scene.motion.name: scene.motion} if scene.motion is not None else {})


def _gaps(markers: ps.Markers) -> list[int]:
    return [int(count) for count in (~markers.seen).sum(axis=0)]


def _length(joint: ps.Joint) -> float:
    return math.sqrt(sum(float(value) ** 2 for value in joint.offset))


def lines(scene: ps.Scene, file: str) -> list[str]:
    """Return the contents of a scene as lines of text."""
    out = [file]
    if scene.has_skeleton:
        out += _skeleton_lines(scene.skeleton)
    for name, take in _takes(scene).items():
        out.append(f"motion {name!r}: {_frames(take)} at {take.fps:g} fps, {take.duration:.2f} s")
    if scene.markers is not None:
        out += _marker_lines(scene.markers)
    out += [f"mesh {mesh.name!r}: {len(mesh.vertices)} vertices, {len(mesh.faces)} triangles" for mesh in scene.meshes]
    return out


def _frames(motion: Any) -> str:
    return "1 frame" if len(motion) == 1 else f"{len(motion)} frames"


def _skeleton_lines(skeleton: ps.Skeleton) -> list[str]:
    unit = f", file unit {skeleton.unit:g} m" if skeleton.unit != 1.0 else ""
    head = f"skeleton {skeleton.name!r}: {len(skeleton.joints)} joints, {skeleton.size} degrees of freedom, "
    sites = "1 site" if len(skeleton.sites) == 1 else f"{len(skeleton.sites)} sites"
    out = [f"{head}{sites}, {skeleton.up or '?'} up{unit}"]
    children: dict[str | None, list[tuple[str, Any]]] = {}
    for joint in skeleton.joints:
        children.setdefault(joint.parent, []).append((joint.name, joint))
    alias: dict[str, list[str]] = {}  # sites that coincide with their joint, as the links of a robot do
    for site in skeleton.sites:
        if not any(site.offset) and site.rotation is None:
            alias.setdefault(site.joint, []).append(site.name)
        else:
            children.setdefault(site.joint, []).append((site.name, None))
    stack = [(name, joint, "", True, True) for name, joint in children[None]]
    while stack:
        name, joint, indent, last, top = stack.pop()
        branch = "" if top else ("└─ " if last else "├─ ")
        also = f" ({', '.join(alias[name])})" if name in alias and joint is not None else ""
        out.append(f"{indent}{branch}{name}{also}" + ("  (site)" if joint is None else _joint_text(skeleton, joint)))
        below = children.get(name, []) if joint is not None else []
        deeper = indent + ("" if top else ("   " if last else "│  "))
        stack += [(n, j, deeper, n == below[-1][0], False) for n, j in reversed(below)]
    for follower, leader, ratio, offset in skeleton.couplings:
        out.append(f"{follower} = {ratio:g} {leader}" + (f" + {offset:g}" if offset else ""))
    for frame, other, welded in skeleton.loops:
        out.append(f"closed loop: {frame} {'welded' if welded else 'connected'} to {other}")
    if skeleton.shapes:
        kinds = Counter(shape.kind if shape.collides else "visual only" for shape in skeleton.shapes)
        out.append("shapes: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    if skeleton.disabled_pairs:
        out.append(f"pairs that are never checked for collision: {len(skeleton.disabled_pairs)}")
    if skeleton.info.get("groups"):
        out.append("groups: " + ", ".join(skeleton.info["groups"]))
    if skeleton.named_poses:
        out.append("poses: " + ", ".join(skeleton.named_poses))
    return out


def _joint_text(skeleton: ps.Skeleton, joint: ps.Joint) -> str:
    kind = type(joint.motion).__name__.lower()
    order = getattr(joint.motion, "order", getattr(joint.motion, "axes", ""))
    parts = [f"  {kind}{' ' + order if order else ''}, {_length(joint):.3f} m"]
    where = skeleton.index(joint.name)
    ranges = zip(joint.motion.dofs, slides_of(joint), skeleton.lower[where], skeleton.upper[where], strict=True)
    for dof, slides, low, high in ranges:
        if math.isfinite(low) or math.isfinite(high):
            scale, mark = (1.0, " m") if slides else (180 / math.pi, "°")
            parts.append(f"{dof.name + ' ' if dof.name else ''}{low * scale:.4g}..{high * scale:.4g}{mark}")
    frozen = [dof.name for dof, held in zip(joint.motion.dofs, skeleton.frozen[where], strict=True) if held]
    if frozen:
        parts.append("frozen" if len(frozen) == joint.motion.size else f"{' '.join(frozen)} frozen")
    return ", ".join(parts)


def _marker_lines(markers: ps.Markers) -> list[str]:
    gaps = _gaps(markers)
    whole = max(len(markers) * len(gaps), 1)
    seconds = max(len(markers) - 1, 0) / markers.fps
    rate = f"{_frames(markers)} at {markers.fps:g} fps, {seconds:.2f} s"
    out = [f"markers: {len(gaps)} over {rate}, {markers.up or '?'} up, {100 * sum(gaps) / whole:.1f}% unseen"]
    for name, count in zip(markers.names, gaps, strict=True):
        out.append(f"  {name}" + (f"  unseen in {count} of {len(markers)} frames" if count else ""))
    return out
