// The slider and the tree: choose the number of clusters, fold and unfold single branches, repeat the choice elsewhere.
const slider = $("n-clusters");
function nearestCut(k) { // the stored cut whose number of clusters is nearest
  let best = 0;
  data.cuts.ks.forEach((each, at) => { if (Math.abs(each - k) < Math.abs(data.cuts.ks[best] - k)) best = at; });
  return best;
}
function setView(view) {
  const before = current.sizes.length;
  state.view = view;
  current = resolve(view);
  shareColors();
  if (state.only !== null && (state.only >= current.sizes.length || before !== current.sizes.length)) state.only = null;
  update();
}
function shownNodes() { // the branches of a cut of one's own, or of the cut of the tree into as many clusters as are shown
  const { kind, at, nodes } = state.view;
  return kind === "nodes" ? nodes : tree.treeCut(Math.min(tree.L, data.cuts.ks[kind === "cut" ? at : data.cuts.own]));
}
function foldOrUnfold(node) { // fold a branch into one cluster, or split a cluster into its two branches
  const nodes = new Set(shownNodes());
  if (nodes.has(node)) {
    if (node < tree.L) return;
    nodes.delete(node);
    for (const child of tree.merges[node - tree.L]) nodes.add(child);
  } else {
    let above = node;
    while (above >= 0 && !nodes.has(above)) above = tree.parent[above];
    if (above >= 0) { // below a cluster: unfold down to this branch
      nodes.delete(above);
      for (let at = node; at !== above; at = tree.parent[at]) {
        const [a, b] = tree.merges[tree.parent[at] - tree.L];
        nodes.add(a === at ? b : a);
      }
      nodes.add(node);
    } else {
      for (const each of [...nodes]) if (tree.below[node].includes(tree.below[each][0])) nodes.delete(each);
      nodes.add(node);
    }
  }
  if (nodes.size > 500) return;
  const list = [...nodes].sort((a, b) => a - b);
  for (const cut of data.cuts.ks.keys()) { // a horizontal cut of this tree after all
    const same = data.cuts.names[cut] === tree.name && tree.treeCut(data.cuts.ks[cut]);
    if (same && same.length === list.length && same.every((each, i) => each === list[i])) return setView({ kind: "cut", at: cut });
  }
  setView({ kind: "nodes", nodes: list });
}

// An icicle: a branch is as wide as its rows, and reaches from the number of clusters at which it appears to the one at
// which it splits. So its length is its persistence, and a cut into k clusters is a line across.
const level = (k) => Math.log(k) / Math.log(Math.max(2, tree.L)); // small numbers need most space
const treeChart = { width: 0, boxes: [], line: null }; // drawn once for each width; a step of the slider only colours it
const treeY = (k) => 8 + level(k) * 272;
function drawTree() {
  if (!tree) return;
  if (treeChart.width !== Math.max(240, $("tree").clientWidth)) buildTree();
  const codes = leafCodes();
  const chosen = current.nodes && new Set(current.nodes.filter((node) => node !== null));
  const ink = theme("ink"), faint = theme("faint");
  treeChart.boxes.forEach(([box, title, text], node) => {
    const leaves = tree.below[node];
    const same = leaves.every((leaf) => codes[leaf] === codes[leaves[0]]);
    const isCluster = chosen ? chosen.has(node) : false;
    box.setAttribute("fill", same ? colorOf(codes[leaves[0]]) : faint);
    box.setAttribute("fill-opacity", same ? (isCluster ? 1 : 0.55) : 0.45);
    box.setAttribute("stroke", isCluster ? ink : "none");
    title.textContent = text + (isCluster ? (node < tree.L ? "the finest branch" : "click to split it") : "click to make it one cluster");
  });
  const k = state.view.kind === "cut" ? data.cuts.ks[state.view.at] : Infinity;
  treeChart.line.setAttribute("visibility", k <= tree.L ? "visible" : "hidden");
  if (k <= tree.L) for (const end of ["y1", "y2"]) treeChart.line.setAttribute(end, treeY(k));
  treeChart.line.setAttribute("stroke", ink);
}
function buildTree() {
  const height = 300, left = 34, right = 44, bottom = 280;
  const [chart, width] = newChart("tree", height);
  const total = sum(tree.rows) + sum(tree.counts) || 1;
  const weights = tree.rows.map((n) => Math.max(n, total / 400));
  const whole = sum(weights);
  const starts = [0];
  for (const weight of weights) starts.push(starts[starts.length - 1] + weight / whole);
  const x = (share) => left + share * (width - left - right);
  for (const k of [1, 2, 3, 5, 8, 12, 20, 35, 60].filter((each) => each <= tree.L)) {
    svg(chart, "text", { x: left - 8, y: treeY(k) + 4, "text-anchor": "end" }, k);
    svg(chart, "line", { x1: left, x2: width - right, y1: treeY(k), y2: treeY(k), stroke: theme("grid") });
  }
  treeChart.width = width;
  treeChart.boxes = [];
  for (let node = 2 * tree.L - 2; node >= 0; node--) {
    const leaves = tree.below[node];
    const first = Math.min(...leaves), last = Math.max(...leaves);
    const above = treeY(Math.max(1, tree.from[node] - (node === 2 * tree.L - 2 ? 0 : 1))), end = node < tree.L ? bottom : treeY(tree.to[node]);
    const box = svg(chart, "rect", {
      x: x(starts[first]) + 0.5, y: above + 0.5, width: Math.max(0.8, x(starts[last + 1]) - x(starts[first]) - 1), height: Math.max(1, end - above - 1), rx: 2,
      "stroke-width": 1.4, class: "branch", "data-node": node,
    });
    const n = sum(leaves.map((leaf) => tree.rows[leaf]));
    const span = tree.from[node] === tree.to[node] ? `${tree.from[node]}` : `${tree.from[node]} to ${tree.to[node]}`;
    treeChart.boxes[node] = [box, svg(box, "title"), `About ${formatRows(n)}; a branch of its own from ${span} clusters; `];
    box.addEventListener("click", () => foldOrUnfold(node));
  }
  const strongest = Math.max(...data.suggested.map((each) => each.strength), 1e-9);
  for (const { k, strength } of data.suggested.filter((each) => each.k <= tree.L)) {
    const bar = svg(chart, "rect", { x: width - right + 8, y: treeY(k) - 3, width: 8 + 22 * (strength / strongest), height: 6, rx: 3, fill: theme("gap-ink"), class: "dot" });
    svg(bar, "title", {}, `${k} clusters stand out`);
    bar.addEventListener("click", () => setView({ kind: "cut", at: nearestCut(k) }));
  }
  treeChart.line = svg(chart, "line", { x1: left - 4, x2: width - right + 4, y1: 0, y2: 0, "stroke-width": 1.5, "stroke-dasharray": "5 3", "pointer-events": "none" });
  svg(chart, "text", { x: left, y: height - 4 }, width < 480 ? "number of clusters, from the top down" : "number of clusters, from the top down; a branch is as wide as its rows");
}
function leafCodes() { // the cluster that most units of each leaf are in
  const codes = new Int32Array(tree.L).fill(-1);
  for (let unit = nUnits - 1; unit >= 0; unit--) codes[tree.leaf[unit]] = current.groups[unit];
  return codes;
}
function showBranches() { // the branches as buttons, for the keyboard and screen readers
  const list = $("branches");
  if (!tree || !list || !list.closest("details").open) return;
  let nodes = (current.nodes || []).map((node, code) => [node, code]).filter(([node]) => node !== null);
  const areClusters = nodes.length > 0;
  if (!areClusters) nodes = shownNodes().map((node) => [node, null]);
  const hadFocus = list.contains(document.activeElement);
  list.replaceChildren(...nodes.slice(0, 60).map(([node, code]) => {
    const up = tree.parent[node];
    const rows = formatRows(sum(tree.below[node].map((leaf) => tree.rows[leaf])));
    const name = areClusters ? `cluster ${current.names[code]}` : `the branch of about ${rows}`;
    return make("li", { "data-branch": node }, areClusters ? marker(code) : null, areClusters ? ` ${current.names[code]} ` : `About ${rows} `,
      make("button", { type: "button", class: "small", disabled: node < tree.L, "data-unfold": node, "aria-label": `Split ${name}`, onclick: () => changeBranch(node, node) }, "Split"),
      make("button", { type: "button", class: "small", disabled: up < 0, "data-fold": up, "aria-label": `Fold ${name} with its neighbour`, onclick: () => changeBranch(up, node) }, "Fold with its neighbour"));
  }));
  $("branches-hint").hidden = areClusters;
  $("branches-hint").textContent = `The clusters that are shown are not branches of the tree. These are its own ${nodes.length}: split or fold one to start from them.`;
  if (hadFocus) focusBranch();
}
let lastBranch = 0; // the branch whose button was pressed
function changeBranch(node, pressed) {
  lastBranch = pressed;
  foldOrUnfold(node);
}
function focusBranch() { // the buttons were replaced: focus one of the branch that was pressed, or of what became of it
  const mine = new Set(tree.below[lastBranch]);
  const items = [...$("branches").children];
  const item = items.find((each) => tree.below[Number(each.dataset.branch)].some((leaf) => mine.has(leaf))) || items[0];
  (item?.querySelector("button:not(:disabled)") || $("branches").closest("details").querySelector("summary")).focus();
}

function pythonLine() {
  const { view } = current;
  if (view.kind === "labeling") return `labels = ...  # ${shorten(current.title, 60)}: labels that were passed in, not a cut of the model`;
  if (view.kind === "nodes") {
    const ids = view.nodes.map((node) => tree.nodes[node]).sort((a, b) => a - b).join(", ");
    return `labels = model.cut(nodes=[${ids}], discretize="${tree.name}").labels_`;
  }
  return data.cuts.ks.length > 1 ? `labels = model.cut(${data.cuts.ks[view.at]}${data.call}).labels_` : "labels = model.labels_";
}
function cutFile() { // what `ultraspec predict --cut` reads
  const { view } = current;
  return {
    format: "ultraspec cut", version: 1, model: data.key, n_clusters: current.sizes.length, sizes: current.sizes,
    nodes: view.kind === "nodes" ? view.nodes.map((node) => tree.nodes[node]) : null, tree: view.kind === "nodes" ? tree.name : null,
    groups: Array.from(unpack(Uint16Array, data.representatives), (unit) => current.groups[unit]),
  };
}
function download(name, text, kind) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
function showChoice() {
  const { view } = current;
  const k = current.sizes.length;
  const isCut = view.kind === "cut";
  const at = isCut ? data.cuts.ks[view.at] : k;
  if (Number(slider.value) !== at) slider.value = at;
  slider.setAttribute("aria-valuetext", `${k} clusters`);
  $("k-shown").textContent = k;
  let text = "";
  if (view.kind === "labeling") text = `Shown: ${current.title}. Move the slider to see the cuts of the model.`;
  else if (view.kind === "nodes") text = `A cut of your own: ${k} branches of the tree.`;
  else if (isCut && view.at === data.cuts.own && data.cuts.ks.length > 1) text = "As fitted. Drag the slider to see other numbers of clusters.";
  else if (tree && data.cuts.names[view.at] !== tree.name) text = "The clusters of this number differ from the branches drawn below: another method is more stable here.";
  else if (tree) text = "Each of these clusters is a branch of the tree below.";
  $("choice-text").textContent = data.reason || text;
  $("repeat-python").textContent = pythonLine();
  $("repeat-command").textContent = view.kind === "labeling" ? "" : "ultraspec predict MODEL DATA --cut cut.json -o labels.parquet";
  for (const button of document.querySelectorAll("[data-suggested]")) button.setAttribute("aria-pressed", String(isCut && Number(button.dataset.suggested) === data.cuts.ks[view.at]));
  $("back").hidden = isCut && view.at === data.cuts.own;
  showFacts();
}
const heading = document.querySelector("h1");
const remarkOf = (name) => document.querySelector(`[data-fact="${name}"] .sub`);
const fittedRemark = remarkOf("Clusters").textContent;
function showFacts() { // the heading and the numbers at the top are those of the clusters that are shown
  const { view, sizes, names } = current;
  const k = sizes.length, own = data.cuts.ks[data.cuts.own];
  const isFirst = view.kind === (data.start === "labeling" ? "labeling" : "cut") && view.at === (data.start === "labeling" ? 0 : data.cuts.own);
  if (!data.titled) heading.textContent = document.title = `${k.toLocaleString("en")} clusters in ${data.rows.toLocaleString("en")} rows`;
  const show = (name, value, remark) => {
    const [number, text] = document.querySelectorAll(`[data-fact="${name}"] dd`);
    number.textContent = value;
    text.textContent = remark;
  };
  show("Clusters", k, isFirst ? fittedRemark : view.kind === "labeling" ? "passed in" : `shown; ${own} were fitted`);
  for (const [name, size] of [["Largest", Math.max(...sizes)], ["Smallest", Math.min(...sizes)]]) show(name, formatShare(size / data.rows), `cluster ${shorten(names[sizes.indexOf(size)], 20)}`);
  $("notes-hint").hidden = isFirst || !$("notes-hint").nextElementSibling.children.length;
  $("notes-hint").textContent = data.start === "labeling" ? "About the labels that were passed in:" : `About the ${own} clusters as fitted:`;
}
function listenToChoice() {
  $("branches")?.closest("details").addEventListener("toggle", showBranches);
  slider.addEventListener("input", () => setView({ kind: "cut", at: nearestCut(Number(slider.value)) }));
  for (const button of document.querySelectorAll("[data-suggested]")) {
    button.addEventListener("click", () => setView({ kind: "cut", at: nearestCut(Number(button.dataset.suggested)) }));
  }
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => setView({ kind: "cut", at: nearestCut(Number(slider.value) + Number(button.dataset.step)) }));
  }
  $("back").addEventListener("click", () => {
    setView({ kind: "cut", at: data.cuts.own });
    slider.focus({ preventScroll: true }); // the button hides
  });
  $("download-cut").addEventListener("click", () => download("cut.json", JSON.stringify(cutFile()) + "\n", "application/json"));
}
