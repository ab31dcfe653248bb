"""Solving as a differentiable layer of PyTorch: `posable.torch.solve`.

Only this module imports torch: `pip install posable[torch]`.
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# (to the checker `import torch` is this very file)
from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from posable._differentiable import Layer, summed_to
from posable.errors import PosableWarning, SolverError
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


class _SolveOnDevice(torch.autograd.Function):
    """The same on the GPU that the targets are on: nothing is copied to the host."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, *tensors: torch.Tensor) -> torch.Tensor:
        solved = layer.forward_on_gpu([tensor.detach().contiguous() for tensor in tensors])
        ctx.layer, ctx.solved = layer, solved
        ctx.inputs = [(tensor.dtype, tensor.shape) for tensor in tensors]
        poses = torch.as_tensor(solved.poses, device=tensors[0].device).reshape(*solved.shape, -1)
        return poses.to(tensors[0].dtype, copy=True)  # what the caller writes into it is not the minimum's

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[Any, ...]:
        from posable.gpu.differentiable import adjoint, columns

        layer, solved = ctx.layer, ctx.solved
        rows = slopes[0].detach().double().reshape(solved.poses.shape).contiguous()
        found = torch.as_tensor(adjoint(solved, rows), device=rows.device)
        out = []
        for label, (dtype, shape) in zip(layer.labels, ctx.inputs, strict=True):
            elements, where = columns(solved, label)
            size = layer.target_shape(label)
            value = found.new_zeros((len(found), math.prod(size)))
            value[:, elements] = found[:, where]
            out.append(value.reshape(*solved.shape, *size).sum_to_size(shape).to(dtype))
        return None, *out


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
        PosableError: for unknown names and for goals that are not springs.

    Note:
        Targets that are all on one NVIDIA GPU are solved and differentiated there, without a copy to the host; goals
        and options that the GPU does not support, and offsets, are solved on the CPU with a warning.
    """
    shapes = dict(offsets or {})
    layer = Layer(skeleton, goals, tuple(targets), tuple(shapes), options)
    if targets and all(target.is_cuda for target in targets.values()):
        try:
            return _SolveOnDevice.apply(layer, *targets.values())  # type: ignore[no-any-return]  # untyped in PyTorch
        except SolverError as reason:
            warnings.warn(f"solved on the CPU: {reason}", PosableWarning, stacklevel=2)
    return _Solve.apply(layer, len(targets), *targets.values(), *shapes.values())  # type: ignore[no-any-return]  # untyped in PyTorch
