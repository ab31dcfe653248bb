"""MJCF, read through MuJoCo: joints, limits, equality constraints, sites, inertias, geoms and keyframes.

MuJoCo parses and compiles the file (`MjSpec`), so that defaults, includes, classes and meshes mean what they mean
there. A joint here is MuJoCo's joint; every body and every site is a site. A pose holds the numbers of `qpos`, but for
quaternions, which are rotation vectors; `skeleton.to_qpos` and `from_qpos` convert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable.formats.base import MAX_JOINTS, Format, Options, build_skeleton
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source
from posable.model import shapes as solids
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Site
from posable.model.shapes import WORLD, Shape
from posable.model.skeleton import Skeleton

_FREE, _BALL, _SLIDE, _HINGE = 0, 1, 2, 3  # mjtJoint
_PLANE, _HFIELD, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(8)  # mjtGeom
_CONNECT, _WELD, _EQ_JOINT, _EQ_TENDON = 0, 1, 2, 3  # mjtEq
_WRAP_JOINT = 1  # mjtWrap: a joint of a fixed tendon
_OBJ_SITE = 6  # mjtObj
_RGB, _FLAT = 1, 0  # mjtTextureRole of colours, mjtTexture of pictures
_GREY = (0.5, 0.5, 0.5, 1.0)  # rgba of geoms that state none
_ELEMENT = re.compile(rb"<(/?)(\w+)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(rb"(\w+)\s*=\s*[\"']([^\"']*)")
_EXPANDED = {  # what MuJoCo creates beyond the contents of a file: (attributes that are multiplied, most, of what)
    b"replicate": ((b"count",), MAX_JOINTS, "copies"),
    b"composite": ((b"count",), MAX_JOINTS, "elements"),
    b"flexcomp": ((b"count",), 10 * MAX_JOINTS, "points"),
    b"hfield": ((b"nrow", b"ncol"), 10_000_000, "heights"),
    b"texture": ((b"width", b"height"), 100_000_000, "pixels"),
}
_MOST_USER_NUMBERS = 1000  # per element, `nuser_body` and its like
_COLLISION_GROUP = 3  # geoms of this group and above are for collision, by the convention of most models


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is MJCF."""
    return b"<mujoco" in head


def read(source: Source, options: Options) -> Scene:
    """Return the robot of an MJCF file, in metres and radians."""
    model = compile_model(source)
    tree = _JointTree(source, model)
    couplings, fixed_values = _couplings(source, model, tree)
    sites, loops = _sites(source, model, tree)
    joints = [_with_limits(joint, fixed_values) for joint in tree.joints]
    shapes, meshes = _geoms(source, model, tree)
    skeleton = build_skeleton(
        source, joints, sites, name=_model_name(model), up=_up(source, model), couplings=couplings,
        info={"format": "mjcf"}, loops=loops, shapes=shapes, disabled_pairs=_excluded(model, tree),
    )  # fmt: skip
    if model.nkey:
        skeleton = skeleton.replace(named_poses=_keyframes(model, skeleton))
    return Scene(skeleton=skeleton, meshes=tuple(meshes), name=skeleton.name)


# --- From the file to MuJoCo's model ---


def compile_model(source: Source) -> Any:
    """Return MuJoCo's compiled model of a file; geoms with missing meshes are left out, with a note."""
    try:
        mujoco: Any = import_module("mujoco")  # type checkers cannot see its compiled names
    except ImportError:
        raise source.error("MJCF is read through MuJoCo: pip install 'posable[mujoco]'") from None
    _bound_expansion(source)
    try:
        text = source.data.decode("utf-8")
        spec = mujoco.MjSpec.from_file(str(source.path)) if source.on_disk else mujoco.MjSpec.from_string(text)
        try:
            return spec.compile()
        except ValueError as problem:
            first = str(problem)
        missing = _drop_missing_meshes(spec, source)
        if not missing:
            raise ValueError(first)
        model = spec.compile()
    except (ValueError, RuntimeError, UnicodeDecodeError, OverflowError) as problem:
        raise source.error(f"MuJoCo rejects it: {' '.join(str(problem).split())}") from None
    source.warn(f"missing mesh files ({len(missing)}), the geoms that use them were ignored: {missing[0]!r}, ...")
    return model


def _bound_expansion(source: Source) -> None:
    """Refuse a file in which a few numbers make MuJoCo allocate far more than the file holds."""
    data = re.sub(rb"<!--.*?-->", lambda comment: b" " * len(comment[0]), source.data, flags=re.DOTALL)
    copies = [1.0]  # of what is inside each replicate that is open
    for match in _ELEMENT.finditer(data):
        end, tag, rest = match.groups()
        if end:
            if tag == b"replicate" and len(copies) > 1:
                copies.pop()
            continue
        given = dict(_ATTRIBUTE.findall(rest))
        if tag == b"size":
            user = max((_product(value) for key, value in given.items() if key.startswith(b"nuser")), default=0.0)
            if user > _MOST_USER_NUMBERS:
                raise source.error(
                    offset=match.start(), expected=f"at most {_MOST_USER_NUMBERS} user numbers", found=f"{user:g}"
                )
        if tag not in _EXPANDED:
            continue
        keys, most, what = _EXPANDED[tag]
        total = copies[-1] * float(np.prod([_product(given.get(key, b"1")) for key in keys]))
        if total > most:
            raise source.error(offset=match.start(), expected=f"at most {most} {what}", found=f"{total:g}")
        if tag == b"replicate" and not rest.endswith(b"/"):
            copies.append(max(total, 1.0))


def _product(text: bytes) -> float:
    """Return the product of the numbers in an attribute; 1 if they are none, which MuJoCo reports."""
    try:
        return float(np.prod([float(word) for word in text.split()[:3]]))
    except ValueError:
        return 1.0


def _drop_missing_meshes(spec: Any, source: Source) -> list[str]:
    """Delete meshes and textures with missing files from a spec, and the geoms that use them."""
    folder = source.path.parent
    missing = [mesh for mesh in spec.meshes if mesh.file and not _found(folder, spec.meshdir, mesh.file)]
    names = {mesh.name or mesh.file.rsplit("/", 1)[-1].rsplit(".", 1)[0] for mesh in missing}
    files = [mesh.file for mesh in missing]
    for geom in [geom for geom in spec.geoms if geom.meshname in names]:
        spec.delete(geom)
    for mesh in missing:
        spec.delete(mesh)
    for texture in [t for t in spec.textures if t.file and not _found(folder, spec.texturedir, t.file)]:
        files.append(texture.file)
        for material in spec.materials:
            material.textures = ["" if name == texture.name else name for name in material.textures]
        spec.delete(texture)
    spec.compiler.boundmass = spec.compiler.boundinertia = 1e-9  # bodies whose mass came from a deleted mesh
    return files


def _found(folder: Any, kind: str, file: str) -> bool:
    return any((place / file).is_file() for place in (folder / kind, folder))


def _model_name(model: Any) -> str:
    """Return the first of MuJoCo's packed names: the model's own."""
    name = bytes(model.names).split(b"\0", 1)[0].decode("utf-8", "replace")
    return "" if name == "MuJoCo Model" else name


def _up(source: Source, model: Any) -> str | None:
    """Return the axis against gravity."""
    gravity = np.asarray(model.opt.gravity, dtype=float)
    axis = int(np.argmax(np.abs(gravity)))
    if gravity[axis] < 0.0 and axis > 0:
        return "yz"[axis - 1]
    if gravity.any():
        source.note(f"gravity points along {gravity}: no axis is up")
        return None
    return "z"


def matrix(wxyz: Any) -> np.ndarray:
    """Return the rotation (3, 3) of a quaternion wxyz."""
    return Rotation.from_quat(np.roll(np.asarray(wxyz, dtype=float), -1)).as_matrix()


# --- Bodies and joints ---


@dataclass
class _BodyPlacement:
    """The placement of a MuJoCo body: offset (3,) [m] and rotation (3, 3) in the frame of `joint`."""

    joint: str
    offset: np.ndarray = field(default_factory=lambda: np.zeros(3))
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))

    def inside(self, position: Any, wxyz: Any) -> tuple[np.ndarray, np.ndarray]:
        """Convert an offset and rotation from the body's frame to the joint's."""
        return self.offset + self.rotation @ np.asarray(position, float), self.rotation @ matrix(wxyz)


class _JointTree:
    """The joints of a model in the order of `qpos`, and the placement of its bodies on them."""

    def __init__(self, source: Source, model: Any):
        self.source, self.model = source, model
        self.body_names = [model.body(b).name or f"body_{b}" for b in range(model.nbody)]
        joint_names = [model.joint(j).name or f"joint_{j}" for j in range(model.njnt)]
        still = [b for b in range(1, model.nbody) if not model.body_jntnum[b]]
        unique = source.unique([*joint_names, *(self.body_names[b] for b in still)], "joint")
        self.joint_names = unique[: model.njnt]
        self.still_names = dict(zip(still, unique[model.njnt :], strict=True))
        self.effort, self.actuated = _actuators(model)
        self.joints: list[Joint] = []
        self.places: dict[int, _BodyPlacement] = {0: _BodyPlacement(WORLD)}
        tops = [b for b in range(1, model.nbody) if model.body_parentid[b] == 0]
        self.has_world = len(tops) != 1 or any(model.site_bodyid[s] == 0 for s in range(model.nsite))
        if self.has_world:
            self.joints.append(Joint(WORLD, Fixed()))
        for body in range(1, model.nbody):
            self.places[body] = self._add_body(body)

    def _add_body(self, body: int) -> _BodyPlacement:
        model = self.model
        above = self.places[int(model.body_parentid[body])]
        parent = None if above.joint == WORLD and not self.has_world else above.joint
        offset, rotation = above.inside(model.body_pos[body], model.body_quat[body])
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        if not count:
            joint = Joint(self.still_names[body], Fixed(), parent, offset=offset, rotation=rotation)
            place = _BodyPlacement(joint.name)
            self.joints.append(replace(joint, **self._inertia(body, place)))
            return place
        anchor = np.zeros(3)
        for k in range(first, first + count):
            if model.jnt_type[k] == _FREE:
                joint = self._free(k, parent)
            else:
                anchor = np.asarray(model.jnt_pos[k], dtype=float)
                joint = self._joint(k, parent, offset + rotation @ anchor, rotation)
            self.joints.append(joint)
            parent, offset, rotation = joint.name, -anchor, np.eye(3)
        place = _BodyPlacement(self.joints[-1].name, -anchor)
        self.joints[-1] = replace(self.joints[-1], **self._inertia(body, place))
        return place

    def _free(self, k: int, parent: str | None) -> Joint:
        start = int(self.model.jnt_qposadr[k])
        place = np.asarray(self.model.qpos0[start : start + 7], dtype=float)
        turn = Rotation.from_quat(np.roll(place[3:], -1)).as_rotvec()
        return Joint(self.joint_names[k], Free("rotvec"), parent, rest=np.concatenate([place[:3], turn]))

    def _joint(self, k: int, parent: str | None, offset: np.ndarray, rotation: np.ndarray) -> Joint:
        """Return a hinge, slide or ball; MuJoCo's reference value is taken out of the constant transform."""
        model, name, kind = self.model, self.joint_names[k], int(self.model.jnt_type[k])
        limited = bool(model.jnt_limited[k])
        if kind == _BALL:
            if limited:
                self.source.warn(f"ball joint {name!r}: its limit on the angle of rotation was ignored")
            return Joint(name, Ball("rotvec"), parent, offset=offset, rotation=rotation)
        axis = np.asarray(model.jnt_axis[k], dtype=float)
        zero = float(model.qpos0[model.jnt_qposadr[k]])
        if kind == _HINGE:
            motion: Revolute | Prismatic = Revolute(tuple(axis.tolist()))
            rotation = rotation @ Rotation.from_rotvec(-zero * axis).as_matrix() if zero else rotation
        else:
            motion = Prismatic(tuple(axis.tolist()))
            offset = offset - rotation @ axis * zero
        limits = tuple(model.jnt_range[k].tolist()) if limited else self.actuated.get(k, (-np.inf, np.inf))
        rest = min(max(zero, limits[0]), limits[1])
        return Joint(
            name, motion, parent, offset=offset, rotation=rotation, limits=limits, rest=rest,
            effort=self.effort.get(k, np.inf),
        )  # fmt: skip

    def _inertia(self, body: int, place: _BodyPlacement) -> dict[str, Any]:
        mass = float(self.model.body_mass[body])
        center, axes = place.inside(self.model.body_ipos[body], self.model.body_iquat[body])
        inertia = axes @ np.diag(self.model.body_inertia[body]) @ axes.T
        return {"mass": mass, "center": center, "inertia": 0.5 * (inertia + inertia.T) if mass else None}


def _actuators(model: Any) -> tuple[dict[int, float], dict[int, tuple[float, float]]]:
    """Return, by joint, the largest effort [N m, N] and the range of position servos [rad, m]."""
    effort: dict[int, float] = {}
    ranges: dict[int, tuple[float, float]] = {}
    for a in range(model.nu):
        if model.actuator_trntype[a] > 1:  # neither JOINT nor JOINTINPARENT
            continue
        k, gear = int(model.actuator_trnid[a, 0]), abs(float(model.actuator_gear[a, 0]))
        if model.actuator_forcelimited[a]:
            effort[k] = min(effort.get(k, np.inf), gear * float(np.abs(model.actuator_forcerange[a]).max()))
        servo = model.actuator_biastype[a] == 1 and model.actuator_biasprm[a, 1] < 0.0
        if servo and model.actuator_ctrllimited[a] and model.actuator_gear[a, 0] == 1.0:
            low, high = model.actuator_ctrlrange[a].tolist()
            ranges[k] = (low, high)
        elif not servo and model.actuator_ctrllimited[a] and model.actuator_biastype[a] == 0:
            force = gear * abs(float(model.actuator_gainprm[a, 0])) * float(np.abs(model.actuator_ctrlrange[a]).max())
            effort[k] = min(effort.get(k, np.inf), force)
    for k in range(model.njnt):
        if model.jnt_actfrclimited[k]:
            effort[k] = min(effort.get(k, np.inf), float(np.abs(model.jnt_actfrcrange[k]).max()))
    return {k: value for k, value in effort.items() if value > 0.0}, ranges


def _with_limits(joint: Joint, values: dict[str, float]) -> Joint:
    """Return a joint that an equality constraint holds at one value."""
    value = values.get(joint.name)
    return joint if value is None else replace(joint, limits=(value, value), rest=value)


# --- Constraints, sites, poses ---


def _couplings(
    source: Source, model: Any, tree: _JointTree
) -> tuple[list[tuple[str, str, float, float]], dict[str, float]]:
    """Return the joints coupled to others, and the values of joints that a constraint fixes."""
    out, still = [], {}
    for e in range(model.neq):
        if model.eq_type[e] != _EQ_JOINT or not model.eq_active0[e]:
            continue
        first, second = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
        zero, ratio, *higher = model.eq_data[e, :5].tolist()
        follower, home = tree.joint_names[first], float(model.qpos0[model.jnt_qposadr[first]])
        if second < 0:
            still[follower] = home + zero
            continue
        leader, away = tree.joint_names[second], float(model.qpos0[model.jnt_qposadr[second]])
        if any(higher):
            source.warn(f"joint {follower!r} follows {leader!r} by a polynomial; its linear part was kept")
        out.append((follower, leader, ratio, home + zero - ratio * away))
    _add_tendons(source, model, tree, out, still)
    return out, still


def _add_tendons(source: Source, model: Any, tree: _JointTree, couplings: list, still: dict[str, float]) -> None:
    """Add what equality constraints on fixed tendons, weighted sums of joints, say of one joint or of two.

    Everything else about tendons is left out, with a note.
    """
    used: set[int] = set()
    for e in range(model.neq):
        if model.eq_type[e] != _EQ_TENDON or not model.eq_active0[e]:
            continue
        tendons = [int(t) for t in (model.eq_obj1id[e], model.eq_obj2id[e]) if t >= 0]
        zero, ratio, *higher = model.eq_data[e, :5].tolist()
        sums = [_fixed_tendon(model, t) for t in tendons]
        label = " and ".join(repr(model.tendon(t).name or f"tendon_{t}") for t in tendons)
        if any(part is None for part in sums):
            continue
        terms: dict[int, float] = dict(sums[0] or {})  # sum of factor * (q - q0) = zero
        for k, factor in (sums[1] or {}).items() if len(sums) > 1 else ():
            terms[k] = terms.get(k, 0.0) - ratio * factor
        terms = {k: factor for k, factor in terms.items() if factor}
        if not 1 <= len(terms) <= 2:
            source.warn(f"the constraint on the tendon {label} ties {len(terms)} joints together and was ignored")
            continue
        if len(tendons) > 1 and any(higher):
            source.warn(f"the constraint on the tendons {label} is a polynomial; its linear part was kept")
        used.update(tendons)
        (first, scale), *other = terms.items()
        name, home = tree.joint_names[first], float(model.qpos0[model.jnt_qposadr[first]])
        if not other:
            still[name] = home + zero / scale
            continue
        second, factor = other[0]
        away = float(model.qpos0[model.jnt_qposadr[second]])
        couplings.append((name, tree.joint_names[second], -factor / scale, home + (zero + factor * away) / scale))
    rest = [model.tendon(t).name or f"tendon_{t}" for t in range(model.ntendon) if t not in used]
    if rest:
        source.note(f"tendons not used ({len(rest)}), their joints move independently: {', '.join(rest[:3])}")


def _fixed_tendon(model: Any, tendon: int) -> dict[int, float] | None:
    """Return {joint: factor} of a fixed tendon, None of a spatial one."""
    first = int(model.tendon_adr[tendon])
    rows = range(first, first + int(model.tendon_num[tendon]))
    if any(model.wrap_type[row] != _WRAP_JOINT for row in rows):
        return None
    return {int(model.wrap_objid[row]): float(model.wrap_prm[row]) for row in rows}


def _sites(source: Source, model: Any, tree: _JointTree) -> tuple[list[Site], list[tuple[str, str, bool]]]:
    """Return a site for every body and site of the model and for the ends of its closed loops, and those loops."""
    sites: dict[str, Site] = {}
    shared = []
    joint_names = {joint.name for joint in tree.joints}
    for body, place in tree.places.items():
        name = tree.body_names[body]
        if body == 0 or (name == place.joint and not place.offset.any()):
            continue
        sites[name] = Site(name, place.joint, place.offset)
        if name in joint_names:
            shared.append(name)
    if shared:
        listed = ", ".join(map(repr, shared[:3]))
        source.note(f"{len(shared)} bodies and joints share a name; a goal on it means the body: {listed}")
    own_names: dict[int, str] = {}
    renamed = []
    for s in range(model.nsite):
        name = own = model.site(s).name or f"site_{s}"
        while name in sites or name in joint_names or name == WORLD:
            name += ".site"
        if name != own:
            renamed.append(name)
        own_names[s] = name
        place = tree.places[int(model.site_bodyid[s])]
        sites[name] = Site(name, place.joint, *place.inside(model.site_pos[s], model.site_quat[s]))
    if renamed:
        listed = ", ".join(map(repr, renamed[:3]))
        source.note(f"sites that share a name with a body or joint ({len(renamed)}) have another here: {listed}")
    loops = []
    for e in range(model.neq):
        if model.eq_type[e] not in (_CONNECT, _WELD) or not model.eq_active0[e]:
            continue
        welded = bool(model.eq_type[e] == _WELD)
        ends = (int(model.eq_obj1id[e]), int(model.eq_obj2id[e]))
        if model.eq_objtype[e] == _OBJ_SITE:
            loops.append((own_names[ends[0]], own_names[ends[1]], welded))
            continue
        data, upright = model.eq_data[e], (1.0, 0.0, 0.0, 0.0)
        first, second = ((data[3:6], data[6:10]), (data[:3], upright)) if welded else (
            (data[:3], upright), (data[3:6], upright))  # fmt: skip
        names = []
        for body, (position, wxyz) in zip(ends, (first, second), strict=True):
            label = model.equality(e).name or "-".join(tree.body_names[end] for end in ends)
            name = f"{label}.{tree.body_names[body]}"
            while name in sites or name in joint_names:
                name += "'"
            place = tree.places[body]
            if place.joint == WORLD and not tree.has_world:
                source.warn(f"the constraint {label!r} holds a body to the world and was ignored")
                break
            sites[name] = Site(name, place.joint, *place.inside(position, wxyz))
            names.append(name)
        else:
            loops.append((names[0], names[1], welded))
    return list(sites.values()), loops


def _keyframes(model: Any, skeleton: Skeleton) -> dict[str, np.ndarray]:
    """Return the keyframes as poses (n,) by name."""
    return {
        model.key(k).name or f"key_{k}": skeleton.from_qpos(np.asarray(model.key_qpos[k], dtype=float))
        for k in range(model.nkey)
    }


# --- Geoms ---


def _geoms(source: Source, model: Any, tree: _JointTree) -> tuple[list[Shape], list[Mesh]]:
    """Return the collision geoms as shapes, and the visual meshes."""
    count = model.ngeom
    bits = (np.asarray(model.geom_contype) | np.asarray(model.geom_conaffinity)) != 0
    partners = _partners(model, tree)
    collides = [bool(bits[g]) or g in partners for g in range(count)]
    if not any(collides) and count:
        collides = [int(model.geom_group[g]) >= _COLLISION_GROUP for g in range(count)]
        if any(collides):
            source.note(f"no geom has a contype: those of group {_COLLISION_GROUP} and above are used for collision")
    plain_drawing = any(not hit for hit in collides)
    shapes, meshes = [], []
    for g in range(count):
        place = tree.places[int(model.geom_bodyid[g])]
        offset, rotation = place.inside(model.geom_pos[g], model.geom_quat[g])
        kind, size = int(model.geom_type[g]), np.asarray(model.geom_size[g], dtype=float)
        name = _geom_name(model, tree, g)
        if kind == _MESH and (not collides[g] or not plain_drawing):
            vertices, faces = _mesh(model, int(model.geom_dataid[g]))
            joint = place.joint if place.joint != WORLD or tree.has_world else None
            meshes.append(Mesh(name, offset + vertices @ rotation.T, faces, joint, color=_mesh_color(model, g)))
        if collides[g]:
            shape = _shape(model, g, kind, size, place.joint, name)
            if shape is None:
                source.note(f"geom {name!r} is a height field or signed-distance plugin: not used for collision")
            else:
                only_pairs = {"contype": 0, "conaffinity": 0} if g in partners and not bits[g] else {}
                shape = replace(shape, partners=partners.get(g, ()), **only_pairs)
                shapes.append(shape.moved(place.joint, offset, rotation))
    drawn = [(mesh.joint, mesh.name, mesh.vertices) for mesh in meshes if mesh.joint is not None]
    return shapes + solids.protruding(shapes, drawn), meshes


def _geom_name(model: Any, tree: _JointTree, g: int) -> str:
    return model.geom(g).name or f"{tree.body_names[int(model.geom_bodyid[g])]}.geom{g}"


def _shape(model: Any, g: int, kind: int, size: np.ndarray, joint: str, name: str) -> Shape | None:
    color = _color(model, g)
    fields: dict[str, Any] = {"name": name, "color": None if color is None else tuple(color.tolist())}
    if model.geom_contype[g] | model.geom_conaffinity[g]:
        fields |= {"contype": int(model.geom_contype[g]), "conaffinity": int(model.geom_conaffinity[g])}
    if kind == _SPHERE:
        return solids.sphere(joint, size[0], **fields)
    if kind == _CAPSULE:
        return solids.capsule(joint, (0.0, 0.0, -size[1]), (0.0, 0.0, size[1]), size[0], **fields)
    if kind == _BOX:
        return solids.box(joint, size, **fields)
    if kind == _CYLINDER:
        return solids.cylinder(joint, size[0], size[1], **fields)
    if kind == _ELLIPSOID:
        return solids.ellipsoid(joint, size, **fields)
    if kind == _PLANE:
        return solids.plane(joint, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), **fields)
    if kind == _MESH:
        return Shape(joint, _hull_corners(model, int(model.geom_dataid[g])), **fields)
    return None


def _color(model: Any, g: int) -> np.ndarray | None:
    """Return the colour (3,) of a geom; None for MuJoCo's default grey.

    As in MuJoCo's viewer, a geom's own rgba overrides its material unless it is the default.
    """
    own, material = np.asarray(model.geom_rgba[g], dtype=float), int(model.geom_matid[g])
    if not np.array_equal(own, _GREY):
        return own[:3]
    return np.asarray(model.mat_rgba[material, :3], dtype=float) if material >= 0 else None


def _mesh_color(model: Any, g: int) -> np.ndarray | None:
    """Return the colour (3,) of a mesh geom, or of each of its faces (F, 3) if its material has a texture."""
    color, material, mesh = _color(model, g), int(model.geom_matid[g]), int(model.geom_dataid[g])
    texture = int(model.mat_texid[material, _RGB]) if material >= 0 else -1
    first = int(model.mesh_texcoordadr[mesh])
    if texture < 0 or first < 0 or int(model.tex_type[texture]) != _FLAT:
        return color
    height, width, channels = (int(of[texture]) for of in (model.tex_height, model.tex_width, model.tex_nchannel))
    start, faces = int(model.tex_adr[texture]), int(model.mesh_faceadr[mesh])
    pixels = np.asarray(model.tex_data[start : start + height * width * channels]).reshape(height, width, channels)
    corners = np.asarray(model.mesh_facetexcoord[faces : faces + int(model.mesh_facenum[mesh])])
    place = np.asarray(model.mesh_texcoord)[first + corners].mean(axis=1) % 1.0
    found = pixels[(place[:, 1] * height).astype(int), (place[:, 0] * width).astype(int), :3] / 255.0
    return np.broadcast_to(found, (len(found), 3)) * (1.0 if color is None else color)


def _mesh(model: Any, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices (V, 3) [m] and faces (F, 3) of a mesh, in its own frame."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    start, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return (
        np.array(model.mesh_vert[first : first + count], dtype=float),
        np.array(model.mesh_face[start : start + faces], dtype=np.int32),
    )


def _hull_corners(model: Any, mesh: int) -> np.ndarray:
    """Return the corners of a mesh's convex hull; MuJoCo has computed it for the meshes that collide."""
    vertices, _ = _mesh(model, mesh)
    start = int(model.mesh_graphadr[mesh])
    if start < 0:
        return solids.hull_corners(vertices)
    corners = int(model.mesh_graph[start])
    ids = model.mesh_graph[start + 2 + corners : start + 2 + 2 * corners]
    return vertices[np.sort(np.asarray(ids))]


def _excluded(model: Any, tree: _JointTree) -> list[tuple[str, str]]:
    """Return the pairs of joints that the file excludes from collision."""
    pairs = [(int(code) >> 16, int(code) & 0xFFFF) for code in model.exclude_signature]
    return [(tree.places[a].joint, tree.places[b].joint) for a, b in pairs]


def _partners(model: Any, tree: _JointTree) -> dict[int, tuple[str, ...]]:
    """Return, by geom, the names of the geoms that `<pair>` lets it collide with, whatever else the file says."""
    partners: dict[int, tuple[str, ...]] = {}
    for pair in zip(model.pair_geom1.tolist(), model.pair_geom2.tolist(), strict=True):
        for one, other in (pair, pair[::-1]):
            partners[one] = (*partners.get(one, ()), _geom_name(model, tree, other))
    return partners


FORMAT = Format(
    "MJCF", (".xml", ".mjcf"), "a robot with limits, masses, shapes, loops and named poses",
    "metres, radians, z up", sniff, read,
)  # fmt: skip
