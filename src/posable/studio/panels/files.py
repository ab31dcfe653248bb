"""Files: open one, another figure, downloads, a picture of the view."""

from __future__ import annotations

import io

import viser

import posable as ps
from posable.studio.files import EXPORTS, LARGEST
from posable.studio.panels.widgets import Refresh, write
from posable.studio.session import Session, View


def files(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add the upload, the figures, the downloads and the picture."""
    figure = gui.add_dropdown("Figure", ps.figures.names(), initial_value="human")
    show = gui.add_button("Show this figure", icon=viser.Icon.USER)
    upload = gui.add_upload_button(
        "Open a file",
        icon=viser.Icon.FOLDER_OPEN,
        hint=f"BVH, ASF, AMC, GLB, URDF, CSV, NPZ, C3D, TRC; up to {LARGEST >> 20} MB",
    )
    suffix = gui.add_dropdown("Format", EXPORTS, initial_value="bvh")
    save = gui.add_button("Download", icon=viser.Icon.DOWNLOAD)
    picture = gui.add_button("Picture of the view (PNG)", icon=viser.Icon.CAMERA)
    text = gui.add_markdown("")

    @show.on_click
    def _(_: viser.GuiEvent) -> None:
        session.open(ps.figures.get(figure.value))

    @upload.on_upload
    def _(event: viser.GuiEvent) -> None:
        session.upload(event.target.value.name, event.target.value.content)

    @save.on_click
    def _(event: viser.GuiEvent) -> None:
        try:
            name, data = session.export(suffix.value)
        except ps.PosableError as error:
            session.say(str(error), "bad")
            return
        if event.client is not None:
            event.client.send_file_download(name, data, save_immediately=True)

    @picture.on_click
    def _(event: viser.GuiEvent) -> None:
        if event.client is not None:
            event.client.send_file_download("posable.png", png_of(event.client), save_immediately=True)

    def refresh(view: View) -> None:
        scene = session.scene
        name = scene.name or view.skeleton.name
        write(text, f"**{name}**: {len(view.skeleton.joints)} joints, {view.skeleton.size} degrees of freedom")

    return refresh


def png_of(client: viser.ClientHandle, width: int = 1600, height: int = 1000) -> bytes:
    """Return what a page shows, rendered by it, as the bytes of a PNG."""
    import imageio.v3 as images

    out = io.BytesIO()
    images.imwrite(out, client.get_render(height, width), extension=".png")
    return out.getvalue()
