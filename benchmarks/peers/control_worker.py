"""Runs a peer's own control loop in the peer's environment: python control_worker.py PEER TASK.npz OUT.npz.

TASK holds: urdf, floating, frames (names), names (of the joints), start (n,), targets (T, frames, 4, 4), dt, velocity
(n,), acceleration (n,), and com (3,) of a floating base, whose feet stay. OUT gets poses (T, n) in the order of names,
bases (T, 4, 4), and seconds (T,) of each step. Only NumPy and the peer are imported.
"""

import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

BASE_ACCELERATION = 100.0  # [m/s^2, rad/s^2]
COM_COST = (1.0, 1.0, 0.0)
POSTURE_COST = 1e-2


def pink_loop(task):
    """Frame tasks, configuration, velocity (from the URDF) and acceleration limits, DAQP."""
    import pink
    import pinocchio as pin
    from pink.limits import AccelerationLimit, ConfigurationLimit, VelocityLimit
    from pink.tasks import ComTask, FrameTask, PostureTask

    floating = bool(task["floating"])
    urdf = str(task["urdf"])
    model = pin.buildModelFromUrdf(urdf, pin.JointModelFreeFlyer()) if floating else pin.buildModelFromUrdf(urdf)
    joints = [model.joints[model.getJointId(str(name))] for name in task["names"]]
    order = [joint.idx_q for joint in joints]
    q = pin.neutral(model)
    q[order] = task["start"]
    configuration = pink.Configuration(model, model.createData(), q)
    frames = [FrameTask(str(name), position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3) for name in task["frames"]]
    tasks: list[Any] = list(frames)
    if floating:
        posture, com = PostureTask(cost=POSTURE_COST), ComTask(cost=list(COM_COST))
        posture.set_target(q)
        com.set_target(np.array(task["com"]))
        tasks += [posture, com]
    braking = np.full(model.nv, BASE_ACCELERATION)
    braking[[joint.idx_v for joint in joints]] = task["acceleration"]
    acceleration = AccelerationLimit(model, braking)
    limits = [ConfigurationLimit(model), VelocityLimit(model), acceleration]
    dt = float(task["dt"])
    for targets in task["targets"]:
        begin = time.perf_counter()
        for frame, target in zip(frames, targets, strict=True):
            frame.set_target(pin.SE3(target))
        try:
            velocity = pink.solve_ik(
                configuration, tasks, dt, solver="daqp", damping=1e-8, limits=limits, safety_break=False
            )
        except Exception:  # the program has no solution: the command stays where it is
            velocity = np.zeros(model.nv)
        acceleration.set_last_integration(velocity, dt)
        configuration.integrate_inplace(velocity, dt)
        seconds = time.perf_counter() - begin
        base = pin.XYZQUATToSE3(configuration.q[:7]).homogeneous if floating else np.eye(4)
        yield configuration.q[order], base, seconds


def mink_loop(task):
    """Frame tasks, configuration and velocity limits, DAQP; mink has no acceleration limit."""
    import mink

    mujoco: Any = import_module("mujoco")  # its names are made when it is loaded
    spec = mujoco.MjSpec.from_file(str(task["urdf"]))
    spec.compiler.fusestatic = False  # the tool's frame is a body of its own
    floating = bool(task["floating"])
    if floating:
        spec.worldbody.first_body().add_freejoint()
    model = spec.compile()
    names = [str(name) for name in task["names"]]
    order = [model.joint(name).qposadr[0] for name in names]
    configuration = mink.Configuration(model)
    q = model.qpos0.copy() if floating else np.zeros(model.nq)
    q[order] = task["start"]
    if floating:
        q[:7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    configuration.update(q)
    frames = [
        mink.FrameTask(str(name), "body", position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)
        for name in task["frames"]
    ]
    tasks: list[Any] = list(frames)
    if floating:
        posture, com = mink.PostureTask(model, cost=POSTURE_COST), mink.ComTask(cost=np.array(COM_COST))
        posture.set_target(q)
        com.set_target(np.array(task["com"]))
        tasks += [posture, com]
    speeds = dict(zip(names, task["velocity"], strict=True))
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]
    dt = float(task["dt"])
    for targets in task["targets"]:
        begin = time.perf_counter()
        for frame, target in zip(frames, targets, strict=True):
            frame.set_target(mink.SE3.from_matrix(target))
        try:
            velocity = mink.solve_ik(configuration, tasks, dt, solver="daqp", damping=1e-8, limits=limits)
        except Exception:  # as above
            velocity = np.zeros(model.nv)
        configuration.integrate_inplace(velocity, dt)
        seconds = time.perf_counter() - begin
        base = np.eye(4)
        if floating:
            body = configuration.data.body(spec.worldbody.first_body().name)
            base[:3, :3], base[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        yield configuration.q[order].copy(), base, seconds


def placo_loop(task):
    """Frame tasks, joint and velocity limits; placo's kinematics solver has no acceleration limit."""
    import placo

    robot = placo.RobotWrapper(str(task["urdf"]), placo.Flags.ignore_collisions)
    names = [str(name) for name in task["names"]]
    for name, value in zip(names, task["start"], strict=True):
        robot.set_joint(name, float(value))
    robot.update_kinematics()
    solver = placo.KinematicsSolver(robot)
    floating = bool(task["floating"])
    solver.mask_fbase(not floating)
    solver.enable_joint_limits(True)
    solver.enable_velocity_limits(True)
    solver.dt = float(task["dt"])
    frames = []
    for name, target in zip(task["frames"], task["targets"][0], strict=True):
        frames.append(solver.add_frame_task(str(name), np.array(target)))
        frames[-1].configure(str(name), "soft", 1.0, 1.0)
    if floating:
        com = solver.add_com_task(np.array(task["com"]))
        com.mask.set_axises("xy")
        com.configure("com", "soft", 1.0)
        joints = solver.add_joints_task()
        joints.set_joints({name: float(value) for name, value in zip(names, task["start"], strict=True)})
        joints.configure("posture", "soft", POSTURE_COST**2)
    solver.add_regularization_task(1e-6)
    for targets in task["targets"]:
        begin = time.perf_counter()
        for frame, target in zip(frames, targets, strict=True):
            frame.T_world_frame = np.array(target)
        try:
            solver.solve(True)
            robot.update_kinematics()
        except Exception:  # as above
            pass
        seconds = time.perf_counter() - begin
        base = robot.get_T_world_fbase() if floating else np.eye(4)
        yield np.array([robot.get_joint(name) for name in names]), base, seconds


LOOPS = {"pink": pink_loop, "mink": mink_loop, "placo": placo_loop}

if __name__ == "__main__":
    peer, source, out = sys.argv[1:]
    poses, bases, seconds = zip(*LOOPS[peer](np.load(source)), strict=True)
    np.savez(out, poses=np.array(poses), bases=np.array(bases), seconds=np.array(seconds))
