// The page of one sample: every field, with players, zoom, overlays, trees, plots and bytes.

import { bytes, count, fieldPath, get, h, plot, problemBox, svg, waveform } from "./api.js";
import { isMarked, toggleMark } from "./marks.js";

export class SampleDialog {
  /** `numberAt(place)` tells which sample is at a place of the grid, `total()` how many places there are. */
  constructor(dialog, numberAt, total, closed) {
    this.dialog = dialog;
    this.numberAt = numberAt;
    this.total = total;
    this.version = 0;
    dialog.addEventListener("close", () => { dialog.replaceChildren(); closed(this.place); });
    dialog.addEventListener("keydown", (event) => this.key(event));
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  async openPlace(place) {
    if (place < 0 || place >= this.total()) return;
    this.place = place;
    await this.openNumber(await this.numberAt(place));
  }

  async openNumber(number, version = 0) {
    this.number = number;
    this.version = version;
    const query = version ? `?version=${version}` : "";
    let data;
    try {
      data = await get(`/api/sample/${number}${query}`);
    } catch (error) {
      this.fill({ number, key: "", shard: "", fields: [], problem: error.words || { error: String(error) } });
      return;
    }
    if (this.number === number) this.fill(data);
  }

  fill(data) {
    const title = h("h2", { id: "sample-title", tabindex: "-1" }, data.key || `Sample ${count(data.number)}`);
    const mark = h("button", { type: "button", id: "mark", "aria-pressed": String(isMarked(data.key)) }, isMarked(data.key) ? "Marked (m)" : "Mark (m)");
    mark.addEventListener("click", () => this.mark(data.key, mark));
    this.markNow = () => this.mark(data.key, mark);
    const bar = h("div", { class: "bar" },
      h("button", { type: "button", id: "previous", "aria-label": "Previous sample", disabled: !(this.place > 0), onclick: () => this.openPlace(this.place - 1) }, "‹"),
      h("button", { type: "button", id: "next", "aria-label": "Next sample", disabled: !(this.place < this.total() - 1), onclick: () => this.openPlace(this.place + 1) }, "›"),
      title, mark,
      h("button", { type: "button", id: "close", "aria-label": "Close", onclick: () => this.dialog.close() }, "✕"));
    const facts = h("dl", { class: "facts" },
      fact("number", count(data.number), String(data.number)), fact("key", data.key, data.key), fact("shard", data.shard, data.shard),
      data.inside === undefined ? null : fact("in the shard", `sample ${count(data.inside)}`, null));
    const body = h("div", { class: "fields-list" }, data.problem ? problemBox(data.problem) : null,
      inOrder(data.fields).map((field) => fieldSection(data, field, this.version)));
    this.dialog.replaceChildren(bar, facts, body);
    if (!this.dialog.open) this.dialog.showModal();
    title.focus({ preventScroll: true });
    this.dialog.scrollTop = 0;
  }

  mark(key, button) {
    const on = toggleMark(key);
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Marked (m)" : "Mark (m)";
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT|AUDIO|VIDEO)$/.test(event.target.tagName)) return;
    if (event.key === "ArrowRight" || event.key === "j") this.openPlace(this.place + 1);
    else if (event.key === "ArrowLeft" || event.key === "k") this.openPlace(this.place - 1);
    else if (event.key === "m") this.markNow();
    else return;
    event.preventDefault();
  }
}

function fact(name, text, copied) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", {}, text),
    copied === null ? null : copyButton(copied, name)));
}

function copyButton(text, name) {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy ${name}` }, "copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text).catch(() => {});
    button.textContent = "copied";
  });
  return button;
}

function fieldSection(data, field, version) {
  const query = version ? `version=${version}` : "";
  const range = field.offset === null ? "" : `bytes ${field.offset}–${field.offset + field.size - 1}`;
  const heading = h("h3", {}, h("span", { class: "name" }, field.name), h("span", { class: "small" }, bytes(field.size)),
    range ? h("span", { class: "small range" }, range, copyButton(`${field.offset}-${field.offset + field.size - 1}`, "byte range")) : null,
    h("a", { class: "small", href: fieldPath("field", data.number, field.field, `?download=1${query ? `&${query}` : ""}`), download: "" }, "download"));
  const section = h("section", { class: "field", "data-field": field.name }, heading);
  if (field.problem) section.append(problemBox(field.problem));
  if (field.note) section.append(h("p", { class: "note" }, field.note));
  const show = SHOWN[field.kind];
  if (show) section.append(...[show(data, field, query)].flat().filter(Boolean));
  if (field.text !== undefined) section.append(h("pre", { class: "text", tabindex: "0" }, field.text), field.shortened ? h("p", { class: "note" }, "shortened; the download has all") : "");
  if (field.value !== undefined) section.append(h("div", { class: "tree" }, tree(field.value, "", true)));
  if (field.hex !== undefined && field.hex) section.append(hexDump(field));
  return section;
}

const ORDER = ["image", "video", "audio", "label", "text", "json", "array"];
const rank = (field) => (ORDER.includes(field.kind) ? ORDER.indexOf(field.kind) : ORDER.length);
const inOrder = (fields) => [...fields].sort((one, two) => rank(one) - rank(two));

const SHOWN = { image: zoomable, audio: audioPlayer, video: videoPlayer, array: arrays };

function audioPlayer(data, field, query) {
  const player = h("audio", { controls: true, preload: "metadata", src: fieldPath("field", data.number, field.field, query && `?${query}`) });
  if (!field.peaks) return [player];
  const wave = waveform(field.peaks, `waveform of the first ${field.shown.toFixed(1)} seconds`);
  wave.addEventListener("click", (event) => {
    const box = wave.getBoundingClientRect();
    player.currentTime = ((event.clientX - box.left) / box.width) * field.shown;
  });
  return [wave, player, h("p", { class: "note" }, `${field.seconds.toFixed(2)} s, ${count(field.rate)} Hz, ${field.channels} channel${field.channels > 1 ? "s" : ""}`)];
}

function videoPlayer(data, field, query) {
  return [h("video", { controls: true, preload: "metadata", src: fieldPath("field", data.number, field.field, query && `?${query}`) })];
}

function arrays(data, field, query) {
  return (field.arrays || []).map((array, at) => h("div", { class: "array" },
    h("p", { class: "note" }, `${array.name ? `${array.name}: ` : ""}${array.dtype} [${array.shape.join(", ")}]${array.range ? `, from ${number(array.range[0])} to ${number(array.range[1])}, mean ${number(array.range[2])}` : ""}`),
    array.picture && at === 0 && !array.name ? hidingImage(fieldPath("picture", data.number, field.field, `?size=512${query ? `&${query}` : ""}`)) : null,
    array.plot ? plot(array.plot, "values of the array") : null,
    h("pre", { class: "text" }, `${array.values.map((value) => (typeof value === "number" ? number(value) : value)).join("  ")}${array.shape.reduce((a, b) => a * b, 1) > 32 ? " …" : ""}`)));
}

function hidingImage(source) {
  const image = h("img", { class: "array-picture", alt: "the array as a picture", src: source });
  image.addEventListener("error", () => image.remove());
  return image;
}

const number = (value) => (Number.isInteger(value) ? String(value) : Number(value).toPrecision(5));

/** An image with zoom by wheel, buttons and double click, moved by dragging; boxes and masks of the sample on top. */
function zoomable(data, field, query) {
  const path = fieldPath("picture", data.number, field.field, `?size=0${query ? `&${query}` : ""}`);
  const image = h("img", { alt: `${field.name} of ${data.key}`, src: path, draggable: false });
  const stage = h("div", { class: "stage" }, image);
  const frame = h("div", { class: "zoom", tabindex: "0", role: "group", "aria-label": `Image ${field.name}; plus and minus zoom` }, stage);
  const state = { scale: 1, x: 0, y: 0 };
  const apply = () => stage.style.setProperty("transform", `translate(${state.x}px, ${state.y}px) scale(${state.scale})`);
  const zoom = (factor, x = frame.clientWidth / 2, y = frame.clientHeight / 2) => {
    const scale = Math.max(1, Math.min(40, state.scale * factor));
    state.x = scale === 1 ? 0 : x - ((x - state.x) / state.scale) * scale;
    state.y = scale === 1 ? 0 : y - ((y - state.y) / state.scale) * scale;
    state.scale = scale;
    image.classList.toggle("pixels", scale > 4);
    apply();
  };
  frame.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  frame.addEventListener("dblclick", () => zoom(state.scale > 1 ? 0.001 : 3));
  frame.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") zoom(0.001);
    else return;
    event.preventDefault();
  });
  frame.addEventListener("pointerdown", (event) => {
    const from = { x: event.clientX - state.x, y: event.clientY - state.y };
    frame.setPointerCapture(event.pointerId);
    const move = (moved) => { if (state.scale > 1) { state.x = moved.clientX - from.x; state.y = moved.clientY - from.y; apply(); } };
    frame.addEventListener("pointermove", move);
    frame.addEventListener("pointerup", () => frame.removeEventListener("pointermove", move), { once: true });
  });
  const size = h("span", { class: "note" });
  image.addEventListener("load", () => {
    size.textContent = `${image.naturalWidth} × ${image.naturalHeight}`;
    overlay(stage, image, data, field, query);
  });
  image.addEventListener("error", async () => {
    const words = await get(path).then(() => ({ error: "The browser cannot show this image." }), (error) => error.words || { error: String(error) });
    frame.replaceWith(problemBox(words));
  });
  const controls = h("div", { class: "zoom-bar" },
    h("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(1.5) }, "+"),
    h("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.5) }, "−"),
    h("button", { type: "button", "aria-label": "Whole image", onclick: () => zoom(0.001) }, "fit"), size);
  return [frame, controls];
}

/** Masks: other image fields named mask or seg. Boxes: `boxes` of a JSON field, [x, y, width, height] in pixels. */
function overlay(stage, image, data, field, query) {
  if (isMask(field.name)) return;
  stage.style.setProperty("aspect-ratio", `${image.naturalWidth} / ${image.naturalHeight}`);
  const boxes = data.fields.flatMap((each) => (each.value && Array.isArray(each.value.boxes) ? each.value.boxes : []));
  if (boxes.length) {
    const picture = svg("svg", { class: "boxes", viewBox: `0 0 ${image.naturalWidth} ${image.naturalHeight}`, role: "img", "aria-label": `${boxes.length} boxes` });
    for (const box of boxes.slice(0, 500)) {
      const [x, y, width, height] = (Array.isArray(box) ? box : box && box.box) || [];
      if (![x, y, width, height].every(Number.isFinite)) continue;
      picture.append(svg("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height) }));
      if (box.label !== undefined) {
        const text = svg("text", { x, y: Math.max(12, y - 3) });
        text.textContent = String(box.label);
        picture.append(text);
      }
    }
    stage.append(picture);
  }
  const mask = data.fields.find((each) => each.kind === "image" && isMask(each.name));
  if (mask) stage.append(h("img", { class: "mask", alt: "mask", src: fieldPath("picture", data.number, mask.field, `?size=0${query ? `&${query}` : ""}`) }));
}

const isMask = (name) => /(^|[._])(mask|seg)([._]|$)/.test(name);

function tree(value, name, open) {
  const label = name === "" ? [] : [h("span", { class: "tree-key" }, `${name}: `)];
  if (value === null || typeof value !== "object") {
    return h("div", { class: "leaf" }, ...label, h("span", { class: `tree-${value === null ? "null" : typeof value}` }, typeof value === "string" ? `"${value}"` : String(value)));
  }
  const entries = Object.entries(value);
  const shape = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const details = h("details", { open }, h("summary", {}, ...label, h("span", { class: "small" }, shape)));
  const fill = () => {
    if (details.childElementCount > 1) return;
    details.append(...entries.slice(0, 500).map(([key, each]) => tree(each, key, false)));
    if (entries.length > 500) details.append(h("div", { class: "leaf small" }, `and ${count(entries.length - 500)} more`));
  };
  if (open) fill();
  details.addEventListener("toggle", fill);
  return details;
}

function hexDump(field) {
  const lines = [];
  const data = field.hex;
  for (let at = 0; at < Math.min(data.length, 2 * 1024); at += 32) {
    const part = data.slice(at, at + 32).match(/../g) || [];
    const text = part.map((each) => parseInt(each, 16)).map((code) => (code > 31 && code < 127 ? String.fromCharCode(code) : "·")).join("");
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${part.join(" ").padEnd(47)}  ${text}`);
  }
  const shown = h("pre", { class: "hex", tabindex: "0" }, lines.join("\n"));
  return h("details", { open: !field.problem }, h("summary", {}, `first ${Math.min(1024, field.size)} bytes`), shown);
}
