"""Remedies for a handle that is out of reach: searched in a thread of their own, applied with one click."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import posable as ps
from posable.studio.document import Document
from posable.studio.handles import Handle

_FOR_PROGRAMS = re.compile(r" Solve from remedy\.start.*$")  # of no use on a page


@dataclass(frozen=True, eq=False)
class Offer:
    """A remedy offered to the user: its text, and the handles at the time of the search."""

    text: str
    remedy: Any
    handles: tuple[Handle, ...]
    left_out: frozenset[str] = frozenset()  # the handles that it releases


class Remedies:
    """The remedies for the last drag of a session; any change of the figure discards them."""

    def __init__(self, session: Document):
        self.session = session

    def search(self) -> None:
        """Search remedies for the last result; they are shown when they are found."""
        session, engine = self.session, self.session.drag_solver
        goals = [goal for goal in engine.stated_goals() if np.isfinite(np.min(goal.tolerance))]
        work = (session.result, engine.moving, goals, session.pose.copy(), session.settings.limits, session.handles)
        threading.Thread(target=self._search, args=work, name="posable remedies", daemon=True).start()

    def _search(
        self, answer: Any, skeleton: ps.Skeleton, goals: list[Any], pose: np.ndarray, limits: bool,
        handles: tuple[Handle, ...],
    ) -> None:  # fmt: skip
        try:
            found = offers_for(skeleton, goals, pose, limits, handles)
        except ps.PosableError:  # no remedies for these goals
            return
        with self.session.lock:
            if answer is not self.session.result:  # the figure has changed meanwhile
                return
            self.session.offers = found
        self.session.publish()

    def apply(self, number: int) -> bool:
        """Apply one of the offered remedies, as one step of undo."""
        session = self.session
        with session.at_rest():
            if not 0 <= number < len(session.offers):
                return False
            offer = session.offers[number]
            with session.change():
                if offer.remedy.limits:
                    self._widen(offer.remedy.limits)
                session.handles = tuple(
                    replace(h, hold="free") if h.body in offer.left_out else h for h in offer.handles
                )
                session.put_pose(np.array(offer.remedy.pose))
        session.notify(offer.text)
        return True

    def _widen(self, limits: dict[str, tuple[float, float]]) -> None:
        """Change the limits of the figure and keep everything else."""
        session = self.session
        skeleton = session.skeleton.with_limits(limits)
        take = session.timeline.take
        moved = None if take is None else ps.Motion(skeleton, take.poses, take.fps, take.name)
        line = replace(session.timeline, skeleton=skeleton, take=moved)
        scene = session.scene.replace(skeleton=skeleton, motion=moved)
        session.restore(replace(session.state(), scene=scene, timeline=line, figure=session.figure + 1))


def offers_for(
    skeleton: ps.Skeleton, goals: list[Any], pose: np.ndarray, limits: bool, handles: tuple[Handle, ...]
) -> tuple[Offer, ...]:
    """Return the remedies for goals missed from a pose (n,), except those that only a program could use."""
    labels = frozenset(goal.label for goal in goals)
    result = ps.solve(skeleton, goals, start=pose, limits=limits, natural=False)
    if result.ok:
        remedy = ps.Remedy(
            "No change is needed: another pose reaches it.", goals=goals, verified=True, pose=result.pose
        )
        return (Offer(remedy.text, remedy, handles),)
    return tuple(
        Offer(_FOR_PROGRAMS.sub("", remedy.text), remedy, handles, labels - {goal.label for goal in remedy.goals})
        for remedy in result.remedy()
        if remedy.limits or remedy.targets or len(remedy.goals) < len(goals) or remedy.start is not None
    )
