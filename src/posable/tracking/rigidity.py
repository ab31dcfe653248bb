"""Markers without names: how constant their mutual distances are, the tree of what hangs together, its far ends."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, pairwise, permutations
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import shortest_path

SAMPLES = 600  # frames from which distances are taken
RIGID = 2.0  # times the usual spread of neighbours up to which two markers count as rigid
NEARNESS = 0.1  # what a metre of distance counts against a metre of spread when the tree is grown
FLOOR = 0.002  # [m]: a spread below is as good as none
SEEN = 0.1  # part of the frames in which two markers must be seen together
USUAL = 1.5  # times the middle spread of neighbours in the tree: what is rigid
LOOSE = 0.06  # [m]: spread to its nearest neighbour beyond which a marker hangs on nothing
LEAST_BRANCH = 0.07  # part of the tree's diameter that a limb or a head is long, at least


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


class Tree:
    """The spanning tree of least spread: neighbours on a body are neighbours in it.

    nodes: the markers that hang together, as indices. lengths (M, M) along it [m]; ways
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
    """Return the markers whose nearest neighbour in rigidity is near enough, as indices."""
    spread = found.spread.copy()
    np.fill_diagonal(spread, np.inf)
    return [int(i) for i in np.flatnonzero(spread.min(axis=1, initial=np.inf) < LOOSE)]


MATES = 3  # of the core, to which a marker that belongs to it is rigid
NEARBY = 4.0  # sizes: how near they are
SHIFT_COST = 0.1
UNNAMED, HIGH_FOOT = 1.0, 0.1  # what a branch without a name, and a foot that is high, cost against ways that miss
ENDS = ("foot", "foot", "hand", "hand", "head")


def name_tips(
    tree: Tree, tips: dict[int, float], expected: dict[tuple[str, str], float], low: set[int]
) -> tuple[dict[str, list[int]], float]:
    """Return {"foot": [a, b], "hand": [c, d] or [], "head": [e] or []} and the scale of what was measured to expected.

    expected {(end, end): way along the bones [m]}. The naming whose ways differ least from the expected ones, by one
    factor for all, is taken; long branches want a name, and feet are among the markers that are low most of the time.
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


class Segment(NamedTuple):
    """A bone of a limb: its name and how far from the limb's tip it begins and ends [m], at rest."""

    name: str
    near: float
    far: float


def cut_limb(
    found: Rigidity, tree: Tree, order: list[int], core: list[int], segments: list[Segment], size: float, shifts: int
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
    """Return how loosely a marker hangs on those of the core that are near it [m]."""
    others = [other for other in core if other != node]
    mates = [other for other in others if found.middle[node, other] < NEARBY * size] or others
    return float(np.minimum(np.sort(found.spread[node, mates])[:MATES], LOOSE).mean()) if mates else LOOSE


def places_cost(reach: np.ndarray, segment: Segment, size: float) -> np.ndarray:
    """Return what it costs that markers so far from the tip (M,) [m] are on a segment: nothing inside it."""
    outside = np.maximum(np.maximum(segment.near - reach, reach - segment.far), 0.0)
    return np.square(outside / size)
