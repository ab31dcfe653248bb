"""Moving nodes of the scene: only those that have moved, and each for as little as a message costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.studio.viser_adapter import Slot, send

STILL = 1e-4  # [m] and of a quaternion: a tenth of a millimetre, which nobody sees


class Mover:
    """Moves nodes of the scene, and only those that have moved: a node that stays costs a comparison, not a message."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.slots: list[Slot] = []
        self.positions, self.turns = np.zeros((0, 3)), np.zeros((0, 4))

    def move(self, nodes: list[Any], positions: np.ndarray, turns: np.ndarray | None = None) -> None:
        """Bring nodes to positions (B, 3) [m] and, where given, to quaternions (B, 4), w first."""
        if len(nodes) != len(self.nodes) or any(a is not b for a, b in zip(nodes, self.nodes, strict=True)):
            self.nodes, self.slots = list(nodes), [Slot(node) for node in nodes]
            self.positions, self.turns = np.full((len(nodes), 3), np.inf), np.full((len(nodes), 4), np.inf)
        far = np.flatnonzero(np.abs(positions - self.positions).max(axis=1, initial=0.0) > STILL)
        moves = [self.slots[k].position(positions[k]) for k in far]
        self.positions[far] = positions[far]
        if turns is not None:
            turned = np.flatnonzero(np.abs(turns - self.turns).max(axis=1, initial=0.0) > STILL)
            moves += [self.slots[k].turn(turns[k]) for k in turned]
            self.turns[turned] = turns[turned]
        send(moves)
