// Requests to the server, elements without markup from data, numbers in words.

export class Failure extends Error {
  constructor(words) {
    super(words.error || "the server did not answer");
    this.words = words;
  }
}

const GONE = { error: "The server does not answer.", remedy: "Start `wds view` again." };

export async function get(path) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(GONE);
  }
  if (!answer.ok) throw new Failure(await answer.json().catch(() => ({ error: `status ${answer.status}` })));
  return answer.json();
}

export async function post(path, body = {}) {
  const answer = await fetch(path, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => { throw new Failure(GONE); });
  if (!answer.ok) throw new Failure(await answer.json().catch(() => ({ error: `status ${answer.status}` })));
  return answer.json();
}

/** Start a job and watch it; `watch(job)` is called with every report and may return false to stop looking. */
export async function runJob(name, text, watch) {
  let job = await post("/api/jobs", { name, text });
  for (;;) {
    job = await get(`/api/jobs/${job.job}`);
    if (watch && watch(job) === false) return null;
    if (job.state !== "running") break;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  if (job.state === "failed") throw new Failure(job.error);
  return job;
}

/** An element. Text is always text: nothing out of the data is parsed as markup. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const fieldPath = (kind, number, field, query = "") =>
  `/api/${kind}/${number}/${field.split("/").map(encodeURIComponent).join("/")}${query}`;

export const count = (number) => Number(number).toLocaleString("en");

export function bytes(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let value = size;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit ? value.toFixed(value < 10 ? 1 : 0) : value} ${units[unit]}`;
}

export function problemBox(words) {
  return h("div", { class: "problem", role: "note" },
    h("strong", {}, words.error || "failed"),
    words.where ? h("span", { class: "where" }, words.where) : null,
    words.remedy ? h("span", { class: "remedy" }, words.remedy) : null);
}

export function waveform(peaks, label) {
  const picture = svg("svg", { viewBox: `0 0 ${Math.max(1, peaks.length)} 100`, preserveAspectRatio: "none", class: "wave", role: "img", "aria-label": label });
  const path = peaks.map((peak, at) => `M${at + 0.5} ${50 - Math.min(1, peak) * 48 - 0.5}V${50 + Math.min(1, peak) * 48 + 0.5}`).join("");
  picture.append(svg("path", { d: path }));
  return picture;
}

export function plot(values, label) {
  const low = Math.min(...values);
  const range = Math.max(...values) - low || 1;
  const points = values.map((value, at) => `${(at / Math.max(1, values.length - 1)) * 100},${98 - ((value - low) / range) * 96}`).join(" ");
  const picture = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": label });
  picture.append(svg("polyline", { points }));
  return picture;
}

/** Quote text for an expression. */
export const quoted = (text) => JSON.stringify(text);
