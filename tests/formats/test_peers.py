"""Independent readers of the same files, where they are installed: bvhio, Pinocchio, ezc3d, c3d.

None of them is a dependency. Stored numbers of theirs are in the tests of each format; here whole files are compared.
"""

import warnings

import pytest

BVH = [
    "bvh/bvhio_example.bvh",
    "bvh/pybvh_rotation_first_root.bvh",
    "bvh/animdraw_cmu1_jumping_jacks.bvh",
    "cmu/02_01.bvh",
]
URDF = [
    "urdf/erd_panda.urdf",
    "urdf/erd_double_pendulum_continuous.urdf",
    "urdf/erd_talos_reduced.urdf",
    "urdf/erd_baxter.urdf",
]
C3D = ["c3d/Gait.c3d", "c3d/codamotion.c3d", "c3d/sample01_Eb015vi.c3d", "hdm05/HDM_dg_06-03_03_120.c3d"]


@pytest.fixture(scope="module")
def bench(benchmark_module):
    return benchmark_module("formats")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("file", BVH)
def test_bvhio(bench, data_dir, file):
    pytest.importorskip("bvhio", reason="bvhio is not installed")
    assert bench.compare_bvh(bench.double_precision_bvhio(), data_dir / file) < 1e-9


@pytest.mark.parametrize("file", URDF)
def test_pinocchio(bench, data_dir, file):
    pinocchio = pytest.importorskip("pinocchio", reason="pin is not installed")
    assert bench.compare_urdf(pinocchio, data_dir / file) < 1e-9


@pytest.mark.parametrize("file", C3D)
def test_ezc3d(bench, data_dir, file):
    ezc3d = pytest.importorskip("ezc3d", reason="ezc3d is not installed")
    assert bench.compare_ezc3d(ezc3d, data_dir / file) < 1e-9


@pytest.mark.parametrize("file", [*C3D, "c3d/sample01_Eb015si.c3d", "c3d/sample02_sgi_real.c3d"])
def test_c3d(bench, data_dir, file):
    c3d = pytest.importorskip("c3d", reason="c3d is not installed")
    assert bench.compare_c3d(c3d, data_dir / file) < 1e-6  # it computes in single precision
