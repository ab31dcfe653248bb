"""URDF, read and written: a robot's links and joints, limits, inertias, mimic joints and collision geometry.

Metres, radians, z up, as the format says. A joint here is the URDF's joint, with the frame of its child link, and
every link is a site of its own name; the root link is a fixed joint. Our own reader, because `yourdfpy` can be led to
read local files through entities. Meshes are opened with trimesh where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
from scipy.spatial.transform import Rotation

from posable.formats.base import Format, Options, bound_count, build_skeleton, depth_first
from posable.formats.safe_xml import Element, number, numbers, parse, text
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source, open_source, refuse_wide_text, shown
from posable.formats.srdf import with_srdf
from posable.formats.urdf_writer import write
from posable.model import shapes as solids
from posable.model.joints import Ball, Fixed, Free, Joint, Planar, Prismatic, Revolute, Site
from posable.model.shapes import WORLD, Shape

if TYPE_CHECKING:
    from posable.formats.source import Source


SAME = 1e-6  # relative difference of lengths that count as equal
_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
_MOVING = ("revolute", "continuous", "prismatic")  # joints of one degree of freedom


@dataclass
class _Joint:
    """A <joint>, its name made unique."""

    element: Element
    name: str
    kind: str
    parent: str
    child: str


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is URDF."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"<") and b"<robot" in head


def read(source: Source, options: Options) -> Scene:
    """Return the robot of a URDF file, or of a xacro file, which is expanded first."""
    if source.data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        refuse_wide_text(source)
    if source.path.suffix.lower() == ".xacro" or _has_macros(source.data):
        _expand_xacro(source, options.xacro)
    elif options.xacro is not None:
        raise source.error("xacro=", expected="a xacro file", found="a URDF file without xacro elements")
    robot = parse(source)
    if robot.tag != "robot":
        raise source.error(offset=robot.place, expected="<robot>", found=f"<{shown(robot.tag)[1:-1]}>")
    links = _links(source, robot)
    joints = _joints(source, robot, links)
    root, ordered = _parents_first(source, robot, links, joints)
    taken = {joint.name for joint in joints}
    root_name = root
    while root_name in taken:
        root_name += "_link"
    home = {root: root_name, **{joint.child: joint.name for joint in ordered}}
    figure = [Joint(root_name, Fixed(), **_inertia(source, links[root]))]
    for joint in ordered:
        figure.append(_build_joint(source, joint, home[joint.parent], links[joint.child]))
    _note_zero_bounds(source, joints)
    sites = [Site(link, joint) for link, joint in home.items() if link != joint]
    shared = [site.name for site in sites if site.name in taken]
    if shared:
        listed = ", ".join(map(repr, shared[:3]))
        source.note(f"{len(shared)} links and joints share a name; a goal on it means the link: {listed}")
    shapes, meshes, missing = _geometry(source, robot, links, home)
    skeleton = build_skeleton(
        source, figure, sites, name=robot.attributes.get("name", ""), up="z", couplings=_couplings(source, joints),
        info={"format": "urdf", "missing_shapes": missing}, shapes=shapes,
    )  # fmt: skip
    beside = source.path.with_suffix(".srdf")
    if options.srdf is not None:
        skeleton = with_srdf(skeleton, options.srdf, home, source)
    elif source.on_disk and beside.is_file():
        source.note(f"the SRDF beside it was read too: {beside.name}")
        skeleton = with_srdf(skeleton, open_source(beside), home, source)
    return Scene(skeleton=skeleton, meshes=tuple(meshes), name=skeleton.name)


def _has_macros(data: bytes) -> bool:
    """Return whether a text has xacro elements; what xacro writes often keeps some of them in comments."""
    first, *others = data.split(b"<!--")
    return b"<xacro:" in first or any(b"<xacro:" in part.partition(b"-->")[2] for part in others)


def _expand_xacro(source: Source, arguments: Mapping[str, Any] | None) -> None:
    """Replace the text of a source by its xacro expansion; arguments are those of its `<xacro:arg>`, by name."""
    try:
        import xacro
    except ImportError:
        raise source.error("it is xacro, which the package xacro expands: pip install 'posable[robots]'") from None
    if not source.on_disk:
        raise source.error("expand xacro first: what it includes cannot be found from a text alone")
    try:
        given = {name: str(value) for name, value in (arguments or {}).items()}
        document: Any = xacro.process_file(str(source.path), mappings=given)
        source.data = document.toxml(encoding="utf-8")
    except Exception as problem:  # xacro raises its own, Python's and the XML parser's errors
        raise source.error(f"xacro cannot expand it: {' '.join(str(problem).split())}") from None


def _links(source: Source, robot: Element) -> dict[str, Element]:
    links: dict[str, Element] = {}
    for element in robot.all("link"):
        name = text(source, element, "name")
        if name in links:
            raise source.error(offset=element.place, expected="a unique link name", found=shown(name))
        links[name] = element
    if not links:
        raise source.error(offset=robot.place, expected="at least one <link>", found="none")
    return links


def _joints(source: Source, robot: Element, links: dict[str, Element]) -> list[_Joint]:
    elements = robot.all("joint")
    bound_count(source, len(elements), "joints")
    names = source.unique([text(source, element, "name") for element in elements], "joint")
    joints: list[_Joint] = []
    parents: dict[str, str] = {}
    for element, name in zip(elements, names, strict=True):
        kind = text(source, element, "type").lower()
        if kind not in _TYPES:
            raise source.error(offset=element.place, expected=f"type {', '.join(_TYPES)}", found=shown(kind))
        ends = []
        for tag in ("parent", "child"):
            end = element.first(tag)
            if end is None:
                raise source.error(offset=element.place, expected=f"<{tag}> of joint {name!r}", found="none")
            link = text(source, end, "link")
            if link == WORLD and tag == "parent" and link not in links:
                links[WORLD] = Element("link", {"name": WORLD}, element.place)  # many files use it without declaring it
            if link not in links:
                raise source.error(offset=end.place, expected="the name of a link", found=shown(link))
            ends.append(link)
        parent, child = ends
        if child in parents:
            raise source.error(
                offset=element.place,
                expected=f"one parent of link {child!r}",
                found=f"{parents[child]!r} and {parent!r}",
            )
        parents[child] = parent
        joints.append(_Joint(element, name, kind, parent, child))
    return joints


def _parents_first(
    source: Source, robot: Element, links: dict[str, Element], joints: list[_Joint]
) -> tuple[str, list[_Joint]]:
    below: dict[str, list[_Joint]] = {}
    for joint in joints:
        below.setdefault(joint.parent, []).append(joint)
    children = {joint.child for joint in joints}
    roots = [link for link in links if link not in children]
    if not roots:
        raise source.error(offset=robot.place, expected="a root link, which is no joint's child", found="a cycle")
    ordered: list[_Joint] = depth_first(below, roots[0], lambda joint: joint.child)
    reached = {joint.name for joint in ordered}
    lost = [joint for joint in joints if joint.name not in reached]
    if lost and len(roots) == 1:
        raise source.error(
            offset=lost[0].element.place, expected="joints that form a tree", found=f"a cycle through {lost[0].name!r}"
        )
    if len(roots) > 1:
        raise source.error(
            offset=links[roots[1]].place, expected="one root link", found=", ".join(shown(link) for link in roots[:5])
        )
    return roots[0], ordered


def _origin(source: Source, element: Element | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the offset (3,) [m] and rotation (3, 3) of an <origin>; roll, pitch, yaw are about fixed axes."""
    origin = element.first("origin") if element is not None else None
    angles = numbers(source, origin, "rpy", [0.0, 0.0, 0.0])
    return numbers(source, origin, "xyz", [0.0, 0.0, 0.0]), Rotation.from_euler("xyz", angles).as_matrix()


def _inertia(source: Source, link: Element) -> dict:
    inertial = link.first("inertial")
    mass = number(source, inertial.first("mass") if inertial else None, "value", 0.0)
    if mass < 0:
        raise source.error(offset=link.place, expected="a non-negative mass", found=mass)
    center, rotation = _origin(source, inertial)
    tensor = inertial.first("inertia") if inertial else None
    if tensor is None:
        return {"mass": mass, "center": center}
    xx, yy, zz, xy, xz, yz = (number(source, tensor, "i" + key, 0.0) for key in ("xx", "yy", "zz", "xy", "xz", "yz"))
    inertia = rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ rotation.T
    return {"mass": mass, "center": center, "inertia": 0.5 * (inertia + inertia.T)}


def _build_joint(source: Source, joint: _Joint, parent: str, link: Element) -> Joint:
    offset, rotation = _origin(source, joint.element)
    axis_element = joint.element.first("axis")
    axis = numbers(source, axis_element, "xyz", [1.0, 0.0, 0.0])
    place = {"offset": offset, "rotation": rotation, **_inertia(source, link)}
    if joint.kind == "fixed":
        return Joint(joint.name, Fixed(), parent, **place)
    if joint.kind == "floating":
        return Joint(joint.name, Free("rotvec"), parent, **place)
    if joint.kind == "spherical":  # not in the standard: PyBullet's humanoids have it
        return Joint(joint.name, Ball("rotvec"), parent, **place)
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        where = (axis_element or joint.element).place
        raise source.error(
            offset=where, expected=f"an axis of joint {joint.name!r} that is not zero", found=shown(str(axis))
        )
    axis = tuple(float(value) for value in axis / length)
    if joint.kind == "planar":
        return Joint(joint.name, Planar(axis), parent, **place)
    low, high = _limits(source, joint)
    motion = Prismatic(axis) if joint.kind == "prismatic" else Revolute(axis)
    rest = min(max(0.0, low), high)
    return Joint(joint.name, motion, parent, limits=(low, high), rest=rest, **place, **_bounds(source, joint))


def _bounds(source: Source, joint: _Joint) -> dict:
    """Return the largest velocity and effort of a <limit>; 0, which many exporters write, means none."""
    limit = joint.element.first("limit")
    out = {}
    for key in ("velocity", "effort"):
        value = number(source, limit, key, np.inf, infinite=True)
        if value > 0.0:
            out[key] = value
        elif value < 0.0:
            source.warn(f"joint {joint.name!r} has a negative {key} limit, {value:g}: it was ignored")
    return out


def _note_zero_bounds(source: Source, joints: list[_Joint]) -> None:
    """Add one note on joints that state a velocity or an effort of 0, with which they could not move."""
    zero: dict[str, list[str]] = {}
    for joint in joints:
        limit = joint.element.first("limit") if joint.kind in _MOVING else None
        for key in ("velocity", "effort"):
            if number(source, limit, key, 1.0, infinite=True) == 0.0:
                zero.setdefault(joint.name, []).append(key)
    if zero:
        keys = " and ".join(key for key in ("velocity", "effort") if any(key in found for found in zero.values()))
        more = f" and {len(zero) - 3} more" if len(zero) > 3 else ""
        source.note(f"{keys} limits of 0 were treated as not stated: {', '.join(map(repr, list(zero)[:3]))}{more}")


def _limits(source: Source, joint: _Joint) -> tuple[float, float]:
    limit = joint.element.first("limit")
    if joint.kind == "continuous":
        return -np.inf, np.inf
    if limit is None:
        source.warn(f"joint {joint.name!r} is {joint.kind} and has no <limit>: it moves without limits")
        return -np.inf, np.inf
    low, high = (number(source, limit, side, 0.0, infinite=True) for side in ("lower", "upper"))
    if low > high:
        source.warn(f"joint {joint.name!r} has its limits swapped: {low:g} and {high:g} were exchanged")
        low, high = high, low
    if low == high == np.inf or low == high == -np.inf:
        raise source.error(
            offset=limit.place, expected=f"a range of joint {joint.name!r}", found=f"{low:g} and {high:g}"
        )
    return low, high


def _couplings(source: Source, joints: list[_Joint]) -> list[tuple[str, str, float, float]]:
    """Return (follower, leader, ratio, offset) of the mimic joints, with chains resolved to their last leader."""
    single = {joint.name for joint in joints if joint.kind in _MOVING}
    rules: dict[str, tuple[str, float, float]] = {}
    for joint in joints:
        mimic = joint.element.first("mimic")
        if mimic is None or joint.name not in single:
            continue
        leader = text(source, mimic, "joint")
        if leader not in single or leader == joint.name:
            source.warn(
                f"joint {joint.name!r} mimics {shown(leader)}, which is not another moving joint; it moves freely"
            )
            continue
        rules[joint.name] = (leader, number(source, mimic, "multiplier", 1.0), number(source, mimic, "offset", 0.0))
    ends: dict[str, tuple[str, float, float]] = {}  # the last leader of each follower's chain
    for joint in joints:
        passed: dict[str, None] = {}
        name = joint.name
        while name in rules and name not in ends:
            if name in passed:
                raise source.error(
                    offset=joint.element.place, expected="mimic joints without a cycle", found=shown(joint.name)
                )
            passed[name] = None
            name = rules[name][0]
        for follower in reversed(passed):  # from the end of the chain back, so that each is visited once
            leader, ratio, offset = rules[follower]
            last, more, shift = ends.get(leader, (leader, 1.0, 0.0))
            ends[follower] = (last, ratio * more, offset + ratio * shift)
    return [(joint.name, *ends[joint.name]) for joint in joints if joint.name in ends]


def _geometry(
    source: Source, robot: Element, links: dict[str, Element], home: dict[str, str]
) -> tuple[list[Shape], list[Mesh], str]:
    """Return the collision shapes of every link, the visual meshes that can be opened, and which shapes are missing."""
    missing: list[str] = []
    without: list[str] = []  # links with a collision mesh that cannot be opened
    opened: dict[tuple[str, tuple[float, ...]], Surface | None] = {}
    palette = _palette(robot, links)

    def open_mesh(element: Element) -> Surface | None:
        name, scale = text(source, element, "filename"), _scale(source, element)
        key = (name, tuple(scale.tolist()))
        if key not in opened:
            path = find_mesh(source, name)
            found = load_mesh(path, scale) if path is not None else f"{name}: no such file"
            opened[key] = None if isinstance(found, str) else found
            if isinstance(found, str):
                missing.append(found)
        return opened[key]

    shapes, meshes = [], []
    for link, element in links.items():
        seen = next((found for part in element.all("visual") if (found := _color(part, palette))), None)
        for tag in ("collision", "visual"):
            for k, part in enumerate(element.all(tag)):
                offset, rotation = _origin(source, part)
                geometry = part.first("geometry")
                name = part.attributes.get("name") or (link if not k else f"{link}_{k + 1}")
                for shape in geometry.children if geometry else []:
                    if tag == "collision":
                        found = _shape(source, shape, home[link], name, open_mesh)
                        if found is not None:
                            shapes.append(replace(found.moved(home[link], offset, rotation), color=seen))
                        elif shape.tag == "mesh":
                            without.append(link)
                    elif shape.tag == "mesh" and (surface := open_mesh(shape)) is not None:
                        vertices, faces, inside = surface
                        color = inside if inside is not None else _color(part, palette)
                        meshes.append(
                            Mesh(
                                name, offset + vertices @ rotation.T, faces, home[link],
                                color=None if color is None else np.asarray(color),
                            )
                        )  # fmt: skip
    if missing:
        source.note(f"{len(missing)} of {len(opened)} meshes were not opened, the first one: {missing[0]}")
    drawn = [(mesh.joint, mesh.name, mesh.vertices) for mesh in meshes if mesh.joint is not None]
    count = f"{len(set(without))} of {len(links)} links"
    lost = f"collision meshes of {count} were not opened, the first one: {missing[0]}" if without else ""
    shapes = _with_capsules(shapes)
    return shapes + solids.protruding(shapes, drawn), meshes, lost


def _with_capsules(shapes: list[Shape]) -> list[Shape]:
    """Return the shapes with a capsule for each cylinder that two balls of its radius, at its ends, come after.

    URDF has had capsules only since 1.1.
    """
    out: list[Shape] = []
    at = 0
    while at < len(shapes):
        rod, balls = shapes[at], shapes[at + 1 : at + 3]
        at += 1
        if rod.kind == "cylinder" and [(ball.joint, ball.kind) for ball in balls] == 2 * [(rod.joint, "sphere")]:
            ends = rod.points.reshape(2, -1, 3).mean(axis=1)
            radius = float(np.linalg.norm(rod.points[0] - ends[0])) - rod.overshoot
            centers = np.array([ball.points[0] for ball in balls])
            same = abs(np.array([ball.radius for ball in balls]) - radius).max() < SAME * radius
            if same and min(abs(centers - ends).max(), abs(centers[::-1] - ends).max()) < SAME * radius:
                rod = replace(
                    solids.capsule(rod.joint, ends[0], ends[1], balls[0].radius, name=rod.name), color=rod.color
                )
                at += 2
        out.append(rod)
    return out


def _palette(robot: Element, links: dict[str, Element]) -> dict[str, tuple[float, float, float]]:
    """Return the colours of the named materials, whether they are defined on the robot or where they are first used."""
    materials = list(robot.all("material"))
    materials += [given for link in links.values() for part in link.all("visual") for given in part.all("material")]
    out: dict[str, tuple[float, float, float]] = {}
    for material in materials:
        if (color := _rgb(material)) is not None:
            out.setdefault(material.attributes.get("name", ""), color)
    return out


def _color(visual: Element, palette: dict[str, tuple[float, float, float]]) -> tuple[float, float, float] | None:
    """Return the colour of a <visual>, its own or that of a named material; None if it has none."""
    material = visual.first("material")
    return None if material is None else _rgb(material) or palette.get(material.attributes.get("name", ""))


def _rgb(material: Element) -> tuple[float, float, float] | None:
    """Return the colour of a <material>; None if it has none, or not three numbers: a robot opens all the same."""
    color = material.first("color")
    try:
        r, g, b = (float(word) for word in (color.attributes if color else {})["rgba"].split()[:3])
    except (KeyError, ValueError):
        return None
    return (min(max(r, 0.0), 1.0), min(max(g, 0.0), 1.0), min(max(b, 0.0), 1.0)) if np.isfinite(r + g + b) else None


def _scale(source: Source, element: Element) -> np.ndarray:
    """Return the scale (3,) of a mesh: one number applies to all axes; numbers after the third are ignored."""
    given = element.attributes.get("scale", "1 1 1").split()
    if len(given) != 3:
        source.note(f"mesh scale {shown(' '.join(given))}: expected three numbers")
        given = given * 3 if len(given) == 1 else given[:3]
    return numbers(source, Element("mesh", {"scale": " ".join(given)}, element.place), "scale", [1.0, 1.0, 1.0])


def _shape(source: Source, element: Element, joint: str, name: str, open_mesh: Any) -> Shape | None:
    """Return one collision geometry in its own frame; None for a mesh that cannot be opened and for unknown tags."""
    if element.tag == "mesh":
        surface = open_mesh(element)
        return None if surface is None else solids.hull(joint, surface[0], name=name)
    if element.tag == "box":
        size = numbers(source, element, "size", [0.0, 0.0, 0.0])
        if (size < 0).any():
            raise source.error(offset=element.place, expected="non-negative sizes", found=shown(str(size)))
        return solids.box(joint, 0.5 * size, name=name)
    if element.tag not in ("sphere", "cylinder", "capsule"):
        return None
    radius, length = (number(source, element, key, 0.0) for key in ("radius", "length"))
    if radius < 0 or length < 0:
        raise source.error(offset=element.place, expected="non-negative sizes", found=f"{radius:g}, {length:g}")
    if element.tag == "sphere":
        return solids.sphere(joint, radius, name=name)
    if element.tag == "cylinder":
        return solids.cylinder(joint, radius, 0.5 * length, name=name)
    return solids.capsule(joint, (0.0, 0.0, -0.5 * length), (0.0, 0.0, 0.5 * length), radius, name=name)


FORMAT = Format(
    "URDF", (".urdf",), "a robot with limits, masses and shapes", "metres, radians, z up", sniff, read, write
)


# --- Mesh files: how they are found, and read with trimesh ---


SUFFIXES = (".stl", ".obj", ".dae", ".ply", ".off", ".glb", ".gltf")
_LARGEST = 200_000_000  # bytes
Surface = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # vertices (V, 3) [m], faces (F, 3), colours as in `Mesh`


def find_mesh(source: Source, name: str) -> Path | None:
    """Return the file of `package://pkg/path`, `file:///path` or a relative path; None if it is missing.

    A package is looked for above the description's own folder, as a folder of that name or as the one the file is in.
    """
    text = unquote(name.strip())
    folder = source.path.resolve().parent if source.on_disk else Path.cwd()
    if text.startswith(("package://", "model://")):
        package, _, inside = text.split("://", 1)[1].partition("/")
        places = []
        for above in (folder, *folder.parents):
            places += [above / package / inside, above / "share" / package / inside]
            if above.name == package:
                places.append(above / inside)
        places += [above / inside for above in (folder, *folder.parents)[:4]]
    else:
        text = text.removeprefix("file://")
        places = [folder / text]
    try:
        return next((p for p in places if p.suffix.lower() in SUFFIXES and p.is_file()), None)
    except OSError:  # an invalid file name
        return None


def load_mesh(path: Path, scale: np.ndarray) -> Surface | str:
    """Return vertices (V, 3) [m], faces (F, 3) and colours of a mesh file, or why it cannot be read."""
    try:
        import trimesh
    except ImportError:
        return "meshes are opened with trimesh: pip install 'posable[robots]'"
    if path.stat().st_size > _LARGEST:
        return f"{path.name}: larger than {_LARGEST // 1_000_000} MB"
    try:
        scene: Any = trimesh.load(path, force="scene", process=False)
        parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh)]
        starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
        vertices = np.concatenate([np.array(part.vertices, dtype=float) for part in parts] or [np.zeros((0, 3))])
        faces = np.concatenate([np.asarray(part.faces, np.int32) + k for part, k in zip(parts, starts, strict=False)])
        colors = _mesh_colors(parts, linear=path.suffix.lower() in (".glb", ".gltf"))
    except Exception as problem:  # parsers of trimesh raise anything
        return f"{path.name}: {type(problem).__name__}: {problem}"
    if not len(vertices) or not np.isfinite(vertices).all():
        return f"{path.name}: no finite vertices"
    return vertices * scale, faces.reshape(-1, 3).astype(np.int32), colors


def _mesh_colors(parts: list[Any], linear: bool) -> np.ndarray | None:
    """Return the colour (3,) of a mesh file, or of each face (F, 3); None if a part has none.

    Args:
        parts: Its parts, as trimesh reads them.
        linear: Whether the factors of its materials are linear, as in glTF, and not sRGB.
    """
    from trimesh.visual import DEFAULT_COLOR

    out = []
    for part in parts:
        visual, color = part.visual, None
        if visual.kind == "texture":
            image = getattr(visual.material, "baseColorTexture", getattr(visual.material, "image", None))
            if image is not None and visual.uv is not None:
                color = visual.to_color().vertex_colors[part.faces].mean(axis=1)
            elif not np.array_equal(visual.material.main_color, DEFAULT_COLOR):
                color = np.tile(visual.material.main_color, (len(part.faces), 1))
                color = 255.0 * (color / 255.0) ** (1.0 / 2.2) if linear else color
        elif visual.kind in ("face", "vertex"):
            color = visual.face_colors
        if color is None:
            return None
        out.append(color[:, :3] / 255.0)
    found = np.concatenate(out) if out else np.zeros((0, 3))
    return None if not len(found) else found[0] if np.array_equal(found, np.tile(found[0], (len(found), 1))) else found
