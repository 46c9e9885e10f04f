// Draws each chart from the table beside it, keeps opened parts open, and lets "/" jump to the search. The pages work
// without this file.
"use strict";

document.documentElement.classList.add("scripts");

const DASHES = { peak: [6, 4], "mid-request": [8, 3, 2, 3], used: [3, 3] };
const STEPS = [60, 300, 600, 1800, 3600, 7200, 14400];
const PLOTS = new WeakMap();
const OPENED = new Set();

function colour(name) {
  const probe = document.createElement("i");
  probe.className = "c-" + name;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function columns(table) {
  const rows = [...table.tBodies[0].rows].reverse();
  const number = (cell) => (cell.textContent === "–" ? null : Number(cell.textContent));
  return [...table.tHead.rows[0].cells].map((_, index) =>
    rows.map((row) => (index ? number(row.cells[index]) : Number(row.cells[0].dataset.t))),
  );
}

function draw(figure) {
  const table = figure.querySelector("details table"), place = figure.querySelector(".plot");
  const data = columns(table), before = PLOTS.get(place);
  const width = place.clientWidth || figure.clientWidth;
  if (before && before.root.isConnected && before.width === width) {
    before.setData(data);
    return;
  }
  place.replaceChildren();
  const axis = { stroke: colour("axis"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 } };
  const series = [...table.tHead.rows[0].cells].slice(1).map((head) => ({
    label: head.textContent,
    stroke: colour(head.dataset.style),
    width: 2,
    dash: DASHES[head.dataset.style],
    spanGaps: false,
    points: { show: false },
    value: (_, value) => (value === null ? "–" : value.toPrecision(3)),
  }));
  const options = {
    width: width - 10,
    height: 240,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, values: "{HH}:{mm}", incrs: STEPS, space: 64 }, { ...axis, size: 56 }],
    series: [{ label: "UTC", value: "{HH}:{mm}" }, ...series],
    cursor: { drag: { x: false, y: false } },
  };
  PLOTS.set(place, new uPlot(options, data, place));
}

function drawAll() {
  if (window.uPlot) document.querySelectorAll("figure.chart").forEach(draw);
}

function redrawAll() {
  document.querySelectorAll("figure.chart .plot").forEach((place) => PLOTS.delete(place));
  drawAll();
}

// A refresh brings every <details> closed: those that the user has opened are opened again.
function named() {
  const seen = {};
  return [...document.querySelectorAll("details")].map((details) => {
    const text = details.querySelector("summary").textContent;
    seen[text] = (seen[text] || 0) + 1;
    return [details, `${text} ${seen[text]}`];
  });
}

function reopen() {
  named().forEach(([details, name]) => OPENED.has(name) && (details.open = true));
}

document.addEventListener("click", (event) => {
  const summary = event.target.closest("summary");
  const found = summary && named().find(([details]) => details === summary.parentElement);
  if (found) found[0].open ? OPENED.delete(found[1]) : OPENED.add(found[1]);
});
document.addEventListener("keydown", (event) => {
  const search = document.getElementById("search");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !search) return;
  if (event.target.closest && event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  search.focus();
  search.select();
});
document.addEventListener("DOMContentLoaded", drawAll);
document.addEventListener("htmx:after:swap", () => {
  reopen();
  drawAll();
});
window.addEventListener("resize", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
