"""Solving as a differentiable function of JAX: `posable.jax.solve`.

Only this module imports jax: `pip install posable[jax]`.
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# (to the checker `import jax` is this very file)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posable._differentiable import Layer, summed_to
from posable.goals.base import Goal
from posable.model.skeleton import Skeleton


def solve(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    targets: Mapping[str, Any],
    *,
    offsets: Mapping[str, Any] | None = None,
    **options: Any,
) -> jax.Array:
    """Return the poses that meet the goals, differentiable in their targets and in the figure's offsets.

    It runs on the CPU, called back from compiled code, so that `jax.jit`, `jax.grad` and `jax.vmap` take it.

    Args:
        skeleton: The figure.
        goals: One goal or several; a `Posture` among them makes the pose unique, and its gradient with it.
        targets: {label: array}: Position (..., 3), Orientation (..., 3, 3), Pose (..., 4, 4); leading axes are a batch.
        offsets: {joint or site: array (3,)} [m], in the place of the figure's own; bone lengths are their norms.
        options: Of `posable.solve`: start, restarts, limits, threads, ...

    Returns:
        Poses (..., n) [rad, m]. Reverse-mode gradients are exact on the limits that hold; NaN for a pose that has none.

    Raises:
        PosableError: for unknown names and for goals that are not springs.
    """
    shapes = dict(offsets or {})
    layer = Layer(skeleton, goals, tuple(targets), tuple(shapes), options)
    given = tuple(jnp.asarray(value) for value in (*targets.values(), *shapes.values()))
    count = len(targets)
    batch = np.broadcast_shapes(
        *(value.shape[: value.ndim - len(layer.target_shape(label))]
          for label, value in zip(layer.labels, given[:count], strict=True))
    )  # fmt: skip
    dtype = jnp.result_type(*given) if given else jnp.float32
    poses = jax.ShapeDtypeStruct((*batch, skeleton.size), dtype)

    def forward(*arrays: Any) -> np.ndarray:
        values = [np.asarray(array, dtype=float) for array in arrays]
        solved = layer.forward(values[:count], values[count:])
        return solved.poses.reshape(poses.shape).astype(dtype)

    def backward(slopes: Any, *arrays: Any) -> tuple[np.ndarray, ...]:
        values = [np.asarray(array, dtype=float) for array in arrays]
        solved = layer.forward(values[:count], values[count:])
        by_target, by_offset = layer.backward(solved, np.asarray(slopes, dtype=float))
        every = [*by_target, *by_offset]
        return tuple(summed_to(slope, value.shape).astype(dtype) for slope, value in zip(every, values, strict=True))

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return jax.pure_callback(forward, poses, *arrays, vmap_method="sequential")

    def run_forward(*arrays: Any) -> tuple[Any, Any]:
        return run(*arrays), arrays

    def run_backward(arrays: Any, slopes: Any) -> Any:
        like = tuple(jax.ShapeDtypeStruct(array.shape, dtype) for array in arrays)
        return jax.pure_callback(backward, like, slopes, *arrays, vmap_method="sequential")

    run.defvjp(run_forward, run_backward)
    return run(*given)
