// What the studio adds to viser's page: dropped files, frame keys, the list of shortcuts, and the timeline strip.
// It reads what the session shows from the element #posable-state and asks for changes below the page's own address.
(() => {
  "use strict";
  const root = location.pathname.replace(/\/+$/, "");
  // One request after the other, as the server answers them at the same time; of frames to go to, only the newest waits.
  let asked = Promise.resolve(), goal = null;
  const ask = (name, args = {}) => {
    const order = { name, args };
    if (name !== "seek") goal = null;
    else if (goal) return Object.assign(goal, order).done;
    else goal = order;
    return order.done = asked = asked.then(() => {
      if (goal === order) goal = null;
      return fetch(`${root}/do/${order.name}?${new URLSearchParams(order.args)}`,
        { signal: AbortSignal.timeout(20000) }).catch(() => {});
    });
  };
  const busy = (target) => target && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable);
  let state = null, raw = "", since = 0;

  // ------------------------------------------------------------------------------------------- dropped files
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    if (files.length > most) ask("too_many", { count: files.length });
    else files.sort((a, b) => rank(a) - rank(b)).forEach(open);
  });
  // Figures first, then takes of the figure on screen, then markers, which are shown beside it.
  const rank = (file) => /\.(amc|csv)$/i.test(file.name) ? 1 : /\.(c3d|trc)$/i.test(file.name) ? 2 : 0;
  let opened = Promise.resolve();
  const open = (file) => {  // one upload after the other
    opened = opened.then(async () => {
      const input = document.querySelector("input[type=file]");
      if (!input) return;
      do await new Promise((done) => setTimeout(done, 100)); while (input.nextElementSibling.disabled);
      const one = new DataTransfer();
      one.items.add(file);
      input.files = one.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    });
  };
  // A file that the studio would refuse is not sent: viser would wait for the end of the upload for ever.
  const largest = +document.currentScript.dataset.largest, most = +document.currentScript.dataset.most;
  addEventListener("change", (event) => {
    const file = event.target.type === "file" && event.target.files[0];
    if (!file || file.size <= largest) return;
    event.stopImmediatePropagation();
    ask("too_large", { name: file.name });
  }, true);

  // ------------------------------------------------------------------------------------------------ keyboard
  const KEYS = [
    ["Space", "play or pause"], ["← →", "frame back, forward"], ["Shift ← →", "key back, forward"],
    ["Home, End", "first, last frame"], ["K", "set a key"], ["Delete", "delete the key, or the selected handle"],
    ["Ctrl Z, Ctrl Y", "undo, redo"], ["Ctrl C, Ctrl V", "copy, paste the pose"], ["M", "mirror the pose"],
    ["P", "pin or unpin the selected handle"], ["Esc", "deselect"], ["1 2 3 4", "view from front, right, back, top"],
    ["F", "frame the selected handle or the figure"], ["Ctrl S", "save the project"], ["Shift click", "select any joint"],
    ["Ctrl click", "add a handle to the selection"], ["Ctrl K", "all commands"], ["?", "this list"],
  ];
  const help = () => {
    const old = document.getElementById("posable-help");
    if (old) return old.remove();
    const box = document.createElement("div");
    box.id = "posable-help";
    const table = document.createElement("table");
    for (const [keys, what] of KEYS) {
      const row = table.insertRow();
      row.insertCell().textContent = keys;
      row.insertCell().textContent = what;
    }
    box.append(table);
    box.onclick = () => box.remove();
    document.body.append(box);
  };
  addEventListener("keydown", (event) => {
    if (busy(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      " ": () => ask("play"),
      ArrowLeft: () => ask("step", { by: -1, keys: +event.shiftKey }),
      ArrowRight: () => ask("step", { by: 1, keys: +event.shiftKey }),
      Home: () => ask("seek", { frame: 0 }),
      End: () => state && ask("seek", { frame: state.count - 1 }),
      "?": help,
    }[event.key];
    if (event.key === "Escape") document.getElementById("posable-help")?.remove();
    if (!act) return;
    event.preventDefault();
    event.stopImmediatePropagation();  // viser moves the camera with the arrows
    act();
  }, true);

  // viser's letters that move the camera do so with Ctrl and Cmd as well: they end here, behind its hotkeys
  document.documentElement.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey || event.altKey) && /^Key[WASDQE]$/.test(event.code)) event.stopPropagation();
  });

  addEventListener("click", (event) => {
    const offer = event.target.closest && event.target.closest("[data-remedy]");
    if (offer) ask("remedy", { number: offer.dataset.remedy });
  });

  // ------------------------------------------------------------------------------------------- timeline strip
  const strip = document.createElement("div");
  strip.id = "posable-strip";
  const canvas = document.createElement("canvas");
  const play = document.createElement("button");
  const auto = document.createElement("button");
  const text = document.createElement("span");
  const style = document.createElement("style");
  style.textContent = `
    canvas { opacity: 1 !important; }  /* viser fades the scene in frame by frame, and draws none while all is still */
    #posable-strip { position: fixed; left: 12px; bottom: 12px; width: calc(100vw - 395px); z-index: 50; box-sizing: border-box;
      height: 58px; display: flex; align-items: center; gap: 8px; padding: 0 10px; border-radius: 8px;
      background: rgba(255,255,255,.93); box-shadow: 0 1px 6px rgba(20,30,50,.22); font: 12px system-ui, sans-serif;
      color: #3b4656; user-select: none; }
    #posable-strip canvas { flex: 1; height: 46px; min-width: 0; cursor: pointer; touch-action: none; }
    #posable-strip button { border: 1px solid #c4ccd8; border-radius: 5px; background: #fff; color: inherit; height: 28px;
      min-width: 32px; font: inherit; cursor: pointer; }
    #posable-strip button.on { background: #20817e; border-color: #20817e; color: #fff; }
    #posable-strip span { width: 76px; text-align: right; font-variant-numeric: tabular-nums; white-space: pre; }
    @media (max-width: 575px) { #posable-strip { top: 8px; bottom: auto; left: 8px; width: calc(100vw - 16px); } }
    #posable-help { position: fixed; inset: 0; display: grid; place-items: center; background: rgba(30,40,55,.35);
      z-index: 1000; font: 14px system-ui, sans-serif; }
    #posable-help table { background: #fff; color: #222; border-radius: 8px; padding: 16px 22px; border-spacing: 14px 3px; }
    #posable-help td:first-child { font-weight: 600; text-align: right; }`;
  document.head.append(style);
  auto.textContent = "Auto-key";
  auto.title = "Every edit sets a key at the current frame";
  play.title = "Play or pause (Space)";
  play.onclick = () => ask("play");
  auto.onclick = () => ask("autokey");
  strip.append(play, canvas, text, auto);

  const frameNow = () => {
    if (!state) return 0;
    if (drag && drag.frame !== null) return drag.key === null ? drag.frame : state.frame;
    const ahead = state.playing ? ((performance.now() - since) / 1000) * state.fps : 0;
    return Math.min(state.frame + ahead, state.last);
  };
  const xOf = (frame) => 8 + ((canvas.clientWidth - 16) * frame) / Math.max(state.count - 1, 1);
  const frameAt = (x) => Math.round(Math.min(Math.max((x - 8) / (canvas.clientWidth - 16), 0), 1) * (state.count - 1));
  let drag = null;

  const draw = () => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "10px system-ui, sans-serif";
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000];
    const step = steps.find((s) => (s * (width - 16)) / Math.max(state.count - 1, 1) > 44) || 100000;
    pen.fillStyle = "#eef1f5";
    pen.fillRect(8, 14, width - 16, 20);
    if (state.take) { pen.fillStyle = "#d5e9e7"; pen.fillRect(8, 14, width - 16, 20); }
    (state.edited || []).forEach(([a, b]) => {
      pen.fillStyle = "rgba(244,162,97,.45)";
      pen.fillRect(xOf(a), 14, Math.max(xOf(b) - xOf(a), 2), 20);
    });
    pen.fillStyle = "#7a8699";
    for (let f = 0; f < state.count; f += step) {
      pen.fillRect(xOf(f), 10, 1, 4);
      pen.fillText(String(f), Math.min(xOf(f) + 2, width - pen.measureText(f).width), 9);
    }
    for (const k of state.keys) {
      const x = xOf(drag && drag.key === k ? drag.frame : k);
      pen.fillStyle = k === Math.round(state.frame) ? "#ef476f" : "#c97a12";
      pen.beginPath();
      pen.moveTo(x, 17); pen.lineTo(x + 6, 24); pen.lineTo(x, 31); pen.lineTo(x - 6, 24);
      pen.fill();
    }
    const x = xOf(frameNow());
    pen.fillStyle = "#20817e";
    pen.fillRect(x - 1, 10, 2, 34);
    pen.beginPath();
    pen.moveTo(x - 5, 45); pen.lineTo(x + 5, 45); pen.lineTo(x, 38);
    pen.fill();
    text.textContent = `${Math.round(frameNow())} / ${state.count - 1}\n${(frameNow() / state.fps).toFixed(2)} s`;
    play.textContent = state.playing ? "❚❚" : "▶";
    auto.className = state.autokey ? "on" : "";
  };

  canvas.onpointerdown = (event) => {
    if (!state) return;
    canvas.setPointerCapture(event.pointerId);
    const key = state.keys.find((k) => Math.abs(xOf(k) - event.offsetX) < 7 && event.offsetY > 14 && event.offsetY < 36);
    drag = { key: key === undefined ? null : key, frame: key === undefined ? frameAt(event.offsetX) : key, moved: false };
    if (drag.key === null) ask("seek", { frame: drag.frame });
  };
  let sent = 0;
  canvas.onpointermove = (event) => {
    if (!drag || !state) return;
    const frame = frameAt(event.offsetX);
    if (frame === drag.frame) return;
    drag.frame = frame;
    drag.moved = true;
    if (drag.key === null && performance.now() - sent > 40) { sent = performance.now(); ask("seek", { frame }); }
  };
  canvas.onpointerup = () => {
    if (!drag) return;
    const done = drag;
    const finish = () => { if (drag === done) drag = null; };
    if (done.key !== null && done.moved) ask("move_key", { frame: done.key, to: done.frame }).then(finish);
    else if (done.key !== null || done.moved) ask("seek", { frame: done.frame }).then(finish);
    setTimeout(finish, 600);
  };

  const tick = () => {
    const element = document.getElementById("posable-state");
    if (element && element.dataset.state !== raw) {
      raw = element.dataset.state;
      state = JSON.parse(raw);
      since = performance.now();
      const title = `${state.dirty ? "• " : ""}${state.name ? state.name + " – " : ""}Posable`;
      if (document.title !== title) document.title = title;
    }
    if (state) {
      if (!strip.isConnected && document.body) document.body.append(strip);
      draw();
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})();
