// The small version of the page for notebooks: a slider, the representatives, and the sizes of the clusters.
const slider = $("n-clusters");
function update() {
  const { view } = current;
  const k = current.sizes.length;
  slider.value = k;
  slider.setAttribute("aria-valuetext", `${k} clusters`);
  $("k-shown").textContent = k;
  $("back").hidden = view.kind === "cut";
  const which = data.byNodes && view.nodes ? `nodes=[${view.nodes.map((node) => tree.nodes[node]).sort((a, b) => a - b).join(", ")}]` : view.k;
  $("repeat-python").textContent = view.kind === "cut" ? "labels = model.labels_" : `labels = model.cut(${which}, discretize="${tree.name}").labels_`;
  drawMap();
  showList();
}
function select(code) {
  state.only = state.only === code ? null : code;
  update();
}
function setNumber(k) {
  state.only = null;
  current = resolve(k === null ? { kind: "cut", at: 0 } : { kind: "nodes", nodes: tree.treeCut(k), k });
  update();
}
slider.addEventListener("input", () => setNumber(Number(slider.value)));
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => setNumber(clamp(Number(slider.value) + Number(button.dataset.step), Number(slider.min), Number(slider.max))));
}
$("back").addEventListener("click", () => setNumber(null));
root.addEventListener("themechange", () => {
  readPalette();
  update();
});
let drawnWidth = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === drawnWidth) return;
  drawnWidth = document.body.clientWidth;
  update();
}).observe(document.body);
