// Wiring: what is drawn when, and what readers can do.
const isVisible = (element) => { const box = element.getBoundingClientRect(); return box.bottom > -200 && box.top < innerHeight + 200; };
// Parts of the page and the functions that draw them. Those in sight are drawn at once, the others right after.
const parts = [
  ["map-card", showList], ["map-card", showPhrases], ["map-card", drawMap], ["choose", drawTree], ["choose", showBranches], ["features", showFeatures], ["rows-card", showExamples],
  ["notes", showVerdict], ["trust", showTrust], ["trust", drawStability], ["compare", showComparison], ["sizes-card", drawSizes], ["graph-card", drawGraph], ["graph-card", showTouching],
];
if (data.levels) parts.push(["confidence-card", drawConfidenceOfAll], ["confidence-card", drawConfidenceByCluster]);
let later = 0;
function update() { // after the clusters changed
  showChoice();
  const always = new Set([showList, drawMap, showVerdict]);
  const inSight = parts.map(([id, draw]) => always.has(draw) || (draw !== showPhrases && isVisible($(id)))); // before drawing, which moves parts
  const rest = parts.filter((_, i) => !inSight[i]).map(([, draw]) => draw);
  parts.forEach(([, draw], i) => { if (inSight[i]) draw(); });
  clearTimeout(later);
  const next = () => {
    if (!rest.length) return;
    rest.shift()();
    later = setTimeout(next, 0);
  };
  later = setTimeout(next, 60);
  $("only").hidden = state.only === null;
  if (state.only !== null) $("only").firstElementChild.textContent = `Only ${nameOf(state.only).toLowerCase()} is shown`;
  if (state.selected) showSelection();
}
function drawAll() {
  readPalette();
  treeChart.width = 0; // colours of the theme and the width may have changed
  showChoice();
  for (const [, draw] of parts) draw();
  drawEigenvalues();
  if (data.agreement) drawAgreement();
  showScale();
}
function select(code) { // show one cluster alone, or all again
  state.only = state.only === code ? null : code;
  const focused = document.activeElement && document.activeElement.classList.contains("key") ? document.activeElement.dataset.code : null;
  $("only").hidden = state.only === null;
  if (state.only !== null) $("only").firstElementChild.textContent = `Only ${nameOf(state.only).toLowerCase()} is shown`;
  for (const [, draw] of parts) if (draw !== drawTree && draw !== showBranches && draw !== drawStability) draw();
  if (focused !== null) document.querySelector(`.key[data-code="${focused}"]`)?.focus();
}

$("only").lastElementChild.addEventListener("click", () => {
  const code = state.only;
  select(code);
  document.querySelector(`.key[data-code="${code}"]`)?.focus({ preventScroll: true }); // the button hides
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (state.selected || lasso || !$("selection").hidden) setSelected(null);
  else if (state.only !== null) select(state.only);
});
root.addEventListener("themechange", drawAll);
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = $(button.dataset.copy);
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch {
      done = document.execCommand("copy"); // browsers allow the clipboard on secure pages only
    }
    const before = button.textContent;
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = before; }, 2000);
  });
}
$("graph").addEventListener("pointermove", (event) => {
  const box = $("graph").getBoundingClientRect();
  placeTip(event, underGraph(event.clientX - box.left, event.clientY - box.top));
});
$("graph").addEventListener("pointerleave", () => { $("tip").hidden = true; });
$("graph").addEventListener("click", (event) => {
  const box = $("graph").getBoundingClientRect();
  const found = underGraph(event.clientX - box.left, event.clientY - box.top);
  if (found) select(found[0]);
  else if (state.only !== null) select(state.only);
});
markWeakChips();
shareColors();
listenToChoice();
listenToMap();
listenToPanels();
let drawnWidth = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === drawnWidth) return;
  drawnWidth = document.body.clientWidth;
  drawAll();
}).observe(document.body);
drawAll();
