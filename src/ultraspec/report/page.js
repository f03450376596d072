// The map and the graph on canvas, and what readers can do.
const text = (weight, size) => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;

function unpackMap() {
  const map = data.map;
  if (map.kind === "points") {
    return { xy: words(map.xy), codes: words(map.codes), confidence: map.confidence && bytes(map.confidence) };
  }
  if (map.kind === "histogram") return {};
  const levels = bytes(map.levels), at = steps(map.steps, levels.length), k = data.names.length, top = Math.log1p(map.most);
  const cells = map.frame.cells[0] * map.frame.cells[1], first = new Uint32Array(cells + 1);
  const counts = Float64Array.from(levels, (level) => Math.max(1, Math.expm1((level / 255) * top)));
  at.forEach((place) => first[Math.floor(place / k) + 1]++);
  for (let i = 0; i < cells; i++) first[i + 1] += first[i];
  return { codes: Uint16Array.from(at, (place) => place % k), counts, first, confidence: map.confidence && bytes(map.confidence) };
}
const mapData = unpackMap();
const graphData = { xy: words(data.graph.xy), codes: words(data.graph.codes), sizes: bytes(data.graph.sizes), ties: words(data.graph.ties), strength: bytes(data.graph.strength) };

function newCanvas(id, frame, axes) { // a blank canvas and the place of the frame on it
  const canvas = $(id), width = Math.max(240, canvas.parentElement.clientWidth), named = axes[0] !== "";
  const left = named ? 50 : 1, bottom = named ? 44 : 1, top = named ? 22 : 1, right = named ? 8 : 1;
  const ratio = frame.equal ? (frame.high[1] - frame.low[1]) / (frame.high[0] - frame.low[0]) : Math.max(0.5, Math.min(0.75, 420 / width));
  const high = Math.min((width - left - right) * ratio, 700), wide = frame.equal ? high / ratio : width - left - right;
  const height = high + top + bottom, dpr = Math.max(1, window.devicePixelRatio || 1), start = left + Math.max(0, (width - left - right - wide) / 2);
  canvas.width = Math.round(width * dpr);
  canvas.height = Math.round(height * dpr);
  const c = canvas.getContext("2d");
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.clearRect(0, 0, width, height);
  const place = { c, x0: start, y0: top, w: wide, h: high, scale: Math.max(0.55, Math.min(1.15, wide / 620)) };
  place.x = (share) => start + share * wide;
  place.y = (share) => top + (1 - share) * high;
  if (named) drawAxes(place, frame, axes, width);
  return place;
}
function drawAxes(place, frame, axes, width) {
  const { c } = place;
  c.font = text(400, 12);
  c.fillStyle = theme("muted");
  c.strokeStyle = theme("grid");
  c.lineWidth = 1;
  const share = (v, i) => (v - frame.low[i]) / (frame.high[i] - frame.low[i]), fit = (name, room) => {
    while (name.length > 3 && c.measureText(name).width > room) name = name.slice(0, -2).trimEnd() + "…";
    return name;
  };
  c.beginPath();
  c.textAlign = "center";
  for (const v of ticks(frame.low[0], frame.high[0], place.w / 64)) {
    const x = Math.round(place.x(share(v, 0))) + 0.5;
    c.moveTo(x, place.y0);
    c.lineTo(x, place.y0 + place.h);
    c.fillText(label(v), x, place.y0 + place.h + 17);
  }
  c.textAlign = "right";
  for (const v of ticks(frame.low[1], frame.high[1], place.h / 70)) {
    const y = Math.round(place.y(share(v, 1))) + 0.5;
    c.moveTo(place.x0, y);
    c.lineTo(place.x0 + place.w, y);
    c.fillText(label(v), place.x0 - 8, y + 4);
  }
  c.stroke();
  c.fillText(fit(axes[0], place.w), place.x0 + place.w, place.y0 + place.h + 37);
  c.textAlign = "left";
  c.fillText(fit(axes[1], width - 20), Math.max(0, place.x0 - 42), 11);
}
function centres() { // middle and half height of each cluster without its stragglers, as shares of the frame
  const { kind, frame } = data.map, [w, h] = frame.cells;
  const visit = kind === "points"
    ? (add) => mapData.codes.forEach((code, i) => add(code, mapData.xy[2 * i] / 65535, mapData.xy[2 * i + 1] / 65535, 1))
    : (add) => {
      for (let cell = 0; cell < w * h; cell++) {
        for (let e = mapData.first[cell]; e < mapData.first[cell + 1]; e++) add(mapData.codes[e], ((cell % w) + 0.5) / w, (Math.floor(cell / w) + 0.5) / h, mapData.counts[e]);
      }
    };
  let found = data.names.map(() => ({ x: 0.5, y: 0.5, reach: 9 }));
  for (let pass = 0; pass < 3; pass++) { // each leaves out what the one before found to be far off
    const sums = data.names.map(() => [0, 0, 0, 0]);
    visit((code, x, y, n) => {
      const at = found[code];
      if (Math.hypot(x - at.x, y - at.y) > 1.6 * at.reach) return;
      [n, n * x, n * y, n * y * y].forEach((v, i) => { sums[code][i] += v; });
    });
    found = sums.map(([n, x, y, yy], code) => (n ? { x: x / n, y: y / n, reach: 1.9 * Math.sqrt(Math.max(0, yy / n - (y / n) ** 2)) + 1e-3 } : found[code]));
  }
  return found;
}
function drawNames(place, spots, frame) { // beside clusters that a name would hide, and never on another name
  const { c } = place, many = data.names.length > 12, size = data.names.length > 24 || place.w < 400 ? 10 : 12, taken = (place.names = []);
  if (data.map.kind !== "histogram") mapData.centres ||= centres();
  c.font = text(650, size);
  c.textAlign = "center";
  c.textBaseline = "middle";
  const order = data.names.map((_, code) => code).sort((a, b) => data.sizes[b] - data.sizes[a]);
  for (const code of order) {
    const spot = spots[code];
    if (!spot || !shown(code)) continue;
    const name = data.names[code].length > 12 ? data.names[code].slice(0, 11) + "…" : data.names[code];
    const w = Math.max(size + 6, c.measureText(name).width + 9), h = size + 6, own = mapData.centres && mapData.centres[code], reach = own ? own.reach * place.h : 1e3;
    const small = reach < 3 * h, x = small ? place.x(own.x) : place.x((spot[0] - frame.low[0]) / (frame.high[0] - frame.low[0]));
    const y = small ? place.y(own.y) : place.y((spot[1] - frame.low[1]) / (frame.high[1] - frame.low[1]));
    const aside = reach + h / 2 + 3, tries = [[x, y - aside], [x, y + aside], [x + aside + w / 4, y], [x - aside - w / 4, y]];
    const boxes = (small ? tries : [[x, y], ...(many ? tries : [])]).map(([a, b]) => [
      Math.min(Math.max(a, place.x0 + w / 2), place.x0 + place.w - w / 2),
      Math.min(Math.max(b, place.y0 + h / 2), place.y0 + place.h - h / 2), w, h]);
    const free = boxes.find((box) => !taken.some((other) => Math.abs(box[0] - other[0]) < (box[2] + other[2]) / 2 && Math.abs(box[1] - other[1]) < (box[3] + other[3]) / 2));
    if (!free && many) continue;  // the list and the pointer still tell
    const [left, top] = free || boxes[0];
    taken.push([left, top, w, h, code]);
    c.beginPath();
    c.roundRect(left - w / 2, top - h / 2, w, h, h / 2);
    c.fillStyle = theme("surface");
    c.strokeStyle = colorOf(code);
    c.lineWidth = many ? 1 : 1.5;
    c.fill();
    c.stroke();
    c.fillStyle = theme("ink");
    c.fillText(name, left, top + 0.5);
  }
  c.textBaseline = "alphabetic";
}

let mapPlace = null, graphPlace = null;
function drawMap() {
  const { frame, axes, kind, spots } = data.map;
  let seen = frame;
  if (kind === "histogram") {
    const most = Math.max(1, ...data.map.bins[0].map((_, i) => data.map.bins.reduce((sum, row) => sum + row[i], 0)));
    seen = { low: [frame.low[0], 0], high: [frame.high[0], most * 1.05], equal: false };
  }
  mapPlace = newCanvas("map", seen, axes);
  ({ points: drawPoints, raster: drawRaster, histogram: drawHistogram })[kind](mapPlace, seen);
  if (kind !== "histogram") drawNames(mapPlace, spots, frame);
}
function drawPoints(place) {
  const { c } = place, { xy, codes, confidence } = mapData, n = codes.length, byConfidence = state.view === "confidence";
  const size = Math.max(0.26, Math.min(0.95, Math.sqrt(600 / n))) * place.scale;
  const colors = byConfidence ? scaleColors("confidence", 3).map((v) => `rgb(${v.join()})`) : data.names.map((_, code) => colorOf(code));
  const marks = data.marks.map((d) => new Path2D(d)), faint = theme("faint");
  const draw = (i, color) => {
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * place.x(xy[2 * i] / 65535), base.d * place.y(xy[2 * i + 1] / 65535));
    c.fillStyle = color;
    c.fill(marks[codes[i] % marks.length]);
  };
  const base = c.getTransform(), step = 7919 % n === 0 ? 1 : 7919;  // in mixed order, so that no cluster lies on top
  c.globalAlpha = 0.5;
  if (state.only !== null) for (let i = 0; i < n; i++) if (codes[i] !== state.only) draw(i, faint);
  c.globalAlpha = n > 5000 ? 0.75 : 0.85;
  for (let j = 0, i = 0; j < n; j++, i = (i + step) % n) {
    if (shown(codes[i])) draw(i, byConfidence ? colors[confidence[i]] : colors[codes[i]]);
  }
  c.globalAlpha = 1;
  c.setTransform(base);
}
function drawRaster(place) {
  const [w, h] = data.map.frame.cells, { codes, counts, first, confidence } = mapData, byConfidence = state.view === "confidence";
  const small = document.createElement("canvas");
  small.width = w;
  small.height = h;
  const pen = small.getContext("2d"), image = pen.createImageData(w, h), top = Math.log1p(data.map.most);
  const colors = byConfidence ? scaleColors("confidence", 3) : data.names.map((_, code) => rgb(colorOf(code))), faint = rgb(theme("faint"));
  for (let cell = 0; cell < w * h; cell++) {
    let sum = 0, mine = 0, sure = 0;
    const color = [0, 0, 0];
    for (let e = first[cell]; e < first[cell + 1]; e++) {
      sum += counts[e];
      if (!shown(codes[e])) continue;
      mine += counts[e];
      if (byConfidence) sure += counts[e] * confidence[e];
      else for (let j = 0; j < 3; j++) color[j] += counts[e] * colors[codes[e]][j];
    }
    if (!sum) continue;
    const paint = !mine ? faint : byConfidence ? colors[Math.round(sure / mine)] : color.map((v) => v / mine);
    const at = 4 * ((h - 1 - Math.floor(cell / w)) * w + (cell % w)), dense = Math.log1p(mine || sum) / top;
    for (let j = 0; j < 3; j++) image.data[at + j] = paint[j];
    image.data[at + 3] = 255 * (mine ? 0.3 + 0.7 * dense : 0.12 + 0.3 * dense);
  }
  pen.putImageData(image, 0, 0);
  place.c.imageSmoothingEnabled = true;
  place.c.imageSmoothingQuality = "high";
  place.c.drawImage(small, place.x0, place.y0, place.w, place.h);
}
function drawHistogram(place, frame) {
  const { c } = place, bins = data.map.bins, n = bins[0].length, order = data.names.map((_, code) => code);
  const colors = data.names.map((_, code) => colorOf(code)), quiet = theme("grid");
  if (state.only !== null) order.sort((a, b) => (b === state.only) - (a === state.only));
  const scale = state.view === "confidence" ? scaleColors("confidence", 3).map((v) => `rgb(${v.join()})`) : null;
  for (let i = 0; i < n; i++) {
    let below = 0;
    for (const code of order) {
      const top = below + bins[code][i], y = place.y(top / frame.high[1]);
      c.fillStyle = !shown(code) ? quiet : scale ? scale[data.map.sure[code][i]] : colors[code];
      c.fillRect(place.x(i / n), y, place.w / n - (place.w / n > 3 ? 0.5 : 0), place.y(below / frame.high[1]) - y);
      below = top;
    }
  }
  const middle = data.map.spots.map((spot) => spot && [spot[0], frame.high[1] * 0.97]);
  drawNames(place, middle, frame);
}
function drawGraph() {
  const { frame } = data.graph, axes = data.map.kind === "histogram" ? [data.map.axes[0], "rows it stands for"] : data.map.axes;
  const place = (graphPlace = newCanvas("graph", frame, axes)), { c } = place, { xy, codes, sizes, ties, strength } = graphData;
  const at = (i) => [place.x(xy[2 * i] / 65535), place.y(xy[2 * i + 1] / 65535)];
  const colors = data.names.map((_, code) => colorOf(code)), ink = theme("ink"), faint = theme("faint");
  const order = Array.from(strength, (_, i) => i), crosses = (i) => codes[ties[2 * i]] !== codes[ties[2 * i + 1]];
  order.sort((a, b) => crosses(a) - crosses(b) || strength[a] - strength[b]);
  const calm = data.map.kind === "histogram" ? 0.35 : 1;  // there lines say little and cross much
  for (const i of order) {
    const a = ties[2 * i], b = ties[2 * i + 1], lit = shown(codes[a]) || shown(codes[b]);
    c.globalAlpha = !lit ? 0.15 : calm * ((crosses(i) ? 0.12 : 0.25) + 0.55 * (strength[i] / 255));
    c.strokeStyle = !lit ? faint : crosses(i) ? ink : colors[codes[a]];
    c.lineWidth = crosses(i) ? 1.2 : 1;
    c.beginPath();
    c.moveTo(...at(a));
    c.lineTo(...at(b));
    c.stroke();
  }
  const base = c.getTransform(), marks = data.marks.map((d) => new Path2D(d)), crowd = Math.max(0.45, Math.min(1, Math.sqrt(500 / codes.length)));
  for (let i = 0; i < codes.length; i++) {
    const [x, y] = at(i), size = (0.35 + 0.75 * (sizes[i] / 255)) * place.scale * crowd;
    c.globalAlpha = shown(codes[i]) ? 1 : 0.35;
    c.fillStyle = shown(codes[i]) ? colors[codes[i]] : faint;
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * x, base.d * y);
    c.fill(marks[codes[i] % marks.length]);
  }
  c.setTransform(base);
  c.globalAlpha = 1;
}

// What lies under the pointer: [cluster, text] or null.
function underMap(x, y) {
  const share = [(x - mapPlace.x0) / mapPlace.w, 1 - (y - mapPlace.y0) / mapPlace.h], { kind, frame } = data.map;
  if (share.some((s) => s < 0 || s >= 1)) return null;
  if (kind === "points") return nearest(mapPlace, mapData.xy, mapData.codes, x, y, 10, (i) =>
    mapData.confidence ? "confidence " + (mapData.confidence[i] / 255).toFixed(2) : "");
  if (kind === "histogram") {
    const bin = Math.floor(share[0] * frame.cells[0]), column = data.map.bins.map((row) => row[bin]);
    const most = column.indexOf(Math.max(...column));
    return column[most] ? [most, column.map((v, code) => (v ? `${nameOf(code)}: ${count(v)}` : "")).filter(Boolean).slice(0, 6).join("\n")] : null;
  }
  const cell = Math.floor(share[1] * frame.cells[1]) * frame.cells[0] + Math.floor(share[0] * frame.cells[0]), found = [];
  for (let e = mapData.first[cell]; e < mapData.first[cell + 1]; e++) {
    const n = mapData.counts[e], sure = mapData.confidence ? `, confidence ${(mapData.confidence[e] / 255).toFixed(2)}` : "";
    found.push([mapData.codes[e], n, `${nameOf(mapData.codes[e])}: ${n > 20 ? "about " : ""}${count(n > 100 ? +n.toPrecision(2) : n)}${sure}`]);
  }
  found.sort((a, b) => b[1] - a[1]);
  return found.length ? [found[0][0], found.slice(0, 5).map((f) => f[2]).join("\n")] : null;
}
function nearest(place, xy, codes, x, y, reach, more) {
  let best = reach * reach, found = -1;
  for (let i = 0; i < codes.length; i++) {
    const far = (place.x(xy[2 * i] / 65535) - x) ** 2 + (place.y(xy[2 * i + 1] / 65535) - y) ** 2;
    if (far < best && shown(codes[i])) [best, found] = [far, i];
  }
  return found < 0 ? null : [codes[found], [nameOf(codes[found]), more(found)].filter(Boolean).join("\n")];
}
const underGraph = (x, y) => nearest(graphPlace, graphData.xy, graphData.codes, x, y, 12, (i) => `stands for about ${count(data.graph.rows[i])}`);

function pointable(id, under) {
  const canvas = $(id), tip = $("tip"), find = (event) => {
    const box = canvas.getBoundingClientRect();
    return under(event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = find(event);
    tip.hidden = !found;
    canvas.style.cursor = found ? "pointer" : "";
    if (!found) return;
    tip.textContent = found[1];
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - box.width - 10)) + "px";
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const found = find(event);
    if (found) choose(found[0]);
    else if (state.only !== null) choose(state.only);
  });
}

function drawAll() {
  for (const draw of [drawMap, drawGraph, drawEigen, drawSizes]) draw();
  if (data.levels) for (const draw of [drawLevels, drawSpread]) draw();
  if (data.agreement) drawAgreement();
}
function choose(code) { // one cluster alone, or all again
  state.only = state.only === code ? null : code;
  for (const key of document.querySelectorAll(".key")) {
    const mine = Number(key.dataset.code);
    key.setAttribute("aria-pressed", String(state.only === mine));
    key.classList.toggle("off", !shown(mine));
  }
  $("only").hidden = state.only === null;
  if (state.only !== null) $("only").firstElementChild.textContent = `Only ${nameOf(state.only).toLowerCase()} is shown`;
  drawAll();
}

for (const key of document.querySelectorAll(".key")) key.addEventListener("click", () => choose(Number(key.dataset.code)));
for (const input of document.querySelectorAll("input[name=view]")) {
  input.addEventListener("change", () => {
    state.view = input.value;
    $("confidence-scale").hidden = state.view !== "confidence";
    drawMap();
  });
}
$("only").lastElementChild.addEventListener("click", () => choose(state.only));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.only !== null) choose(state.only); });
root.addEventListener("themechange", drawAll);
$("copy").addEventListener("click", async () => {
  const range = document.createRange();
  range.selectNodeContents($("code"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  let done = false;
  try { await navigator.clipboard.writeText($("code").textContent); done = true; } catch { done = document.execCommand("copy"); }
  $("copy").textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
});
let width = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  drawAll();
}).observe(document.body);
pointable("map", underMap);
pointable("graph", underGraph);
drawAll();
