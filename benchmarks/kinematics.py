"""Times of kinematics and derivatives in a compiled loop, beside algorithm 4 of Erleben & Andrews and Pinocchio.

    python -m benchmarks.kinematics [--pinocchio PYTHON] [--quick]

PYTHON is an interpreter that has the package `pin`; this file then runs itself there, on the same joints. Every time is
the least of many short runs, on one thread: what the work takes when nothing else disturbs it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

MARKERS = 41
RUNS, REPEATS = 200, 100


def least_microseconds(run, repeats=REPEATS, runs=RUNS):
    """Return the least time [us] of one repeat, over runs of `run(repeats)`."""
    run(2)
    best = np.inf
    for _ in range(runs):
        start = time.thread_time()
        run(repeats)
        best = min(best, time.thread_time() - start)
    return best / repeats * 1e6


# ------------------------------------------------------------------------------------------------------------- ours


class Bench:
    """A figure with point springs, and its compiled loops."""

    def __init__(self, skeleton, bodies, points, seed=0):
        from posable.engine import layout as fields

        self.skeleton, self.figure, self.order = skeleton, skeleton.figure, skeleton.order
        rng = np.random.default_rng(seed)
        n, b, g = skeleton.size, self.figure.body.shape[0], len(bodies)
        self.d = int(self.order.rows[:, fields.DEPTH].max()) + 1
        kind, data = np.zeros((g, 4), dtype=np.int64), np.zeros((g, fields.CONSTANTS))
        targets = np.zeros((g, fields.TARGETS))
        kind[:, fields.BODY_A], kind[:, fields.GOAL], kind[:, fields.BODY_B] = bodies, np.arange(g), -1
        data[:, fields.POINT : fields.POINT + 3] = points
        targets[:, fields.AT : fields.AT + 3] = rng.normal(size=(g, 3))
        data[:, fields.WEIGHT : fields.WEIGHT + 3] = data[:, fields.MEASURE : fields.MEASURE + 3] = 1.0
        self.springs = fields.Springs(kind, data, targets, np.zeros(n), np.zeros(n))
        self.poses = skeleton.rest + rng.uniform(-0.5, 0.5, (32, n))
        self.work = np.zeros(fields.work_size(n, b, g, self.d))
        self.fixed, self.scale = np.zeros(n), np.ones(n)
        self.jacobian, self.gradient, self.hessian = np.zeros((9 * g, n)), np.zeros(n), np.zeros((n, n))
        self.scratch = np.empty(117)

    def time(self, job, **options):
        """Return the microseconds of one of the jobs of `loops`."""
        run = loops()[job]
        arguments = (
            self.figure, self.order, self.springs, self.poses, self.work, self.d, self.fixed, self.scale,
            self.scratch, self.jacobian, self.gradient, self.hessian,
        )  # fmt: skip
        return least_microseconds(lambda repeats: run(repeats, *arguments), **options)


def loops(made={}):  # noqa: B006 - compiled once
    """Return the compiled loops by name; each repeats its job at one pose after another."""
    if made:
        return made
    import numba

    from posable.engine import assemble as gather
    from posable.engine import joints as kinematics
    from posable.engine import ltl as factor
    from posable.engine import reference as direct
    from posable.engine.jit import OPTIONS
    from posable.engine.layout import workspace
    from posable.engine.numba_internals import EntryCompiler

    options: dict[str, Any] = {"pipeline_class": EntryCompiler, "_nrt": False, **OPTIONS}
    jit = numba.njit(**options)  # all of them as the solver's loop is compiled
    forward, derivatives = kinematics.forward, gather.derivatives
    damped_copy, factorise, substitute = factor.damped_copy, factor.factorise, factor.substitute
    direct_hessian = direct.direct_hessian
    printed = printed_algorithm(jit)

    @jit
    def run_forward(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        for k in range(repeats):
            forward(figure, poses[k % poses.shape[0]], ws)

    @jit
    def run_derivatives(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        forward(figure, poses[0], ws)
        for k in range(repeats):
            derivatives(figure, order, springs, poses[k % poses.shape[0]], ws, 1.0)

    @jit
    def run_both(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        for k in range(repeats):
            forward(figure, poses[k % poses.shape[0]], ws)
            derivatives(figure, order, springs, poses[k % poses.shape[0]], ws, 1.0)

    @jit
    def run_factor(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        forward(figure, poses[0], ws)
        derivatives(figure, order, springs, poses[0], ws, 0.0)
        for k in range(repeats):
            damped_copy(order, ws.hessian, fixed, 1.0 + k, scale, ws.factor, ws.path)
            factorise(order, ws.factor, fixed, 0.0)

    @jit
    def run_solve(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        forward(figure, poses[0], ws)
        derivatives(figure, order, springs, poses[0], ws, 0.0)
        for k in range(repeats):
            damped_copy(order, ws.hessian, fixed, 1.0 + k, scale, ws.factor, ws.path)
            factorise(order, ws.factor, fixed, 0.0)
            for i in range(ws.step.shape[0]):
                ws.step[i] = -ws.gradient[i]
            substitute(order, ws.factor, ws.step, ws.path)

    @jit
    def run_direct(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        for k in range(repeats):
            direct_hessian(figure, springs, poses[k % poses.shape[0]], work, d, 1.0, s, j, g, h)

    @jit
    def run_printed(repeats, figure, order, springs, poses, work, d, fixed, scale, s, j, g, h):
        ws, _ = workspace(figure, springs.kind.shape[0], work, d)
        for k in range(repeats):
            forward(figure, poses[k % poses.shape[0]], ws)
            printed(figure, springs, ws, j, g, h)

    made.update(
        forward=run_forward, derivatives=run_derivatives, both=run_both, factor=run_factor, solve=run_solve,
        direct=run_direct, printed=run_printed,
    )  # fmt: skip
    return made


def printed_algorithm(jit):
    """Return algorithms 3 and 4 of Erleben & Andrews (2018) line by line: all of J'J, then each pair's cross product.

    The axes are read from the forward pass, not found anew for each pair as the listing has it.
    """
    from posable.engine.joints import last_dof
    from posable.engine.layout import ABOVE, AT, BODY_A, POINT

    @jit
    def printed(figure, springs, ws, jacobian, gradient, hessian):
        n, g = ws.twist.shape[0], springs.kind.shape[0]
        for row in range(3 * g):
            for i in range(n):
                jacobian[row, i] = 0.0
        for k in range(g):
            b, row = springs.kind[k, BODY_A], springs.constants[k]
            r, p = ws.rotation[b], ws.position[b]
            x = p[0] + r[0] * row[POINT] + r[1] * row[POINT + 1] + r[2] * row[POINT + 2]
            y = p[1] + r[3] * row[POINT] + r[4] * row[POINT + 1] + r[5] * row[POINT + 2]
            z = p[2] + r[6] * row[POINT] + r[7] * row[POINT + 1] + r[8] * row[POINT + 2]
            i = last_dof(figure, b)
            while i >= 0:
                t = ws.twist[i]
                jacobian[3 * k, i] = t[1] * z - t[2] * y + t[3]
                jacobian[3 * k + 1, i] = t[2] * x - t[0] * z + t[4]
                jacobian[3 * k + 2, i] = t[0] * y - t[1] * x + t[5]
                i = figure.dof[i, ABOVE]
        for i in range(n):
            gradient[i] = 0.0
            for j in range(i + 1):
                hessian[i, j] = 0.0
        for row in range(3 * g):
            for i in range(n):
                u = jacobian[row, i]
                for j in range(i + 1):
                    hessian[i, j] += u * jacobian[row, j]
        for k in range(g):
            b, row, at = springs.kind[k, BODY_A], springs.constants[k], springs.targets[k]
            r, p = ws.rotation[b], ws.position[b]
            fx = ws.origin[0] + p[0] + r[0] * row[POINT] + r[1] * row[POINT + 1] + r[2] * row[POINT + 2] - at[AT]
            fy = ws.origin[1] + p[1] + r[3] * row[POINT] + r[4] * row[POINT + 1] + r[5] * row[POINT + 2] - at[AT + 1]
            fz = ws.origin[2] + p[2] + r[6] * row[POINT] + r[7] * row[POINT + 1] + r[8] * row[POINT + 2] - at[AT + 2]
            for i in range(n):
                gradient[i] += jacobian[3 * k, i] * fx + jacobian[3 * k + 1, i] * fy + jacobian[3 * k + 2, i] * fz
            i = last_dof(figure, b)
            while i >= 0:
                a, c, e = jacobian[3 * k, i], jacobian[3 * k + 1, i], jacobian[3 * k + 2, i]
                j = i
                while j >= 0:
                    u, v, w = ws.twist[j, 0], ws.twist[j, 1], ws.twist[j, 2]
                    hessian[i, j] += (v * e - w * c) * fx + (w * a - u * e) * fy + (u * c - v * a) * fz
                    j = figure.dof[j, ABOVE]
                i = figure.dof[i, ABOVE]

    return printed


def human():
    """Return the human with its 41 markers."""
    from posable import figures

    skeleton = figures.human()
    names = [site.name for site in skeleton.sites if site.name.isupper() or site.name in ("C7", "T10")]
    rows = [skeleton.frame(name) for name in names][-MARKERS:]
    return Bench(skeleton, skeleton.frame_bodies[rows], skeleton.frame_positions[rows])


def grown(shape, joints, markers):
    """Return a chain, or a binary tree, of hinges, with markers spread evenly over its bodies."""
    import posable as ps

    parent = (lambda i: i - 1) if shape == "chain" else (lambda i: (i - 1) // 2)
    members = [ps.Joint("0", ps.Revolute("z"))]
    members += [
        ps.Joint(str(i), ps.Revolute("xyz"[i % 3]), str(parent(i)), offset=(0.1, 0, 0)) for i in range(1, joints)
    ]
    bodies = np.linspace(0, joints - 1, markers).round().astype(int)
    return Bench(ps.Skeleton(members), bodies, np.full((markers, 3), 0.05))


def exponent(sizes, times):
    """Return the slope of log time over log size."""
    return np.polyfit(np.log(sizes), np.log(times), 1)[0]


# -------------------------------------------------------------------------------------------------------- Pinocchio


def describe(skeleton):
    """Return the elementary joints of a figure as plain data: parent, slide or turn, axis, placement."""
    from posable.engine import layout as fields

    figure = skeleton.figure
    joints = []
    for i, (_, axis, above, body) in enumerate(figure.dof[:, :4]):
        first = figure.body[body, fields.FIRST]
        rest = figure.rest[body] if i == first else np.concatenate([np.zeros(3), np.eye(3).ravel()])
        vector = (figure.sign[i] * np.eye(3)[axis]).tolist()
        joints.append([int(above), int(figure.dof[i, fields.KIND]), vector, rest[:3].tolist(), rest[3:].tolist()])
    return joints


def run_pinocchio(interpreter, bench, quick):
    """Run this file under an interpreter that has Pinocchio; return its times, or None."""
    last = bench.figure.body[:, 2] - 1
    frames = [[int(last[row[1]]), bench.springs.constants[k, :3].tolist()] for k, row in enumerate(bench.springs.kind)]
    job = {"joints": describe(bench.skeleton), "frames": frames, "poses": bench.poses.tolist(), "quick": quick}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        done = subprocess.run([interpreter, __file__, "--peer", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  Pinocchio did not run: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def peer(path):
    """Time Pinocchio on the described joints (this runs in the peer's interpreter) and print the times as JSON."""
    import pinocchio as pin

    job = json.loads(Path(path).read_text())

    def build(joints):
        model = pin.Model()
        for above, kind, axis, position, rotation in joints:
            motion = (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ), (
                pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ,
            )  # fmt: skip
            k = int(np.argmax(np.abs(axis)))
            if axis[k] > 0:
                joint = motion[0 if kind == 1 else 1][k]()
            else:
                unaligned = pin.JointModelRevoluteUnaligned if kind == 1 else pin.JointModelPrismaticUnaligned
                joint = unaligned(np.array(axis))
            place = pin.SE3(np.array(rotation).reshape(3, 3), np.array(position))
            model.addJoint(above + 1, joint, place, f"j{model.njoints}")
        return model

    model = build(job["joints"])
    for k, (joint, point) in enumerate(job["frames"]):
        place = pin.SE3(np.eye(3), np.array(point))
        model.addFrame(pin.Frame(f"m{k}", joint + 1, 0, place, pin.FrameType.OP_FRAME))
    data, poses = model.createData(), [np.array(q) for q in job["poses"]]
    tiny = build([[-1, 1, [1.0, 0.0, 0.0], [0.0] * 3, np.eye(3).ravel().tolist()]])
    tiny_data, tiny_pose = tiny.createData(), np.zeros(1)
    runs = 30 if job["quick"] else 200

    def call(function, model, data, poses):
        def run(repeats):
            for k in range(repeats):
                function(model, data, poses[k % len(poses)])

        return least_microseconds(run, 100, runs)

    frames = range(1, model.nframes)

    def stack(model, data, q):
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        rows = [pin.getFrameJacobian(model, data, f, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)[:3] for f in frames]
        jacobian = np.concatenate(rows)
        return jacobian.T @ jacobian

    out = {"version": pin.__version__}
    for name in ("forwardKinematics", "computeJointJacobians"):
        function = getattr(pin, name)
        out[name] = call(function, model, data, poses)
        out[name + " overhead"] = call(function, tiny, tiny_data, [tiny_pose])
    out["stack"] = call(stack, model, data, poses)
    pin.forwardKinematics(model, data, poses[0])
    out["position"] = data.oMi[model.njoints - 1].translation.tolist()
    print(json.dumps(out))


# --------------------------------------------------------------------------------------------------------- sections


def report_human(options):
    """Print the times of the human."""
    bench = human()
    n, g = bench.skeleton.size, len(bench.springs.kind)
    print(f"human: {n} degrees of freedom, {g} markers, mean depth {bench.order.rows[:, 1].mean() + 1:.1f}")
    times = {job: bench.time(job, **options) for job in ("forward", "derivatives", "both", "factor", "solve")}
    print(f"  forward kinematics, with all twists       {times['forward']:8.2f} us")
    print(f"  gradient and exact Hessian                {times['derivatives']:8.2f} us")
    print(f"  both together                             {times['both']:8.2f} us")
    print(f"  damping and factorisation                 {times['factor']:8.2f} us")
    print(f"  damping, factorisation and solution       {times['solve']:8.2f} us")
    print("  the same by algorithm 4 of Erleben & Andrews 2018, without forward kinematics:")
    for job, label in (("printed", "as printed"), ("direct", "on chains only, products hoisted")):
        direct = bench.time(job, **options) - times["forward"]
        print(f"  {label:42s}{direct:8.2f} us   x{direct / times['derivatives']:.1f} the gathered one")
    return bench, times


def report_growth(options):
    """Print how the times grow with joints and with markers."""
    print("growth: exponent of the time over size, 1x 2x 4x 8x")
    for shape, sizes in (("chain", (16, 32, 64, 128)), ("tree", (31, 63, 127, 255))):
        for what in ("joints", "markers"):
            base = sizes[0]
            benches = [
                grown(shape, size if what == "joints" else base, base if what == "joints" else size) for size in sizes
            ]
            for job in ("forward", "derivatives", "factor") if what == "joints" else ("derivatives",):
                times = [bench.time(job, **options) for bench in benches]
                spelled = " ".join(f"{t:8.2f}" for t in times)
                print(f"  {shape:6s} {what:8s} {job:12s} {spelled} us   ~ size^{exponent(sizes, times):.2f}")


def report_pinocchio(interpreter, bench, times, quick):
    """Print Pinocchio's times beside ours, for one pose and for a batch."""
    from posable.model.kinematics import place_bodies

    peer_times = run_pinocchio(interpreter, bench, quick)
    if peer_times is None:
        return
    ours = place_bodies(bench.skeleton, bench.poses[:1])[0][0, -1]
    gap = np.abs(ours - peer_times["position"]).max()
    print(f"Pinocchio {peer_times['version']}, the same elementary joints; the last one's place differs by {gap:.1e} m")
    for name in ("forwardKinematics", "computeJointJacobians"):
        call, overhead = peer_times[name], peer_times[name + " overhead"]
        inner = call - overhead
        print(f"  {name:24s} {call:7.2f} us a call, {overhead:5.2f} us of it a call on one joint: {inner:6.2f} us;"
              f" ours {times['forward']:6.2f} us: x{inner / times['forward']:.1f}")  # fmt: skip
    print(
        f"  its 41 Jacobians and J'J by NumPy {peer_times['stack']:6.1f} us; our exact Hessian {times['both']:.2f} us"
    )
    poses = np.tile(bench.poses, (64, 1))
    batch = least_microseconds(lambda repeats: [place_bodies(bench.skeleton, poses) for _ in range(repeats)], 1, 20)
    each = batch / len(poses)
    print(f"  a batch of {len(poses)} from Python: ours {each:.2f} us a pose; Pinocchio, call by call, "
          f"{peer_times['forwardKinematics']:.2f} us: x{peer_times['forwardKinematics'] / each:.1f}")  # fmt: skip


def start_seconds():
    """Return the seconds that a new process takes to import, to place frames and to solve, or None if it cannot."""
    code = (
        "import time; a = time.perf_counter(); import posable as ps; b = time.perf_counter();"
        "s = ps.figures.human(); ps.forward(s, s.rest).position('head'); c = time.perf_counter();"
        "ps.solve(s, [ps.goals.Position('hand.R', (0.4, 1.2, 0.3))]); d = time.perf_counter();"
        "print(b - a, c - a, d - a)"
    )
    runs = []
    for _ in range(4):  # the first may compile
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"start: did not run: {done.stderr.strip().splitlines()[-1:]}")
            return None
        runs.append([float(x) for x in done.stdout.split()])
    return np.min(runs[1:], axis=0)


def report_start():
    """Print how long a new process takes to import and to solve for the first time, with a warm cache."""
    seconds = start_seconds()
    if seconds is not None:
        imported, placed, solved = seconds
        line = f"import {imported:.2f} s (budget 0.3), frames {placed:.2f} s, solve {solved:.2f} s (budget 1)"
        print(f"warm start: {line}")


# ---------------------------------------------------------------------------------------------------------- the page


def evidence(page):
    """Write the results page: the human's times, the algorithm of Erleben & Andrews (2018), the first second."""
    bench = human()
    options = {"runs": page.pick(RUNS, 40)}
    page.text(
        f"The human with {bench.skeleton.size} degrees of freedom and {len(bench.springs.kind)} markers, inside a "
        f"compiled loop on one thread. Each time is the minimum of many short runs."
    )
    labels = {
        "forward": "forward kinematics, with all twists",
        "derivatives": "gradient and exact Hessian, gathered",
        "both": "both together",
        "factor": "damping and factorisation, without fill-in",
        "solve": "damping, factorisation and solution",
    }
    times = {job: page.value(f"{job}_us", bench.time(job, **options)) for job in labels}
    page.table("One evaluation", ["work", "us"], [[label, times[job]] for job, label in labels.items()])
    rows = []
    for job, label in (("printed", "as printed"), ("direct", "on chains only, products hoisted")):
        taken = page.value(f"{job}_us", bench.time(job, **options) - times["forward"])
        rows.append([label, taken, f"{taken / times['derivatives']:.1f}"])
    page.table(
        "Gradient and Hessian by algorithm 4 of Erleben & Andrews (2018), compiled, without forward kinematics",
        ["algorithm 4", "us", "times ours"],
        rows,
    )
    start = start_seconds()
    if start is not None:
        rows = [
            [what, page.value(key, second), budget] for (what, key, budget), second in zip(STARTS, start, strict=True)
        ]
        page.table("A new process, with a warm cache", ["until", "s", "budget s"], rows)


STARTS = (
    ("imported", "import_s", 0.3),
    ("frames of the human", "frames_s", None),
    ("first solve of the human", "first_solve_s", 1.0),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pinocchio", metavar="PYTHON", help="an interpreter that has the package `pin`")
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.peer)
        return
    options = {"runs": 40 if arguments.quick else RUNS}
    bench, times = report_human(options)
    report_growth(options)
    if arguments.pinocchio:
        report_pinocchio(arguments.pinocchio, bench, times, arguments.quick)
    report_start()


if __name__ == "__main__":
    main()
