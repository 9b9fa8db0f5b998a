// Facets, problems, SQL, the comparison of two versions, and what the model sees.

import { bytes, count, fieldPath, get, h, problemBox, quoted, runJob } from "./api.js";

export class Panels {
  /** `actions`: filter(expression), openKey(key, version), openNumber(number). */
  constructor(actions) {
    this.actions = actions;
    this.made = new Set();
  }

  show(name) {
    if (this.made.has(name)) return;
    this.made.add(name);
    const panel = document.getElementById(`panel-${name}`);
    ({ facets: () => this.facets(panel), problems: () => this.problems(panel), sql: () => this.sql(panel), compare: () => this.compare(panel), model: () => this.model(panel) })[name]();
  }

  forget(name) {
    this.made.delete(name);
  }

  async facets(panel) {
    const job = await this.run(panel, "facets", "Counting fields, labels and sizes");
    if (!job) { this.forget("facets"); return; }
    const found = job.result;
    const some = found.looked_at < found.samples ? ` (of ${count(found.looked_at)} samples, evenly spread)` : "";
    const labels = Object.entries(found.labels).map(([field, rows]) => this.bars(`Labels in ${field}${some}`, rows.map(([name, number]) => ({
      name, number, filter: labelFilter(field, name) }))));
    panel.replaceChildren(h("div", { class: "cards" },
      this.bars("Fields", found.fields.map((field) => ({ name: field.name, number: field.count, more: bytes(field.bytes), filter: `has(${fieldName(field.name)})` }))),
      this.bars("Samples without a field", found.fields.filter((field) => field.count < found.samples && 2 * field.count > found.samples).map((field) => ({ name: `no ${field.name}`, number: found.samples - field.count, filter: `not has(${fieldName(field.name)})` }))),
      ...labels,
      this.bars("Bytes of a sample", found.sizes.map(([low, high, number]) => ({ name: `${bytes(low)} – ${bytes(high + 1)}`, number }))),
      this.bars(`Resolutions${some}`, found.shapes.map(([name, number]) => ({ name, number }))),
      this.bars("Shards", found.shards.slice(0, 100).map((row) => ({ name: row.shard.split("/").pop(), title: row.shard, number: row.count || 0, filter: `shard == ${quoted(row.shard)}` })))));
  }

  bars(title, rows) {
    if (!rows.length) return null;
    const most = Math.max(...rows.map((row) => row.number), 1);
    return h("section", { class: "card" }, h("h2", {}, title), h("ul", { class: "bars" }, rows.map((row) => {
      const bar = h("meter", { min: 0, max: most, value: row.number, "aria-hidden": "true" });
      const content = [h("span", { class: "bar-name", title: row.title || row.name }, row.name), bar, h("span", { class: "bar-count" }, count(row.number), row.more ? ` · ${row.more}` : "")];
      return h("li", {}, row.filter ? h("button", { type: "button", class: "bar-row", title: row.filter, onclick: () => this.actions.filter(row.filter) }, content) : h("div", { class: "bar-row" }, content));
    })));
  }

  problems(panel) {
    const checked = h("div", { id: "check-result" });
    const alike = h("div", { id: "duplicates-result" });
    panel.replaceChildren(
      h("section", { class: "card wide" }, h("h2", {}, "Check"), h("p", {}, "Reads and decodes every sample, as wds check does: broken archives, fields that cannot be decoded, missing fields, duplicate keys, stale indexes."),
        h("button", { type: "button", id: "run-check", onclick: () => this.check(checked) }, "Check the dataset"), checked),
      h("section", { class: "card wide" }, h("h2", {}, "Near-duplicate images"), h("p", {}, "Compares images by a perceptual hash: copies, resized copies, recompressed copies."),
        h("button", { type: "button", id: "run-duplicates", onclick: () => this.duplicates(alike) }, "Find near duplicates"), alike));
  }

  async check(place) {
    const job = await this.run(place, "check", "Checking shards");
    if (!job) return;
    const { findings, samples, shards } = job.result;
    if (!findings.length) { place.replaceChildren(h("p", { class: "good", role: "status" }, `${count(samples)} samples in ${count(shards)} shards: nothing is wrong.`)); return; }
    place.replaceChildren(table(["", "what", "where", "what to do"], findings.map((finding) => [
      h("span", { class: `severity ${finding.severity}` }, finding.severity),
      h("div", {}, h("code", {}, finding.kind), h("div", {}, finding.what)),
      h("div", {}, finding.key === null ? "" : this.keyButton(finding.key), finding.field ? h("code", {}, ` ${finding.field}`) : "", h("div", { class: "small" }, finding.shard, finding.offset === null ? "" : `, byte ${count(finding.offset)}`)),
      finding.remedy])));
  }

  keyButton(key, version = 0) {
    return h("button", { type: "button", class: "link", onclick: () => this.actions.openKey(key, version) }, key);
  }

  async duplicates(place) {
    const job = await this.run(place, "duplicates", "Comparing images");
    if (!job) return;
    const { pairs, images, failed } = job.result;
    const note = `${count(images)} images compared${failed ? `, ${count(failed)} could not be decoded` : ""}: ${count(pairs.length)} pairs.`;
    const shown = pairs.slice(0, 60);
    const numbers = [...new Set(shown.flatMap((pair) => [pair.first, pair.second]))];
    const cells = new Map();
    for (const number of numbers) {
      const found = await get(`/api/cells?start=${number}&count=1`);
      cells.set(number, found.cells[0]);
    }
    place.replaceChildren(h("p", { role: "status" }, note), h("div", { class: "pairs" }, shown.map((pair) => h("figure", { class: "pair" },
      [pair.first, pair.second].map((number) => this.thumb(cells.get(number))),
      h("figcaption", {}, pair.distance ? `${pair.distance} of 64 bits differ` : "the same hash")))));
  }

  thumb(cell, version = 0) {
    const image = cell && cell.fields.find((field) => field.kind === "image");
    const query = `?size=192${version ? `&version=${version}` : ""}`;
    return h("button", { type: "button", class: "thumb", onclick: () => this.actions.openNumber(cell.number, version) },
      image ? h("img", { alt: "", src: fieldPath("picture", cell.number, image.name, query) }) : null, h("span", {}, cell ? cell.key : ""));
  }

  sql(panel) {
    const place = h("div", { id: "sql-result" });
    const text = h("textarea", { id: "sql", rows: 3, spellcheck: "false", "aria-describedby": "sql-help" });
    text.value = "select key, size from samples order by size desc limit 50";
    const form = h("form", { class: "card wide" }, h("h2", {}, h("label", { for: "sql" }, "SQL")), h("p", { id: "sql-help" }, "The table is samples: key, shard, number, offset, size, sizes (sizes.jpg), and a column for each field that the query names, such as json.width, cls, txt."), text, h("button", { type: "submit" }, "Run"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const job = await this.run(place, "sql", "Reading the fields", text.value);
      if (!job) return;
      const { columns, rows, most } = job.result;
      const key = columns.indexOf("key");
      place.replaceChildren(h("p", { role: "status" }, rows.length === most ? `the first ${count(most)} rows` : `${count(rows.length)} rows`),
        table(columns, rows.map((row) => row.map((value, at) => (at === key && value !== null ? this.keyButton(value) : value === null ? "" : value)))));
    });
    panel.replaceChildren(form, place);
  }

  async compare(panel) {
    const job = await this.run(panel, "compare", "Comparing the two versions");
    if (!job) { this.forget("compare"); return; }
    const { differences, rows } = job.result;
    const beside = h("div", { class: "pairs" });
    panel.replaceChildren(h("section", { class: "card wide" }, h("h2", {}, "Differences"),
      h("p", { role: "status" }, differences ? `${count(differences)} differences${differences > rows.length ? `; the first ${count(rows.length)}` : ""}` : "The two versions are the same."), beside,
      table(["key", "field", "difference", ""], rows.slice(0, 1000).map((row) => [row.key, row.field || "", row.change,
        h("span", {}, row.change === "only in the second" && !row.field ? "" : this.versionButton(row.key, 0), " ", row.change === "only in the first" && !row.field ? "" : this.versionButton(row.key, 1), " ", row.field && row.change === "different" ? h("button", { type: "button", onclick: () => this.beside(beside, row.key) }, "side by side") : "")]))));
  }

  versionButton(key, version) {
    return h("button", { type: "button", onclick: () => this.actions.openKey(key, version) }, version ? "second" : "first");
  }

  async beside(place, key) {
    const both = await Promise.all([0, 1].map(async (version) => {
      const { number } = await get(`/api/find?key=${encodeURIComponent(key)}&version=${version}`);
      return (await get(`/api/cells?start=${number}&count=1&version=${version}`)).cells[0];
    }));
    place.replaceChildren(h("figure", { class: "pair" }, both.map((cell, version) => h("div", {}, this.thumb(cell, version),
      cell.fields.map((field) => h("div", { class: "small" }, `${field.name}: ${bytes(field.size)} ${field.text ? field.text.slice(0, 120) : ""}`)))), h("figcaption", {}, `${key}: first and second version`)));
    place.scrollIntoView({ block: "nearest" });
  }

  model(panel) {
    const place = h("div", { id: "model-result", "aria-live": "polite" });
    const step = h("input", { id: "step", type: "number", min: "0", value: "0" });
    const draws = h("input", { id: "draws", type: "number", min: "1", max: "8", value: "1" });
    const form = h("form", { class: "toolbar" }, h("label", { for: "step" }, "Step"), step, h("label", { for: "draws" }, "Draws"), draws, h("button", { type: "submit" }, "Show"));
    const show = async () => {
      place.replaceChildren(h("p", { class: "note" }, "Running the pipeline …"));
      try {
        const found = await get(`/api/model/${Number(step.value)}?draws=${Number(draws.value)}`);
        place.replaceChildren(h("div", { class: "draws" }, found.draws.map((entries, at) => h("section", { class: "card" },
          h("h2", {}, found.draws.length > 1 ? `Step ${count(found.step)}, draw ${at + 1}` : `Step ${count(found.step)}`),
          entries.map((entry) => h("div", { class: "entry" }, h("h3", {}, entry.name), entry.array ? h("p", { class: "note" }, `${entry.array.dtype} [${entry.array.shape.join(", ")}]${entry.array.range ? `, from ${entry.array.range[0].toPrecision(4)} to ${entry.array.range[1].toPrecision(4)}` : ""}`) : null,
            h("div", { class: "strip" }, entry.pictures.map((source) => h("img", { alt: "", src: source }))),
            entry.text ? h("pre", { class: "text" }, entry.text) : null))))));
      } catch (error) {
        place.replaceChildren(problemBox(error.words || { error: String(error) }));
      }
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
    panel.replaceChildren(form, place);
    show();
  }

  /** Run a job with a progress bar in `place`; null if it failed or was cancelled, which is shown there. */
  async run(place, name, words, text = "") {
    const bar = h("progress", { max: 1, "aria-label": words });
    const said = h("span", { class: "small" });
    let number = null;
    const stop = h("button", { type: "button", onclick: () => number && fetch(`/api/jobs/${number}/cancel`, { method: "POST" }) }, "Stop");
    place.replaceChildren(h("div", { class: "working", role: "status" }, h("span", {}, words), bar, said, stop));
    try {
      const job = await runJob(name, text, (report) => {
        number = report.job;
        if (report.total) { bar.max = report.total; bar.value = report.done; said.textContent = `${count(report.done)} of ${count(report.total)}`; }
      });
      if (job.state !== "cancelled") return job;
      place.replaceChildren(h("p", { class: "note" }, "Stopped."));
    } catch (error) {
      place.replaceChildren(problemBox(error.words || { error: String(error) }));
    }
    return null;
  }
}

function labelFilter(field, name) {
  const value = /^-?\d+$/.test(name) ? name : quoted(name);
  return /^[A-Za-z][\w.]*$/.test(field) ? `${field} == ${value}` : `field(${quoted(field)}) == ${value}`;
}

const fieldName = (name) => (/^[A-Za-z]\w*$/.test(name) ? name : quoted(name));

function table(columns, rows) {
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Results" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}
