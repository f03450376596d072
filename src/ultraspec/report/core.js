"use strict";
// Packed arrays, formats and colours; the state of the page; the clusters that a cut gives.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const themeColors = new Map(); // by name, until the theme changes
function theme(name) {
  if (!themeColors.has(name)) themeColors.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return themeColors.get(name);
}
const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
const css = (color) => `rgb(${color.join()})`;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const plain = (text) => String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, ""); // marks that turn the text around them
const shorten = (name, most) => (plain(name).length > most ? plain(name).slice(0, most - 1) + "…" : plain(name));
const formatRows = (n) => Math.round(n).toLocaleString("en") + (Math.round(n) === 1 ? " row" : " rows");
const formatShare = (share) => (share > 0 && share < 0.0005 ? "<0.1 %" : (100 * share).toFixed(1) + " %");
const formatValue = (v) => (v === null || Number.isNaN(v) ? "–" : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(+v.toPrecision(4)));

function unpackBytes(text) {
  const letters = atob(text);
  const out = new Uint8Array(letters.length);
  for (let i = 0; i < out.length; i++) out[i] = letters.charCodeAt(i);
  return out;
}
const unpack = (Kind, text) => new Kind(unpackBytes(text).buffer); // all computers with a browser are little-endian
function unpackSteps(text, n) { // integers of seven bits per byte, summed up
  const bytes = unpackBytes(text);
  const out = new Float64Array(n);
  for (let i = 0, at = 0, total = 0; i < n; i++) {
    let factor = 1;
    let more;
    do {
      more = bytes[at] & 128;
      total += (bytes[at++] & 127) * factor;
      factor *= 128;
    } while (more);
    out[i] = total;
  }
  return out;
}
function unpackEdges(part) { // rows by unit; rows between units have K edges each, by which they vote
  const n = part.n, borders = part.borders;
  return {
    n, K: part.K, unit: unpack(Uint16Array, part.unit),
    border: Uint32Array.from(unpackSteps(part.border, borders)),
    ids: unpack(Uint16Array, part.ids), weights: unpack(Float32Array, part.weights),
  };
}
function scaleColors(name, n) { // 256 colours along a scale of n stops
  const stops = Array.from({ length: n }, (_, i) => rgb(theme(name + i)));
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (n - 1);
    const low = Math.min(Math.floor(at), n - 2);
    return stops[low].map((c, j) => Math.round(c + (stops[low + 1][j] - c) * (at - low)));
  });
}
let palette = [];
function readPalette() {
  themeColors.clear();
  palette = Array.from({ length: data.colors }, (_, i) => theme("c" + i));
}
let colorSlots = []; // colours of the clusters, if there are more clusters than colours
const colorOf = (code) => palette[(colorSlots[code] ?? code) % data.colors];
// Elements are made here, never from text with markup: names come from users.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key === "style") element.style.cssText = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, plain(value));
  }
  for (const child of children.flat()) if (child !== null) element.append(child instanceof Node ? child : plain(child));
  return element;
}
const isolated = (name, most) => make("bdi", {}, shorten(name, most)); // in a sentence: letters written from right to left move nothing else
function breakable(name) { // a long name may continue on the next line after these
  return plain(name).split(/(?<=[_.:/-])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));
}
function marker(code) {
  const picture = svg(document.createDocumentFragment(), "svg", { viewBox: "-6 -6 12 12", "aria-hidden": true, class: "mark" });
  svg(picture, "path", { d: data.markers[code % data.markers.length], fill: colorOf(code) });
  return picture;
}
function svg(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== null) element.textContent = plain(text);
  parent.appendChild(element);
  return element;
}

// What is shown: a cut into ks[at] clusters, a cut at nodes of the tree, or labels that were passed in.
const state = { view: { kind: "cut", at: data.cuts.own }, only: null, color: "cluster", selected: null };
if (data.start === "labeling") state.view = { kind: "labeling", at: 0 };
const nUnits = data.units;
const cutGroups = unpack(Uint16Array, data.cuts.groups);
const drawn = { ...unpackEdges(data.drawn), xy: unpack(Uint16Array, data.drawn.xy), odd: unpackBytes(data.drawn.odd) };
drawn.rows = unpackSteps(data.drawn.rows, drawn.n);
drawn.outside = new Uint8Array(drawn.n);
for (const i of unpack(Uint32Array, data.drawn.outside)) drawn.outside[i] = 1;
drawn.confidence = data.drawn.confidence && unpackBytes(data.drawn.confidence);
drawn.columns = data.drawn.columns.map((column) => ({ ...column, codes: unpack(Uint16Array, column.values) }));
drawn.described = (data.drawn.described || []).map((column) => ({ ...column, codes: column.codes && unpackBytes(column.codes) }));
for (const labeling of data.labelings) labeling.codes = unpack(Uint16Array, labeling.codes);
const tree = data.tree && { ...data.tree, leaf: unpackBytes(data.tree.leaf), patterns: unpackBytes(data.tree.patterns) };
if (tree) {
  tree.L = tree.merges.length + 1;
  tree.parent = new Int32Array(2 * tree.L - 1).fill(-1);
  tree.merges.forEach(([a, b], t) => { tree.parent[a] = tree.parent[b] = tree.L + t; });
  tree.below = Array.from({ length: tree.L }, (_, leaf) => [leaf]);
  for (const [a, b] of tree.merges) tree.below.push(tree.below[a].concat(tree.below[b]));
  // a node is a cluster of the horizontal cuts into `from` to `to` clusters
  tree.from = new Int32Array(2 * tree.L - 1).fill(1);
  tree.to = new Int32Array(2 * tree.L - 1).fill(tree.L);
  tree.merges.forEach(([a, b], t) => {
    tree.from[a] = tree.from[b] = tree.L - t;
    tree.to[tree.L + t] = tree.L - t - 1;
  });
  tree.treeCut = (k) => { // the nodes that a horizontal cut makes clusters
    const nodes = [];
    for (let node = 0; node < 2 * tree.L - 1; node++) if (tree.from[node] <= k && k <= tree.to[node]) nodes.push(node);
    return nodes;
  };
}
const PATTERN_LEAVES = 6, RECORD = 1 + PATTERN_LEAVES + 2 ** (PATTERN_LEAVES - 1);

// The label of each row: the cluster with most of its weight, in float32 and in the order of its edges as in Python.
function vote(rows, groups, labels, sure) {
  const { n, K, unit, border, ids, weights } = rows;
  for (let i = 0; i < n; i++) labels[i] = groups[unit[i]];
  if (sure) sure.fill(255);
  const mine = new Uint16Array(K);
  const fround = Math.fround;
  for (let r = 0, e = 0; r < border.length; r++, e += K) {
    const first = groups[ids[e]];
    mine[0] = first;
    let differ = false;
    for (let a = 1; a < K; a++) {
      mine[a] = groups[ids[e + a]];
      if (mine[a] !== first) differ = true;
    }
    if (!differ) {
      labels[border[r]] = first;
      continue;
    }
    let best = first, most = -1, whole = 0;
    for (let a = 0; a < K; a++) {
      const group = mine[a];
      let total = 0;
      for (let b = 0; b < K; b++) if (mine[b] === group) total = fround(total + weights[e + b]);
      if (total > most) {
        most = total;
        best = group;
      }
      whole += weights[e + a];
    }
    labels[border[r]] = best;
    if (sure) sure[border[r]] = Math.round((255 * most) / whole);
  }
}
function nodeSizes(number) { // rows of all the data in each cluster, given the cluster of each leaf
  const sizes = new Array(Math.max(...number) + 1).fill(0);
  tree.rows.forEach((n, leaf) => { sizes[number[leaf]] += n; });
  tree.counts.forEach((n, i) => {
    const at = i * RECORD, m = tree.patterns[at];
    let mask = 0;
    for (let j = 0; j < m - 1; j++) if (number[tree.patterns[at + 1 + j]] === number[tree.patterns[at + 2 + j]]) mask |= 1 << j;
    sizes[number[tree.patterns[at + 1 + tree.patterns[at + 1 + PATTERN_LEAVES + mask]]]] += n;
  });
  return sizes;
}
function withRows(nodes) { // a branch that no row votes for is folded with its neighbour: the model would drop it
  for (;;) {
    const owner = new Int32Array(tree.L);
    nodes.forEach((node, i) => { for (const leaf of tree.below[node]) owner[leaf] = i; });
    const sizes = nodeSizes(owner);
    const empty = nodes.findIndex((node, i) => !sizes[i] && tree.parent[node] >= 0);
    if (empty < 0) return { nodes, owner, sizes };
    const up = tree.parent[nodes[empty]], inside = new Set(tree.below[up]);
    nodes = [...nodes.filter((node) => !inside.has(tree.below[node][0])), up].sort((a, b) => a - b);
  }
}
function cutAtNodes(view) { // clusters are numbered by size; of equal ones, that with the first leaf of the tree first
  const { nodes, owner, sizes } = withRows(view.nodes);
  view.nodes = nodes;
  const first = nodes.map((node) => Math.min(...tree.below[node].map((leaf) => tree.first[leaf])));
  const order = nodes.map((_, i) => i).sort((a, b) => sizes[b] - sizes[a] || first[a] - first[b]);
  const number = new Uint16Array(nodes.length);
  order.forEach((i, code) => { number[i] = code; });
  const groups = Uint16Array.from({ length: nUnits }, (_, unit) => number[owner[tree.leaf[unit]]]);
  return { groups, sizes: order.map((i) => sizes[i]), nodes: order.map((i) => nodes[i]) };
}
function majority(codes, n) { // the label of most drawn rows of each unit, for labels that are no cut
  const counts = new Float64Array(nUnits * n);
  for (let i = 0; i < drawn.n; i++) counts[drawn.unit[i] * n + codes[i]]++;
  return Uint16Array.from({ length: nUnits }, (_, unit) => {
    let best = 0;
    for (let code = 1; code < n; code++) if (counts[unit * n + code] > counts[unit * n + best]) best = code;
    return best;
  });
}
function resolve(view) { // the clusters of a view: names, sizes over all rows, cluster of each unit and of each drawn row
  const labels = new Uint16Array(drawn.n), sure = new Uint8Array(drawn.n);
  if (view.kind === "labeling") {
    const labeling = data.labelings[view.at];
    labels.set(labeling.codes);
    return { view, title: labeling.title, names: labeling.names, sizes: labeling.sizes, labels, sure: sure.fill(255), groups: majority(labels, labeling.names.length), stability: null };
  }
  let groups, sizes, stability, nodes = null, title;
  if (view.kind === "nodes") {
    ({ groups, sizes, nodes } = cutAtNodes(view));
    stability = tree.stability && nodes.map((node) => tree.stability[node]);
    title = `${sizes.length} branches`;
  } else {
    groups = cutGroups.subarray(view.at * nUnits, (view.at + 1) * nUnits);
    sizes = data.cuts.sizes[view.at];
    stability = data.cuts.stability[view.at];
    title = `${sizes.length} clusters`;
    if (tree && data.cuts.names[view.at] === tree.name) nodes = nodesOfCut(groups, data.cuts.ks[view.at]);
  }
  vote(drawn, groups, labels, sure);
  const names = view.kind === "cut" && data.cuts.clusters ? data.cuts.clusters : sizes.map((_, code) => String(code));
  return { view, title, names, sizes, labels, sure, groups, stability, nodes };
}
function nodesOfCut(groups, k) { // the node of the tree that each cluster of a horizontal cut is
  const nodes = new Array(k).fill(null);
  const unitOfLeaf = new Int32Array(tree.L).fill(-1);
  tree.leaf.forEach((leaf, unit) => { unitOfLeaf[leaf] = unit; });
  for (const node of tree.treeCut(k)) {
    const unit = unitOfLeaf[tree.below[node][0]];
    if (unit >= 0) nodes[groups[unit]] = node;
  }
  return nodes;
}
readPalette();
let current = resolve(state.view);
const isShown = (code) => state.only === null || state.only === code;
const nameOf = (code) => "Cluster " + plain(current.names[code]);
