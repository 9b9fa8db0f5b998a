// Marked samples: kept in this browser, exported as a list of keys for `wds select --keys`.

const listeners = [];
let place = "wds-view-marks";
let marked = new Set();

export function openMarks(dataset) {
  place = `wds-view-marks:${dataset}`;
  try {
    marked = new Set(JSON.parse(localStorage.getItem(place) || "[]"));
  } catch { marked = new Set(); }
  changed();
}

export const isMarked = (key) => marked.has(key);
export const markCount = () => marked.size;
export const onMarks = (listener) => listeners.push(listener);

export function toggleMark(key) {
  if (!marked.delete(key)) marked.add(key);
  try { localStorage.setItem(place, JSON.stringify([...marked])); } catch { /* private windows have no storage */ }
  changed();
  return marked.has(key);
}

export function exportMarks() {
  const address = URL.createObjectURL(new Blob([[...marked].sort().join("\n"), "\n"], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "keys.txt";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function changed() {
  for (const listener of listeners) listener();
}
