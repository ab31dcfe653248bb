"""Solving as a differentiable layer of PyTorch: `posable.torch.solve`.

Only this module imports torch: `pip install posable[torch]`.
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# (to the checker `import torch` is this very file)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from posable._layers import Layer, summed_to
from posable.goals.base import Goal
from posable.model.skeleton import Skeleton


class _Solve(torch.autograd.Function):
    """Forward: `Layer.forward`. Backward: `Layer.backward`."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, count: int, *tensors: torch.Tensor) -> torch.Tensor:
        arrays = [tensor.detach().cpu().double().numpy() for tensor in tensors]
        solved = layer.forward(arrays[:count], arrays[count:])
        ctx.layer, ctx.solved, ctx.inputs = (
            layer,
            solved,
            [(tensor.dtype, tensor.device, tensor.shape) for tensor in tensors],
        )
        poses = solved.poses.reshape(*solved.shape, solved.poses.shape[1])
        dtype = torch.result_type(tensors[0], tensors[0]) if tensors else torch.float64
        return torch.as_tensor(poses, dtype=dtype, device=tensors[0].device if tensors else None)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[Any, ...]:
        rows = slopes[0].detach().cpu().double().numpy()
        targets, offsets = ctx.layer.backward(ctx.solved, rows)
        out = []
        for value, (dtype, device, shape) in zip([*targets, *offsets], ctx.inputs, strict=True):
            out.append(torch.as_tensor(summed_to(value, tuple(shape)), dtype=dtype, device=device))
        return None, None, *out


def solve(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    targets: Mapping[str, torch.Tensor],
    *,
    offsets: Mapping[str, torch.Tensor] | None = None,
    **options: Any,
) -> torch.Tensor:
    """Return the poses that meet the goals, differentiable in their targets and in the figure's offsets.

    Args:
        skeleton: The figure.
        goals: One goal or several; a `Posture` among them makes the pose unique, and its gradient with it.
        targets: {label: tensor}: Position (..., 3), Orientation (..., 3, 3), Pose (..., 4, 4); leading axes: a batch.
        offsets: {joint or site: tensor (3,)} [m], in the place of the figure's own; bone lengths are their norms.
        options: Of `posable.solve`: start, restarts, limits, threads, ...

    Returns:
        Poses (..., n) [rad, m], of the first target's type and device. Backward is exact on the limits that hold; it is
        NaN for a pose that has no derivative.

    Raises:
        PosableError: for unknown names and for goals that are no springs.
    """
    shapes = dict(offsets or {})
    layer = Layer(skeleton, goals, tuple(targets), tuple(shapes), options)
    return _Solve.apply(layer, len(targets), *targets.values(), *shapes.values())  # type: ignore[no-any-return]
