// Puts the page together: tabs, the grid, filters, jumps, marks.

import { Failure, count, get, h, post, runJob } from "./api.js";
import { Grid } from "./grid.js";
import { exportMarks, markCount, onMarks, openMarks } from "./marks.js";
import { Panels } from "./panels.js";
import { SampleDialog } from "./sample.js";

const element = (id) => document.getElementById(id);
let dataset = { samples: 0 };
let filterJob = null;
let filterRun = 0; // the newest filter; older ones no longer touch the page

const dialog = new SampleDialog(element("sample"), numberAt, () => grid.total, (place) => { if (place !== undefined) { grid.moveTo(place); } });
const grid = new Grid(element("grid"), element("canvas"), (place) => dialog.openPlace(place));
const panels = new Panels({ filter, openKey, openNumber: (number, version) => { dialog.place = undefined; dialog.openNumber(number, version); } });

async function numberAt(place) {
  if (grid.job === null) return place;
  const known = grid.data(place);
  if (known && known.number !== null) return known.number;
  return (await get(`/api/cells?start=${place}&count=1&job=${grid.job}`)).cells[0].number;
}

async function openKey(key, version = 0) {
  try {
    const { number } = await get(`/api/find?key=${encodeURIComponent(key)}${version ? `&version=${version}` : ""}`);
    dialog.place = version ? undefined : number;
    dialog.openNumber(number, version);
  } catch (error) { report(error); }
}

// --- tabs ---

const tabs = [...document.querySelectorAll('[role="tab"]')];
function select(tab) {
  for (const each of tabs) {
    const on = each === tab;
    each.setAttribute("aria-selected", String(on));
    each.tabIndex = on ? 0 : -1;
    element(each.getAttribute("aria-controls")).hidden = !on;
  }
  const name = tab.id.slice(4);
  if (name === "grid") grid.layout();
  else panels.show(name);
}
for (const tab of tabs) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", (event) => {
    const open = tabs.filter((each) => !each.hidden);
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const next = open[(open.indexOf(tab) + move + open.length) % open.length];
    next.focus();
    select(next);
  });
}

// --- the dataset ---

async function refresh() {
  let again = 2000;
  try {
    const before = dataset;
    dataset = await get("/api/dataset");
    element("dataset-name").textContent = dataset.first_shard.split("/").pop() + (dataset.shards > 1 ? ` and ${count(dataset.shards - 1)} more` : "");
    document.title = `${dataset.first_shard.split("/").pop()} – wds view`;
    element("tab-sql").hidden = !dataset.sql;
    element("tab-compare").hidden = !dataset.compare;
    element("tab-model").hidden = !dataset.pipeline;
    element("learning").hidden = dataset.complete;
    element("learning-bar").max = dataset.shards;
    element("learning-bar").value = dataset.shards_counted;
    element("learning-text").textContent = `${count(dataset.shards_counted)} of ${count(dataset.shards)} shards`;
    banner();
    if (filterJob === null && (before.samples !== dataset.samples || grid.total !== dataset.samples)) {
      grid.show(dataset.samples);
      element("count").textContent = `${count(dataset.samples)} samples${dataset.complete ? "" : " so far"}`;
      if (before.samples) grid.forget();
    } else if (filterJob === null) element("count").textContent = `${count(dataset.samples)} samples${dataset.complete ? "" : " so far"}`;
    if (before.shards_counted !== dataset.shards_counted) await shards();
    if (before.first_shard === undefined) openMarks(dataset.first_shard);
    again = dataset.complete ? 0 : 400;
  } catch (error) { report(error); }
  if (again) setTimeout(refresh, again);
}

function banner() {
  const box = element("banner");
  if (!dataset.problem_count) { if (!box.dataset.error) box.hidden = true; return; }
  const [first, ...rest] = dataset.problems;
  box.hidden = false;
  box.replaceChildren(h("details", {}, h("summary", {}, `${first.shard.split("/").pop()}: ${first.what}${dataset.problem_count > 1 ? ` – and ${count(dataset.problem_count - 1)} more shards` : ""}`),
    h("ul", {}, [first, ...rest].map((problem) => h("li", {}, h("code", {}, problem.shard), ` ${problem.what} – ${problem.remedy}`)))), h("span", { class: "remedy" }, first.remedy));
}

function report(error) {
  const words = error instanceof Failure ? error.words : { error: String(error), remedy: "" };
  const box = element("banner");
  box.hidden = false;
  box.dataset.error = "1";
  box.replaceChildren(h("strong", {}, words.error), words.remedy ? h("span", { class: "remedy" }, words.remedy) : "",
    h("button", { type: "button", "aria-label": "Dismiss", onclick: () => { delete box.dataset.error; box.hidden = true; banner(); } }, "✕"));
}

async function shards() {
  const found = (await get("/api/shards")).shards;
  element("shard").replaceChildren(h("option", { value: "" }, `${count(dataset.shards)} in all`),
    ...found.map((row, at) => h("option", { value: String(at), disabled: row.count === null }, `${row.shard.split("/").pop()}${row.count === null ? "" : ` (${count(row.count)})`}`)));
}

// --- filters and jumps ---

async function filter(expression) {
  element("filter").value = expression;
  select(element("tab-grid"));
  const status = element("filter-status");
  if (filterJob !== null) post(`/api/jobs/${filterJob}/cancel`).catch(() => {});
  if (!expression.trim()) { clearFilter(); return; }
  status.hidden = false;
  status.className = "";
  status.textContent = "Filtering …";
  const run = filterRun += 1;
  let mine = null;
  try {
    await runJob("filter", expression, (job) => {
      if (filterRun !== run) return false;
      if (mine === null) { mine = filterJob = job.job; grid.show(0, mine); element("filter-clear").hidden = false; }
      const found = job.result || { matches: 0, failed: 0 };
      if (job.state !== "failed") {
        if (grid.total !== found.matches) { grid.show(found.matches, mine); grid.redraw(); grid.draw(); }
        const progress = job.state === "running" && job.total ? `, ${Math.floor((100 * job.done) / job.total)} % read` : "";
        status.textContent = `${count(found.matches)} of ${count(job.total)} samples match${progress}${found.failed ? ` · ${count(found.failed)} could not be tested: ${found.reason}` : ""}`;
        element("count").textContent = `${count(found.matches)} of ${count(dataset.samples)} samples`;
      }
      return true;
    });
  } catch (error) {
    if (filterRun !== run) return;
    status.className = "problem";
    status.textContent = `${error.words ? error.words.error : error}${error.words && error.words.remedy ? ` – ${error.words.remedy}` : ""}`;
  }
}

function clearFilter() {
  filterRun += 1;
  filterJob = null;
  element("filter").value = "";
  element("filter-clear").hidden = true;
  element("filter-status").hidden = true;
  element("count").textContent = `${count(dataset.samples)} samples`;
  grid.show(dataset.samples);
}

element("filter-form").addEventListener("submit", (event) => { event.preventDefault(); filter(element("filter").value); });
element("filter-clear").addEventListener("click", clearFilter);
element("jump-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = element("jump").value.trim();
  const number = text.replace(/[,_ ]/g, "");
  try {
    if (filterJob !== null) clearFilter();
    if (/^\d+$/.test(number) && Number(number) < dataset.samples && !text.startsWith("0".repeat(2))) grid.goTo(Number(number), true);
    else grid.goTo((await get(`/api/find?key=${encodeURIComponent(text)}`)).number, true);
  } catch (error) { report(error); }
});
element("shard").addEventListener("change", async (event) => {
  if (event.target.value === "") return;
  if (filterJob !== null) clearFilter();
  try { grid.goTo((await get(`/api/find?shard=${event.target.value}`)).number, true); } catch (error) { report(error); }
});
element("density").addEventListener("change", (event) => grid.setEdge(Number(event.target.value)));

// --- marks, keys ---

onMarks(() => {
  const button = element("marks-export");
  button.hidden = !markCount();
  button.textContent = `Export ${count(markCount())} marked`;
  button.title = "A list of keys for wds select --keys keys.txt";
});
element("marks-export").addEventListener("click", exportMarks);
document.addEventListener("keydown", (event) => {
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { element("filter").focus(); event.preventDefault(); }
  if (event.key === "g") { element("jump").focus(); event.preventDefault(); }
});

grid.setEdge(matchMedia("(max-width: 600px)").matches ? 140 : 184);
refresh();
