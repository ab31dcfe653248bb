"""What an animator and a roboticist do on the page, in a real browser: files of every kind, keys, poses, films."""

import io
import json

import numpy as np
import pytest

import posable as ps

from .browser import click_mouse, on_screen, pixels, wait_for

pytestmark = pytest.mark.flaky(reruns=2)  # a busy software renderer misses a press of the mouse now and then
SIZES = ((1280, 800), (1920, 1080))


def opened(bench, path):
    """Drop a file on the page and wait until it is shown."""
    bench.fresh()
    figure = bench.session.figure
    bench.session.open_path(path) if path.suffix in (".xml", ".urdf") else bench.drop(path)
    wait_for(lambda: bench.session.figure != figure, f"{path.name} to be opened")
    bench.seen()


def changes(bench, act, least):
    """Act, and wait until at least such a fraction of the picture has changed."""
    bench.seen()
    before = pixels(bench.page)
    act()
    wait_for(lambda: np.mean(np.abs(pixels(bench.page) - before) > 15) > least, "another picture")


def strip_of(bench):
    """Return where the timeline strip is on the page: left, top, right, bottom [pixels]."""
    box = bench.page.locator("#posable-strip").bounding_box()
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def file_of(bench, button, tmp_path, name):
    """Click a button that downloads a file; return its bytes."""
    with bench.page.expect_download(timeout=300_000) as waiting:
        bench.page.get_by_role("button", name=button, exact=True).click()
    waiting.value.save_as(tmp_path / name)
    return (tmp_path / name).read_bytes()


# --- Everything is shown ---


@pytest.mark.files(
    "walk.bvh", "character.glb", "walk.c3d", "arm/arm.urdf", "humanoid/humanoid.urdf", "cmu/02_01.bvh",
    "gltf/khronos_CesiumMan.glb", "gltf/khronos_Fox.glb", "mjcf/unitree_g1/g1.xml", "mjcf/kuka_iiwa_14/iiwa14.xml",
    "c3d/Gait.c3d",
)  # fmt: skip
def test_a_file_is_shown_upright_and_every_handle_can_be_seen(bench, path):
    opened(bench, path)
    session = bench.session
    for width, height in SIZES:
        bench.page.set_viewport_size({"width": width, "height": height})
        wait_for(lambda w=width: strip_of(bench)[2] < w - 370, "the strip beside the panel, not below it")
        bench.shot(f"file_{path.stem}_{width}")
        for handle in session.handles:
            x, y = on_screen(bench.client, session.frames.position(handle.body), bench.page)
            assert 0 < x < width - 370, handle.body
            assert 0 < y < strip_of(bench)[1], handle.body
    bench.page.set_viewport_size({"width": 800, "height": 560})
    if session.timeline.markers is not None:  # a person stands
        places = session.timeline.markers.positions[session.timeline.shown]
        assert np.argmax(np.nanmax(places, axis=0) - np.nanmin(places, axis=0)) == (
            1 if session.skeleton.up == "y" else 2
        )
    if session.timeline.take is None and session.skeleton.joints[0].motion.size == 6 and session.scene.meshes:
        from posable.studio.appearance import surface_points

        points = surface_points(bench.studio.stage.look)
        height = 1 if session.skeleton.up == "y" else 2
        lowest = min(
            (p @ session.frames.rotation_matrix(b).T + session.frames.position(b))[:, height].min()
            for b, p in points.items()
        )
        assert abs(lowest) < 0.02  # [m]: it stands on the floor
    assert not bench.faults


def test_a_figure_that_would_tip_over_is_shown_in_red(bench):
    from posable.studio.contacts import balance_of

    bench.fresh()
    stage = bench.studio.stage

    def is_red():
        return [239, 71, 111] in np.asarray(stage.overlays.lines.colors).reshape(-1, 3).tolist()

    assert not is_red()
    bench.session.configure(balance=False)
    start = bench.session.frames.position("pelvis")
    for place in np.linspace(start, start + np.array([0.0, -0.02, 0.3]), 8):
        bench.session.drag("pelvis", place)
        wait_for(lambda: not len(bench.session.queue), "the drag")
    bench.session.release()
    wait_for(lambda: bench.session.active is None, "the drag to end")
    bench.seen()
    view = bench.session.view()
    assert not balance_of(view.skeleton, view.frames, stage.size, view.support).steady
    assert is_red()
    bench.shot("tips")
    bench.session.configure(balance=True)


def test_onion_skin_of_a_take_shows_the_poses_before_and_after(bench, fixtures):
    opened(bench, fixtures / "walk.bvh")
    bench.session.player.seek(30)
    bench.tab("Time")
    changes(bench, lambda: bench.page.get_by_label("Onion skin").click(), 0.01)
    assert set(bench.studio.stage.ghosts) == {"past", "future"}
    bench.shot("onion")
    bench.page.get_by_label("Onion skin").click()
    wait_for(lambda: not bench.session.timeline.onion, "the ghosts to go")


def test_the_camera_follows_a_take_and_frames_the_selection(bench, fixtures):
    opened(bench, fixtures / "walk.bvh")
    bench.tab("Pose")
    bench.page.get_by_text("Display", exact=True).first.click()
    follow = bench.page.get_by_label("Follow the figure")
    if not follow.is_checked():
        follow.click()
    wait_for(lambda: bench.studio.stage.follow, "the camera to follow")
    root = bench.session.skeleton.names[0]
    away = bench.client.camera.position - bench.session.frames.position(root)
    last = bench.session.timeline.count - 1
    bench.session.player.seek(last)
    flat = np.array([1.0, 0.0, 1.0]) if bench.session.skeleton.up == "y" else np.array([1.0, 1.0, 0.0])

    def kept():
        now = bench.client.camera.position - bench.session.frames.position(root)
        return np.allclose(now * flat, away * flat, atol=0.02)

    wait_for(kept, "the camera to have followed")
    body = bench.session.handles[0].body
    bench.session.select(body)
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("f")
    wait_for(
        lambda: np.allclose(bench.client.camera.look_at, bench.session.frames.position(body), atol=0.01),
        "the selection to be framed",
    )
    bench.page.get_by_text("Display", exact=True).first.click()


# --- It behaves as people expect ---


def test_a_pose_is_copied_pasted_saved_and_applied(bench):
    bench.fresh()
    session = bench.session
    session.set_dof("elbow.R", 1.2)
    bench.seen()
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("Control+c")
    bench.page.get_by_text("Pose copied").first.wait_for()
    session.set_dof("elbow.R", 0.3)
    bench.page.keyboard.press("Control+v")
    elbow = session.skeleton.dof("elbow.R")
    wait_for(lambda: abs(session.pose[elbow] - 1.2) < 1e-9, "the pose to be pasted")
    bench.tab("Pose")
    bench.page.get_by_text("Pose library", exact=True).first.click()
    bench.page.get_by_role("button", name="Save this pose").click()
    wait_for(lambda: session.library, "the pose to be saved")
    bench.page.get_by_role("button", name="fist", exact=True).first.click()
    finger = next(name for name in session.skeleton.dof_names if name.startswith("fingers1.L"))
    wait_for(lambda: abs(session.pose[session.skeleton.dof(finger)]) > 0.5, "a fist")
    bench.shot("library")
    session.reset()
    bench.seen()
    bench.page.get_by_role("button", name="Apply", exact=True).nth(1).click()
    wait_for(lambda: abs(session.pose[elbow] - 1.2) < 1e-9, "the saved pose")
    bench.page.get_by_text("Pose library", exact=True).first.click()


def test_a_press_on_the_limb_inside_a_ring_takes_hold_of_its_handle(bench, fixtures):
    opened(bench, fixtures / "character.glb")
    session = bench.session
    assert "hand_R" in bench.studio.stage.handles.rings
    place = on_screen(bench.client, session.frames.position("hand_R"), bench.page)
    click_mouse(bench.page, place, lambda: session.selection == ("hand_R",), "the hand")


@pytest.mark.parametrize("body", ["pelvis", "head", "foot.R", "knee.R"])
def test_a_press_on_the_human_inside_a_ring_takes_hold_of_its_handle(bench, body):
    bench.fresh()
    place = on_screen(bench.client, bench.session.frames.position(body), bench.page)
    click_mouse(bench.page, place, lambda: bench.session.selection == (body,), body)


def test_two_handles_are_selected_and_dragged_together(bench):
    bench.page.set_viewport_size({"width": 1280, "height": 800})  # else one of them is behind the panel
    bench.fresh()
    session = bench.session
    places = {name: session.frames.position(name) for name in ("hand.L", "hand.R")}
    on_page = {name: on_screen(bench.client, place, bench.page) for name, place in places.items()}
    click_mouse(bench.page, on_page["hand.L"], lambda: session.selection == ("hand.L",), "the left hand")
    bench.seen()
    bench.page.keyboard.down("Control")
    click_mouse(bench.page, on_page["hand.R"], lambda: set(session.selection) == {"hand.L", "hand.R"}, "both hands")
    bench.page.keyboard.up("Control")
    bench.seen()
    session.drag("hand.R", places["hand.R"] + [0.0, 0.25, 0.2])
    session.release()
    wait_for(lambda: session.result is not None and session.active is None, "the drag")
    for name, place in places.items():
        assert session.frames.position(name) - place == pytest.approx([0.0, 0.25, 0.2], abs=0.02), name
    bench.page.set_viewport_size({"width": 800, "height": 560})


def test_keys_ease_and_curves_are_drawn(bench):
    bench.fresh()
    session = bench.session
    session.player.set_key()
    session.player.seek(40)
    session.set_dof("elbow.R", 1.5)
    session.select("elbow.R")
    bench.tab("Time")
    middle = {}
    for easing in ("linear", "stepped", "smooth"):
        bench.choose("Easing", easing)
        wait_for(lambda easing=easing: session.timeline.easing == easing, easing)
        middle[easing] = session.timeline.at(10)[session.skeleton.dof("elbow.R")]
    assert middle["stepped"] < middle["smooth"] < middle["linear"]
    bench.page.get_by_text("Curves of the selected joint", exact=True).first.click()
    bench.page.locator(".uplot").first.wait_for()
    bench.shot("curves")
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("Shift+ArrowLeft")
    wait_for(lambda: session.timeline.shown == 0, "the key before")
    bench.page.keyboard.press("Delete")
    wait_for(lambda: list(session.timeline.keys) == [40], "the key to be deleted")
    bench.page.get_by_text("Curves of the selected joint", exact=True).first.click()


def test_another_take_of_a_file_is_chosen(bench, fixtures):
    opened(bench, fixtures / "character.glb")
    session = bench.session
    bench.tab("Time")
    bench.page.get_by_text("It has 2 takes").first.wait_for()
    assert bench.row("Take").locator("input[role=combobox]").input_value() == "Wave"
    bench.choose("Take", "Nod")
    wait_for(lambda: session.take_name == "Nod", "the nod")
    bench.seen()
    session.player.set_key()
    bench.seen()
    bench.pick("Take", "Wave")  # the list shows Nod again with the next refresh
    bench.page.get_by_text("are not saved in a project").wait_for()
    bench.page.get_by_role("button", name="Cancel").click()
    wait_for(lambda: bench.value("Take") == "Nod", "the take that is still open")
    assert session.take_name == "Nod"
    bench.shot("takes")


def test_a_foot_is_locked_over_a_range_of_frames(bench, fixtures):
    opened(bench, fixtures / "walk.bvh")
    session = bench.session
    foot = next(h.body for h in session.handles if h.hold == "pinned")
    session.player.seek(12)
    session.select(foot)
    place = session.frames.position(foot)
    bench.tab("Time")
    bench.page.get_by_text("Contact", exact=True).first.click()
    bench.row("From frame").locator("input").first.fill("10")
    bench.row("From frame").locator("input").first.press("Enter")
    bench.row("To frame").locator("input").first.fill("15")
    bench.row("To frame").locator("input").first.press("Enter")
    wait_for(lambda: (bench.value("From frame"), bench.value("To frame")) == (10, 15), "the range")
    bench.page.get_by_role("button", name="Lock the selected body in place").click()
    wait_for(lambda: set(range(10, 16)) <= set(session.timeline.keys), "the locked frames")
    for frame in range(10, 16):
        frames = ps.forward(session.skeleton, session.timeline.at(frame))
        assert frames.position(foot) == pytest.approx(place, abs=2e-3)
    bench.page.get_by_text("Contact", exact=True).first.click()


def test_a_transparent_picture_a_gif_a_film_and_a_page_are_downloaded(bench, tmp_path):
    import imageio.v3 as images

    bench.fresh()
    session = bench.session
    session.player.set_key()
    session.player.seek(4)
    session.set_dof("elbow.R", 1.0)
    bench.tab("File")
    bench.choose("Size", "640 × 360")
    bench.page.get_by_label("Transparent background").set_checked(True)
    picture = images.imread(io.BytesIO(file_of(bench, "Picture (PNG)", tmp_path, "view.png")))
    assert picture.shape == (360, 640, 4)
    assert picture[0, 0, 3] == 0
    assert 0.02 < np.mean(picture[..., 3] > 0) < 0.6
    bench.page.get_by_label("Transparent background").set_checked(False)
    for kind in ("gif", "mp4", "html"):
        bench.choose("Film", kind)
        data = file_of(bench, "Film", tmp_path, f"film.{kind}")
        if kind == "html":
            assert b"<title>Posable</title>" in data
            page = bench.open_page((tmp_path / "film.html").as_uri(), waits=False)
            try:
                page.locator("canvas").first.wait_for()
                wait_for(lambda page=page: pixels(page).std() > 5.0, "the page to play")
            finally:  # a page that plays slows down every other one
                page.close()
        else:
            assert len(images.imread(io.BytesIO(data), extension=f".{kind}")) >= 4
    bench.choose("Size", "1280 × 720")


# --- Nothing is lost, and nothing gets in the way ---


def test_recent_work_is_listed_and_opened(bench, tmp_path):
    from posable.studio.project import RecoveryStore

    bench.fresh()
    session = bench.session
    session.recovery = RecoveryStore(tmp_path)
    try:
        session.set_dof("elbow.R", 1.1)
        assert session.autosave()
        posed, (kept,) = session.pose, session.recovery.recent()
        session.undo()
        session.save_project()
        session.autosave()
        session.set_pose(posed)
        session.autosave()
        session.undo()
        bench.studio.refresh_soon()
        bench.tab("File")
        bench.choose("Recent", kept.stem)
        bench.page.get_by_role("button", name="Open recent work").click()
        without = bench.page.get_by_role("button", name="Open without saving")
        wait_for(lambda: np.array_equal(session.pose, posed) or without.count(), "an answer")
        if without.count():
            without.click()
        wait_for(lambda: np.array_equal(session.pose, posed), "the work as it was")
    finally:
        session.recovery = None


def test_long_names_and_many_sliders_keep_the_panel_in_shape(bench):
    long = "a_very_long_name_of_a_joint_that_some_exporter_made_up_from_namespaces_and_numbers"
    joints = [ps.Joint("root", ps.Free())]
    for k in range(60):
        joints.append(ps.Joint(f"{long}_{k}", ps.Ball("xyz"), joints[-1].name, offset=(0.0, 0.05, 0.0)))
    bench.fresh(ps.Skeleton(joints, [ps.Site(f"{long}_tip", joints[-1].name, (0.0, 0.05, 0.0))], long, up="y"))
    for width, height in SIZES:
        bench.page.set_viewport_size({"width": width, "height": height})
        for tab in ("Pose", "Joints", "Time", "File"):
            bench.tab(tab)
            head = bench.page.get_by_role("tab", name=tab)
            wait_for(lambda w=width, head=head: head.bounding_box()["x"] > w - 380, "the panel at the edge")
            bench.seen()
            wide = bench.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width  # nothing pushes the page wider
    bench.tab("Joints")
    assert bench.page.locator(".mantine-Slider-root").count() < 95  # of 186 degrees of freedom, and of other tabs
    bench.shot("long_names")
    bench.page.set_viewport_size({"width": 800, "height": 560})


@pytest.mark.parametrize("size", [(390, 844), (768, 1024), (640, 360)])
def test_a_small_window_shows_the_figure_and_the_timeline(bench, size):
    bench.fresh()
    bench.page.set_viewport_size({"width": size[0], "height": size[1]})
    tab = bench.page.get_by_role("tab", name="Pose")

    def fits():
        left, _, right, bottom = strip_of(bench)
        wide, panel = bench.page.evaluate("document.documentElement.scrollWidth"), tab.bounding_box()
        covers = right >= panel["x"] and bottom >= panel["y"]
        return left >= 0 and right <= size[0] and wide <= size[0] and not covers

    wait_for(fits, "the strip inside the window and off the panel", patience=30.0)
    bench.shot(f"small_{size[0]}")
    bench.page.set_viewport_size({"width": 800, "height": 560})
    bench.seen()


def test_branches_of_an_arm_respect_its_limits(bench, fixtures):
    opened(bench, fixtures / "arm7" / "arm7.xml")
    session = bench.session
    (name,) = session.limbs
    session.set_pose(np.clip(session.pose + 0.4, session.skeleton.lower, session.skeleton.upper))
    session.select(name)
    bench.seen()
    bench.tab("Limb")
    place = session.frames.matrix(session.limbs[name].site)
    before = session.pose
    bench.page.get_by_role("button", name="next", exact=True).click()
    wait_for(lambda: len(session.history) >= 2, "another branch")
    assert session.frames.matrix(session.limbs[name].site) == pytest.approx(place, abs=1e-6)
    inside = np.all(session.pose >= session.skeleton.lower - 1e-9) and np.all(
        session.pose <= session.skeleton.upper + 1e-9
    )
    assert inside or bench.page.get_by_text("violates a limit").count()
    assert before.shape == session.pose.shape


def test_a_figure_without_limbs_and_a_contact_without_a_body_are_explained(bench, fixtures):
    opened(bench, fixtures / "walk.bvh")
    assert bench.session.limbs == {}
    bench.tab("Limb")
    notes = bench.page.get_by_text("This figure has none")
    notes.first.wait_for()
    bench.page.get_by_role("button", name="next", exact=True).click()
    wait_for(lambda: notes.count() == 2, "the notice")
    bench.tab("Time")
    bench.page.get_by_text("Contact", exact=True).first.click()
    lock = bench.page.get_by_role("button", name="Lock the selected body in place")
    lock.wait_for()
    assert lock.is_disabled()
    bench.session.select(bench.session.handles[0].body)
    wait_for(lock.is_enabled, "a body to lock")
    bench.page.get_by_text("Contact", exact=True).first.click()


def test_a_page_from_another_origin_is_rejected(bench, tmp_path):
    """A page of another origin in the same browser, which knows the port but not the token, gets nothing."""
    bench.fresh()
    port = bench.studio.server.get_port()
    (tmp_path / "evil.html").write_text(f"""<title>Posable</title><script>
      window.said = {{}};
      const s = new WebSocket("ws://127.0.0.1:{port}/");
      s.onopen = () => said.socket = "open"; s.onerror = () => said.socket = "refused";
      fetch("http://127.0.0.1:{port}/do/play").then(() => said.fetch = "answered").catch(() => said.fetch = "refused");
      const t = new WebSocket({json.dumps(bench.studio.url.replace("http", "ws"))});
      t.onopen = () => said.token = "open"; t.onerror = () => said.token = "refused";
    </script>Posable""")
    page = bench.open_page((tmp_path / "evil.html").as_uri(), waits=False)
    wait_for(lambda: len(page.evaluate("window.said")) == 3, "its attempts")
    assert page.evaluate("window.said") == {"socket": "refused", "fetch": "refused", "token": "refused"}
    page.close()
    assert not bench.session.timeline.playing
