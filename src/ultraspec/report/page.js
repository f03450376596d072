// The map and the graph on canvas, and what readers can do.
const font = (weight, size) => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function unpackMap() {
  const map = data.map;
  if (map.kind === "histogram") return {};
  const confidence = map.confidence && unpackBytes(map.confidence);
  if (map.kind === "points") return { xy: unpackUint16(map.xy), codes: unpackUint16(map.codes), confidence };
  // a raster: entries `first[cell]` to `first[cell + 1]` have the clusters in a cell and their numbers of rows
  const k = data.names.length;
  const nCells = map.frame.cells[0] * map.frame.cells[1];
  const logs = unpackBytes(map.counts);
  const at = unpackSteps(map.steps, logs.length);
  const counts = Float64Array.from(logs, (log) => Math.max(1, Math.expm1((log / 255) * Math.log1p(map.most))));
  const first = new Uint32Array(nCells + 1);
  at.forEach((place) => first[Math.floor(place / k) + 1]++);
  for (let i = 0; i < nCells; i++) first[i + 1] += first[i];
  return { codes: Uint16Array.from(at, (place) => place % k), counts, first, confidence };
}
const mapData = unpackMap();
const graphData = {
  xy: unpackUint16(data.graph.xy),
  codes: unpackUint16(data.graph.codes),
  sizes: unpackBytes(data.graph.sizes),
  edges: unpackUint16(data.graph.edges),
  strength: unpackBytes(data.graph.strength),
};

// An area is where the frame lies on a blank canvas: its corner x0, y0 and its size w, h. x and y turn shares of the
// frame into pixels.
function newArea(id, frame, axes) {
  const canvas = $(id);
  const width = Math.max(240, canvas.parentElement.clientWidth);
  const named = axes[0] !== "";
  const left = named ? 50 : 1, right = named ? 8 : 1, top = named ? 22 : 1, bottom = named ? 44 : 1;
  const free = width - left - right;
  const ratio = frame.equal ? (frame.high[1] - frame.low[1]) / (frame.high[0] - frame.low[0]) : clamp(420 / width, 0.5, 0.75);
  const h = Math.min(free * ratio, 700);
  const w = frame.equal ? h / ratio : free;
  const height = h + top + bottom;
  const dpr = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * dpr);
  canvas.height = Math.round(height * dpr);
  const c = canvas.getContext("2d");
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.clearRect(0, 0, width, height);
  const x0 = left + Math.max(0, (free - w) / 2);
  const area = {
    c, x0, y0: top, w, h,
    scale: clamp(w / 620, 0.55, 1.15), // of markers
    x: (share) => x0 + share * w,
    y: (share) => top + (1 - share) * h,
  };
  if (named) drawAxes(area, frame, axes, width);
  return area;
}
function drawAxes(area, frame, axes, width) {
  const { c, x0, y0, w, h } = area;
  const share = (v, i) => (v - frame.low[i]) / (frame.high[i] - frame.low[i]);
  const fit = (name, most) => {
    while (name.length > 3 && c.measureText(name).width > most) name = name.slice(0, -2).trimEnd() + "…";
    return name;
  };
  c.font = font(400, 12);
  c.fillStyle = theme("muted");
  c.strokeStyle = theme("grid");
  c.lineWidth = 1;
  c.beginPath();
  c.textAlign = "center";
  for (const v of ticks(frame.low[0], frame.high[0], w / 64)) {
    const x = Math.round(area.x(share(v, 0))) + 0.5;
    c.moveTo(x, y0);
    c.lineTo(x, y0 + h);
    c.fillText(formatTick(v), x, y0 + h + 17);
  }
  c.textAlign = "right";
  for (const v of ticks(frame.low[1], frame.high[1], h / 70)) {
    const y = Math.round(area.y(share(v, 1))) + 0.5;
    c.moveTo(x0, y);
    c.lineTo(x0 + w, y);
    c.fillText(formatTick(v), x0 - 8, y + 4);
  }
  c.stroke();
  c.fillText(fit(axes[0], w), x0 + w, y0 + h + 37);
  c.textAlign = "left";
  c.fillText(fit(axes[1], width - 20), Math.max(0, x0 - 42), 11);
}

function forEachEntry(visit) { // visit(code, x, y, number of rows) for points or cells, as shares of the frame
  if (data.map.kind === "points") {
    mapData.codes.forEach((code, i) => visit(code, mapData.xy[2 * i] / 65535, mapData.xy[2 * i + 1] / 65535, 1));
    return;
  }
  const [w, h] = data.map.frame.cells;
  for (let cell = 0; cell < w * h; cell++) {
    const x = ((cell % w) + 0.5) / w, y = (Math.floor(cell / w) + 0.5) / h;
    for (let e = mapData.first[cell]; e < mapData.first[cell + 1]; e++) visit(mapData.codes[e], x, y, mapData.counts[e]);
  }
}
function clusterCenters() { // centre and half height of each cluster without its outliers, as shares of the frame
  let centers = data.names.map(() => ({ x: 0.5, y: 0.5, reach: 9 }));
  for (let pass = 0; pass < 3; pass++) { // each leaves out what is distant from the centres of the one before
    const sums = data.names.map(() => ({ n: 0, x: 0, y: 0, yy: 0 }));
    forEachEntry((code, x, y, n) => {
      const center = centers[code];
      if (Math.hypot(x - center.x, y - center.y) > 1.6 * center.reach) return;
      const total = sums[code];
      total.n += n;
      total.x += n * x;
      total.y += n * y;
      total.yy += n * y * y;
    });
    centers = sums.map(({ n, x, y, yy }, code) => {
      if (!n) return centers[code];
      const deviation = Math.sqrt(Math.max(0, yy / n - (y / n) ** 2));
      return { x: x / n, y: y / n, reach: 1.9 * deviation + 1e-3 };
    });
  }
  return centers;
}
function drawNames(area, positions, frame) { // beside clusters that a name would hide, and never over another name
  const { c } = area;
  const many = data.names.length > 12;
  const size = data.names.length > 24 || area.w < 400 ? 10 : 12;
  const h = size + 6;
  const taken = (area.names = []); // centre, width, height and cluster of every name
  if (data.map.kind !== "histogram") mapData.centers ||= clusterCenters();
  c.font = font(650, size);
  c.textAlign = "center";
  c.textBaseline = "middle";
  const order = data.names.map((_, code) => code).sort((a, b) => data.sizes[b] - data.sizes[a]);
  for (const code of order) {
    if (!positions[code] || !isShown(code)) continue;
    const name = shorten(data.names[code], 12);
    const w = Math.max(h, c.measureText(name).width + 9);
    const center = mapData.centers && mapData.centers[code];
    const reach = center ? center.reach * area.h : 1e3;
    const isSmall = reach < 3 * h;
    const at = isSmall ? [center.x, center.y] : [0, 1].map((i) => (positions[code][i] - frame.low[i]) / (frame.high[i] - frame.low[i]));
    const x = area.x(at[0]), y = area.y(at[1]), aside = reach + h / 2 + 3;
    const beside = [[x, y - aside], [x, y + aside], [x + aside + w / 4, y], [x - aside - w / 4, y]];
    const boxes = (isSmall ? beside : [[x, y], ...(many ? beside : [])]).map(([left, top]) => [
      clamp(left, area.x0 + w / 2, area.x0 + area.w - w / 2),
      clamp(top, area.y0 + h / 2, area.y0 + area.h - h / 2), w, h]);
    const overlap = (a, b) => Math.abs(a[0] - b[0]) < (a[2] + b[2]) / 2 && Math.abs(a[1] - b[1]) < (a[3] + b[3]) / 2;
    const free = boxes.find((box) => !taken.some((other) => overlap(box, other)));
    if (!free && many) continue; // the legend and the pointer still show the name
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

let mapArea = null, graphArea = null;
const confidenceColors = () => (state.view === "confidence" ? scaleColors("confidence", 3) : null);
const css = (color) => `rgb(${color.join()})`;

function drawMap() {
  const { frame, axes, kind, namePositions } = data.map;
  if (kind === "histogram") return drawHistogram();
  mapArea = newArea("map", frame, axes);
  if (kind === "points") drawPoints(mapArea);
  else drawRaster(mapArea);
  drawNames(mapArea, namePositions, frame);
}
function drawPoints({ c, x, y, scale }) {
  const { xy, codes, confidence } = mapData;
  const n = codes.length;
  const size = clamp(Math.sqrt(600 / n), 0.26, 0.95) * scale;
  const byConfidence = confidenceColors()?.map(css);
  const byCluster = data.names.map((_, code) => colorOf(code));
  const markers = data.markers.map((path) => new Path2D(path));
  const faint = theme("faint");
  const base = c.getTransform();
  const draw = (i, color) => {
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * x(xy[2 * i] / 65535), base.d * y(xy[2 * i + 1] / 65535));
    c.fillStyle = color;
    c.fill(markers[codes[i] % markers.length]);
  };
  c.globalAlpha = 0.5;
  if (state.only !== null) for (let i = 0; i < n; i++) if (codes[i] !== state.only) draw(i, faint);
  c.globalAlpha = n > 5000 ? 0.75 : 0.85;
  const step = 7919 % n === 0 ? 1 : 7919; // a mixed order, so that no cluster lies on top of the others
  for (let j = 0, i = 0; j < n; j++, i = (i + step) % n) {
    if (isShown(codes[i])) draw(i, byConfidence ? byConfidence[confidence[i]] : byCluster[codes[i]]);
  }
  c.globalAlpha = 1;
  c.setTransform(base);
}
function drawRaster(area) {
  const [w, h] = data.map.frame.cells;
  const { codes, counts, first, confidence } = mapData;
  const byConfidence = confidenceColors();
  const byCluster = data.names.map((_, code) => rgb(colorOf(code)));
  const faint = rgb(theme("faint"));
  const mostLog = Math.log1p(data.map.most);
  const small = document.createElement("canvas");
  small.width = w;
  small.height = h;
  const pen = small.getContext("2d");
  const image = pen.createImageData(w, h);
  for (let cell = 0; cell < w * h; cell++) {
    let all = 0, shown = 0, confidenceSum = 0;
    const color = [0, 0, 0];
    for (let e = first[cell]; e < first[cell + 1]; e++) {
      all += counts[e];
      if (!isShown(codes[e])) continue;
      shown += counts[e];
      if (byConfidence) confidenceSum += counts[e] * confidence[e];
      else for (let j = 0; j < 3; j++) color[j] += counts[e] * byCluster[codes[e]][j];
    }
    if (!all) continue;
    const paint = !shown ? faint : byConfidence ? byConfidence[Math.round(confidenceSum / shown)] : color.map((v) => v / shown);
    const at = 4 * ((h - 1 - Math.floor(cell / w)) * w + (cell % w));
    const density = Math.log1p(shown || all) / mostLog;
    for (let j = 0; j < 3; j++) image.data[at + j] = paint[j];
    image.data[at + 3] = 255 * (shown ? 0.3 + 0.7 * density : 0.12 + 0.3 * density);
  }
  pen.putImageData(image, 0, 0);
  area.c.imageSmoothingEnabled = true;
  area.c.imageSmoothingQuality = "high";
  area.c.drawImage(small, area.x0, area.y0, area.w, area.h);
}
function drawHistogram() {
  const { frame, axes, bins, confidence, namePositions } = data.map;
  const n = bins[0].length;
  const most = 1.05 * Math.max(1, ...bins[0].map((_, i) => sum(bins.map((row) => row[i]))));
  const seen = { low: [frame.low[0], 0], high: [frame.high[0], most], equal: false };
  const area = (mapArea = newArea("map", seen, axes));
  const byConfidence = confidenceColors()?.map(css);
  const byCluster = data.names.map((_, code) => colorOf(code));
  const hidden = theme("grid");
  const order = data.names.map((_, code) => code).sort((a, b) => (b === state.only) - (a === state.only));
  const width = area.w / n;
  for (let i = 0; i < n; i++) {
    let below = 0;
    for (const code of order) {
      const top = below + bins[code][i];
      const y = area.y(top / most);
      area.c.fillStyle = !isShown(code) ? hidden : byConfidence ? byConfidence[confidence[code][i]] : byCluster[code];
      area.c.fillRect(area.x(i / n), y, width - (width > 3 ? 0.5 : 0), area.y(below / most) - y);
      below = top;
    }
  }
  drawNames(area, namePositions.map((position) => position && [position[0], most * 0.97]), seen);
}
function drawGraph() {
  const { frame } = data.graph;
  const isHistogram = data.map.kind === "histogram";
  const area = (graphArea = newArea("graph", frame, isHistogram ? [data.map.axes[0], "rows it stands for"] : data.map.axes));
  const { c } = area;
  const { xy, codes, sizes, edges, strength } = graphData;
  const at = (i) => [area.x(xy[2 * i] / 65535), area.y(xy[2 * i + 1] / 65535)];
  const colors = data.names.map((_, code) => colorOf(code));
  const ink = theme("ink"), faint = theme("faint");
  const crosses = (i) => codes[edges[2 * i]] !== codes[edges[2 * i + 1]];
  const order = Array.from(strength, (_, i) => i).sort((a, b) => crosses(a) - crosses(b) || strength[a] - strength[b]);
  const opacity = isHistogram ? 0.35 : 1; // there lines cross often and say little
  for (const i of order) {
    const a = edges[2 * i], b = edges[2 * i + 1];
    const shown = isShown(codes[a]) || isShown(codes[b]);
    c.globalAlpha = !shown ? 0.15 : opacity * ((crosses(i) ? 0.12 : 0.25) + 0.55 * (strength[i] / 255));
    c.strokeStyle = !shown ? faint : crosses(i) ? ink : colors[codes[a]];
    c.lineWidth = crosses(i) ? 1.2 : 1;
    c.beginPath();
    c.moveTo(...at(a));
    c.lineTo(...at(b));
    c.stroke();
  }
  const base = c.getTransform();
  const markers = data.markers.map((path) => new Path2D(path));
  const shrink = clamp(Math.sqrt(500 / codes.length), 0.45, 1);
  for (let i = 0; i < codes.length; i++) {
    const [x, y] = at(i);
    const size = (0.35 + 0.75 * (sizes[i] / 255)) * area.scale * shrink;
    c.globalAlpha = isShown(codes[i]) ? 1 : 0.35;
    c.fillStyle = isShown(codes[i]) ? colors[codes[i]] : faint;
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * x, base.d * y);
    c.fill(markers[codes[i] % markers.length]);
  }
  c.setTransform(base);
  c.globalAlpha = 1;
}

// What lies under the pointer: [cluster, text] or null.
function underMap(x, y) {
  const { kind, frame, bins } = data.map;
  const share = [(x - mapArea.x0) / mapArea.w, 1 - (y - mapArea.y0) / mapArea.h];
  if (share.some((s) => s < 0 || s >= 1)) return null;
  const confidence = (i) => (mapData.confidence ? "confidence " + (mapData.confidence[i] / 255).toFixed(2) : "");
  if (kind === "points") return nearest(mapArea, mapData, x, y, 10, confidence);
  const column = Math.floor(share[0] * frame.cells[0]);
  let found = []; // cluster, number of rows and text
  if (kind === "histogram") {
    found = bins.map((row, code) => [code, row[column], `${nameOf(code)}: ${formatRows(row[column])}`]);
    found = found.filter(([, n]) => n > 0);
  } else {
    const cell = Math.floor(share[1] * frame.cells[1]) * frame.cells[0] + column;
    for (let e = mapData.first[cell]; e < mapData.first[cell + 1]; e++) {
      const n = mapData.counts[e];
      const rows = (n > 20 ? "about " : "") + formatRows(n > 100 ? +n.toPrecision(2) : n);
      found.push([mapData.codes[e], n, [`${nameOf(mapData.codes[e])}: ${rows}`, confidence(e)].filter(Boolean).join(", ")]);
    }
  }
  found.sort((a, b) => b[1] - a[1]);
  return found.length ? [found[0][0], found.slice(0, 6).map(([, , text]) => text).join("\n")] : null;
}
function nearest(area, { xy, codes }, x, y, reach, describe) { // the nearest marker that is shown
  let least = reach * reach;
  let found = -1;
  for (let i = 0; i < codes.length; i++) {
    const squared = (area.x(xy[2 * i] / 65535) - x) ** 2 + (area.y(xy[2 * i + 1] / 65535) - y) ** 2;
    if (squared < least && isShown(codes[i])) [least, found] = [squared, i];
  }
  return found < 0 ? null : [codes[found], [nameOf(codes[found]), describe(found)].filter(Boolean).join("\n")];
}
function underGraph(x, y) {
  return nearest(graphArea, graphData, x, y, 12, (i) => `stands for about ${formatRows(data.graph.rows[i])}`);
}
function followPointer(id, under) { // a tip shows what is under the pointer, a click selects its cluster
  const canvas = $(id), tip = $("tip");
  const find = (event) => {
    const box = canvas.getBoundingClientRect();
    return under(event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = find(event);
    tip.hidden = !found;
    canvas.style.cursor = found ? "pointer" : "";
    if (!found) return;
    tip.textContent = found[1];
    const { width, height } = tip.getBoundingClientRect();
    const isLow = event.clientY + 18 + height > innerHeight;
    tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 10)) + "px";
    tip.style.top = (isLow ? event.clientY - height - 12 : event.clientY + 18) + "px";
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const found = find(event);
    if (found) select(found[0]);
    else if (state.only !== null) select(state.only);
  });
}

function drawAll() {
  const draws = [drawMap, drawGraph, drawEigenvalues, drawSizes];
  if (data.levels) draws.push(drawConfidenceOfAll, drawConfidenceByCluster);
  if (data.agreement) draws.push(drawAgreement);
  for (const draw of draws) draw();
}
function select(code) { // show one cluster alone, or all again
  state.only = state.only === code ? null : code;
  for (const key of document.querySelectorAll(".key")) {
    const own = Number(key.dataset.code);
    key.setAttribute("aria-pressed", String(state.only === own));
    key.classList.toggle("off", !isShown(own));
  }
  $("only").hidden = state.only === null;
  if (state.only !== null) $("only").firstElementChild.textContent = `Only ${nameOf(state.only).toLowerCase()} is shown`;
  drawAll();
}

for (const key of document.querySelectorAll(".key")) key.addEventListener("click", () => select(Number(key.dataset.code)));
for (const input of document.querySelectorAll("input[name=view]")) {
  input.addEventListener("change", () => {
    state.view = input.value;
    $("confidence-scale").hidden = state.view !== "confidence";
    drawMap();
  });
}
$("only").lastElementChild.addEventListener("click", () => select(state.only));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.only !== null) select(state.only); });
root.addEventListener("themechange", drawAll);
$("copy").addEventListener("click", async () => {
  const range = document.createRange();
  range.selectNodeContents($("code"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  let done = false;
  try {
    await navigator.clipboard.writeText($("code").textContent);
    done = true;
  } catch {
    done = document.execCommand("copy"); // browsers allow the clipboard on secure pages only
  }
  $("copy").textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
});
let drawnWidth = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === drawnWidth) return;
  drawnWidth = document.body.clientWidth;
  drawAll();
}).observe(document.body);
followPointer("map", underMap);
followPointer("graph", underGraph);
drawAll();
