"""Independent readers of the same files, where they are installed: bvhio, Pinocchio, ezc3d, c3d.

None of them is a dependency. Stored numbers of theirs are in the tests of each format; here whole files are compared.
"""

import warnings

import pytest

BVH = [
    "walk.bvh",
    "small/leg.bvh",
    "bvh/bvhio_example.bvh",
    "bvh/pybvh_rotation_first_root.bvh",
    "bvh/animdraw_cmu1_jumping_jacks.bvh",
    "cmu/02_01.bvh",
]
URDF = [
    "arm/arm.urdf",
    "humanoid/humanoid.urdf",
    "urdf/erd_panda.urdf",
    "urdf/erd_double_pendulum_continuous.urdf",
    "urdf/erd_talos_reduced.urdf",
    "urdf/erd_baxter.urdf",
]
C3D = [
    "walk.c3d",
    "c3d/Gait.c3d",
    "c3d/codamotion.c3d",
    "c3d/sample01_Eb015vi.c3d",
    "hdm05/HDM_dg_06-03_03_120.c3d",
]


@pytest.fixture(scope="module")
def bench(benchmark_module):
    return benchmark_module("formats")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.files(*BVH)
def test_bvhio(bench, path):
    pytest.importorskip("bvhio", reason="bvhio is not installed")
    assert bench.compare_bvh(bench.double_precision_bvhio(), path) < 1e-9


@pytest.mark.files(*URDF)
def test_pinocchio(bench, path):
    pinocchio = pytest.importorskip("pinocchio", reason="pin is not installed")
    assert bench.compare_urdf(pinocchio, path) < 1e-9


@pytest.mark.files(*C3D)
def test_ezc3d(bench, path):
    ezc3d = pytest.importorskip("ezc3d", reason="ezc3d is not installed")
    assert bench.compare_ezc3d(ezc3d, path) < 1e-9


@pytest.mark.files(*C3D, "c3d/sample01_Eb015si.c3d", "c3d/sample02_sgi_real.c3d")
def test_c3d(bench, path):
    c3d = pytest.importorskip("c3d", reason="c3d is not installed")
    assert bench.compare_c3d(c3d, path) < 1e-6  # it computes in single precision
