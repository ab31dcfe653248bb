"""`posable render take.bvh -o take.mp4`: make a picture or a video of a figure or a take.

A picture is a PNG, a video an MP4 or GIF; HTML is a self-contained page. Neither a display nor a GPU is needed.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import posable as ps
from posable._files import write_files
from posable.cli.arguments import show

EXAMPLE = "posable render walk.bvh -o walk.mp4"
SUFFIXES = (".png", ".gif", ".mp4", ".html")
MOST = 20  # takes listed in a message


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("file", metavar="FILE", help="a figure, a take or a .posable project; or a figure's name")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="output file: .png, .mp4, .gif or .html")
    parser.add_argument("--skeleton", metavar="FILE", help="the figure of an AMC or CSV file")
    parser.add_argument("--take", metavar="NAME|NUMBER", help="which take of a file with several (default: the first)")
    parser.add_argument("--size", metavar="WxH", default="1280x720", help="size in pixels (default: 1280x720)")
    parser.add_argument("--frame", type=int, help="frame of the take, for a PNG (default: 0)")
    parser.add_argument("--fps", type=float, help="frame rate, at most that of the take (default: its own, up to 60)")
    parser.add_argument("--transparent", action="store_true", help="PNG: only the figure, on a transparent background")


def run(args: argparse.Namespace) -> int:
    """Write the picture or the video."""
    out = Path(args.output)
    kind = out.suffix.lower().removeprefix(".")
    if f".{kind}" not in SUFFIXES:
        raise ps.PosableError(f"--output: expected a name that ends in {', '.join(SUFFIXES)}, got {out.name!r}")
    size = _size(args.size)
    if kind == "mp4" and (size[0] % 2 or size[1] % 2):
        raise ps.PosableError(f"--size: expected even numbers for MP4, got {args.size}")
    if args.fps is not None and not 0.0 < args.fps < float("inf"):
        raise ps.PosableError(f"--fps: expected a positive number, got {args.fps:g}")
    try:
        film = import_module("posable.studio.film")
        appearance = import_module("posable.studio.appearance")
    except ModuleNotFoundError as error:
        raise ps.PosableError(f"render needs {error.name}: pip install 'posable[studio]'") from error
    motion, scene = _motion(args)
    look = appearance.appearance_of(motion.skeleton, scene)
    camera = film.camera_for(motion.skeleton, motion.poses, look, aspect=size[0] / size[1])
    if kind == "png":
        frame = args.frame or 0
        if not 0 <= frame < len(motion):
            raise ps.PosableError(f"--frame: expected 0 to {len(motion) - 1}, got {frame}")
        camera = film.camera_for(motion.skeleton, motion.poses[frame : frame + 1], look, aspect=size[0] / size[1])
        image = film.picture(motion.skeleton, motion.poses[frame], look, camera, size, transparent=args.transparent)
        write_files({out: film.png(image)})
        count = 1
    else:
        motion = film.resample_for(motion, kind, args.fps)
        count = len(motion)
        if kind == "html":
            write_files({out: film.page(motion, look, camera)})
        else:
            camera = film.camera_for(motion.skeleton, motion.poses[:1], look, aspect=size[0] / size[1])
            pictures = film.frames_of(motion, look, camera, size, import_module("posable.cli.progress").ProgressBar())
            write_files({out: film.film(pictures, motion.fps, kind)})
    takes = tuple(scene.motions)
    take = next((name for name, one in scene.motions.items() if one is scene.motion), None)
    text = f"{out}: {count} frame{'s' * (count > 1)}, {out.stat().st_size / 1e6:.1f} MB"
    if len(takes) > 1 and take is not None and args.take is None:
        text += f"\nrendered the first of {len(takes)} takes; --take selects another: {_listed(takes)}"
    show(args, {"output": str(out), "frames": count, "width": size[0], "height": size[1], "take": take}, text)
    return 0


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and 16 <= int(width) <= 7680 and 16 <= int(height) <= 7680):
        raise ps.PosableError(f"--size: expected WIDTHxHEIGHT from 16 to 7680, got {text!r}")
    return int(width), int(height)


def _listed(takes: Sequence[str]) -> str:
    """Return the takes of a file with their numbers."""
    shown = [f"{number} {ps.errors.printable(name)[:60]}" for number, name in enumerate(takes[:MOST], start=1)]
    return ", ".join(shown) + (f" and {len(takes) - MOST} more" if len(takes) > MOST else "")


def _with_take(scene: ps.Scene, wanted: str | None) -> ps.Scene:
    """Return a scene with the take of a name, or of a number from 1."""
    if wanted is None:
        return scene
    takes = tuple(scene.motions)
    if wanted not in takes and wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(takes):
        wanted = takes[int(wanted) - 1]
    if wanted not in takes:
        raise ps.PosableError(
            f"--take: expected one of {_listed(takes)}, got {wanted!r}" if takes else "--take: the file has no takes"
        )
    return scene.replace(motion=scene.motions[wanted])


def _motion(args: argparse.Namespace) -> tuple[ps.Motion, ps.Scene]:
    """Return the motion to show, or one pose of a figure, with its scene."""
    project = Path(args.file).suffix.lower() == ".posable"
    if args.take is not None and (project or args.file in ps.figures.names()):
        raise ps.PosableError(f"--take: {'a project has its own' if project else 'a built-in figure has no'} take")
    if args.file in ps.figures.names():
        figure = ps.figures.get(args.file)
        return ps.Motion(figure, figure.rest[None], 30.0), ps.Scene(skeleton=figure, name=args.file)
    if project:
        session = import_module("posable.studio.session").Session()
        try:
            session.open_path(args.file)
            return session.timeline.motion(session.pose), session.scene
        finally:
            session.close()
    scene = ps.load(args.file, skeleton=args.skeleton) if args.skeleton else ps.load(args.file)
    scene = _with_take(scene, args.take)
    if scene.motion is not None and len(scene.motion):
        return scene.motion, scene
    if not scene.has_skeleton:
        raise ps.PosableError(f"{args.file}: expected a figure or a motion, got only markers")
    opening = import_module("posable.studio.handles").opening_pose(scene.skeleton, scene)
    return ps.Motion(scene.skeleton, opening[None], 30.0), scene
