"""The real page in a real browser. Set POSABLE_SHOTS to a folder to keep the pictures."""

import json
import os
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

import posable as ps

from .browser import (
    click_mouse,
    drag_mouse,
    drop_file,
    drop_files,
    on_screen,
    pixels,
    wait_for,
)

pytestmark = pytest.mark.flaky(reruns=2)  # a busy software renderer misses a press of the mouse now and then


def held(session):
    skeleton, pose = session.skeleton, session.pose
    return np.all(pose >= skeleton.lower - 1e-9) and np.all(pose <= skeleton.upper + 1e-9)


def test_a_hand_is_dragged_with_the_mouse(bench):
    bench.fresh()
    before = bench.session.frames.position("hand.R"), bench.session.frames.position("foot.L")
    _, end = bench.grab("hand.R", -50, 110)
    wait_for(lambda: bench.session.active is None and len(bench.session.history), "the drag to end")
    hand = bench.session.frames.position("hand.R")
    assert np.linalg.norm(hand - before[0]) > 0.15
    assert np.linalg.norm(np.array(on_screen(bench.client, hand, bench.page)) - end) < 12.0
    assert np.linalg.norm(bench.session.frames.position("foot.L") - before[1]) < 2e-3
    assert held(bench.session)
    bench.shot("drag")


def test_a_hand_dragged_too_far_says_what_is_in_the_way(bench):
    bench.fresh()
    bench.session.set_handle("pelvis", "pinned")
    bench.grab("hand.R", -190, 200)
    bench.page.get_by_text("misses by").first.wait_for()
    assert held(bench.session)
    bench.shot("out_of_reach")


def test_a_click_chooses_and_pins(bench):
    bench.fresh()
    place = on_screen(bench.client, bench.session.frames.position("hand.R"), bench.page)
    click_mouse(bench.page, place, lambda: bench.session.selected == "hand.R", "the hand to be chosen")
    bench.tab("Pose")
    bench.choose("Hold", "pinned")
    wait_for(lambda: any(h.body == "hand.R" and h.hold == "pinned" for h in bench.session.handles), "the pin")
    shown = bench.row("Hold").locator("input[role=combobox]")
    wait_for(lambda: shown.input_value() == "pinned", "the page to show what is active")
    bench.seen()
    bench.shot("pinned")


def test_any_joint_is_picked_pinned_and_freed(bench):
    bench.fresh()
    place = on_screen(bench.client, bench.session.frames.position("spine3"), bench.page)
    bench.page.keyboard.down("Shift")
    click_mouse(bench.page, place, lambda: bench.session.selected is not None, "a joint to be picked")
    bench.page.keyboard.up("Shift")
    body = bench.session.selected
    picked = on_screen(bench.client, bench.session.frames.position(body), bench.page)
    assert np.linalg.norm(np.array(picked) - place) < 25.0  # [pixels]
    assert all(h.body != body for h in bench.session.handles)
    bench.tab("Pose")
    for hold in ("pinned", "free"):
        bench.choose("Hold", hold)
        wait_for(lambda hold=hold: any((h.body, h.hold) == (body, hold) for h in bench.session.handles), hold)
    bench.page.get_by_role("button", name="Remove handle").click()
    wait_for(lambda: all(h.body != body for h in bench.session.handles), "the handle to go")


def test_strength_and_the_rest_pose(bench):
    bench.fresh()
    bench.session.set_dof("elbow.R", 1.0)
    bench.tab("Pose")
    bench.page.get_by_role("button", name="Set", exact=True).first.click()
    wait_for(lambda: bench.session.rest[bench.session.skeleton.dof("elbow.R")] == 1.0, "the rest pose")
    bench.session.set_dof("elbow.R", 0.2)
    bench.page.get_by_role("button", name="Apply", exact=True).click()
    wait_for(lambda: bench.session.pose[bench.session.skeleton.dof("elbow.R")] == 1.0, "the way back to rest")
    bench.session.select("spine2")
    bench.tab("Joints")
    bench.page.get_by_text("Stiffness of joints", exact=True).first.click()
    bench.row("Stiffness, 10^").wait_for()
    bench.type_in("Stiffness, 10^", 1)
    wait_for(lambda: bench.session.strength.get("spine2") == pytest.approx(10.0), "the strength")
    bench.page.get_by_text("spine2 × 10").first.wait_for()
    bench.shot("strength")


def test_the_limb_panel_aims_and_points(bench):
    bench.fresh()
    bench.session.set_pose(bench.session.skeleton.pose({"shoulder.R": (-0.6, 0.3, 0.2), "elbow.R": 1.0}))
    bench.session.select("elbow.R")
    bench.tab("Limb")
    limb = bench.session.limbs["elbow.R"]
    bench.choose("Axis", "y")
    bench.type_vector("Point [m]", (-0.3, 1.4, 1.0))

    def along():
        return bench.session.frames.rotation_matrix(limb.site)[:, 1]

    def away():
        to = np.array([-0.3, 1.4, 1.0]) - bench.session.frames.position(limb.site)
        return np.degrees(np.arccos(np.clip(abs(along() @ to) / np.linalg.norm(to), -1.0, 1.0)))

    before = bench.session.pose
    bench.page.get_by_role("button", name="aim at").click()
    wait_for(lambda: not np.array_equal(bench.session.pose, before), "the hand to be aimed")
    assert away() < 1.0
    bench.shot("aim")
    place, before = bench.session.frames.position(limb.site), bench.session.pose
    direction = along() + np.array([0.1, 0.0, 0.05])
    bench.type_vector("Point [m]", direction)
    bench.page.get_by_role("button", name="point along").click()
    wait_for(lambda: not np.array_equal(bench.session.pose, before), "the hand to point")
    assert np.linalg.norm(bench.session.frames.position(limb.site) - place) < 1e-6
    assert along() == pytest.approx(direction / np.linalg.norm(direction), abs=1e-2)
    assert held(bench.session)


def test_a_picture_and_an_amc_are_downloaded(bench, tmp_path):
    import imageio.v3 as images

    bench.fresh()
    bench.tab("File")
    with bench.page.expect_download() as waiting:
        bench.page.get_by_role("button", name="Picture (PNG)").click()
    waiting.value.save_as(tmp_path / "view.png")
    picture = images.imread(tmp_path / "view.png")
    assert picture.shape[:2] == (720, 1280)
    assert picture[..., :3].std() > 10.0  # there is something on it
    bench.choose("Format", "amc")
    with bench.page.expect_download() as waiting:
        bench.page.get_by_role("button", name="Download").click()
    waiting.value.save_as(tmp_path / "take.zip")
    with zipfile.ZipFile(tmp_path / "take.zip") as archive:
        archive.extractall(tmp_path)
    (amc,), (asf,) = tmp_path.glob("*.amc"), tmp_path.glob("*.asf")
    assert len(ps.load(amc, skeleton=asf).motion) == 1


def test_a_slow_page_gets_fewer_polygons(bench):
    bench.fresh()
    stage = bench.studio.stage
    stage.redraw(bench.session.view(), 1.0)
    vertices = len(stage.drawn.skins[0][0].vertices)
    type(bench.studio).adapt_detail(bench.studio, 99.0, bench.client)
    assert stage.detail <= 0.45
    assert 0 < len(stage.drawn.skins[0][0].vertices) < vertices
    bench.grab("hand.R", -40, 80)
    wait_for(lambda: bench.session.result is not None and bench.session.active is None, "a drag after it")
    bench.shot("coarse")


def test_the_swivel_slider(bench):
    bench.fresh()
    bench.session.drag("hand.R", bench.session.frames.position("hand.R") + np.array([0.05, 0.35, 0.35]))
    bench.session.release()
    wait_for(lambda: bench.session.result is not None and bench.session.active is None, "the hand to be raised")
    hand, elbow = bench.session.frames.position("hand.R"), bench.session.frames.position("elbow.R")
    bench.tab("Limb")
    bench.choose("Limb", "elbow.R")
    wait_for(lambda: bench.session.selected == "elbow.R", "the limb to be chosen")
    low, high = bench.session.limb_view("elbow.R").ranges[0]

    bench.seen()
    bench.type_in("Swivel [°]", round(float(np.degrees(low + 0.2 * (high - low)))))
    wait_for(lambda: np.linalg.norm(bench.session.frames.position("elbow.R") - elbow) > 1e-3, "the elbow to swivel")
    assert np.linalg.norm(bench.session.frames.position("hand.R") - hand) < 1e-6
    assert held(bench.session)
    bench.seen()
    bench.shot("swivel")


def test_another_solver_is_chosen(bench):
    bench.fresh()
    bench.tab("Solver")
    bench.choose("Ghost", "dls")
    wait_for(lambda: bench.session.settings.ghost == "dls", "the ghost", 300.0)
    bench.session.drag("hand.L", bench.session.frames.position("hand.L") + np.array([0.1, 0.5, 0.3]))
    bench.session.release()
    wait_for(lambda: len(bench.session.curves) == 2, "both curves", 300.0)
    bench.page.locator("svg polyline").nth(1).wait_for(state="attached")  # both curves
    bench.shot("solver")
    bench.choose("Solver", "dls")
    wait_for(lambda: bench.session.settings.solver == "dls", "the solver", 300.0)


def test_a_take_is_dropped_on_the_page_played_scrubbed_edited_and_exported(bench, tmp_path):
    bench.fresh()
    human = bench.session.skeleton
    raised = human.pose({"shoulder.R": (-1.4, 0.2, 0.3), "elbow.R": 0.7})
    walk = ps.Motion.from_keyframes(human, [0.0, 1.0, 2.0], np.stack([human.rest, raised, human.rest]), fps=30.0)
    ps.save(tmp_path / "wave.bvh", walk)
    bench.drop(tmp_path / "wave.bvh")
    wait_for(lambda: bench.session.timeline.take is not None, "the take")
    bench.seen()
    bench.page.mouse.click(300, 60)  # the scene has the keyboard
    bench.page.keyboard.press("Space")
    wait_for(lambda: bench.session.timeline.playing and bench.session.timeline.frame > 3, "it to play")
    bench.page.keyboard.press("Space")
    wait_for(lambda: not bench.session.timeline.playing, "it to stop")
    bench.page.keyboard.press("Home")
    wait_for(lambda: bench.session.timeline.shown == 0, "the first frame")
    bench.page.keyboard.press("ArrowRight")
    wait_for(lambda: bench.session.timeline.shown == 1, "the next frame")
    bench.seen()
    bench.page.mouse.click(*bench.on_strip(30))
    wait_for(lambda: bench.session.timeline.shown == 30, "frame 30")
    hand = bench.session.skeleton.names.index("wrist.R")
    body = bench.session.skeleton.names[hand]
    bench.session.drag(
        bench.session.handles[1].body, bench.session.frames.position(bench.session.handles[1].body) + 0.05
    )
    bench.session.release()
    wait_for(lambda: 30 in bench.session.timeline.keys, "the key of the edit")
    edited = bench.session.frames.position(body)
    bench.seen()
    drag_mouse(bench.page, bench.on_strip(30, key=True), bench.on_strip(33, key=True))
    wait_for(lambda: 32 <= min(bench.session.timeline.keys) <= 34, "the key to be moved on the strip")
    bench.page.keyboard.press("Control+z")
    wait_for(lambda: list(bench.session.timeline.keys) == [30], "the move to be undone")
    bench.shot("time")
    bench.tab("File")
    bench.choose("Format", "bvh")
    with bench.page.expect_download() as waiting:
        bench.page.get_by_role("button", name="Download").click()
    waiting.value.save_as(tmp_path / "back.bvh")
    back = ps.load(tmp_path / "back.bvh").motion
    assert len(back) == len(walk)
    assert ps.forward(back.skeleton, back.poses[30]).position(body) == pytest.approx(
        edited, abs=1e-4
    )  # as it was shown
    here = ps.forward(human, walk.poses[5])
    assert ps.forward(back.skeleton, back.poses[5]).position("wrist.R") == pytest.approx(
        here.position("wrist.R"), abs=1e-4
    )


def test_unsaved_work_is_asked_about_and_a_project_brings_it_back(bench, tmp_path):
    bench.fresh()
    bench.grab("hand.R", -50, 110)
    wait_for(lambda: bench.session.dirty and bench.session.active is None, "the drag")
    posed = bench.session.pose
    with bench.page.expect_download() as waiting:
        bench.page.keyboard.press("Control+s")
    waiting.value.save_as(tmp_path / "mine.posable")
    wait_for(lambda: not bench.session.dirty, "it to be saved")
    bench.session.set_dof("elbow.L", 1.0)
    bench.tab("File")
    bench.choose("Figure", "panda")
    bench.page.get_by_role("button", name="Open this figure").click()
    bench.page.get_by_text("are not saved in a project").wait_for()
    bench.shot("asked")
    assert bench.session.skeleton.name == "human"
    bench.page.get_by_role("button", name="Cancel").click()
    bench.page.get_by_text("are not saved in a project").wait_for(state="detached")
    assert bench.session.skeleton.name == "human"
    bench.page.get_by_role("button", name="Open this figure").click()
    bench.page.get_by_role("button", name="Open without saving").click()
    wait_for(lambda: bench.session.skeleton.name != "human", "the other figure")
    bench.seen()
    bench.drop(tmp_path / "mine.posable")
    wait_for(lambda: np.array_equal(bench.session.pose, posed), "the project with its pose")
    assert bench.session.skeleton.name == "human"


def test_a_page_has_one_question_at_most_and_none_that_is_settled(bench, tmp_path):
    bench.fresh()
    session, dialogs = bench.session, bench.page.get_by_role("dialog")
    session.set_dof("elbow.L", 1.0)
    posed = session.pose
    for name in ("panda", "spider"):
        bench.studio.ask_first(bench.client, lambda name=name: session.open_figure(name))
    dialogs.first.wait_for()
    bench.seen()
    wait_for(lambda: dialogs.count() == 1, "the first question to give way")
    bench.page.keyboard.press("Escape")
    wait_for(lambda: dialogs.count() == 0, "the question to be declined")
    assert np.array_equal(session.pose, posed)
    bench.studio.ask_first(bench.client, lambda: session.open_figure("panda"))
    dialogs.first.wait_for()
    session.save_project()  # on another page, say: nothing is unsaved any more
    wait_for(lambda: dialogs.count() == 0, "the question to be settled")
    assert session.skeleton.name == "human"


def test_a_file_changed_on_disk_is_asked_about_on_every_page_until_one_answers(bench, tmp_path):
    bench.fresh()
    session, path = bench.session, tmp_path / "take.bvh"
    ps.save(path, ps.Motion(session.skeleton, np.tile(session.skeleton.rest, (5, 1)), 30.0))
    session.open_path(path, watch=True)
    try:
        session.set_dof(session.skeleton.dof_names[-1], 0.1)
        os.utime(path, (1e9, 1e9))
        session.wake.set()
        bench.page.get_by_text("has changed on disk").wait_for()
        second, _ = bench.another()  # a page that is opened later is asked as well
        second.get_by_text("has changed on disk").wait_for()
        second.get_by_role("button", name="Leave everything as it is").click()
        for page in (bench.page, second):
            wait_for(lambda page=page: page.get_by_role("dialog").count() == 0, "the question to go")
        assert list(session.timeline.keys) == [0]
        second.close()
    finally:
        session.watched.watch(None)


def test_a_project_brings_back_the_view_of_the_page_that_saved_it(bench, tmp_path):
    bench.fresh()
    second, other = bench.another()
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("1")

    def across(camera, axis):
        away = camera.position - camera.look_at
        return away[axis] / np.linalg.norm(away)

    wait_for(lambda: across(bench.client.camera, 2) > 0.999, "the front view")
    second.mouse.click(300, 60)
    second.keyboard.press("2")  # somebody else looks from elsewhere
    wait_for(lambda: abs(across(other.camera, 0)) > 0.999, "the view from the right")
    bench.seen()
    before = pixels(bench.page)
    with bench.page.expect_download() as waiting:
        bench.page.keyboard.press("Control+s")
    waiting.value.save_as(tmp_path / "mine.posable")
    bench.page.keyboard.press("4")
    wait_for(lambda: across(bench.client.camera, 1) > 0.999, "the view from above")
    figure = bench.session.figure
    bench.drop(tmp_path / "mine.posable")
    wait_for(lambda: bench.session.figure != figure, "the project")
    bench.seen()
    wait_for(lambda: np.mean(np.abs(pixels(bench.page) - before) > 25) < 0.01, "the same picture")
    second.close()


def test_saving_with_the_keyboard_leaves_the_view(bench):
    bench.fresh()
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("1")
    bench.seen()
    before = bench.client.camera.position.copy()
    with bench.page.expect_download():
        bench.page.keyboard.down("Control")
        bench.page.keyboard.down("s")  # viser's S alone moves the camera back, as long as it is held
        bench.page.wait_for_timeout(700)
        bench.page.keyboard.up("s")
        bench.page.keyboard.up("Control")
    bench.seen()
    np.testing.assert_allclose(bench.client.camera.position, before, atol=1e-6)
    bench.page.keyboard.down("s")
    wait_for(lambda: np.abs(bench.client.camera.position - before).max() > 0.05, "the camera to move")
    bench.page.keyboard.up("s")


def test_a_dropped_connection_comes_back_with_everything(bench):
    bench.fresh()
    bench.grab("hand.R", -50, 110)
    wait_for(lambda: bench.session.dirty and bench.session.active is None, "the drag")
    bench.page.mouse.move(20, 300)
    bench.seen()
    before, old = pixels(bench.page), set(bench.studio.server.get_clients())
    bench.studio.server.drop_connections()
    wait_for(lambda: set(bench.studio.server.get_clients()) - old, "the page to connect again")
    (new,) = set(bench.studio.server.get_clients()) - old
    bench.client = bench.studio.server.get_clients()[new]

    def the_same():
        return np.mean(np.abs(pixels(bench.page) - before) > 25) < 0.01

    wait_for(the_same, "the same picture")
    bench.shot("reconnected")
    assert not bench.faults
    bench.grab("hand.R", 30, -40)
    wait_for(lambda: len(bench.session.history) and bench.session.active is None, "a drag after it")


def test_a_drag_of_a_page_that_is_gone_ends(bench):
    """A connection lost in the middle of a drag: nobody holds the handle any more, and it can be dragged again."""
    bench.fresh()
    second, client = bench.another()
    start = on_screen(client, bench.session.frames.position("hand.R"), second)

    def taken():
        second.mouse.move(*start)
        second.wait_for_timeout(400)  # until the page has seen what is under the pointer
        second.mouse.down()
        second.mouse.move(start[0] - 12, start[1] - 20)
        end = time.monotonic() + 5.0
        while "hand.R" not in bench.session.dragging and time.monotonic() < end:
            time.sleep(0.05)
        if "hand.R" not in bench.session.dragging:
            second.mouse.up()
        return "hand.R" in bench.session.dragging

    wait_for(taken, "the page to take hold")
    second.close()
    wait_for(lambda: not bench.session.dragging and bench.session.active is None, "the drag to end", 30.0)
    assert not bench.studio.stage.handles.holds
    bench.grab("hand.R", -30, 40)
    wait_for(lambda: bench.session.active is None and len(bench.session.history) >= 2, "a drag after it")


def test_undo_in_the_middle_of_a_drag_ends_it_and_the_next_press_drags_again(bench):
    """What the page sends of a drag that was undone moves nothing, and its end is heard."""
    bench.fresh()
    before = bench.session.pose
    start = on_screen(bench.client, bench.session.frames.position("hand.R"), bench.page)

    def undo_once_held():
        return bench.session.undo() if "hand.R" in bench.session.dragging else False

    drag_mouse(bench.page, start, (start[0] - 20, start[1] - 60), held=undo_once_held)
    wait_for(lambda: not bench.studio.stage.handles.holds, "the page to let go")
    assert np.array_equal(bench.session.pose, before)
    assert not bench.session.dragging
    bench.seen()
    deep = len(bench.session.history)
    bench.grab("hand.R", -20, 60)
    wait_for(lambda: bench.session.active is None and len(bench.session.history) == deep + 1, "the next drag")
    assert not np.array_equal(bench.session.pose, before)


def test_keys_act_in_the_order_in_which_they_are_pressed(bench, monkeypatch):
    """The server answers requests of a page at the same time, so the page must not send them so."""
    bench.fresh()
    seek, begun, done, pressed = bench.session.player.seek, [], [], threading.Event()

    def slow_at_first(frame):
        begun.append(frame)
        if len(begun) == 1:
            pressed.wait(60.0)
        done.append(seek(frame))

    monkeypatch.setattr(bench.session.player, "seek", slow_at_first)
    bench.page.evaluate("document.activeElement?.blur()")
    for key in ("End", "ArrowLeft", "ArrowLeft", "Home", "ArrowRight"):
        bench.page.keyboard.press(key)
    wait_for(lambda: begun, "the first key")
    bench.page.wait_for_timeout(1000)  # until the others are done as well, if they do not wait
    pressed.set()
    wait_for(lambda: len(done) == 5, "the keys")
    bench.seen()
    assert bench.session.timeline.shown == 1


def test_sliders_of_a_part_are_chosen_while_figures_change(bench):
    """The panel is rebuilt by one thread alone: no message for a slider that is gone, no error in the console."""
    bench.fresh()
    bench.faults.clear()
    bench.tab("Joints")
    for name in ("human", "panda", "human"):
        bench.session.open_figure(name)
        bench.session.set_pose(bench.session.pose + 0.01)
        bench.seen()
    part = next(title for title in bench.row("Part").locator("input").first.evaluate("e => [e.value]"))
    other = next(name for name in bench.widget("Part").options if name != part)
    bench.choose("Part", other)
    bench.page.get_by_text(other, exact=True).first.wait_for()
    bench.session.set_pose(bench.session.skeleton.pose({"elbow.R": 1.0}))
    bench.seen()
    assert bench.faults == []


def test_a_restarted_studio_shows_the_open_page_everything_again(bench, tmp_path):
    """Kill the studio as a crash does and start it again: the page that was open comes back with the unsaved pose."""
    env = {**os.environ, "POSABLE_STATE": str(tmp_path)}
    command = [sys.executable, "-m", "posable.cli.main", "studio", "--no-browser", "--json", "--port", "8480"]
    first = subprocess.Popen([*command, "--detail", "0.3"], stdout=subprocess.PIPE, text=True, env=env)
    second = None
    try:
        page = bench.open_page(json.loads(first.stdout.readline())["url"])
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.locator("#posable-state").wait_for(state="attached")
        page.get_by_role("tab", name="Joints").click()
        box = page.locator('xpath=//label[normalize-space()="All [rad, m]"]/ancestor::div[.//input][1]//input').first
        human = ps.figures.human()
        wanted = human.pose({"shoulder.R": (-1.2, 0.2, 0.3), "elbow.R": 1.0})
        wait_for(lambda: len(box.input_value().split(",")) == human.size, "the values")
        box.fill(", ".join(f"{x:.5f}" for x in wanted))
        box.press("Enter")
        wait_for(lambda: list((tmp_path / "studio").glob("*.posable")), "the copy of unsaved work")
        first.kill()
        first.wait(20)
        second = subprocess.Popen([*command, "--detail", "0.3"], stdout=subprocess.PIPE, text=True, env=env)
        second.stdout.readline()
        wait_for(lambda: page.get_by_text("Unsaved work was recovered").count(), "the page to be told")
        page.get_by_role("tab", name="Joints").click()

        def the_same():
            shown = [float(x) for x in box.input_value().split(",") if x.strip()]
            return len(shown) == human.size and np.allclose(shown, wanted, atol=1e-4)

        wait_for(the_same, "the same pose")
        assert pixels(page).std() > 10.0  # and there is a figure to be seen
        page.screenshot(path=bench.folder / "restarted.png", timeout=120_000)
        assert not faults
        page.close()
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()


def test_a_name_with_markup_runs_nothing(bench):
    evil = "<img src=x onerror=\"window.evil=1\"><iframe srcdoc='<script>parent.evil=1</script>'>**x**"
    bench.fresh(ps.Skeleton(
        [ps.Joint("root", ps.Fixed()), ps.Joint(evil, ps.Revolute("z"), "root", offset=(0, 0.5, 0), limits=(-0.1, 0.1)),
         ps.Joint("b", ps.Revolute("z"), evil, offset=(0, 0.5, 0), limits=(-0.1, 0.1))],
        [ps.Site("<b>tip</b>", "b", (0, 0.5, 0))], name=f"robot {evil}", up="y",
    ))  # fmt: skip
    bench.session.drag("<b>tip</b>", (1.5, 0.2, 0.0))
    bench.session.release()
    bench.session.select("<b>tip</b>")
    for tab in ("Pose", "Limb", "Joints", "Time", "Solver", "File"):
        bench.tab(tab)
    bench.session.notify(f"a message about {evil}")
    bench.page.get_by_text("a message about").first.wait_for()
    bench.seen()
    assert bench.page.evaluate("window.evil") is None
    assert bench.page.locator("iframe").count() == 0
    assert bench.page.get_by_text("misses by").count() >= 1
    bench.shot("names")


def test_controls_stay_where_they_are_and_the_keyboard_works(bench):
    bench.fresh()
    bench.tab("Pose")
    place = bench.row("Selected").bounding_box()["y"]
    bench.session.set_handle("pelvis", "pinned")
    bench.session.drag("hand.R", bench.session.frames.position("hand.R") + np.array([-1.5, 0.6, 0.3]))
    bench.session.release()
    bench.page.get_by_text("misses by").first.wait_for()
    bench.seen()
    assert bench.row("Selected").bounding_box()["y"] == pytest.approx(place, abs=1.0)
    assert " 0.0°" not in bench.page.locator("#posable-status").inner_text()
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("Control+z")
    wait_for(lambda: np.allclose(bench.session.pose, bench.session.rest), "undo")
    status = bench.page.locator("#posable-status")
    wait_for(lambda: "misses" not in status.inner_text(), "a status that is not stale")
    bench.page.keyboard.press("Control+y")
    wait_for(lambda: not np.allclose(bench.session.pose, bench.session.rest), "redo")
    bench.session.select("hand.L")
    bench.seen()
    bench.page.keyboard.press("p")
    wait_for(lambda: any(h.body == "hand.L" and h.hold == "pinned" for h in bench.session.handles), "the pin")
    bench.page.keyboard.press("Escape")
    wait_for(lambda: bench.session.selected is None, "nothing to be selected")
    right = bench.session.frames.position("hand.R")
    bench.page.keyboard.press("m")
    wait_for(lambda: abs(bench.session.frames.position("hand.L")[1] - right[1]) < 0.02, "the mirror image")
    bench.page.keyboard.press("1")
    wait_for(lambda: abs(bench.client.camera.position[0] - bench.client.camera.look_at[0]) < 0.05, "the front view")
    bench.page.keyboard.press("?")
    bench.page.get_by_text("mirror the pose").wait_for()
    bench.shot("help")
    bench.page.keyboard.press("?")
    assert "Posable" in bench.page.title()


def test_joint_values_are_read_and_typed(bench):
    bench.fresh(ps.figures.panda())
    bench.tab("Joints")
    box = bench.row("All [rad, m]").locator("input, textarea").first
    wait_for(lambda: box.input_value().count(",") == bench.session.skeleton.size - 1, "the values")
    shown = [float(x) for x in box.input_value().split(",")]
    assert shown == pytest.approx(bench.session.pose, abs=1e-4)
    wanted = np.clip(np.array(shown) + 0.1, bench.session.skeleton.lower, bench.session.skeleton.upper)
    box.fill(", ".join(f"{x:.4f}" for x in wanted))
    box.press("Enter")
    wait_for(lambda: np.allclose(bench.session.pose, wanted, atol=1e-3), "the typed values")
    bench.shot("joints")


def test_a_hundred_figures_leave_no_weight(bench):
    bench.fresh()
    sizes = []
    for k in range(30):
        bench.session.open_figure(("human", "panda", "spider")[k % 3])
        sizes.append(bench.studio.server.backlog())
    bench.fresh()
    assert max(sizes[-3:]) <= max(sizes[6:9]) + 20
    assert len(bench.session.history) <= 10
    assert not bench.faults


def test_a_bad_upload_is_reported_and_the_session_lives(bench, tmp_path):
    bench.fresh()
    (tmp_path / "broken.bvh").write_text("HIERARCHY\nROOT hips\n{\n OFFSET 0 0\n")
    bench.tab("File")
    bench.upload(tmp_path / "broken.bvh")
    bench.page.get_by_text("broken.bvh").first.wait_for()
    bench.shot("bad_upload")
    bench.grab("hand.R", -30, 60)
    wait_for(lambda: bench.session.result is not None, "a drag after it")
    assert bench.session.skeleton.name == "human"


def test_uploads_follow_each_other_and_a_file_that_is_too_large_is_not_sent(bench, tmp_path):
    bench.fresh()
    session, page, opened = bench.session, bench.page, []
    second, _ = bench.another()
    ps.save(tmp_path / "0.bvh", ps.Motion(session.skeleton, session.skeleton.rest[None], 30.0))
    session.on_notification(lambda text, kind: opened.append(text))
    page.evaluate("""() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(65 << 20)], "huge.bvh"));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }""")
    for k in range(2):
        drop_file(page, f"{k}.bvh", (tmp_path / "0.bvh").read_bytes())
    wait_for(lambda: len(opened) == 3, "the files")
    assert opened == ["huge.bvh: larger than 64 MB", "Opened 0.bvh.", "Opened 1.bvh."]
    page.get_by_text("Opened 1.bvh").wait_for()
    wait_for(page.get_by_role("button", name="Open file or project").is_enabled, "the button")
    assert page.get_by_text("Uploading huge.bvh").count() == 0
    second.get_by_text("Opened 1.bvh").wait_for()
    assert second.get_by_text("Uploading").count() == 0  # it is no upload of that page
    second.close()


def test_files_dropped_together_are_asked_about_once_and_opened_figures_first(bench, fixtures):
    bench.fresh()
    session, page, told = bench.session, bench.page, []
    session.set_dof("elbow.L", 1.0)
    session.on_notification(lambda text, kind: told.append(text))
    drop_files(
        page, {f"walk{suffix}": (fixtures / f"walk{suffix}").read_bytes() for suffix in (".c3d", ".amc", ".asf")}
    )
    page.get_by_role("button", name="Open without saving").wait_for()
    asked = bench.studio.questions._open[bench.client.client_id]
    wait_for(lambda: len(asked.actions) == 3, "the uploads")
    assert page.get_by_role("dialog").count() == 1
    page.get_by_role("button", name="Open without saving").click()
    wait_for(lambda: len(told) == 3, "the files")
    assert [text.split()[1].rstrip(".") for text in told] == ["walk.asf", "walk.amc", "walk.c3d"]
    assert session.skeleton.dof_names == ps.load(fixtures / "walk.asf").skeleton.dof_names
    assert len(session.timeline.markers) > 0
    drop_files(page, {f"{k}.bvh": b"" for k in range(11)})
    wait_for(lambda: len(told) == 4, "the refusal")
    assert told[-1] == "11 files were dropped; drop at most 10 at once."


def test_a_limb_inside_another_is_shown_and_reported(bench):
    bench.fresh()
    assert bench.session.contact_detector.wait()
    bench.session.configure(apart=False)
    start = bench.session.frames.position("hand.R")
    end = bench.session.frames.position("spine2") + np.array([0.05, 0.0, -0.02])
    for place in np.linspace(start, end, 10):
        bench.session.drag("hand.R", place)
        wait_for(lambda: not len(bench.session.queue), "the drag")
    bench.session.release()
    bench.page.get_by_text("passes through").first.wait_for()
    bench.seen()
    bench.shot("contacts")
    bench.tab("Pose")
    bench.page.get_by_text("Display", exact=True).first.click()
    bench.page.get_by_label("Contacts").click()
    bench.page.get_by_text("passes through").first.wait_for(state="detached")
    bench.page.get_by_label("Contacts").click()
    bench.page.get_by_text("passes through").first.wait_for()
    bench.session.configure(apart=True)


def test_a_click_on_a_remedy_applies_it(bench):
    bench.fresh()
    start = bench.session.frames.position("pelvis")
    for place in np.linspace(start, (0.1, 0.75, 0.0), 12):
        bench.session.drag("pelvis", place)
        wait_for(lambda: not len(bench.session.queue), "the drag")
    bench.session.release()
    offer = bench.page.locator("[data-remedy]", has_text="Widen")
    offer.first.wait_for()
    assert "ankle" in offer.first.inner_text()
    bench.page.get_by_text("closer").first.wait_for()  # the sentences on the limits
    bench.shot("remedy")
    low = bench.session.skeleton.lower.copy()
    offer.first.click()
    wait_for(lambda: not np.array_equal(bench.session.skeleton.lower, low), "the limits to give")
    assert np.linalg.norm(bench.session.frames.position("pelvis") - (0.1, 0.75, 0.0)) < 1e-3
    assert held(bench.session)
    bench.seen()
    bench.page.mouse.click(300, 60)
    bench.page.keyboard.press("Control+z")
    wait_for(lambda: np.array_equal(bench.session.skeleton.lower, low), "the limits as they were")


def test_fk_and_velocity_limits_are_switched_on_the_page(bench):
    bench.fresh()
    bench.tab("Limb")
    bench.choose("Limb", "elbow.L")
    bench.seen()
    bench.type_in("FK 0 … IK 1", 0.25)
    wait_for(lambda: bench.session.blend == {"elbow.L": 0.25}, "the blend")
    bench.fresh(ps.figures.panda())
    bench.tab("Joints")
    keep = bench.page.get_by_label("Respect velocity limits")
    if not keep.is_visible():
        bench.page.get_by_text("Speeds", exact=True).first.click()
    keep.set_checked(True)
    wait_for(lambda: bench.session.settings.motors, "the motors")
    tool = bench.session.handles[0].body
    target = bench.session.frames.position(tool) + np.array([0.2, -0.3, -0.2])
    bench.session.drag(tool, target)
    wait_for(
        lambda: bench.session.controlled_drag is not None and bench.session.controlled_drag.arrived, "the arm to arrive"
    )
    assert np.linalg.norm(bench.session.frames.position(tool) - target) < 5e-3
    bench.session.release()
    bench.page.locator(".u-title, .uplot").first.wait_for()  # the plot of speeds
    bench.shot("speeds")
    bench.session.configure(motors=False)


def test_two_pages_are_in_step(bench):
    bench.fresh()
    second, client = bench.another()
    for side in (bench.client, client):
        side.camera.position, side.camera.look_at = (0.8, 1.4, 3.6), (0.0, 0.95, 0.0)
    for side in (bench.client, client):
        wait_for(lambda side=side: np.allclose(side.camera.position, (0.8, 1.4, 3.6), atol=1e-3), "the view")
    bench.seen()
    bench.seen(second)
    before = pixels(second)
    bench.grab("hand.R", -50, 110)
    wait_for(lambda: bench.session.result is not None and bench.session.active is None, "the drag")
    bench.page.mouse.move(20, 500)

    def in_step():
        first, after = pixels(bench.page), pixels(second)
        changed, apart = np.mean(np.abs(after - before) > 25), np.mean(np.abs(after - first) > 25)
        return changed > 0.005 and apart < 0.3 * changed  # it has seen the drag, and shows the same

    wait_for(in_step, "both pages to show the same")
    second.close()
