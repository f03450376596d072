// The map: rows as points or as a raster that sharpens as one zooms; zoom, pan, lasso; names without overlap.
const font = (weight, size) => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
const MARKED = 4000; // up to this number of rows, each is drawn with the marker of its cluster
const frame = data.map.frame;
const zoom = { x: 0, y: 0, scale: 1 }; // corner and size of what is seen: shares of the frame
let mapArea = null, tool = "pan";

function unpackRaster(part) { // levels of a raster, each half as fine as the one before
  if (!part) return null;
  const logs = unpackBytes(part.counts);
  const keys = unpackSteps(part.steps, logs.length);
  const top = Math.log1p(part.most);
  const level = { w: part.cells[0], h: part.cells[1], extent: part.extent, cell: new Uint32Array(logs.length), code: new Uint16Array(logs.length), count: new Float32Array(logs.length) };
  for (let i = 0; i < logs.length; i++) {
    level.cell[i] = Math.floor(keys[i] / part.n);
    level.code[i] = keys[i] % part.n;
    level.count[i] = Math.max(1, Math.expm1((logs[i] / 255) * top));
  }
  const levels = [level];
  while (levels[0].w > 200) levels.unshift(halve(levels[0], part.n));
  for (const each of levels) {
    const totals = new Float32Array(each.w * each.h);
    for (let i = 0; i < each.cell.length; i++) totals[each.cell[i]] += each.count[i];
    each.most = totals.reduce((a, b) => Math.max(a, b), 1);
  }
  return levels;
}
function halve(fine, n) {
  const w = Math.ceil(fine.w / 2), h = Math.ceil(fine.h / 2);
  const sums = new Map();
  for (let i = 0; i < fine.cell.length; i++) {
    const x = (fine.cell[i] % fine.w) >> 1, y = Math.floor(fine.cell[i] / fine.w) >> 1;
    const key = (y * w + x) * n + fine.code[i];
    sums.set(key, (sums.get(key) || 0) + fine.count[i]);
  }
  const keys = Float64Array.from(sums.keys()).sort();
  return {
    w, h, extent: [(fine.extent[0] * 2 * w) / fine.w, (fine.extent[1] * 2 * h) / fine.h],
    cell: Uint32Array.from(keys, (key) => Math.floor(key / n)), code: Uint16Array.from(keys, (key) => key % n), count: Float32Array.from(keys, (key) => sums.get(key)),
  };
}
const unitRaster = unpackRaster(data.raster);
for (const labeling of data.labelings) labeling.levels = unpackRaster(labeling.raster);

// An area is where the frame lies on a blank canvas: its corner x0, y0 and its size w, h. x and y turn shares of the
// frame into pixels.
function newArea(id, frame, axes, view = { x: 0, y: 0, scale: 1 }) {
  const canvas = $(id);
  const width = Math.max(240, canvas.parentElement.clientWidth);
  const named = axes[0] !== "";
  const left = named ? 50 : 1, right = named ? 8 : 1, top = named ? 22 : 1, bottom = named ? 44 : 1;
  const free = width - left - right;
  const ratio = frame.equal ? (frame.high[1] - frame.low[1]) / (frame.high[0] - frame.low[0]) : clamp(420 / width, 0.5, 0.75);
  const h = Math.min(free * ratio, data.map.height || 640);
  const w = frame.equal ? h / ratio : free;
  const height = h + top + bottom;
  const dpr = Math.max(1, window.devicePixelRatio || 1);
  const wide = Math.round(width * dpr), high = Math.round(height * dpr);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const c = canvas.getContext("2d");
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.clearRect(0, 0, width, height);
  const x0 = left + Math.max(0, (free - w) / 2);
  const area = {
    c, x0, y0: top, w, h, dpr,
    scale: clamp(w / 620, 0.55, 1.15), // of markers
    x: (share) => x0 + ((share - view.x) / view.scale) * w,
    y: (share) => top + (1 - (share - view.y) / view.scale) * h,
    shareX: (x) => view.x + ((x - x0) / w) * view.scale,
    shareY: (y) => view.y + (1 - (y - top) / h) * view.scale,
  };
  if (named) drawAxes(area, frame, axes, width, view);
  return area;
}
function drawAxes(area, frame, axes, width, view) {
  const { c, x0, y0, w, h } = area;
  const size = [0, 1].map((i) => frame.high[i] - frame.low[i]);
  const low = [frame.low[0] + view.x * size[0], frame.low[1] + view.y * size[1]];
  const high = low.map((v, i) => v + view.scale * size[i]);
  const share = (v, i) => (v - frame.low[i]) / size[i];
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
  for (const v of ticks(low[0], high[0], w / 64)) {
    const x = Math.round(area.x(share(v, 0))) + 0.5;
    c.moveTo(x, y0);
    c.lineTo(x, y0 + h);
    c.fillText(formatTick(v), x, y0 + h + 17);
  }
  c.textAlign = "right";
  for (const v of ticks(low[1], high[1], h / 70)) {
    const y = Math.round(area.y(share(v, 1))) + 0.5;
    c.moveTo(x0, y);
    c.lineTo(x0 + w, y);
    c.fillText(formatTick(v), x0 - 8, y + 4);
  }
  c.stroke();
  c.fillText(fit(plain(axes[0]), w), x0 + w, y0 + h + 37);
  c.textAlign = "left";
  c.fillText(fit(plain(axes[1]), width - 20), Math.max(0, x0 - 42), 11);
}

// The colour of each drawn row: by cluster, or a number from 0 to 255 on a scale; -1 if it is missing.
function rowColors() {
  if (state.color === "cluster") return null;
  const codes = new Int16Array(drawn.n);
  if (state.color === "sure") for (let i = 0; i < drawn.n; i++) codes[i] = current.sure[i];
  else if (state.color === "confidence") codes.set(drawn.confidence);
  else if (state.color === "odd") for (let i = 0; i < drawn.n; i++) codes[i] = clamp((drawn.odd[i] - 12) * 3, 0, 255);
  else {
    const column = drawn.columns[Number(state.color)];
    column.ranks ||= rankColors(column.codes);
    codes.set(column.ranks);
  }
  return codes;
}
function rankColors(codes) { // colours by rank, so that a few large values do not hide the others
  const known = codes.filter((code) => code < 65535).sort();
  const first = new Map();
  known.forEach((code, i) => { if (!first.has(code)) first.set(code, i); });
  return Int16Array.from(codes, (code) => (code === 65535 ? -1 : Math.round((255 * first.get(code)) / Math.max(1, known.length - 1))));
}
const scaleOf = () => (state.color === "sure" || state.color === "confidence" ? scaleColors("confidence", 3) : scaleColors("feature", 5));

function drawMap() {
  mapArea = newArea("map", frame, data.map.axes, zoom);
  const { c, x0, y0, w, h } = mapArea;
  c.save();
  c.beginPath();
  c.rect(x0, y0, w, h);
  c.clip();
  const levels = current.view.kind === "labeling" ? data.labelings[current.view.at].levels : unitRaster;
  const isRaster = levels && state.color === "cluster" && !state.selected;
  if (isRaster) drawRaster(mapArea, levels);
  else if (drawn.n <= MARKED) drawMarkers(mapArea);
  else drawPixels(mapArea);
  drawLasso(mapArea);
  c.restore();
  drawNames(mapArea);
}
function drawMarkers({ c, x, y, scale }) {
  const { xy, n, outside } = drawn;
  const labels = current.labels;
  const size = clamp(Math.sqrt(600 / n), 0.3, 0.95) * scale * clamp(Math.sqrt(1 / zoom.scale), 1, 2.5);
  const colors = rowColors();
  const scaled = colors && scaleOf().map(css);
  const markers = data.markers.map((path) => new Path2D(path));
  const faint = theme("faint");
  const base = c.getTransform();
  const draw = (i, color) => {
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * x(xy[2 * i] / 65535), base.d * y(xy[2 * i + 1] / 65535));
    c.fillStyle = color;
    c.fill(markers[labels[i] % markers.length]);
  };
  const isOff = (i) => !isShown(labels[i]) || (state.selected && !state.selected[i]);
  c.globalAlpha = 0.5;
  if (state.only !== null || state.selected) for (let i = 0; i < n; i++) if (!outside[i] && isOff(i)) draw(i, faint);
  c.globalAlpha = 0.85;
  const step = 7919 % n === 0 ? 1 : 7919; // a mixed order, so that no cluster lies on top of the others
  for (let j = 0, i = 0; j < n; j++, i = (i + step) % n) {
    if (!outside[i] && !isOff(i)) draw(i, !colors ? colorOf(labels[i]) : colors[i] < 0 ? faint : scaled[colors[i]]);
  }
  c.globalAlpha = 1;
  c.setTransform(base);
}
let pixelImage = null;
const pixelCanvas = document.createElement("canvas");
function drawPixels(area) { // many rows: squares of pixels, written into an image
  const { c, dpr } = area;
  const w = Math.round(area.w * dpr), h = Math.round(area.h * dpr);
  if (!pixelImage || pixelImage.width !== w || pixelImage.height !== h) pixelImage = new ImageData(w, h);
  const pixels = new Uint32Array(pixelImage.data.buffer);
  pixels.fill(0);
  const { xy, n, outside } = drawn;
  const labels = current.labels;
  const word = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
  const faint = word(rgb(theme("faint")));
  const byCluster = Uint32Array.from(current.sizes, (_, code) => (isShown(code) ? word(rgb(colorOf(code))) : faint));
  const colors = rowColors();
  const byValue = colors && Uint32Array.from(scaleOf(), word);
  const size = Math.max(1, Math.round(clamp(Math.sqrt(60000 / n), 1, 3) * dpr * clamp(Math.sqrt(1 / zoom.scale), 1, 2.5)));
  const half = size >> 1;
  const stepX = w / 65535 / zoom.scale, stepY = h / 65535 / zoom.scale;
  const startX = (-zoom.x / zoom.scale) * w, startY = h + (zoom.y / zoom.scale) * h;
  const paint = (i, color) => {
    const x = Math.round(startX + xy[2 * i] * stepX) - half, y = Math.round(startY - xy[2 * i + 1] * stepY) - half;
    if (x < 0 || y < 0 || x + size > w || y + size > h) return;
    for (let b = 0, at = y * w + x; b < size; b++, at += w) for (let a = 0; a < size; a++) pixels[at + a] = color;
  };
  const hides = state.only !== null || state.selected;
  if (hides) for (let i = 0; i < n; i++) if (!outside[i]) paint(i, faint);
  const step = 7919 % n === 0 ? 1 : 7919;
  for (let j = 0, i = 0; j < n; j++, i = (i + step) % n) {
    if (outside[i] || (hides && (!isShown(labels[i]) || (state.selected && !state.selected[i])))) continue;
    paint(i, !colors ? byCluster[labels[i]] : colors[i] < 0 ? faint : byValue[colors[i]]);
  }
  pixelCanvas.width = w;
  pixelCanvas.height = h;
  pixelCanvas.getContext("2d").putImageData(pixelImage, 0, 0);
  c.imageSmoothingEnabled = false;
  c.drawImage(pixelCanvas, area.x0, area.y0, area.w, area.h);
}
function rasterLevel(levels) { // the coarsest level with about one cell per two pixels of what is seen
  const needed = (mapArea.w * Math.min(2, mapArea.dpr)) / zoom.scale / 2;
  return levels.find((level) => level.w >= needed) || levels[levels.length - 1];
}
function drawRaster(area, levels) {
  const level = rasterLevel(levels);
  const { w, h, cell, code, count, extent } = level;
  const groups = current.view.kind === "labeling" ? null : current.groups;
  const red = new Float32Array(current.sizes.length), green = red.slice(), blue = red.slice();
  current.sizes.forEach((_, k) => { [red[k], green[k], blue[k]] = rgb(colorOf(k)); });
  const only = state.only;
  const faint = rgb(theme("faint"));
  const low = [Math.floor((zoom.x / extent[0]) * w), Math.floor((zoom.y / extent[1]) * h)];
  const high = [Math.ceil(((zoom.x + zoom.scale) / extent[0]) * w), Math.ceil(((zoom.y + zoom.scale) / extent[1]) * h)];
  const x1 = clamp(low[0], 0, w - 1), y1 = clamp(low[1], 0, h - 1), x2 = clamp(high[0], x1 + 1, w), y2 = clamp(high[1], y1 + 1, h);
  const wide = x2 - x1, tall = y2 - y1;
  const small = document.createElement("canvas");
  small.width = wide;
  small.height = tall;
  const pen = small.getContext("2d");
  const image = pen.createImageData(wide, tall);
  const top = Math.log1p(level.most);
  let e = 0, end = cell.length; // entries are sorted by cell
  while (e < end) { const middle = (e + end) >> 1; if (cell[middle] < y1 * w) e = middle + 1; else end = middle; }
  while (e < cell.length) {
    const at = cell[e], y = Math.floor(at / w), x = at % w;
    if (y >= y2) break;
    let all = 0, shown = 0, r = 0, g = 0, b = 0;
    for (; e < cell.length && cell[e] === at; e++) {
      const group = groups ? groups[code[e]] : code[e], n = count[e];
      all += n;
      if (only !== null && only !== group) continue;
      shown += n;
      r += n * red[group];
      g += n * green[group];
      b += n * blue[group];
    }
    if (x < x1 || x >= x2) continue;
    const to = 4 * ((tall - 1 - (y - y1)) * wide + (x - x1));
    const density = Math.log1p(shown || all) / top;
    image.data[to] = shown ? r / shown : faint[0];
    image.data[to + 1] = shown ? g / shown : faint[1];
    image.data[to + 2] = shown ? b / shown : faint[2];
    image.data[to + 3] = 255 * (shown ? 0.35 + 0.65 * density : 0.12 + 0.3 * density);
  }
  pen.putImageData(image, 0, 0);
  const left = area.x((x1 / w) * extent[0]), right = area.x((x2 / w) * extent[0]);
  const bottom = area.y((y1 / h) * extent[1]), above = area.y((y2 / h) * extent[1]);
  area.c.imageSmoothingEnabled = (right - left) / wide < 2.5; // cells that are seen one by one have sharp edges
  area.c.drawImage(small, left, above, right - left, bottom - above);
}

// Names: in a dense part of the cluster, beside it if it is small, never over another name.
const COLUMNS = 32, LINES = 24;
function namePlaces() { // for each cluster the densest cell of a coarse grid of what is seen, its centre and reach
  const k = current.sizes.length;
  const grid = new Float32Array(k * COLUMNS * LINES);
  const sums = new Float64Array(k * 5);
  const { xy, n, outside } = drawn;
  const step = Math.max(1, Math.floor(n / 40000));
  for (let i = 0; i < n; i += step) {
    if (outside[i]) continue;
    const x = (xy[2 * i] / 65535 - zoom.x) / zoom.scale, y = (xy[2 * i + 1] / 65535 - zoom.y) / zoom.scale;
    if (x < 0 || y < 0 || x >= 1 || y >= 1) continue;
    const code = current.labels[i];
    grid[(code * LINES + Math.floor(y * LINES)) * COLUMNS + Math.floor(x * COLUMNS)]++;
    const at = 5 * code;
    sums[at]++;
    sums[at + 1] += x;
    sums[at + 2] += y;
    sums[at + 3] += x * x;
    sums[at + 4] += y * y;
  }
  return Array.from({ length: k }, (_, code) => {
    const [count, sx, sy, sxx, syy] = sums.subarray(5 * code, 5 * code + 5);
    if (!count) return null;
    let best = -1, most = 0;
    for (let y = 0; y < LINES; y++) {
      for (let x = 0; x < COLUMNS; x++) {
        const at = (code * LINES + y) * COLUMNS + x;
        if (!grid[at]) continue;
        let near = 2 * grid[at];
        if (x > 0) near += grid[at - 1];
        if (x < COLUMNS - 1) near += grid[at + 1];
        if (y > 0) near += grid[at - COLUMNS];
        if (y < LINES - 1) near += grid[at + COLUMNS];
        if (near > most) [most, best] = [near, y * COLUMNS + x];
      }
    }
    return {
      x: ((best % COLUMNS) + 0.5) / COLUMNS, y: (Math.floor(best / COLUMNS) + 0.5) / LINES, middle: [sx / count, sy / count],
      reach: [1.9 * Math.sqrt(Math.max(0, sxx / count - (sx / count) ** 2)), 1.9 * Math.sqrt(Math.max(0, syy / count - (sy / count) ** 2))],
    };
  });
}
function drawNames(area) {
  const { c } = area;
  const k = current.sizes.length;
  const many = k > 12;
  const size = k > 24 || area.w < 400 ? 10 : 12;
  const h = size + 6;
  const taken = (area.names = []); // centre, width, height and cluster of every name
  const places = namePlaces();
  c.font = font(650, size);
  c.textAlign = "center";
  c.textBaseline = "middle";
  const order = current.sizes.map((_, code) => code).sort((a, b) => current.sizes[b] - current.sizes[a]);
  for (const code of order) {
    const place = places[code];
    if (!place || !isShown(code)) continue;
    const name = shorten(current.names[code], 12);
    const w = Math.max(h, c.measureText(name).width + 9);
    const reach = [place.reach[0] * area.w, place.reach[1] * area.h];
    const isSmall = Math.max(...reach) < 3 * h;
    const [px, py] = isSmall ? place.middle : [place.x, place.y];
    const x = area.x0 + px * area.w, y = area.y0 + (1 - py) * area.h;
    const up = reach[1] + h / 2 + 3, aside = reach[0] + w / 2 + 3;
    const beside = [[x, y - up], [x, y + up], [x + aside, y], [x - aside, y]];
    const boxes = (isSmall ? beside : [[x, y], [x, y - 1.5 * h], [x, y + 1.5 * h], ...(many ? beside : [])]).map(([left, top]) => [
      clamp(left, area.x0 + w / 2, area.x0 + area.w - w / 2),
      clamp(top, area.y0 + h / 2, area.y0 + area.h - h / 2), w, h]);
    const overlap = (a, b) => Math.abs(a[0] - b[0]) < (a[2] + b[2]) / 2 && Math.abs(a[1] - b[1]) < (a[3] + b[3]) / 2;
    const free = boxes.find((box) => !taken.some((other) => overlap(box, other)));
    if (!free) continue; // the list and the pointer still show the name
    const [left, top] = free;
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

// What lies under the pointer: [cluster, text] or null.
function nearest(area, points, labels, x, y, reach, describe) { // the nearest marker that is shown
  let least = reach * reach;
  let found = -1;
  for (let i = 0; i < labels.length; i++) {
    const squared = (area.x(points[2 * i] / 65535) - x) ** 2 + (area.y(points[2 * i + 1] / 65535) - y) ** 2;
    if (squared < least && isShown(labels[i])) [least, found] = [squared, i];
  }
  return found < 0 ? null : [labels[found], [nameOf(labels[found]), describe(found)].filter(Boolean).join("\n")];
}
function describeRow(i) {
  const lines = [`row ${drawn.rows[i].toLocaleString("en")}`];
  if (current.sure[i] < 255) lines.push(`${Math.round(current.sure[i] / 2.55)} % of its weight is here`);
  if (drawn.odd[i] > 60) lines.push(`${(drawn.odd[i] / 24).toFixed(1)} times as far from its representative as usual`);
  if (drawn.confidence) lines.push(`confidence ${(drawn.confidence[i] / 255).toFixed(2)}`);
  for (const column of drawn.columns.slice(0, 4)) lines.push(`${shorten(data.profile.names[column.column], 24)}: ${formatValue(valueOf(column, i))}`);
  return lines.join("\n");
}
function valueOf(column, i) {
  return column.codes[i] === 65535 ? NaN : column.low + (column.codes[i] / 65534) * (column.high - column.low);
}
function underMap(x, y) {
  if (x < mapArea.x0 || y < mapArea.y0 || x > mapArea.x0 + mapArea.w || y > mapArea.y0 + mapArea.h) return null;
  const levels = current.view.kind === "labeling" ? data.labelings[current.view.at].levels : unitRaster;
  if (!levels || state.color !== "cluster" || state.selected) return nearest(mapArea, drawn.xy, current.labels, x, y, 10, describeRow);
  const level = rasterLevel(levels);
  const cell = Math.floor((mapArea.shareY(y) / level.extent[1]) * level.h) * level.w + Math.floor((mapArea.shareX(x) / level.extent[0]) * level.w);
  let e = 0, end = level.cell.length;
  while (e < end) { const middle = (e + end) >> 1; if (level.cell[middle] < cell) e = middle + 1; else end = middle; }
  const counts = new Map();
  for (; e < level.cell.length && level.cell[e] === cell; e++) {
    const code = current.view.kind === "labeling" ? level.code[e] : current.groups[level.code[e]];
    counts.set(code, (counts.get(code) || 0) + level.count[e]);
  }
  const found = [...counts].sort((a, b) => b[1] - a[1]);
  const rows = (n) => (n > 20 ? "about " : "") + formatRows(n > 100 ? +n.toPrecision(2) : n);
  return found.length ? [found[0][0], found.slice(0, 6).map(([code, n]) => `${nameOf(code)}: ${rows(n)}`).join("\n")] : null;
}
// Zoom, pan and lasso.
function zoomTo(scale, x, y) { // keep the point (x, y), shares of the frame, where it is
  const next = clamp(scale, 1 / 256, 1);
  zoom.x = clamp(x - ((x - zoom.x) / zoom.scale) * next, 0, 1 - next);
  zoom.y = clamp(y - ((y - zoom.y) / zoom.scale) * next, 0, 1 - next);
  zoom.scale = next;
  $("zoom-reset").disabled = next === 1;
  setTouch();
  drawMap();
}
function pan(dx, dy) { // by shares of what is seen
  zoom.x = clamp(zoom.x + dx * zoom.scale, 0, 1 - zoom.scale);
  zoom.y = clamp(zoom.y + dy * zoom.scale, 0, 1 - zoom.scale);
  drawMap();
}
let lasso = null;
function drawLasso({ c, x, y }) {
  if (!lasso || lasso.length < 2) return;
  c.beginPath();
  lasso.forEach(([a, b], i) => (i ? c.lineTo(x(a), y(b)) : c.moveTo(x(a), y(b))));
  c.closePath();
  c.fillStyle = theme("accent");
  c.globalAlpha = 0.12;
  c.fill();
  c.globalAlpha = 1;
  c.strokeStyle = theme("accent");
  c.lineWidth = 1.5;
  c.setLineDash([5, 4]);
  c.stroke();
  c.setLineDash([]);
}
function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i], [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
function selectPolygon(polygon) {
  const chosen = new Uint8Array(drawn.n);
  let n = 0;
  for (let i = 0; i < drawn.n; i++) {
    if (!drawn.outside[i] && isShown(current.labels[i]) && isInside(polygon, drawn.xy[2 * i] / 65535, drawn.xy[2 * i + 1] / 65535)) {
      chosen[i] = 1;
      n++;
    }
  }
  setSelected(n ? chosen : null);
  if (!n) showNothingSelected();
}
function setSelected(chosen) {
  state.selected = chosen;
  if (!chosen) lasso = null;
  drawMap();
  showSelection();
}
function setTouch() { // a finger scrolls the page past the whole map, and moves a part of it
  $("map").style.touchAction = zoom.scale < 1 || tool === "lasso" ? "none" : "pan-y";
}
function setTool(name) {
  tool = name;
  for (const button of document.querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", String(button.dataset.tool === name));
  $("map").style.cursor = name === "lasso" ? "crosshair" : "grab";
  setTouch();
}
function listenToMap() {
  const canvas = $("map");
  const tip = $("tip");
  const pointers = new Map();
  let start = null, moved = false, spread = 0;
  const share = (event) => {
    const box = canvas.getBoundingClientRect();
    return [mapArea.shareX(event.clientX - box.left), mapArea.shareY(event.clientY - box.top)];
  };
  // The wheel scrolls the page until the map is in use: after a click on it or on its buttons, or with Ctrl.
  const hint = $("wheel-hint");
  const isMac = /Mac|iP(hone|ad)/.test(navigator.platform);
  let inUse = false, hintTimer = 0;
  const use = () => { inUse = true; hint.hidden = true; };
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("#map, [aria-label=Zoom], [aria-label=Tool]")) inUse = false; });
  canvas.addEventListener("wheel", (event) => {
    const isOut = event.deltaY > 0 && zoom.scale === 1;
    if (!event.ctrlKey && !event.metaKey && (isOut || !(inUse || document.activeElement === canvas))) {
      hint.textContent = `${isMac ? "⌘" : "Ctrl"} + scroll zooms the map; so does scrolling after a click on it`;
      hint.hidden = inUse;
      clearTimeout(hintTimer);
      hintTimer = setTimeout(() => { hint.hidden = true; }, 1500);
      return; // the page scrolls
    }
    event.preventDefault();
    if (isOut) return;
    use();
    zoomTo(zoom.scale * Math.exp(clamp(event.deltaY, -120, 120) / 300), ...share(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    use();
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = false;
    tip.hidden = true;
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      spread = Math.hypot(a[0] - b[0], a[1] - b[1]);
    }
    start = [event.clientX, event.clientY, zoom.x, zoom.y];
    if (tool === "lasso" || event.shiftKey) {
      lasso = [share(event)];
      state.selected = null;
    }
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return showTip(event);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const now = Math.hypot(a[0] - b[0], a[1] - b[1]);
      const box = canvas.getBoundingClientRect();
      zoomTo((zoom.scale * spread) / now, mapArea.shareX((a[0] + b[0]) / 2 - box.left), mapArea.shareY((a[1] + b[1]) / 2 - box.top));
      spread = now;
      moved = true;
      return;
    }
    if (Math.hypot(event.clientX - start[0], event.clientY - start[1]) > 4) moved = true;
    if (!moved) return;
    if (lasso && (tool === "lasso" || event.shiftKey)) {
      lasso.push(share(event));
      drawMap();
    } else if (zoom.scale < 1) {
      zoom.x = clamp(start[2] - ((event.clientX - start[0]) / mapArea.w) * zoom.scale, 0, 1 - zoom.scale);
      zoom.y = clamp(start[3] + ((event.clientY - start[1]) / mapArea.h) * zoom.scale, 0, 1 - zoom.scale);
      drawMap();
    }
  });
  const finish = (event) => {
    pointers.delete(event.pointerId);
    if (lasso && lasso.length > 2 && !state.selected) selectPolygon(lasso);
    else if (!moved && event.type === "pointerup") {
      lasso = null;
      const box = canvas.getBoundingClientRect();
      const found = underMap(event.clientX - box.left, event.clientY - box.top);
      showTip(event);
      if (found) select(found[0]);
      else if (state.only !== null) select(state.only);
      else if (state.selected) setSelected(null);
    }
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", (event) => zoomTo(zoom.scale / 2, ...share(event)));
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] };
    const middle = [zoom.x + zoom.scale / 2, zoom.y + zoom.scale / 2];
    if (moves[event.key]) pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoomTo(zoom.scale / 1.5, ...middle);
    else if (event.key === "-") zoomTo(zoom.scale * 1.5, ...middle);
    else if (event.key === "0") zoomTo(1, 0.5, 0.5);
    else if (event.key === "Enter") { // select what is seen
      lasso = [[0, 0], [1, 0], [1, 1], [0, 1]].map(([a, b]) => [zoom.x + a * zoom.scale, zoom.y + b * zoom.scale]);
      selectPolygon(lasso);
    } else return;
    event.preventDefault();
  });
  function showTip(event) {
    const box = canvas.getBoundingClientRect();
    placeTip(event, underMap(event.clientX - box.left, event.clientY - box.top));
  }
  $("zoom-in").addEventListener("click", () => zoomTo(zoom.scale / 1.7, zoom.x + zoom.scale / 2, zoom.y + zoom.scale / 2));
  $("zoom-out").addEventListener("click", () => zoomTo(zoom.scale * 1.7, zoom.x + zoom.scale / 2, zoom.y + zoom.scale / 2));
  $("zoom-reset").addEventListener("click", () => zoomTo(1, 0.5, 0.5));
  for (const button of document.querySelectorAll("[data-tool]")) button.addEventListener("click", () => setTool(button.dataset.tool));
  for (const button of document.querySelectorAll("[aria-label=Zoom] button, [data-tool]")) button.addEventListener("click", use);
  setTool("pan");
}
function placeTip(event, found) {
  const tip = $("tip");
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = plain(found[1]);
  const { width, height } = tip.getBoundingClientRect();
  const isLow = event.clientY + 18 + height > innerHeight;
  tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 10)) + "px";
  tip.style.top = (isLow ? event.clientY - height - 12 : event.clientY + 18) + "px";
}
