"""The pictures of the goals: runs the code of each goal's page and renders the resulting figure."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from pages import DOCS, settled, update
from render import AMBER, GREY, RED, TEAL, VIOLET, Picture

import posable as ps

g = ps.goals
VIEWS = {
    "aim": (-60.0, 8.0),
    "balance": (-60.0, 10.0),
    "coupling": (-60.0, 10.0),
    "line": (-70.0, 8.0),
    "plane": (-60.0, 8.0),
}


def show(picture: Picture, goal: g.Goal, skeleton, pose) -> None:
    """Draw what a goal asks for."""
    frames = ps.forward(skeleton, pose)
    body = frames.position(goal.body) if hasattr(goal, "body") else None
    if isinstance(goal, g.Pose):
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = goal.rotation, goal.position
        picture.axes(matrix)
    elif isinstance(goal, g.Orientation):
        picture.axes(np.block([[goal.target, body[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]]))
    elif isinstance(goal, g.Direction):
        picture.arrow(body, goal.target, 0.35)
    elif isinstance(goal, g.Aim):
        picture.ball(goal.target)
        picture.tube(body, goal.target, 0.005)
    elif isinstance(goal, g.Pixel):
        picture.ball(body, 0.035)
        picture.tube(goal.camera.center, body, 0.006)
        picture.ball(goal.camera.center, 0.05, VIOLET)
    elif isinstance(goal, (g.Plane, g.HalfSpace)):
        flat = isinstance(goal, g.HalfSpace)
        picture.sheet(goal.target, goal.direction, 1.0, 1.0, AMBER if flat else TEAL)
    elif isinstance(goal, g.Line):
        along = 0.8 * goal.direction
        picture.tube(goal.target - along, goal.target + along, 0.014)
    elif isinstance(goal, g.Distance):
        picture.tube(body, frames.position(goal.other), 0.012)
        for end in (body, frames.position(goal.other)):
            picture.ball(end, 0.03)
    elif isinstance(goal, g.Relative):
        picture.ball(body, 0.05, TEAL, alpha=0.5)
    elif isinstance(goal, (g.CenterOfMass, g.Balance)):
        show_mass(picture, goal, skeleton, pose)
    elif isinstance(goal, g.Avoid) and isinstance(goal.obstacle, g.Sphere):
        picture.ball(goal.obstacle.center, goal.obstacle.radius, AMBER, alpha=0.6)
    elif isinstance(goal, g.NoCollision):
        for shape in goal.obstacles:
            picture.ball(shape.points.mean(axis=0), shape.radius, AMBER, alpha=0.6)
    elif isinstance(goal, (g.AnyOf, g.Weighted)):
        for member in goal.members if isinstance(goal, g.AnyOf) else goal.goals:
            show(picture, member, skeleton, pose)
    elif isinstance(goal, g.Position):
        far = np.linalg.norm(body - goal.target) > 0.01
        picture.ball(goal.target, 0.05, RED if far else TEAL)
        if far:
            picture.tube(body, goal.target, 0.004, RED)


def centre_of_mass(skeleton, pose) -> np.ndarray:
    """Return the centre of mass (3,) [m], from the joints' masses and nothing else."""
    frames = ps.forward(skeleton, pose)
    heavy = [joint for joint in skeleton.joints if joint.mass > 0.0]
    places = [frames.convert(joint.center, from_=joint.name, to="world") for joint in heavy]
    return np.average(places, axis=0, weights=[joint.mass for joint in heavy])


def show_mass(picture: Picture, goal: g.Goal, skeleton, pose) -> None:
    """Draw the centre of mass, its plumb line, and the polygon of the feet."""
    centre = centre_of_mass(skeleton, pose)
    foot = np.array([centre[0], 0.0, centre[2]])
    picture.ball(centre, 0.05, VIOLET, alpha=0.85)
    picture.tube(centre, foot, 0.006, VIOLET)
    if isinstance(goal, g.Balance):
        from posable.goals.mass import convex_hull

        corners = goal.corners(skeleton)
        hull = corners[convex_hull(corners[:, [2, 0]])] * [1.0, 0.0, 1.0]
        for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
            picture.tube(a, b, 0.008, TEAL)


def render(page: Path, folder: Path, out: Path) -> None:
    """Run a page and draw its last result: what `figure`, `goals` and `result` are at its end."""
    names, printed = settled(page, folder)
    update(page, printed)
    azimuth, elevation = VIEWS.get(page.stem, (-28.0, 8.0))
    picture = Picture(azimuth, elevation, size=(400, 500))
    skeleton, pose = names["human"], names["result"].pose
    picture.figure(skeleton, pose)
    if "before" in names:
        picture.figure(skeleton, names["before"].pose, color=GREY, alpha=0.35)
    for goal in names.get("shown", [names.get("goal")]):
        if goal is not None:
            show(picture, goal, skeleton, pose)
    picture.draw(out)


def main(names: list[str]) -> None:
    """Draw all of them, or those named."""
    for page in sorted((DOCS / "goals").glob("*.md")):
        if page.stem == "index" or (names and page.stem not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            render(page, Path(folder), DOCS / "images" / "goals" / f"{page.stem}.png")
        print(page.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
