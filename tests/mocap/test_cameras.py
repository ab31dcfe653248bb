"""Keypoints of several cameras, filmed by an independent projection: noise, gaps, wrong and swapped detections."""

import numpy as np
import pytest

import posable as ps
from posable.errors import FormatError
from posable.mocap.cameras import triangulate, upright

# names of common detectors, and the joints of the walk that stand for them
JOINTS = {
    "neck": "neck", "nose": "skull",
    **{f"{side}_{name}": f"{joint}.{side[0].upper()}" for side in ("left", "right") for name, joint in (
        ("shoulder", "shoulder"), ("elbow", "elbow"), ("wrist", "wrist"), ("hip", "hip"), ("knee", "knee"),
        ("ankle", "ankle"), ("big_toe", "toes"))},
}  # fmt: skip
NAMES = list(JOINTS)
FOCAL, SIZE = 1100.0, (1920, 1080)


@pytest.fixture(scope="module")
def walk(fixtures):
    motion = ps.load(fixtures / "walk.amc").motion
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([frames.position(joint) for joint in JOINTS.values()], axis=1), motion.fps


def rig(places, count=4, up=(0.0, 1.0, 0.0)):
    middle, up = places.reshape(-1, 3).mean(axis=0), np.array(up)
    side, ahead = np.roll(up, 1), np.cross(up, np.roll(up, 1))
    out = []
    for k in range(count):
        a = 2.0 * np.pi * k / count + 0.3
        place = middle + 4.0 * (np.cos(a) * side + np.sin(a) * ahead) + (1.0 - 0.3 * (k % 2)) * up
        one = ps.Camera.look_at(place, middle, FOCAL, SIZE, up=up)
        lens = (-0.1, 0.02, 0.001, -0.001, 0.0)
        out.append(ps.Camera(one.matrix, one.rotation, one.translation, distortion=lens, name=f"cam{k + 1}"))
    return out


def seen(camera, places):
    """Project by the equations of a lens with k1, k2, p1, p2."""
    x, y, z = np.moveaxis(places @ camera.rotation.as_matrix().T + camera.translation, -1, 0)
    k1, k2, p1, p2 = camera.distortion[:4]
    x, y = x / z, y / z
    r2 = x**2 + y**2
    radial = 1.0 + k1 * r2 + k2 * r2**2
    u = x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x**2)
    v = y * radial + p1 * (r2 + 2.0 * y**2) + 2.0 * p2 * x * y
    return np.stack([FOCAL * u + SIZE[0] / 2.0, FOCAL * v + SIZE[1] / 2.0], axis=-1)


def film(places, cameras, *, noise=3.0, drop=0.1, wrong=0.03, swap=0.05, seed=0):
    rng = np.random.default_rng(seed)
    pixels = np.stack([seen(camera, places) for camera in cameras])
    pixels += rng.normal(0.0, noise, pixels.shape)
    bad = rng.random(pixels.shape[:3]) < wrong
    pixels[bad] += rng.normal(0.0, 150.0, (int(bad.sum()), 2))
    pixels[rng.random(pixels.shape[:3]) < drop] = np.nan
    return exchanged(pixels, rng.random(pixels.shape[:2]) < swap)


def exchanged(pixels, where):
    """Exchange left and right in some (camera, frame)."""
    other = [NAMES.index(n.replace("left", "?").replace("right", "left").replace("?", "right")) for n in NAMES]
    return np.where(where[:, :, None, None], pixels[:, :, other], pixels)


def found(take):
    frames = ps.forward(take.motion.skeleton, take.motion.poses)
    return np.stack([frames.position(name) for name in NAMES], axis=1)


def bend(places, fps):
    return float(np.abs(np.diff(places, n=2, axis=0)).mean()) * fps**2


def test_clean_keypoints_are_met(walk):
    places, fps = walk
    cameras = rig(places)
    take = ps.track(ps.Keypoints(NAMES, film(places, cameras, noise=0, drop=0, wrong=0, swap=0), fps, cameras))
    np.testing.assert_allclose(take.positions, places, atol=1e-6)
    misses = np.linalg.norm(found(take) - places, axis=-1)
    assert np.median(misses) < 0.003
    assert take.motion.skeleton.up == "y"
    assert take.report.ok
    assert take.report.verdict == "plausible"


@pytest.mark.parametrize(("count", "median", "most"), [(4, 0.010, 0.06), (3, 0.014, 0.12)])
def test_noise_gaps_wrong_and_swapped_detections_do_not_bend_the_figure(walk, count, median, most):
    """3 px are 11 mm at 4 m: the figure is nearer than that, and as calm as the person was."""
    places, fps = walk
    cameras = rig(places, count)
    take = ps.track(ps.Keypoints(NAMES, film(places, cameras), fps, cameras))
    misses = np.linalg.norm(found(take) - places, axis=-1)
    assert np.median(misses) < median
    assert misses.max() < most
    assert bend(found(take), fps) < 2.0 * bend(places, fps)
    assert take.report.ok
    assert "left and right swapped back in cam1" in take.report.repairs[0]
    assert "ignored as outliers" in take.report.repairs[1]
    assert all(2.0 < error < 9.0 for error in take.report.camera_errors.values())


def test_a_camera_that_swaps_sides_throughout(walk):
    places, fps = walk
    cameras = rig(places)
    pixels = film(places, cameras, wrong=0.0, swap=0.0)
    swapped = exchanged(pixels, (np.arange(4) == 2)[:, None] & np.ones((1, len(places)), dtype=bool))
    mended, plain = (triangulate(ps.Keypoints(NAMES, one, fps, cameras)) for one in (swapped, pixels))
    gap = np.linalg.norm(mended.positions - plain.positions, axis=-1)
    assert np.nanquantile(gap, 0.9) < 0.01
    assert "cam3" in mended.repairs[0]
    assert "cam1" not in mended.repairs[0]


def test_a_camera_whose_calibration_is_off_is_named_and_left_out(walk):
    places, fps = walk
    cameras = rig(places)
    pixels = film(places, cameras)
    one = cameras[1]
    cameras[1] = ps.Camera(one.matrix, one.rotation, one.translation + 0.08, distortion=one.distortion, name="cam2")
    take = ps.track(ps.Keypoints(NAMES, pixels, fps, cameras))
    assert not take.report.ok
    assert "ignored: cam2 by" in take.report.verdict
    assert "calibration" in take.report.verdict
    assert np.isnan(take.report.camera_errors["cam2"])
    assert np.median(np.linalg.norm(found(take) - places, axis=-1)) < 0.014


def test_cameras_in_the_wrong_order_are_doubted(walk):
    places, fps = walk
    cameras = rig(places)
    report = ps.track(ps.Keypoints(NAMES, film(places, cameras)[[1, 0, 3, 2]], fps, cameras)).report
    assert not report.ok
    assert "order of the cameras" in report.verdict


def test_a_wrong_unit_and_mirrored_images_are_reported(walk):
    places, fps = walk
    cameras = rig(places)
    pixels = film(places, cameras, noise=0.5, drop=0.0, wrong=0.0, swap=0.0)
    big = [ps.Camera(c.matrix, c.rotation, 1000.0 * c.translation, distortion=c.distortion) for c in cameras]
    verdict = ps.track(ps.Keypoints(NAMES, pixels, fps, big)).report.verdict
    assert "must be in metres, as if they were in millimetres" in verdict
    everywhere = exchanged(pixels, np.ones(pixels.shape[:2], dtype=bool))
    verdict = ps.track(ps.Keypoints(NAMES, everywhere, fps, cameras)).report.verdict
    assert "swapped in all cameras, or their images are mirrored" in verdict


@pytest.mark.parametrize("up", [(0, 0, 1), (0, -1, 0), (0, 0, -1), (1, 0, 0), (-1, 0, 0)])
def test_any_axis_of_the_world_may_point_up(walk, up):
    """OpenCV's world is often that of the first camera, whose y points down."""
    places, fps = walk
    up = np.array(up, dtype=float)
    side = np.roll(up, 1)
    turn = np.array([side, up, np.cross(side, up)]).T  # the walk's x, y (up), z
    places = places @ turn.T
    cameras = rig(places, up=up)
    take = ps.track(ps.Keypoints(NAMES, film(places, cameras, noise=0.2, drop=0, wrong=0, swap=0), fps, cameras))
    height = found(take)[..., 2]
    assert take.motion.skeleton.up == "z"
    assert (height[:, NAMES.index("nose")] - height[:, NAMES.index("left_ankle")]).min() > 1.0
    assert take.report.ok, take.report
    matrix, axis = upright(NAMES, places)
    assert axis == "z"
    assert np.linalg.det(matrix) == pytest.approx(1.0)
    np.testing.assert_allclose(matrix @ up, (0.0, 0.0, 1.0))


def test_a_joint_that_one_camera_sees_stays_near_its_place(walk):
    places, fps = walk
    cameras = rig(places)
    pixels = film(places, cameras, noise=1.0, drop=0.0, wrong=0.0, swap=0.0)
    wrist = NAMES.index("left_wrist")
    pixels[1:, 20:24, wrist] = np.nan
    places_found = triangulate(ps.Keypoints(NAMES, pixels, fps, cameras)).positions
    assert np.linalg.norm(places_found[20:24, wrist] - places[20:24, wrist], axis=-1).max() < 0.05


def test_an_actor_takes_keypoints_as_markers(walk):
    places, fps = walk
    cameras = rig(places)
    keypoints = ps.Keypoints(NAMES, film(places, cameras, noise=1.0), fps, cameras)
    actor = ps.calibrate(ps.figures.human(), triangulate(keypoints).markers)
    take = ps.track(actor, keypoints)
    assert np.nanmean(take.errors) < 0.03
    assert any("ignored as outliers" in note for note in take.report.notes)


def test_files_and_the_command_line(walk, tmp_path, capsys):
    from posable.cli.main import main

    places, fps = walk
    cameras = rig(places)
    text = ""
    for k, one in enumerate(cameras):
        text += f"[cam_{k}]\nname = 'cam{k + 1}'\nmatrix = {one.matrix.tolist()}\n"
        text += f"distortions = {one.distortion.tolist()}\nrotation = {one.rotation.as_rotvec().tolist()}\n"
        text += f"translation = {one.translation.tolist()}\n"
    (tmp_path / "Calib.toml").write_text(text)
    pixels = film(places, cameras)
    np.savez(tmp_path / "keypoints.npz", keypoints=pixels, names=np.array(NAMES), fps=fps)
    out = tmp_path / "take.bvh"
    command = ["track", str(tmp_path / "keypoints.npz"), "--cameras", str(tmp_path / "Calib.toml"), "-o", str(out)]
    assert main(command) == 0
    assert "plausible after repairs" in capsys.readouterr().out
    assert len(ps.load(out).motion) == len(places)
    np.save(tmp_path / "coco.npy", pixels[:, :, :1].repeat(17, axis=2))
    with pytest.warns(ps.PosableWarning, match="no frame rate is stated"):
        loaded = ps.Keypoints.load(tmp_path / "coco.npy", cameras)
    assert (loaded.names[0], loaded.fps) == ("nose", 30.0)
    (tmp_path / "bad.npz").write_bytes(b"PK")
    assert main([*command[:1], str(tmp_path / "bad.npz"), *command[2:]]) == 2
    assert main(["track", "x.c3d", "-o", "y.bvh"]) == 2
    assert "--cameras TOML" in capsys.readouterr().err


def test_a_hostile_file_is_refused_before_it_is_unpacked(walk, tmp_path):
    """A few bytes that would unpack to gigabytes, and a folder: errors of ours, no array made."""
    cameras = rig(walk[0])
    np.savez_compressed(tmp_path / "bomb.npz", keypoints=np.zeros((4, 100_000, 17, 3)))
    assert (tmp_path / "bomb.npz").stat().st_size < 1_000_000
    for name, word in (("bomb.npz", "a few times the file"), (".", "a regular file")):
        with pytest.raises(FormatError, match=word):
            ps.Keypoints.load(tmp_path / name, cameras)


def test_wrong_calls_say_what_is_wrong(walk):
    places, fps = walk
    cameras = rig(places)
    pixels = film(places, cameras)
    for arguments, word in (
        ((NAMES, pixels[:3], fps, cameras), "for 4 cameras"),
        ((NAMES, pixels[:1], fps, cameras[:1]), "two or more"),
        ((NAMES, pixels, fps, ["a", "b", "c", "d"]), "Camera objects"),
        ((NAMES[:4], pixels, fps, cameras), "names"),
        ((["a"] * len(NAMES), pixels, fps, cameras), "twice"),
        ((NAMES, pixels, 0.0, cameras), "fps"),
    ):
        with pytest.raises(ps.PosableError, match=word):
            ps.Keypoints(*arguments)
    with pytest.raises(ps.PosableError, match="agree on"):
        ps.track(ps.Keypoints(NAMES, np.full_like(pixels, np.nan), fps, cameras))
