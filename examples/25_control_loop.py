"""A control loop: the target jumps, leaves the workspace and returns; every joint stays within its limits."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
panda = ps.figures.panda()
start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
place = ps.forward(panda, start).matrix("tcp")
dt, speed, acceleration = 0.01, 2.0, 10.0
controller = ps.Controller(
    panda, ps.goals.Pose("tcp", place), dt=dt, velocity=speed, acceleration=acceleration, start=start
)

poses, errors = [start], []
for k in range(600):
    seconds = k * dt
    target = place.copy()
    if seconds > 1.0:
        target[:3, 3] += (0.0, 0.25, -0.1)  # a jump
    if 3.0 < seconds < 5.0:
        target[0, 3] += 0.6 * np.sin(0.5 * np.pi * (seconds - 3.0)) ** 2  # out of reach, and back
    step = controller.step({"tcp": target})
    if k in (110, 400):
        print(f"{seconds:.1f} s: {step}")
    poses.append(step.pose)
    errors.append(step.errors["tcp"])
rates = np.diff(poses, axis=0) / dt
print(f"fastest joint {np.abs(rates).max():.3f} rad/s of {speed}")
print(f"largest acceleration {np.abs(np.diff(rates, axis=0)).max() / dt:.3f} rad/s^2 of {acceleration}")
print(f"off its target by {1e3 * errors[-1]:.3f} mm at the end")

picture = Figure(figsize=(7, 3.6), layout="constrained")
left, right = picture.subplots(1, 2)
times = dt * np.arange(600)
left.plot(times, rates)
left.axhline(speed, color="k", lw=0.6, ls=":")
left.axhline(-speed, color="k", lw=0.6, ls=":")
left.set(xlabel="seconds", ylabel="rad/s", title="joint speeds and their limit")
right.plot(times, 1e3 * np.array(errors), color="#d1495b")
right.set(xlabel="seconds", ylabel="mm", title="the tool off its target")
picture.savefig(out / "25_control_loop.png", dpi=130)
