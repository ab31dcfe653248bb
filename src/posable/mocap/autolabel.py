"""The bones of markers without recognised names, inferred from rigidity over the take.

Distances between markers on one bone are constant, and those across one joint nearly so: the spanning tree of least
spread has the shape of the body. Its ends are feet, hands and head, told apart by the path lengths between them; each
limb is divided where rigidity ends; the toes give the forward direction, and with it left and right. All but the last
step is independent of the pose, so the actor need not be standing in any frame.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, pairwise, permutations
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import shortest_path

from posable.errors import PosableError
from posable.model.body_plan import SIDES, BodyPlan

# --- Markers without names ---

SAMPLES = 600  # frames from which distances are taken
RIGID = 2.0  # times the usual spread of neighbours up to which two markers count as rigid
NEARNESS = 0.1  # weight of distance relative to spread when the tree is grown
FLOOR = 0.002  # [m]: smaller spreads count as this
SEEN = 0.1  # fraction of the frames in which two markers must be seen together
USUAL = 1.5  # times the middle spread of neighbours in the tree: what is rigid
LOOSE = 0.06  # [m]: spread to its nearest neighbour beyond which a marker belongs to no bone
LEAST_BRANCH = 0.07  # least length of a limb or a head, as a fraction of the tree's diameter


class Rigidity(NamedTuple):
    """Of every pair of markers: spread (M, M) [m] of their distance, and its middle (M, M) [m]."""

    spread: np.ndarray
    middle: np.ndarray


def rigidity(places: np.ndarray) -> Rigidity:
    """Return the rigidity of markers with places (T, M, 3) [m]; pairs that are hardly seen together are not rigid."""
    rows = np.linspace(0, len(places) - 1, min(SAMPLES, len(places))).astype(int)
    p = places[rows]
    count = p.shape[1]
    spread, middle = np.full((count, count), np.inf), np.full((count, count), np.inf)
    for i in range(count):
        gaps = np.linalg.norm(p - p[:, i : i + 1], axis=-1)  # (t, M)
        for j in range(count):
            seen = gaps[np.isfinite(gaps[:, j]), j]
            if len(seen) >= max(1.0, SEEN * len(rows)):
                spread[i, j], middle[i, j] = np.std(seen), np.median(seen)
    return Rigidity(spread, middle)


class MarkerTree:
    """The spanning tree of least spread: neighbours on a body are neighbours in it.

    nodes: indices of the connected markers. lengths (M, M) along the tree [m]; ways
    (M, M) [m] likewise, but straight between markers that are rigid. usual [m]: the spread of neighbours.
    """

    def __init__(self, found: Rigidity):
        cost = np.maximum(found.spread, FLOOR) + NEARNESS * found.middle
        np.fill_diagonal(cost, np.inf)
        self.nodes = _hanging_together(found)
        self.lengths = np.full(cost.shape, np.inf)
        self.edges: list[tuple[int, int]] = []
        reached = np.isfinite(cost[np.ix_(self.nodes, self.nodes)]).sum(axis=1)
        inside = [self.nodes[int(np.argmax(reached))]] if self.nodes else []
        for node in inside:
            self.lengths[node, node] = 0.0
        while len(inside) < len(self.nodes):
            outside = [node for node in self.nodes if node not in inside]
            block = cost[np.ix_(inside, outside)]
            a, b = np.unravel_index(int(np.argmin(block)), block.shape)
            if not np.isfinite(block[a, b]):  # never seen with any of the others
                self.nodes = sorted(inside)
                break
            old, new = inside[a], outside[b]
            self.edges.append((old, new))
            self.lengths[inside, new] = self.lengths[new, inside] = self.lengths[inside, old] + found.middle[old, new]
            self.lengths[new, new] = 0.0
            inside = [*inside, new]
        self.usual = USUAL * max(float(np.median([found.spread[a, b] for a, b in self.edges] or [0.0])), FLOOR)
        self.ways = self._ways(found)

    def _ways(self, found: Rigidity) -> np.ndarray:
        rigid = found.spread < RIGID * self.usual
        for a, b in self.edges:
            rigid[a, b] = rigid[b, a] = True
        graph = np.where(rigid, np.maximum(found.middle, 1e-6), 0.0)
        return np.asarray(shortest_path(graph, directed=False))

    def path(self, a: int, b: int) -> list[int]:
        """Return the nodes from a to b."""
        return [n for n in self.nodes if self.lengths[a, n] + self.lengths[n, b] <= self.lengths[a, b] + 1e-9]

    def meeting(self, a: int, b: int, c: int) -> int:
        """Return the node at which the ways between three nodes meet."""
        return min(self.nodes, key=lambda n: self.lengths[a, n] + self.lengths[b, n] + self.lengths[c, n])

    def beyond(self, gate: int, tip: int) -> set[int]:
        """Return the nodes on the tip's side of a gate, which is not among them."""
        way = self.lengths
        return {n for n in self.nodes if way[tip, n] + 1e-9 < way[tip, gate] + way[gate, n]}

    def tips(self, most: int = 5) -> dict[int, float]:
        """Return {far end: length of its branch, as a part of the tree's diameter}, the longest first."""
        block = self.lengths[np.ix_(self.nodes, self.nodes)]
        a, b = np.unravel_index(int(np.argmax(block)), block.shape)
        out, diameter = {self.nodes[a]: 0.5, self.nodes[b]: 0.5}, float(block.max())
        trunk = self.path(self.nodes[a], self.nodes[b])
        while len(out) < most:
            far = {node: float(self.lengths[node, trunk].min()) for node in self.nodes}
            tip = max(far, key=far.__getitem__)
            if far[tip] < LEAST_BRANCH * diameter:
                break
            root = trunk[int(np.argmin(self.lengths[tip, trunk]))]
            trunk = list(dict.fromkeys([*trunk, *self.path(tip, root)]))
            out[tip] = far[tip] / diameter
        return out


def _hanging_together(found: Rigidity) -> list[int]:
    """Return the indices of markers that are rigid with at least one other."""
    spread = found.spread.copy()
    np.fill_diagonal(spread, np.inf)
    return [int(i) for i in np.flatnonzero(spread.min(axis=1, initial=np.inf) < LOOSE)]


MATES = 3  # of the core, to which a marker that belongs to it is rigid
NEARBY = 4.0  # sizes: how near they are
SHIFT_COST = 0.1
UNNAMED, HIGH_FOOT = 1.0, 0.1  # costs of a branch without a name and of a high foot, relative to path errors
ENDS = ("foot", "foot", "hand", "hand", "head")


def name_tips(
    tree: MarkerTree, tips: dict[int, float], expected: dict[tuple[str, str], float], low: set[int]
) -> tuple[dict[str, list[int]], float]:
    """Return {"foot": [a, b], "hand": [c, d] or [], "head": [e] or []} and the scale of what was measured to expected.

    expected {(end, end): way along the bones [m]}. The naming whose ways differ least from the expected ones, by one
    factor for all, is taken; long branches should have a name, and feet are among the markers that are usually low.
    """
    best: tuple[float, dict[str, list[int]], float] | None = None
    for ends in (ENDS, ENDS[:4], ENDS[:2]):
        wanted = np.array([expected[pair] for pair in combinations(ends, 2)])
        for chosen in permutations(tips, len(ends)):
            if chosen[0] > chosen[1] or (len(ends) > 3 and chosen[2] > chosen[3]):
                continue  # left and right are told apart later
            ratio = np.log(np.array([tree.ways[a, b] for a, b in combinations(chosen, 2)]) / wanted)
            miss = float(np.sqrt(np.mean((ratio - ratio.mean()) ** 2)))
            miss += UNNAMED * sum(length for tip, length in tips.items() if tip not in chosen)
            miss += HIGH_FOOT * sum(tip not in low for tip in chosen[:2])
            if best is None or miss < best[0]:
                names: dict[str, list[int]] = {"foot": [], "hand": [], "head": []}
                for end, tip in zip(ends, chosen, strict=True):
                    names[end].append(tip)
                best = (miss, names, float(np.exp(ratio.mean())))
    assert best is not None  # a tree has two tips
    return best[1], best[2]


class BoneInterval(NamedTuple):
    """A bone of a limb: its name and how far from the limb's tip it begins and ends [m], at rest."""

    name: str
    near: float
    far: float


def cut_limb(
    found: Rigidity,
    tree: MarkerTree,
    order: list[int],
    core: list[int],
    segments: list[BoneInterval],
    size: float,
    shifts: int,
) -> dict[int, str | None]:
    """Return {marker: segment, or None where it belongs to the core}: what is rigid together, in the order of a limb.

    order: the limb's markers from its tip on; segments likewise. size [m]: over which the place of a marker may differ
    from the segment's. shifts: places, a `size` apart, that the first marker may
    be from the limb's very end.
    """
    count, usual = len(order), tree.usual
    pairs = np.square(found.spread[np.ix_(order, order)] / usual)
    within = np.zeros((count + 1, count + 1))  # [a, b]: of the markers a to b in one group
    for a in range(count):
        for b in range(a + 1, count + 1):
            within[a, b] = within[a, b - 1] + pairs[a : b - 1, b - 1].sum()
    hold = np.array([_looseness(found, node, core, size) for node in order])
    loose = np.square(hold / usual)
    best, where = np.inf, (0,) * len(segments)
    for shift in np.arange(shifts) * size:
        reach = tree.ways[order[0], order] + shift
        unary = [places_cost(reach, segment, size) for segment in segments]
        outside = loose + np.square(np.maximum(segments[-1].near + 0.5 * size - reach, 0.0) / (0.5 * size))
        sums = [np.concatenate([[0.0], np.cumsum(cost)]) for cost in unary]
        for cuts in combinations_with_replacement(range(count + 1), len(segments)):
            edges = (0, *cuts)
            cost = outside[cuts[-1] :].sum() + SHIFT_COST * (shift / size) ** 2
            for k, (a, b) in enumerate(pairwise(edges)):
                cost += sums[k][b] - sums[k][a] + within[a, b]
            if cost < best:
                best, where = float(cost), cuts
    out: dict[int, str | None] = {}
    for i, node in enumerate(order):
        k = int(np.searchsorted(where, i, side="right"))
        out[node] = segments[k].name if k < len(segments) else None
    return out


def _looseness(found: Rigidity, node: int, core: list[int], size: float) -> float:
    """Return the spread [m] of a marker relative to nearby markers of the core."""
    others = [other for other in core if other != node]
    mates = [other for other in others if found.middle[node, other] < NEARBY * size] or others
    return float(np.minimum(np.sort(found.spread[node, mates])[:MATES], LOOSE).mean()) if mates else LOOSE


def places_cost(reach: np.ndarray, segment: BoneInterval, size: float) -> np.ndarray:
    """Return the cost of assigning markers at distances (M,) [m] from the tip to a segment; zero inside it."""
    outside = np.maximum(np.maximum(segment.near - reach, reach - segment.far), 0.0)
    return np.square(outside / size)


# --- Which bone a marker sits on when its name says nothing ---

MOVING = 0.002  # [m]: spread of most distances below which nothing moves
FEWEST = 6  # markers that a body needs
LIMBS = {"foot": ("ankle", "knee", "hip"), "hand": ("wrist", "elbow", "shoulder")}
PLACE = 0.08  # leg lengths: how far off its segment a marker may be
NEAR_JOINT = 0.05  # leg lengths
SHIFTS = {"foot": 1, "hand": 5, "head": 1}  # the last marker of an arm may be at its wrist
BEYOND = 1.25  # lengths of a limb up to which markers may be on it
PLATE = 0.17  # leg lengths over which markers on one plate are apart
PELVIS = 0.08  # leg lengths that the pelvis' markers are above the hips
WAY = 1.1  # how much longer the way over markers is than over bones


def infer_attachments(plan: BodyPlan, places: np.ndarray) -> dict[int, tuple[str, np.ndarray]]:
    """Return {marker: (joint, offset (3,) [m])} for markers with places (T, M, 3) [m] in the figure's axes.

    Markers that are rigid with no other are left out. Raises PosableError if they show no body with two legs.
    """
    found = rigidity(places)
    tree = MarkerTree(found)
    if len(tree.nodes) < FEWEST:
        raise PosableError(
            f"expected at least {FEWEST} markers that keep their mutual distances, got {len(tree.nodes)}"
        )
    if np.median(found.spread[np.ix_(tree.nodes, tree.nodes)]) < MOVING:
        raise PosableError(
            "expected a take in which the actor moves, got one in which all markers move as one rigid body"
        )
    return _Inference(plan, places, found, tree).attachments()


class _Inference:
    def __init__(self, plan: BodyPlan, places: np.ndarray, found: Rigidity, tree: MarkerTree):
        self.plan, self.places, self.found, self.tree = plan, places, found, tree
        self.ends = {end: _end(plan, end) for end in ("foot", "hand", "head")}
        heights = np.nanmean(places[:, tree.nodes] @ plan.up, axis=0)
        low = {node for node, height in zip(tree.nodes, heights, strict=True) if height <= np.median(heights)}
        self.tips, scale = name_tips(tree, tree.tips(), self._expected(), low)
        self.scale = scale / WAY
        if any(self._way_up(node) > self._way_up(tip) for tip in self.tips["head"] for node in self._core()):
            self.tips["head"] = []  # such as a marker that stands off the back: a head is above everything on the trunk
        self.bones: dict[int, str] = {}  # role and number of the limb, "knee 0"; pelvis, chest, head

    # ------------------------------------------------------------------------------------------------- which bones

    def _way_up(self, node: int) -> float:
        return float(self.tree.ways[node, self.tips["foot"]].mean())

    def _expected(self) -> dict[tuple[str, str], float]:
        """Return the ways along the bones between the ends of the figure [m]."""
        plan = self.plan
        leg, arm = self._limb_length("foot"), self._limb_length("hand")
        hips = float(np.linalg.norm(plan.place("hip.L") - plan.place("hip.R")))
        shoulder = "shoulder" if "shoulder.L" in plan else "hip"
        across = float(np.linalg.norm(plan.place(f"{shoulder}.L") - plan.place(f"{shoulder}.R")))
        back = float((plan.place(f"{shoulder}.L") - plan.place("hip.L")) @ plan.up)
        neck = abs(float((self.ends["head"] - plan.place(f"{shoulder}.L")) @ plan.up)) + 0.5 * across
        return {
            ("foot", "foot"): 2.0 * leg + hips,
            ("hand", "hand"): 2.0 * arm + across,
            ("foot", "hand"): leg + back + arm,
            ("foot", "head"): leg + back + neck,
            ("hand", "head"): arm + neck,
        }

    def _limb_length(self, end: str) -> float:
        points = [self._place(role, "L") for role in reversed(LIMBS[end])] + [self.ends[end]]
        return float(sum(np.linalg.norm(b - a) for a, b in pairwise(points)))

    def _place(self, role: str, side: str) -> np.ndarray:
        return self.plan.place(f"{role}.{side}") if f"{role}.{side}" in self.plan else self.plan.place(f"hip.{side}")

    def _segments(self, end: str) -> list[BoneInterval]:
        """Return the bones of a limb by their distance from its tip."""
        if end == "head":
            return [
                BoneInterval("head", 0.0, 1.2 * self.scale * float(np.linalg.norm(self.ends["head"] - self._neck())))
            ]
        points = [self.ends[end], *(self._place(role, "L") for role in LIMBS[end])]
        gaps = self.scale * np.cumsum([float(np.linalg.norm(b - a)) for a, b in pairwise(points)])
        near_joint = NEAR_JOINT * self.plan.leg * self.scale  # by custom, a marker at a joint belongs to the upper bone
        starts = [0.0, *(gap - near_joint for gap in gaps[:-1])]
        ends = [*starts[1:], gaps[-1]]
        return [BoneInterval(role, a, b) for role, a, b in zip(LIMBS[end], starts, ends, strict=True)]

    def _neck(self) -> np.ndarray:
        role = self.plan.first("head", "neck", "chest")
        return self.plan.place(role) if role else self.ends["head"]

    def attachments(self) -> dict[int, tuple[str, np.ndarray]]:
        """Return {marker: (joint, offset (3,) [m])}."""
        self._cut()
        self.scale = self._leg_scale()
        self._cut()
        return self._offsets()

    def _cut(self) -> None:
        """Find the bone of every marker, given the scale."""
        self.bones = {}
        limbs = self._limbs()
        core = self._core()
        for end, number, nodes, tip in limbs:
            order = sorted(nodes, key=lambda node: float(self.tree.ways[tip, node]))
            cut = cut_limb(self.found, self.tree, order, core, self._segments(end), self.size, SHIFTS[end])
            for node, segment in cut.items():
                if segment is not None:
                    self.bones[node] = segment if end == "head" else f"{segment} {number}"
        self._split_trunk([node for node in self.tree.nodes if node not in self.bones])

    @property
    def size(self) -> float:
        return PLACE * self.plan.leg * self.scale

    def _leg_scale(self) -> float:
        """Return the actor's size against the figure's: from the toes to the pelvis with a stretched leg."""
        pelvis = [node for node, bone in self.bones.items() if bone == "pelvis"]
        if not pelvis:
            return self.scale
        reach = np.median(np.min(self.tree.ways[np.ix_(self.tips["foot"], pelvis)], axis=1))
        return float(reach / (self._limb_length("foot") + PELVIS * self.plan.leg))

    def _core(self) -> list[int]:
        """Return the markers between the limbs: not beyond the places where the ways to three tips meet."""
        tree, feet, hands, head = self.tree, self.tips["foot"], self.tips["hand"], self.tips["head"]
        others = [*hands, *head] or [max(tree.nodes, key=lambda n: min(tree.lengths[n, foot] for foot in feet))]
        hips = tree.meeting(feet[0], feet[1], others[0])
        outside = tree.beyond(hips, feet[0]) | tree.beyond(hips, feet[1])
        gates = [hips]
        if hands:
            gates.append(tree.meeting(hands[0], hands[1], feet[0]))
            outside |= tree.beyond(gates[1], hands[0]) | tree.beyond(gates[1], hands[1])
        if head and hands:
            outside |= tree.beyond(tree.meeting(head[0], hands[0], hands[1]), head[0])
        for gate in gates:  # a plate of markers stays together with the one at which the paths meet
            spread, far = self.found.spread[gate] / tree.usual, self.found.middle[gate] / self.plan.leg
            plate = ((spread < 0.5) & (far < PLATE)) | ((spread < 0.15) & (far < 2.0 * PLATE))
            outside -= set(np.flatnonzero(plate).tolist())
        return [node for node in tree.nodes if node not in outside]

    def _limbs(self) -> list[tuple[str, int, list[int], int]]:
        """Return (end, number, markers, tip) of every limb: the markers to whose tip the way is the shortest."""
        out: list[tuple[str, int, list[int], int]] = []
        reach = {end: self._segments(end)[-1].far + self.size for end in self.ends}
        ends = [(end, k, tip) for end, tips in self.tips.items() for k, tip in enumerate(tips)]
        shares = np.array([self.tree.ways[tip] / reach[end] for end, _, tip in ends])
        nearest = np.argmin(shares, axis=0)
        for row, (end, k, tip) in enumerate(ends):
            nodes = [node for node in self.tree.nodes if nearest[node] == row and shares[row, node] < BEYOND]
            out.append((end, k, nodes, tip))
        return out

    def _split_trunk(self, trunk: list[int]) -> None:
        """Assign the trunk's markers to pelvis and chest: divided where rigidity ends, from the legs up."""
        legs = [node for node, bone in self.bones.items() if bone.startswith("hip")] or self.tips["foot"]
        arms = [node for node, bone in self.bones.items() if bone.startswith("shoulder")] or self.tips["hand"]
        if not arms or "chest" not in self.plan:
            self.bones |= dict.fromkeys(trunk, "pelvis")
            return
        middle = self.found.middle
        height = {node: float(middle[node, legs].mean() - middle[node, arms].mean()) for node in trunk}
        order = sorted(trunk, key=height.__getitem__)
        pairs = np.square(self.found.spread[np.ix_(order, order)] / self.tree.usual)
        costs = [
            np.triu(pairs[:cut, :cut], 1).sum() + np.triu(pairs[cut:, cut:], 1).sum() for cut in range(len(order) + 1)
        ]
        cut = int(np.argmin(costs))
        self.bones |= dict.fromkeys(order[:cut], "pelvis") | dict.fromkeys(order[cut:], "chest")

    # --------------------------------------------------------------------------------------------- sides and offsets

    def _path(self, *bones: str) -> np.ndarray | None:
        """Return the mean place (T, 3) of the markers on bones, or None where there are none."""
        nodes = [node for node, bone in self.bones.items() if bone in bones]
        if not nodes:
            return None
        seen: np.ndarray = np.asarray(np.isfinite(self.places[:, nodes]).all(axis=-1))
        total = np.where(seen[..., None], self.places[:, nodes], 0.0).sum(axis=1)
        return total / np.where(seen.any(axis=1), seen.sum(axis=1), np.nan)[:, None]

    def _trunk_axes(self) -> np.ndarray:
        """Return left, up, forward of the trunk in every frame, as columns (T, 3, 3), limb 0 taken for the left one."""
        legs = [self._path(f"hip {k}", f"knee {k}") for k in range(2)]
        arms = [self._path(f"shoulder {k}", f"elbow {k}") for k in range(2)]
        across = _difference(legs[0], legs[1])
        if arms[0] is not None and arms[1] is not None:
            other = arms[0] - arms[1]
            if np.nanmean(np.sum(_unit(across) * _unit(other), axis=-1)) < 0.0:  # the other arm is on this leg's side
                swap = {"0": "1", "1": "0"}
                for node, bone in self.bones.items():
                    if bone.split()[0] in LIMBS["hand"]:
                        self.bones[node] = f"{bone.split()[0]} {swap[bone.split()[1]]}"
                other = -other
            across = _unit(across) + _unit(other)
        pelvis, chest = self._path("pelvis"), self._path("chest")
        if pelvis is not None and chest is not None:
            up = _unit(chest - pelvis)
        else:
            shins = self._path("knee 0", "ankle 0", "knee 1", "ankle 1")
            up = _unit(_difference(pelvis if pelvis is not None else chest, shins))
        left = _unit(across - np.sum(across * up, axis=-1, keepdims=True) * up)
        return np.stack([left, up, np.cross(left, up)], axis=-1)

    def _faces_backwards(self, forward: np.ndarray) -> bool:
        """Return whether toes, knees, elbows and the direction of travel mostly point against forward (T, 3)."""
        votes = 0.0
        pelvis = self._path("pelvis")
        for k in range(2):
            foot, shin, thigh = (self._path(f"{role} {k}") for role in LIMBS["foot"])
            heel = self._heel(k)
            if heel is not None:
                votes += _mean_along(_unit(self.places[:, self.tips["foot"][k]] - heel), forward)
            knee = shin if thigh is None else thigh if shin is None else 0.5 * (shin + thigh)
            if foot is not None and knee is not None and pelvis is not None:
                bend = _along(knee - 0.5 * (pelvis + foot), forward)
                votes -= _correlation(bend, np.linalg.norm(pelvis - foot, axis=-1))
            upper, lower, hand = (self._path(f"{role} {k}") for role in ("shoulder", "elbow", "wrist"))
            if upper is not None and lower is not None and hand is not None:
                votes += 0.5 * _mean_along(_unit(hand - 2.0 * lower + upper), forward)
        if pelvis is not None:
            steps = _along(np.diff(pelvis, axis=0), forward[1:])
            votes += 2.0 * np.tanh(np.nansum(steps) / self.plan.leg)
        return votes < 0.0

    def _heel(self, k: int) -> np.ndarray | None:
        """Return the path (T, 3) of the foot's marker that is most rigid with the shin, or None without another."""
        tip = self.tips["foot"][k]
        foot = [node for node, bone in self.bones.items() if bone == f"ankle {k}" and node != tip]
        shin = [node for node, bone in self.bones.items() if bone == f"knee {k}"]
        if not shin or not foot:
            return self.places[:, shin].mean(axis=1) if shin else None
        return self.places[:, min(foot, key=lambda node: float(self.found.spread[node, shin].mean()))]

    def _offsets(self) -> dict[int, tuple[str, np.ndarray]]:
        """Return {marker: (joint, offset)}: trunk and head as they are seen from the trunk, limbs along their bones."""
        axes = self._trunk_axes()
        sides = dict(enumerate(SIDES))
        if self._faces_backwards(axes[..., 2]):
            sides = {0: "R", 1: "L"}
            axes = axes * np.array([-1.0, 1.0, -1.0])
        plan, out = self.plan, {}
        rest_axes = np.stack([plan.left, plan.up, plan.forward], axis=-1)
        for node, bone in self.bones.items():
            role, _, number = bone.partition(" ")
            if number:
                joint_role = f"{role}.{sides[int(number)]}"
                place = self._along(node, role, sides[int(number)])
                if role == "wrist" and node in self.tips["hand"] and f"hand.{sides[int(number)]}" in plan:
                    joint_role = f"hand.{sides[int(number)]}"
            else:
                joint_role = plan.first(role, "neck", "chest", "pelvis") or "pelvis"
                seen = self.places[:, node] - self._path(bone)
                local = np.nanmedian(np.einsum("tji,tj->ti", axes, seen), axis=0)
                place = self._middle_of(bone) + rest_axes @ local / self.scale
            joint = plan[joint_role]
            out[node] = (joint, plan.rest.convert(place, to=joint))
        return out

    def _middle_of(self, bone: str) -> np.ndarray:
        """Return where the middle of the markers on pelvis, chest or head is, roughly, at rest (3,) [m]."""
        plan = self.plan
        hips = 0.5 * (plan.place("hip.L") + plan.place("hip.R"))
        if bone == "pelvis" or "shoulder.L" not in plan:
            return hips + PELVIS * plan.leg * plan.up
        if bone == "head":
            return 0.5 * (self._neck() + self.ends["head"])
        return 0.75 * 0.5 * (plan.place("shoulder.L") + plan.place("shoulder.R")) + 0.25 * hips

    def _along(self, node: int, role: str, side: str) -> np.ndarray:
        """Return where a limb's marker is at rest (3,) [m]: on the bone, as far from the tip as it was seen."""
        end = next(end for end, roles in LIMBS.items() if role in roles)
        roles = LIMBS[end]
        k = roles.index(role)
        start = self._place(role, side)
        stop = self._place(roles[k - 1], side) if k else _end(self.plan, end, side)
        tip = self.tips[end]
        reach = min(self.tree.ways[node, t] for t in tip) / self.scale
        segment = self._segments(end)[k]
        near, far = segment.near / self.scale, segment.far / self.scale
        share = float(np.clip((far - reach) / max(far - near, 1e-9), -0.3, 1.0))
        return start + share * (stop - start)


def _end(plan: BodyPlan, end: str, side: str = "L") -> np.ndarray:
    """Return the far end of a limb or of the head at rest (3,) [m]: its farthest joint or site."""
    bases = {"foot": (f"ankle.{side}",), "hand": (f"wrist.{side}", f"hip.{side}")}
    base = plan.first(*bases.get(end, ("head", "neck", "chest", "pelvis")))
    assert base is not None  # a plan has ankles and a pelvis
    joint = plan[base]
    skeleton = plan.skeleton
    below = {joint}
    for other in skeleton.joints:
        if other.parent in below:
            below.add(other.name)
    names = [*below, *(site.name for site in skeleton.sites if site.joint in below)]
    start = plan.rest.position(joint)
    gaps = [plan.rest.position(name) - start for name in names]
    far = max(gaps, key=lambda gap: float(np.linalg.norm(gap)))
    least = {"foot": 0.2, "hand": 0.15, "head": 0.2}[end] * plan.leg
    if np.linalg.norm(far) < 0.5 * least:  # the file ends at the joint
        far = {"foot": plan.forward, "head": plan.up}.get(end, far)
        if end == "hand":
            far = start - plan.place(f"elbow.{side}") if f"elbow.{side}" in plan else -plan.up
        far = far / max(float(np.linalg.norm(far)), 1e-9) * least
    return start + far


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def _difference(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    if a is None or b is None:
        raise PosableError("expected markers on both legs and a pelvis, found none on one of them")
    return a - b


def _along(vectors: np.ndarray, forward: np.ndarray) -> np.ndarray:
    return np.sum(vectors * forward, axis=-1)


def _mean_along(vectors: np.ndarray, forward: np.ndarray) -> float:
    """Return the mean of vectors (T, 3) along forward (T, 3), 0 if nothing was seen."""
    along = _along(vectors, forward)
    along = along[np.isfinite(along)]
    return float(along.mean()) if len(along) else 0.0


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of a (T,) and b (T,) where both are seen, 0 where either stays the same."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 3 or min(a[both].std(), b[both].std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(a[both], b[both])[0, 1])
