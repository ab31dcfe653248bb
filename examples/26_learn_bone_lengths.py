"""Learn the length of a bone from poses: gradients flow from the poses through the solve to the offsets of joints."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import posable as ps
import posable.jax

jax.config.update("jax_enable_x64", True)
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
limb = ps.figures.limb()
goals = [ps.goals.Position("hand", (0.0, 0.0, 0.0)), ps.goals.Posture(weight=0.01)]
targets = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.3, (32, 3)))
true = jnp.asarray(limb.joint("elbow").offset)
seen = posable.jax.solve(limb, goals, {"hand": targets}, offsets={"elbow": true})


def loss(length):
    """Return the mean squared difference of poses with an upper arm of that length from the given poses."""
    offset = length * true / jnp.linalg.norm(true)
    return ((posable.jax.solve(limb, goals, {"hand": targets}, offsets={"elbow": offset}) - seen) ** 2).mean()


length, lengths = 0.40, []
slope = jax.value_and_grad(loss)
for _ in range(30):
    value, gradient = slope(length)
    lengths.append(length)
    length -= 0.05 * float(gradient)
print(f"upper arm: {float(jnp.linalg.norm(true)):.3f} m, learned {length:.3f} m from a guess of {lengths[0]:.3f} m")

figure = Figure(figsize=(5, 3))
axes = figure.add_subplot(xlabel="step", ylabel="upper arm [m]")
axes.plot(lengths, marker=".")
axes.axhline(float(jnp.linalg.norm(true)), linestyle="--", color="grey")
figure.tight_layout()
figure.savefig(out / "26_learn_bone_lengths.png", dpi=100)
