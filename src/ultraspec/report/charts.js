"use strict";
// Small tools: colours, scales, SVG elements, packed arrays.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { only: null, view: "cluster" };
const $ = (id) => document.getElementById(id);
const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
const colorOf = (code) => theme("c" + (code % data.colors));
const markOf = (code) => data.marks[code % data.marks.length];
const nameOf = (code) => "Cluster " + data.names[code];
const count = (n) => Math.round(n).toLocaleString("en") + (Math.round(n) === 1 ? " row" : " rows");
const percent = (share) => (share > 0 && share < 0.0005 ? "<0.1 %" : (100 * share).toFixed(1) + " %");
const shown = (code) => state.only === null || state.only === code;

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
function words(text) {
  const raw = bytes(text), out = new Uint16Array(raw.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = raw[2 * i] | (raw[2 * i + 1] << 8);
  return out;
}
function steps(text, n) { // numbers of seven bits a byte, summed up
  const raw = bytes(text), out = new Uint32Array(n);
  for (let i = 0, at = 0, sum = 0; i < n; i++) {
    let shift = 1, more;
    do { more = raw[at] & 128; sum += (raw[at++] & 127) * shift; shift *= 128; } while (more);
    out[i] = sum;
  }
  return out;
}
function scaleColors(name, n) { // 256 colours along a scale of n stops
  const stops = Array.from({ length: n }, (_, i) => rgb(theme(name + i)));
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (n - 1), low = Math.min(Math.floor(at), n - 2), share = at - low;
    return stops[low].map((c, j) => Math.round(c + (stops[low + 1][j] - c) * share));
  });
}
function ticks(low, high, room) {
  const rough = (high - low) / Math.max(1, room), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || power * 10;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && found.length < 50; i++) found.push(i * step);
  return found;
}
function label(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(0).replace("e+", "e");
  for (const [unit, letter] of [[1e9, "B"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) return +(value / (letter === "k" ? 1e3 : unit)).toPrecision(6) + letter;
  }
  return String(+value.toPrecision(6));
}
function svg(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== null) element.textContent = text;
  parent.appendChild(element);
  return element;
}
function newChart(id, height) { // an empty drawing as wide as its place
  const place = $(id), width = Math.max(240, place.clientWidth);
  place.replaceChildren();
  const chart = svg(place, "svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": true });
  return [chart, width];
}
function yAxis(chart, width, left, y, values, write = label) {
  for (const value of values) {
    svg(chart, "line", { x1: left, x2: width, y1: y(value), y2: y(value), stroke: theme("grid") });
    svg(chart, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, write(value));
  }
}
function clickable(element, code, text) { // choosing a mark chooses its cluster
  element.setAttribute("data-code", code);
  element.addEventListener("click", () => choose(code));
  svg(element, "title", {}, text);
  element.classList.toggle("off", !shown(code));
}

function drawEigen() {
  const { distances, chosen, largest } = data.eigen, height = 260, left = 52, bottom = height - 42, top = 22;
  const [chart, width] = newChart("eigen", height);
  const least = Math.min(...distances.slice(1), 1); // the first is zero, whatever the clusters
  const low = Math.log10(Math.max(Math.min(...distances), least / 4)) - 0.08, high = Math.log10(Math.max(...distances, 2e-4)) + 0.12;
  const y = (value) => bottom - ((Math.max(low, Math.log10(value)) - low) / (high - low)) * (bottom - top);
  const x = (i) => left + 14 + ((width - left - 28) * i) / Math.max(1, distances.length - 1);
  if (chosen < distances.length) {
    svg(chart, "rect", { x: x(chosen - 1), width: x(chosen) - x(chosen - 1), y: top - 12, height: bottom - top + 12, fill: theme("gap") });
    const middle = (x(chosen - 1) + x(chosen)) / 2, anchor = middle > width - 60 ? "end" : middle < left + 50 ? "start" : "middle";
    svg(chart, "text", { x: middle, y: top - 15, "text-anchor": anchor, class: "gap" }, "gap × " + (distances[chosen] / distances[chosen - 1]).toFixed(1));
  }
  const decades = [];
  for (let e = Math.ceil(low); e <= high; e++) decades.push(10 ** e);
  if (decades.length < 2) for (const f of [2, 5]) for (let e = Math.floor(low); e <= high; e++) decades.push(f * 10 ** e);
  yAxis(chart, width, left, y, decades.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high));
  const line = distances.map((d, i) => (i ? "L" : "M") + x(i).toFixed(1) + " " + y(d).toFixed(1)).join("");
  svg(chart, "path", { d: line, fill: "none", stroke: theme("faint"), "stroke-width": 1.5 });
  distances.forEach((d, i) => {
    const inside = i < chosen;
    const dot = svg(chart, "circle", { cx: x(i), cy: y(d), r: inside ? 4.5 : 4, "stroke-width": 1.5,
      fill: inside ? theme("accent") : theme("surface"), stroke: inside ? theme("accent") : theme("muted") });
    svg(dot, "title", {}, `No. ${i + 1}: 1 − eigenvalue = ${d.toPrecision(3)}`);
  });
  const every = Math.ceil(distances.length / (width / 34));
  distances.forEach((_, i) => {
    if ((i + 1) % every && i + 1 !== chosen && i) return;
    if (i + 1 !== chosen && Math.abs(x(i) - x(chosen - 1)) < 20) return;
    svg(chart, "text", { x: x(i), y: bottom + 18, "text-anchor": "middle", class: i + 1 === chosen ? "strong" : "" }, i + 1);
  });
  svg(chart, "text", { x: left + 14, y: height - 6 }, "number of the eigenvalue");
  svg(chart, "text", { x: 0, y: 10 }, "1 − λ");
}

function barNames(chart, order, x, band, y) { // as many names as there is room for
  const longest = Math.max(...data.names.map((name) => Math.min(name.length, 8)));
  const every = Math.ceil((longest * 7.5 + 6) / band);
  order.forEach((code, i) => {
    if (i % every) return;
    const name = data.names[code];
    const text = svg(chart, "text", { x: x(i), y, "text-anchor": "middle", "data-code": code }, name.length > 8 ? name.slice(0, 7) + "…" : name);
    text.classList.toggle("strong", state.only === code);
    text.addEventListener("click", () => choose(code));
  });
}

function drawSizes() {
  const height = 260, left = 52, bottom = height - 42, top = 22, n = data.sizes.length;
  const [chart, width] = newChart("sizes", height);
  const order = data.sizes.map((_, i) => i).sort((a, b) => data.sizes[b] - data.sizes[a]);
  const most = Math.max(1, ...data.sizes), band = (width - left) / n, x = (i) => left + band * (i + 0.5);
  const y = (value) => bottom - (value / most) * (bottom - top), wide = Math.min(64, band * 0.78);
  yAxis(chart, width, left, y, ticks(0, most, 4).filter((v) => most > 3 || Number.isInteger(v)));
  order.forEach((code, i) => {
    const size = data.sizes[code], tall = Math.max(size ? 1.5 : 0, bottom - y(size));
    const bar = svg(chart, "g");
    svg(bar, "rect", { x: x(i) - band / 2, y: top, width: band, height: bottom - top, fill: "transparent" });
    svg(bar, "rect", { x: x(i) - wide / 2, y: bottom - tall, width: wide, height: tall, rx: Math.min(3, wide / 4), fill: colorOf(code), class: "bar" });
    if (band > 58) svg(bar, "text", { x: x(i), y: bottom - tall - 6, "text-anchor": "middle" }, percent(size / data.rows));
    clickable(bar, code, `${nameOf(code)}: ${count(size)}, ${percent(size / data.rows)}`);
  });
  barNames(chart, order, x, band, bottom + 18);
  svg(chart, "text", { x: left, y: height - 6 }, "cluster");
  svg(chart, "text", { x: 0, y: 10 }, "rows");
}

function drawLevels() {
  const height = 240, left = 46, bottom = height - 42, top = 20;
  const [chart, width] = newChart("levels", height);
  const sum = (rows) => rows.reduce((a, b) => a.map((v, i) => v + b[i]));
  const shares = (row) => { const all = row.reduce((a, b) => a + b, 0) || 1; return row.map((v) => v / all); };
  const all = shares(sum(data.levels)), own = state.only === null ? null : shares(data.levels[state.only]);
  const most = Math.max(...all, ...(own || [])), band = (width - left) / all.length;
  const y = (value) => bottom - (value / most) * (bottom - top), x = (i) => left + band * i + band * 0.1;
  yAxis(chart, width, left, y, ticks(0, most, 4), (v) => Math.round(100 * v) + " %");
  all.forEach((share, i) => {
    const bar = svg(chart, "rect", { x: x(i), y: y(share), width: band * 0.8, height: bottom - y(share), rx: 1.5, fill: own ? theme("faint") : theme("accent"), class: "bar" });
    svg(bar, "title", {}, `confidence ${(i / (all.length - 1)).toFixed(2)}: ${percent(share)} of all rows`);
  });
  if (own) own.forEach((share, i) => {
    const bar = svg(chart, "rect", { x: x(i) + band * 0.15, y: y(share), width: band * 0.5, height: bottom - y(share), fill: colorOf(state.only) });
    svg(bar, "title", {}, `confidence ${(i / (own.length - 1)).toFixed(2)}: ${percent(share)} of ${nameOf(state.only).toLowerCase()}`);
  });
  for (const v of [0, 0.25, 0.5, 0.75, 1]) {
    svg(chart, "text", { x: left + band * (0.5 + v * (all.length - 1)), y: bottom + 18, "text-anchor": "middle" }, v);
  }
  svg(chart, "text", { x: left, y: height - 6 }, "confidence");
  svg(chart, "text", { x: 0, y: 10 }, own ? `share of rows (${nameOf(state.only).toLowerCase()}; all in grey)` : "share of rows");
}

function quantile(row, share) { // of counts by level
  const all = row.reduce((a, b) => a + b, 0);
  for (let i = 0, sum = 0; i < row.length; i++) if ((sum += row[i]) >= share * all && sum > 0) return i / (row.length - 1);
  return 0;
}
function drawSpread() {
  const height = 240, left = 46, bottom = height - 42, top = 20, n = data.levels.length;
  const [chart, width] = newChart("spread", height);
  const band = (width - left) / n, x = (i) => left + band * (i + 0.5), y = (v) => bottom - v * (bottom - top);
  yAxis(chart, width, left, y, [0, 0.25, 0.5, 0.75, 1]);
  data.levels.forEach((row, code) => {
    if (!data.sizes[code]) return;
    const [low, q1, middle, q3, high] = [0.1, 0.25, 0.5, 0.75, 0.9].map((share) => quantile(row, share));
    const mark = svg(chart, "g", { stroke: colorOf(code) });
    svg(mark, "rect", { x: x(code) - band / 2, y: top, width: band, height: bottom - top, fill: "transparent", stroke: "none" });
    svg(mark, "line", { x1: x(code), x2: x(code), y1: y(low), y2: y(high), "stroke-width": 1.5 });
    svg(mark, "line", { x1: x(code), x2: x(code), y1: y(q1), y2: y(q3), "stroke-width": Math.min(8, band * 0.5), "stroke-linecap": "round" });
    svg(mark, "circle", { cx: x(code), cy: y(middle), r: Math.max(2, Math.min(5, band * 0.4)), fill: theme("surface"), "stroke-width": 2 });
    clickable(mark, code, `${nameOf(code)}: median ${middle.toFixed(2)}, middle half ${q1.toFixed(2)} to ${q3.toFixed(2)}`);
  });
  barNames(chart, data.levels.map((_, i) => i), x, band, bottom + 18);
  svg(chart, "text", { x: left, y: height - 6 }, "cluster");
  svg(chart, "text", { x: 0, y: 10 }, "confidence");
}

function drawAgreement() {
  const { members, consensus } = data.agreement, m = members.length, left = 28;
  const place = $("agreement"), width = Math.max(240, Math.min(place.clientWidth, 680));
  const bars = Math.min(150, width * 0.24), cell = Math.min(34, (width - left - bars - 18) / m), height = cell * m + 58;
  const [chart] = newChart("agreement", height);
  const others = members.flatMap((row, i) => row.filter((_, j) => i !== j));
  const low = Math.min(...others, 1), high = Math.max(...others, low + 1e-9), colors = scaleColors("agreement", 2);
  const fill = (v) => `rgb(${colors[Math.round((255 * (v - low)) / (high - low))].join()})`, gap = cell > 6 ? 1 : 0;
  members.forEach((row, i) => {
    row.forEach((v, j) => {
      const square = svg(chart, "rect", { x: left + j * cell, y: 20 + i * cell, width: cell - gap, height: cell - gap, rx: cell > 12 ? 2 : 0, fill: i === j ? "none" : fill(v), class: "bar" });
      svg(square, "title", {}, i === j ? `member ${i + 1}` : `members ${i + 1} and ${j + 1}: NMI ${v.toFixed(2)}`);
    });
    const start = left + m * cell + 18, y = 20 + i * cell;
    svg(chart, "rect", { x: start, y, width: bars, height: cell - gap, rx: 2, fill: theme("grid") });
    const bar = svg(chart, "rect", { x: start, y, width: bars * consensus[i], height: cell - gap, rx: 2, fill: theme("accent"), class: "bar" });
    svg(bar, "title", {}, `member ${i + 1} and the consensus: NMI ${consensus[i].toFixed(2)}`);
    if (i % Math.ceil(13 / cell) === 0) svg(chart, "text", { x: left - 8, y: y + cell / 2 + 4, "text-anchor": "end" }, i + 1);
  });
  svg(chart, "text", { x: left, y: 10 }, "members");
  svg(chart, "text", { x: left + m * cell + 18, y: 10 }, "consensus");
  const y = 34 + m * cell;
  for (let i = 0; i < 40; i++) svg(chart, "rect", { x: left + 38 + i * 2.5, y, width: 2.6, height: 8, fill: fill(low + ((high - low) * i) / 39) });
  svg(chart, "text", { x: left + 30, y: y + 9, "text-anchor": "end" }, others.length ? low.toFixed(2) : "");
  svg(chart, "text", { x: left + 146, y: y + 9 }, (others.length ? high.toFixed(2) : "") + "  NMI of two");
}
