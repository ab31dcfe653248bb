"""Forks, threads and Control-C in one process: results stay bitwise identical."""

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import posable as ps


def bits(seed=0):
    """Solve a batch, and return a digest of all its poses."""
    limb, rng = ps.figures.limb(), np.random.default_rng(seed)
    poses = np.clip(limb.rest + 0.4 * rng.normal(size=(20, limb.size)), limb.lower, limb.upper)
    result = ps.solve(limb, [ps.goals.Pose("hand", ps.forward(limb, poses).matrix("hand"))])
    return hashlib.sha256(result.pose.tobytes()).hexdigest()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_a_solve_gives_the_same_bits():
    expected = bits()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, bits().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert found == expected
    assert bits() == expected


def test_eight_threads_at_once_give_the_same_bits():
    expected = [bits(seed) for seed in range(8)]
    found, gate = [None] * 8, threading.Barrier(8)

    def work(k):
        gate.wait()
        found[k] = [bits(k) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[one] * 3 for one in expected]


def test_what_has_been_solved_can_be_sent_to_another_process():
    session = ps.Session(ps.figures.panda(), ps.goals.Position("hand", (0.4, 0.2, 0.5)))
    result = session.solve()
    twin = pickle.loads(pickle.dumps(result))
    assert (str(twin), twin.pose.tobytes()) == (str(result), result.pose.tobytes())
    other = pickle.loads(pickle.dumps(session))
    assert other.solve().pose.tobytes() == session.solve().pose.tobytes()
    again = pickle.loads(pickle.dumps(result.problem)).evaluate(result.pose)
    assert again[0] == result.problem.evaluate(result.pose)[0]


SAVING = """
import signal
import sys
import numpy as np
import posable as ps

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it otherwise
arm = ps.figures.planar_arm([1.0, 1.0])
print("ready", flush=True)
while True:
    for value in (0.25, 0.5):
        ps.save(sys.argv[1], ps.Motion(arm, np.full((4000, arm.size), value), 30.0))
"""


@pytest.mark.skipif(os.name == "nt", reason="Control-C is another thing there")
@pytest.mark.parametrize("kill", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_whenever_it_ends_the_file_is_whole(tmp_path, kill):
    path = tmp_path / "a.npz"
    for delay in (0.0, 0.011, 0.023, 0.037):
        command = [sys.executable, "-c", SAVING, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as going:
            assert going.stdout.readline() == "ready\n"
            while not path.exists():
                time.sleep(0.001)
            time.sleep(delay)
            going.send_signal(getattr(signal, kill))
            try:
                going.wait(30)
            finally:
                going.kill()  # or leaving the block would wait for ever
        values = np.unique(ps.load(path).motion.poses)
        assert values.tolist() in ([0.25], [0.5])
        assert len(ps.load(path).motion) == 4000
    if kill == "SIGINT":  # it had the time to clean up
        assert os.listdir(tmp_path) == ["a.npz"]
