// The virtual grid: any number of samples, only those in sight have elements.

import { bytes, fieldPath, get, h, problemBox, waveform } from "./api.js";
import { isMarked, onMarks, toggleMark } from "./marks.js";

const PAGE = 60; // cells that are asked for at once
const CAPTION = 62; // pixels below a picture
const GAP = 12;
// Browsers limit the height of an element; beyond it, scrolling is scaled.
const TALLEST = 8_000_000;

export class Grid {
  constructor(element, canvas, open) {
    this.element = element;
    this.canvas = canvas;
    this.open = open;
    this.total = 0;
    this.job = null;
    this.focused = 0;
    this.edge = 184;
    this.pages = new Map();
    this.shown = new Map();
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.layout()).observe(element);
    onMarks(() => this.redraw());
  }

  /** Show other samples: all of them, or the matches of a filter. */
  show(total, job = null) {
    if (job !== this.job) {
      this.pages.clear();
      this.focused = 0;
      this.element.scrollTop = 0;
      this.clear();
    }
    this.job = job;
    this.total = total;
    this.layout();
  }

  /** Cells that are known may have changed. */
  forget() {
    this.pages.clear();
    this.clear();
    this.draw();
  }

  setEdge(edge) {
    const first = this.firstInSight();
    this.edge = edge;
    this.clear();
    this.layout();
    this.goTo(first);
  }

  layout() {
    const style = getComputedStyle(this.element);
    const width = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (width <= 0) return;
    this.columns = Math.max(1, Math.floor((width + GAP) / (this.edge + GAP)));
    this.wide = Math.floor((width + GAP) / this.columns) - GAP;
    this.high = Math.round(this.wide * 0.78) + CAPTION;
    this.rows = Math.ceil(this.total / this.columns);
    this.full = this.rows * (this.high + GAP);
    this.height = Math.min(this.full, TALLEST);
    this.canvas.style.setProperty("height", `${this.height}px`);
    this.element.setAttribute("aria-rowcount", this.rows);
    this.element.setAttribute("aria-colcount", this.columns);
    this.clear();
    this.draw();
  }

  /** The first row in sight. Rows keep their height; beyond the limit a pixel of scrolling is more than a pixel. */
  rowAt(scroll) {
    const reach = Math.max(1, this.height - this.element.clientHeight);
    const rows = Math.max(0, this.full - this.element.clientHeight) / (this.high + GAP);
    return (Math.min(1, scroll / reach)) * rows;
  }

  firstInSight() {
    return Math.floor(this.rowAt(this.element.scrollTop)) * this.columns;
  }

  goTo(place, focus = false) {
    if (!this.total) return;
    const at = Math.max(0, Math.min(this.total - 1, place));
    const rows = Math.max(1e-9, Math.max(0, this.full - this.element.clientHeight) / (this.high + GAP));
    const reach = Math.max(0, this.height - this.element.clientHeight);
    this.element.scrollTop = Math.min(1, Math.floor(at / this.columns) / rows) * reach;
    this.focused = at;
    this.draw();
    if (focus) this.focusCell();
  }

  draw() {
    if (!this.columns) return;
    const row = this.rowAt(this.element.scrollTop);
    const first = Math.max(0, Math.floor(row) - 1) * this.columns;
    const inSight = (Math.ceil(this.element.clientHeight / (this.high + GAP)) + 3) * this.columns;
    const last = Math.min(this.total, first + inSight);
    for (const [place, cell] of this.shown) {
      if (place < first || place >= last) { cell.remove(); this.shown.delete(place); }
    }
    const top = this.element.scrollTop - row * (this.high + GAP);
    for (let place = first; place < last; place += 1) {
      let cell = this.shown.get(place);
      if (!cell) {
        cell = h("div", { role: "gridcell", class: "cell", tabindex: "-1", "aria-label": `Sample ${place}, loading` });
        cell.addEventListener("click", (event) => this.click(event, place));
        this.shown.set(place, cell);
        this.canvas.append(cell);
        this.fill(place, cell);
      }
      cell.style.setProperty("width", `${this.wide}px`);
      cell.style.setProperty("height", `${this.high}px`);
      cell.style.setProperty("transform", `translate(${(place % this.columns) * (this.wide + GAP)}px, ${top + Math.floor(place / this.columns) * (this.high + GAP)}px)`);
      cell.classList.toggle("focused", place === this.focused);
    }
    this.ask(first, last);
  }

  clear() {
    for (const cell of this.shown.values()) cell.remove();
    this.shown.clear();
  }

  redraw() {
    for (const [place, cell] of this.shown) this.fill(place, cell);
  }

  /** Ask for the pages in sight, once scrolling has come to rest. */
  ask(first, last) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.load(page);
    }, this.pages.size ? 60 : 0);
  }

  async load(page) {
    if (this.pages.has(page)) return;
    const { job } = this;
    this.pages.set(page, []);
    if (this.pages.size > 40) this.pages.delete(this.pages.keys().next().value);
    const query = job === null ? "" : `&job=${job}`;
    let cells;
    try {
      ({ cells } = await get(`/api/cells?start=${page * PAGE}&count=${PAGE}${query}`));
    } catch (error) {
      cells = Array.from({ length: PAGE }, () => ({ number: null, key: "", fields: [], problem: error.words || { error: String(error) } }));
      this.pages.delete(page);
    }
    if (job !== this.job) return;
    if (cells.length === PAGE) this.pages.set(page, cells);
    else { this.pages.delete(page); this.partial = [page, cells]; }
    cells.forEach((data, at) => {
      const cell = this.shown.get(page * PAGE + at);
      if (cell) this.fill(page * PAGE + at, cell, data);
    });
  }

  data(place) {
    const page = Math.floor(place / PAGE);
    const cells = this.pages.get(page) || (this.partial && this.partial[0] === page ? this.partial[1] : []);
    return cells[place % PAGE];
  }

  fill(place, cell, known) {
    const data = known || this.data(place);
    if (!data) return;
    const marked = isMarked(data.key);
    cell.replaceChildren(...cellContent(data, this.wide));
    cell.classList.toggle("marked", marked);
    cell.dataset.number = data.number;
    cell.setAttribute("aria-label", `Sample ${data.number}, ${data.key}${marked ? ", marked" : ""}${data.problem ? `, ${data.problem.error}` : ""}`);
  }

  click(event, place) {
    const data = this.data(place);
    this.focused = place;
    this.draw();
    if (!data || data.number === null) return;
    if (event.shiftKey || event.ctrlKey || event.metaKey) toggleMark(data.key);
    else this.open(place);
  }

  focusCell() {
    const cell = this.shown.get(this.focused);
    if (cell) cell.focus({ preventScroll: true });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inSight = Math.max(1, Math.floor(this.element.clientHeight / (this.high + GAP))) * this.columns;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: inSight, PageUp: -inSight, Home: -this.focused, End: this.total - 1 - this.focused };
    if (event.key in moves) this.moveTo(this.focused + moves[event.key]);
    else if (event.key === "Enter") this.open(this.focused);
    else if (event.key === "m" || event.key === " ") { const data = this.data(this.focused); if (data) toggleMark(data.key); }
    else return;
    event.preventDefault();
  }

  moveTo(place) {
    this.focused = Math.max(0, Math.min(this.total - 1, place));
    const row = Math.floor(this.focused / this.columns);
    const first = this.rowAt(this.element.scrollTop);
    const whole = this.element.clientHeight / (this.high + GAP);
    if (row < first || row + 1 > first + whole) this.goTo(row < first ? this.focused : Math.max(0, row + 1 - Math.floor(whole)) * this.columns);
    this.focused = Math.max(0, Math.min(this.total - 1, place));
    this.draw();
    this.focusCell();
  }
}

const PICTURES = ["image", "video", "array"];

function cellContent(data, wide) {
  const box = h("div", { class: "picture" });
  const main = data.fields.find((field) => PICTURES.includes(field.kind)) || data.fields.find((field) => field.kind === "audio");
  if (data.problem) box.append(problemBox(data.problem));
  else if (main && main.kind === "audio") sound(box, data, main);
  else if (main) picture(box, data, main, wide);
  else box.append(h("div", { class: "snippet" }, textOf(data) || data.fields.map((field) => `${field.name} · ${bytes(field.size)}`).join("\n")));
  const label = data.fields.find((field) => field.kind === "label");
  const total = data.fields.reduce((sum, field) => sum + field.size, 0);
  return [box, h("div", { class: "caption" },
    h("div", { class: "line" }, h("span", { class: "key", title: data.key }, data.key), label ? h("span", { class: "label", title: label.name }, (label.text || "").trim().slice(0, 24)) : null),
    h("div", { class: "line small" }, h("span", { class: "fields" }, main && textOf(data) ? textOf(data).slice(0, 80) : data.fields.map((field) => field.name).join(" ")), h("span", {}, bytes(total))))];
}

function textOf(data) {
  const field = data.fields.find((each) => each.kind === "text") || data.fields.find((each) => each.kind === "json");
  return field ? field.text || "" : "";
}

function picture(box, data, field, wide) {
  const edge = Math.min(512, Math.max(64, Math.ceil((wide * Math.min(2, devicePixelRatio || 1)) / 64) * 64));
  const path = fieldPath("picture", data.number, field.name, `?size=${edge}`);
  const image = h("img", { alt: "", decoding: "async", src: path });
  image.addEventListener("load", () => image.classList.add("ready"));
  image.addEventListener("error", async () => {
    const words = await get(path).then(() => ({ error: "The picture cannot be shown." }), (error) => error.words || { error: String(error) });
    if (field.kind === "array") box.replaceChildren(h("div", { class: "snippet" }, `${field.name}, ${bytes(field.size)}`));
    else box.replaceChildren(problemBox(words));
  });
  box.append(image);
  if (field.kind === "video") box.append(h("span", { class: "badge" }, "▶"));
}

async function sound(box, data, field) {
  try {
    const found = await get(fieldPath("waveform", data.number, field.name));
    box.append(waveform(found.peaks, "waveform"), h("span", { class: "badge" }, `${found.seconds.toFixed(1)} s`));
  } catch (error) {
    box.append(problemBox(error.words || { error: String(error) }));
  }
}
