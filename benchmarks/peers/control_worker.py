"""Runs a peer's own control loop in the peer's environment: python control_worker.py PEER TASK.npz OUT.npz.

TASK holds: urdf, frame, names (of the joints), start (n,), targets (T, 4, 4), dt, acceleration (n,). OUT gets poses
(T, n) in the order of names, and seconds (T,) of each step. Only NumPy and the peer are imported.
"""

import sys
import time
from importlib import import_module
from typing import Any

import numpy as np


def pink_loop(task):
    """Frame task, configuration, velocity (from the URDF) and acceleration limits, DAQP."""
    import pink
    import pinocchio as pin
    from pink.limits import AccelerationLimit, ConfigurationLimit, VelocityLimit
    from pink.tasks import FrameTask

    model = pin.buildModelFromUrdf(str(task["urdf"]))
    order = [model.joints[model.getJointId(name)].idx_q for name in task["names"]]
    q = pin.neutral(model)
    q[order] = task["start"]
    configuration = pink.Configuration(model, model.createData(), q)
    frame = FrameTask(str(task["frame"]), position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)
    braking = np.full(model.nv, 100.0)
    braking[order] = task["acceleration"]
    acceleration = AccelerationLimit(model, braking)
    limits = [ConfigurationLimit(model), VelocityLimit(model), acceleration]
    dt = float(task["dt"])
    for target in task["targets"]:
        begin = time.perf_counter()
        frame.set_target(pin.SE3(target))
        try:
            velocity = pink.solve_ik(
                configuration, [frame], dt, solver="daqp", damping=1e-8, limits=limits, safety_break=False
            )
        except Exception:  # the program has no solution: the command stays where it is
            velocity = np.zeros(model.nv)
        acceleration.set_last_integration(velocity, dt)
        configuration.integrate_inplace(velocity, dt)
        yield configuration.q[order], time.perf_counter() - begin


def mink_loop(task):
    """Frame task, configuration and velocity limits, DAQP; mink has no acceleration limit."""
    import mink

    mujoco: Any = import_module("mujoco")  # its names are made when it is loaded
    spec = mujoco.MjSpec.from_file(str(task["urdf"]))
    spec.compiler.fusestatic = False  # the tool's frame is a body of its own
    model = spec.compile()
    names = [str(name) for name in task["names"]]
    order = [model.joint(name).qposadr[0] for name in names]
    configuration = mink.Configuration(model)
    q = np.zeros(model.nq)
    q[order] = task["start"]
    configuration.update(q)
    frame = mink.FrameTask(str(task["frame"]), "body", position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)
    speeds = dict(zip(names, task["velocity"], strict=True))
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]
    dt = float(task["dt"])
    for target in task["targets"]:
        begin = time.perf_counter()
        frame.set_target(mink.SE3.from_matrix(target))
        try:
            velocity = mink.solve_ik(configuration, [frame], dt, solver="daqp", damping=1e-8, limits=limits)
        except Exception:  # as above
            velocity = np.zeros(model.nv)
        configuration.integrate_inplace(velocity, dt)
        yield configuration.q[order].copy(), time.perf_counter() - begin


def placo_loop(task):
    """Frame task, joint and velocity limits; placo's kinematics solver has no acceleration limit."""
    import placo

    robot = placo.RobotWrapper(str(task["urdf"]), placo.Flags.ignore_collisions)
    names = [str(name) for name in task["names"]]
    for name, value in zip(names, task["start"], strict=True):
        robot.set_joint(name, float(value))
    robot.update_kinematics()
    solver = placo.KinematicsSolver(robot)
    solver.mask_fbase(True)
    solver.enable_joint_limits(True)
    solver.enable_velocity_limits(True)
    solver.dt = float(task["dt"])
    frame = solver.add_frame_task(str(task["frame"]), np.array(task["targets"][0]))
    frame.configure("tool", "soft", 1.0, 1.0)
    solver.add_regularization_task(1e-6)
    for target in task["targets"]:
        begin = time.perf_counter()
        frame.T_world_frame = np.array(target)
        try:
            solver.solve(True)
            robot.update_kinematics()
        except Exception:  # as above
            pass
        yield np.array([robot.get_joint(name) for name in names]), time.perf_counter() - begin


LOOPS = {"pink": pink_loop, "mink": mink_loop, "placo": placo_loop}

if __name__ == "__main__":
    peer, source, out = sys.argv[1:]
    poses, seconds = zip(*LOOPS[peer](np.load(source)), strict=True)
    np.savez(out, poses=np.array(poses), seconds=np.array(seconds))
