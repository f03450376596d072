// Charts drawn as SVG.
function ticks(low, high, most) { // at most about `most` round numbers
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || power * 10;
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && values.length < 50; i++) values.push(i * step);
  return values;
}
function formatTick(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(0).replace("e+", "e");
  for (const [least, unit, letter] of [[1e9, 1e9, "B"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]]) {
    if (size >= least) return +(value / unit).toPrecision(6) + letter;
  }
  return String(+value.toPrecision(6));
}
function newChart(id, height) { // an empty drawing as wide as its element
  const element = $(id);
  const width = Math.max(240, element.clientWidth);
  element.replaceChildren();
  const chart = svg(element, "svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": true });
  return [chart, width];
}
function drawYAxis(chart, width, left, y, values, format = formatTick) {
  for (const value of values) {
    svg(chart, "line", { x1: left, x2: width, y1: y(value), y2: y(value), stroke: theme("grid") });
    svg(chart, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value));
  }
}
function makeSelectable(element, code, text) { // a click selects the cluster
  element.setAttribute("data-code", code);
  element.addEventListener("click", () => select(code));
  svg(element, "title", {}, text);
  element.classList.toggle("off", !isShown(code));
}

function drawEigenvalues() {
  const { distances, chosen } = data.eigen;
  const height = 260, left = 52, top = 22, bottom = height - 42;
  const [chart, width] = newChart("eigen", height);
  const least = Math.min(...distances.slice(1), 1); // the first is zero, whatever the clusters
  const low = Math.log10(Math.max(Math.min(...distances), least / 4)) - 0.08;
  const high = Math.log10(Math.max(...distances, 2e-4)) + 0.12;
  const y = (value) => bottom - ((Math.max(low, Math.log10(value)) - low) / (high - low)) * (bottom - top);
  const x = (i) => left + 14 + ((width - left - 28) * i) / Math.max(1, distances.length - 1);
  if (chosen < distances.length) {
    const start = x(chosen - 1), end = x(chosen), middle = (start + end) / 2;
    const anchor = middle > width - 60 ? "end" : middle < left + 50 ? "start" : "middle";
    svg(chart, "rect", { x: start, width: end - start, y: top - 12, height: bottom - top + 12, fill: theme("gap") });
    svg(chart, "text", { x: middle, y: top - 15, "text-anchor": anchor, class: "gap" }, "gap × " + (distances[chosen] / distances[chosen - 1]).toFixed(1));
  }
  const decades = [];
  for (let e = Math.ceil(low); e <= high; e++) decades.push(10 ** e);
  if (decades.length < 2) for (const f of [2, 5]) for (let e = Math.floor(low); e <= high; e++) decades.push(f * 10 ** e);
  drawYAxis(chart, width, left, y, decades.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high));
  const line = distances.map((d, i) => (i ? "L" : "M") + x(i).toFixed(1) + " " + y(d).toFixed(1)).join("");
  svg(chart, "path", { d: line, fill: "none", stroke: theme("faint"), "stroke-width": 1.5 });
  distances.forEach((d, i) => {
    const counts = i < chosen;
    const dot = svg(chart, "circle", {
      cx: x(i), cy: y(d), r: counts ? 4.5 : 4, "stroke-width": 1.5,
      fill: theme(counts ? "accent" : "surface"), stroke: theme(counts ? "accent" : "muted"),
    });
    svg(dot, "title", {}, `No. ${i + 1}: 1 − eigenvalue = ${d.toPrecision(3)}`);
  });
  const every = Math.ceil(distances.length / (width / 34));
  distances.forEach((_, i) => {
    const isChosen = i + 1 === chosen;
    if (!isChosen && ((i && (i + 1) % every) || Math.abs(x(i) - x(chosen - 1)) < 20)) return;
    svg(chart, "text", { x: x(i), y: bottom + 18, "text-anchor": "middle", class: isChosen ? "strong" : "" }, i + 1);
  });
  svg(chart, "text", { x: left + 14, y: height - 6 }, "number of the eigenvalue");
  svg(chart, "text", { x: 0, y: 10 }, "1 − λ");
}

function drawClusterNames(chart, order, x, band, y, names) { // below bars: every name, or every n-th if they would overlap
  const longest = Math.max(...names.map((name) => Math.min(name.length, 8)));
  const every = Math.ceil((longest * 7.5 + 6) / band);
  order.forEach((code, i) => {
    if (i % every) return;
    const text = svg(chart, "text", { x: x(i), y, "text-anchor": "middle", "data-code": code }, shorten(names[code], 8));
    text.classList.toggle("strong", state.only === code);
    text.addEventListener("click", () => select(code));
  });
}

function drawSizes() {
  const height = 260, left = 52, top = 22, bottom = height - 42;
  const [chart, width] = newChart("sizes", height);
  const order = current.sizes.map((_, i) => i).sort((a, b) => current.sizes[b] - current.sizes[a]);
  const most = Math.max(1, ...current.sizes);
  const band = (width - left) / current.sizes.length;
  const barWidth = Math.min(64, band * 0.78);
  const x = (i) => left + band * (i + 0.5);
  const y = (value) => bottom - (value / most) * (bottom - top);
  drawYAxis(chart, width, left, y, ticks(0, most, 4).filter((v) => most > 3 || Number.isInteger(v)));
  order.forEach((code, i) => {
    const size = current.sizes[code];
    const barHeight = Math.max(size ? 1.5 : 0, bottom - y(size));
    const bar = svg(chart, "g");
    svg(bar, "rect", { x: x(i) - band / 2, y: top, width: band, height: bottom - top, fill: "transparent" });
    svg(bar, "rect", {
      x: x(i) - barWidth / 2, y: bottom - barHeight, width: barWidth, height: barHeight,
      rx: Math.min(3, barWidth / 4), fill: colorOf(code), class: "bar",
    });
    if (band > 58) svg(bar, "text", { x: x(i), y: bottom - barHeight - 6, "text-anchor": "middle" }, formatShare(size / data.rows));
    makeSelectable(bar, code, `${nameOf(code)}: ${formatRows(size)}, ${formatShare(size / data.rows)}`);
  });
  drawClusterNames(chart, order, x, band, bottom + 18, current.names);
  svg(chart, "text", { x: left, y: height - 6 }, "cluster");
  svg(chart, "text", { x: 0, y: 10 }, "rows");
}

// The confidence of an ensemble is that of the clusters that were fitted, or of labels that were passed in.
const isOwnView = () => (data.start === "labeling" ? current.view.kind === "labeling" && current.view.at === 0 : current.view.kind === "cut" && current.view.at === data.cuts.own);
function drawConfidenceOfAll() {
  const height = 240, left = 46, top = 20, bottom = height - 42;
  const [chart, width] = newChart("confidence-all", height);
  const shares = (counts) => counts.map((n) => n / (sum(counts) || 1));
  const all = shares(data.levels[0].map((_, i) => sum(data.levels.map((counts) => counts[i]))));
  const selected = state.only === null || !isOwnView() ? [] : shares(data.levels[state.only]);
  const name = !selected.length ? "" : nameOf(state.only).toLowerCase();
  const most = Math.max(...all, ...selected);
  const band = (width - left) / all.length;
  const y = (value) => bottom - (value / most) * (bottom - top);
  drawYAxis(chart, width, left, y, ticks(0, most, 4), (v) => Math.round(100 * v) + " %");
  const drawBars = (heights, start, barWidth, fill, whose, attributes) => heights.forEach((share, i) => {
    const bar = svg(chart, "rect", { x: left + band * (i + start), y: y(share), width: band * barWidth, height: bottom - y(share), fill, ...attributes });
    svg(bar, "title", {}, `confidence ${(i / (all.length - 1)).toFixed(2)}: ${formatShare(share)} of ${whose}`);
  });
  drawBars(all, 0.1, 0.8, theme(selected.length ? "faint" : "accent"), "all rows", { rx: 1.5, class: "bar" });
  drawBars(selected, 0.25, 0.5, colorOf(state.only), name, {});
  for (const v of [0, 0.25, 0.5, 0.75, 1]) {
    svg(chart, "text", { x: left + band * (0.5 + v * (all.length - 1)), y: bottom + 18, "text-anchor": "middle" }, v);
  }
  svg(chart, "text", { x: left, y: height - 6 }, "confidence");
  svg(chart, "text", { x: 0, y: 10 }, name ? `share of rows (${name}; all in grey)` : "share of rows");
}

function quantile(counts, share) { // of the confidence, from the number of rows by level
  const least = share * sum(counts);
  for (let i = 0, n = 0; i < counts.length; i++) {
    n += counts[i];
    if (n > 0 && n >= least) return i / (counts.length - 1);
  }
  return 0;
}
function drawConfidenceByCluster() {
  const height = 240, left = 46, top = 20, bottom = height - 42;
  const [chart, width] = newChart("confidence-by-cluster", height);
  const band = (width - left) / data.levels.length;
  const x = (i) => left + band * (i + 0.5);
  const y = (v) => bottom - v * (bottom - top);
  drawYAxis(chart, width, left, y, [0, 0.25, 0.5, 0.75, 1]);
  data.levels.forEach((counts, code) => {
    if (!sum(counts)) return;
    const [low, q1, median, q3, high] = [0.1, 0.25, 0.5, 0.75, 0.9].map((share) => quantile(counts, share));
    const mark = svg(chart, "g", { stroke: colorOf(code) });
    svg(mark, "rect", { x: x(code) - band / 2, y: top, width: band, height: bottom - top, fill: "transparent", stroke: "none" });
    svg(mark, "line", { x1: x(code), x2: x(code), y1: y(low), y2: y(high), "stroke-width": 1.5 });
    svg(mark, "line", { x1: x(code), x2: x(code), y1: y(q1), y2: y(q3), "stroke-width": Math.min(8, band * 0.5), "stroke-linecap": "round" });
    svg(mark, "circle", { cx: x(code), cy: y(median), r: Math.max(2, Math.min(5, band * 0.4)), fill: theme("surface"), "stroke-width": 2 });
    makeSelectable(mark, code, `Cluster ${isOwnView() ? current.names[code] : code}: median ${median.toFixed(2)}, middle half ${q1.toFixed(2)} to ${q3.toFixed(2)}`);
  });
  drawClusterNames(chart, data.levels.map((_, i) => i), x, band, bottom + 18, data.levels.map((_, code) => (isOwnView() ? current.names[code] : String(code))));
  svg(chart, "text", { x: left, y: height - 6 }, "cluster");
  svg(chart, "text", { x: 0, y: 10 }, "confidence");
}

function drawAgreement() {
  const { members, consensus } = data.agreement;
  const m = members.length, left = 28, top = 20;
  const width = Math.max(240, Math.min($("agreement").clientWidth, 680));
  const barWidth = Math.min(150, width * 0.24);
  const cell = Math.min(34, (width - left - barWidth - 18) / m);
  const space = cell > 6 ? 1 : 0; // between cells
  const barStart = left + m * cell + 18;
  const [chart] = newChart("agreement", cell * m + 58);
  const others = members.flatMap((row, i) => row.filter((_, j) => i !== j));
  const low = Math.min(...others, 1), high = Math.max(...others, low + 1e-9);
  const colors = scaleColors("agreement", 2);
  const fill = (nmi) => `rgb(${colors[Math.round((255 * (nmi - low)) / (high - low))].join()})`;
  members.forEach((row, i) => {
    const y = top + i * cell, height = cell - space;
    row.forEach((nmi, j) => {
      const square = svg(chart, "rect", { x: left + j * cell, y, width: height, height, rx: cell > 12 ? 2 : 0, fill: i === j ? "none" : fill(nmi), class: "bar" });
      svg(square, "title", {}, i === j ? `member ${i + 1}` : `members ${i + 1} and ${j + 1}: NMI ${nmi.toFixed(2)}`);
    });
    svg(chart, "rect", { x: barStart, y, width: barWidth, height, rx: 2, fill: theme("grid") });
    const bar = svg(chart, "rect", { x: barStart, y, width: barWidth * consensus[i], height, rx: 2, fill: theme("accent"), class: "bar" });
    svg(bar, "title", {}, `member ${i + 1} and the consensus: NMI ${consensus[i].toFixed(2)}`);
    if (i % Math.ceil(13 / cell) === 0) svg(chart, "text", { x: left - 8, y: y + cell / 2 + 4, "text-anchor": "end" }, i + 1);
  });
  svg(chart, "text", { x: left, y: 10 }, "members");
  svg(chart, "text", { x: barStart, y: 10 }, "consensus");
  const y = top + 14 + m * cell;
  for (let i = 0; i < 40; i++) svg(chart, "rect", { x: left + 38 + i * 2.5, y, width: 2.6, height: 8, fill: fill(low + ((high - low) * i) / 39) });
  svg(chart, "text", { x: left + 30, y: y + 9, "text-anchor": "end" }, others.length ? low.toFixed(2) : "");
  svg(chart, "text", { x: left + 146, y: y + 9 }, (others.length ? high.toFixed(2) : "") + "  NMI of two");
}
