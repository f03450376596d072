// What the page says about the clusters: the list, features, examples, trust, neighbours, comparison, selected rows.
const profile = {
  ...data.profile, d: data.profile.names.length, n: unpack(Uint32Array, data.profile.n), mean: unpack(Float32Array, data.profile.mean),
  variance: unpack(Float32Array, data.profile.variance), bins: unpackBytes(data.profile.bins),
};
for (const text of profile.terms) text.counts = unpack(Uint32Array, text.counts);
const examples = { ...data.examples, ...unpackEdges(data.examples) };
const pairs = { a: unpack(Uint16Array, data.touching.a), b: unpack(Uint16Array, data.touching.b), sums: unpack(Float32Array, data.touching.sums) };
const MOST_LISTED = 60;
const NOT_CLUSTERED = "not used for clustering";
const extra = (isExtra) => (isExtra ? make("small", { class: "extra" }, NOT_CLUSTERED) : null); // the mark of a column that only describes rows
const isExtraColumn = (j) => j >= profile.features; // features come first
const unitRows = new Uint32Array(nUnits); // drawn rows of each unit
for (const unit of drawn.unit) unitRows[unit]++;

// Profiles: sums of the units of a cluster give its count, mean, variance and bins.
function profileOf(groups, k) {
  if (profile.cache && profile.cache.groups === groups) return profile.cache;
  const { d, nBins } = profile;
  const n = new Float64Array(k * d), mean = new Float64Array(k * d), square = new Float64Array(k * d), bins = new Float64Array(k * d * nBins);
  for (let unit = 0; unit < nUnits; unit++) {
    for (let j = 0; j < d; j++) {
      const from = unit * d + j, to = groups[unit] * d + j, rows = profile.n[from];
      if (!rows) continue;
      n[to] += rows;
      mean[to] += rows * profile.mean[from];
      square[to] += rows * (profile.variance[from] + profile.mean[from] ** 2);
      for (let b = 0; b < nBins; b++) bins[to * nBins + b] += rows * profile.bins[from * nBins + b];
    }
  }
  const spread = new Float64Array(k * d);
  for (let i = 0; i < k * d; i++) {
    if (!n[i]) continue;
    mean[i] /= n[i];
    spread[i] = Math.sqrt(Math.max(0, square[i] / n[i] - mean[i] ** 2));
  }
  profile.cache = { groups, n, mean, spread, bins };
  return profile.cache;
}
function telling(found, code) { // columns by how far the cluster lies from all rows, in units of its own and their spread
  return Array.from({ length: profile.d }, (_, j) => {
    const at = code * profile.d + j;
    return { j, mean: found.mean[at], spread: found.spread[at], score: found.n[at] ? Math.abs(found.mean[at]) / Math.sqrt(0.25 + 0.75 * found.spread[at] ** 2) : 0 };
  }).sort((a, b) => b.score - a.score);
}
const rawMean = (j, mean) => profile.total.mean[j] + mean * profile.total.spread[j];
function quantileOf(found, code, j, share) { // from the bins, whose bounds are quantiles of all rows
  const { nBins } = profile;
  const at = (code * profile.d + j) * nBins;
  const total = sum(Array.from(found.bins.subarray(at, at + nBins)));
  let below = 0;
  for (let b = 0; b < nBins; b++) {
    const n = found.bins[at + b];
    if (below + n >= share * total && n > 0) {
      const low = profile.bounds[j][Math.max(0, b - 1)], high = profile.bounds[j][Math.min(nBins - 2, b)];
      return low + (high - low) * ((share * total - below) / n);
    }
    below += n;
  }
  return NaN;
}
function directionWord(mean) {
  const size = Math.abs(mean);
  return size < 0.1 ? "average" : (size > 1.5 ? "very " : size < 0.4 ? "slightly " : "") + (mean > 0 ? "high" : "low");
}
function direction(mean) { // an arrow and a word
  const isAverage = Math.abs(mean) < 0.1;
  return make("span", { class: "direction " + (isAverage ? "" : mean > 0 ? "up" : "down") }, (isAverage ? "≈ " : mean > 0 ? "▲ " : "▼ ") + directionWord(mean));
}
function categoryFacts(groups, k, code) { // categories that are more frequent here than elsewhere
  const facts = [];
  for (const column of profile.categories) {
    const m = column.categories.length;
    const mine = new Float64Array(m), all = new Float64Array(m);
    for (let unit = 0; unit < nUnits; unit++) {
      for (let c = 0; c < m; c++) {
        const n = column.counts[unit * m + c];
        all[c] += n;
        if (groups[unit] === code) mine[c] += n;
      }
    }
    const total = sum(Array.from(mine)) || 1, whole = sum(Array.from(all)) || 1;
    column.categories.forEach((name, c) => {
      const share = mine[c] / total, usual = all[c] / whole;
      if (share >= 0.05 && share > 1.25 * usual) facts.push({ column: column.name, name, share, usual, score: (share - usual) / Math.sqrt(usual * (1 - usual) + 0.01) });
    });
  }
  return facts.sort((a, b) => b.score - a.score);
}
function termFacts(groups, code) {
  return profile.terms.map((text) => {
    const m = Math.max(1, text.terms.length);
    const mine = new Float64Array(m), all = new Float64Array(m);
    let texts = 0, allTexts = 0;
    for (let unit = 0; unit < nUnits; unit++) {
      allTexts += text.texts[unit];
      const isMine = groups[unit] === code;
      if (isMine) texts += text.texts[unit];
      for (let c = 0; c < m; c++) {
        all[c] += text.counts[unit * m + c];
        if (isMine) mine[c] += text.counts[unit * m + c];
      }
    }
    const terms = text.terms.map((term, c) => ({ term, share: mine[c] / (texts || 1), score: (mine[c] + 0.5) / (texts + 1) - (all[c] + 0.5) / (allTexts + 1) }));
    return { column: text.name, terms: terms.filter((each) => each.score > 0.01).sort((a, b) => b.score - a.score).slice(0, 6) };
  });
}
function describeCluster(found, code) { // one phrase
  const parts = telling(found, code).slice(0, 3).filter((each) => Math.abs(each.mean) > 0.25).map((each) => [`${directionWord(each.mean)} `, isolated(profile.names[each.j], 30)]);
  const [category] = categoryFacts(current.groups, current.sizes.length, code);
  if (category) parts.push([`${Math.round(100 * category.share)} % `, isolated(category.name, 24), " (", isolated(category.column, 24), ")"]);
  for (const text of termFacts(current.groups, code)) if (text.terms.length) parts.push([isolated(text.terms.slice(0, 3).map((each) => each.term).join(", "), 80)]);
  return parts.flatMap((part, i) => (i ? ["; ", ...part] : part));
}
const isNamed = profile.categories.length + profile.terms.length > 0 || profile.names.some((name) => !/^feature \d+$/.test(name));
function showPhrases() { // below each cluster of a short list: what it is, if columns have names
  const k = current.sizes.length;
  if (k > 14 || !isNamed) return;
  const found = profileOf(current.groups, k);
  for (const item of $("clusters").children) item.append(make("p", { class: "phrase" }, ...describeCluster(found, Number(item.dataset.cluster))));
}
function showFeatures() {
  const k = current.sizes.length;
  const found = profileOf(current.groups, k);
  const listed = state.only !== null ? [state.only] : Array.from({ length: Math.min(k, MOST_LISTED) }, (_, code) => code);
  $("cards").replaceChildren(...listed.map((code) => {
    const rows = telling(found, code).slice(0, 5).map(({ j, mean, spread }) => {
      const middle = 50 + clamp(mean, -2.5, 2.5) * 20, reach = clamp(spread, 0.02, 2.5) * 20;
      const [low, high] = [0.1, 0.9].map((share) => formatValue(quantileOf(found, code, j, share)));
      return make("li", { "data-feature": profile.names[j], title: `mean ${formatValue(rawMean(j, mean))}, in all rows ${formatValue(profile.total.mean[j])}; 10 % to 90 %: ${low} to ${high}` },
        make("span", { class: "feature" }, breakable(profile.names[j]), extra(isExtraColumn(j))),
        direction(mean),
        make("span", { class: "value" }, formatValue(rawMean(j, mean))),
        make("span", { class: "strip", "aria-hidden": "true" }, make("i", { class: "axis" }), make("i", { class: "reach", style: `left:${clamp(middle - reach, 0, 100)}%;width:${clamp(Math.min(2 * reach, 100 - (middle - reach)), 0, 100)}%;background:${colorOf(code)}` }), make("i", { class: "middle", style: `left:${middle}%` })));
    });
    const more = [];
    const categories = categoryFacts(current.groups, k, code).slice(0, 3);
    if (categories.length) more.push(make("p", { class: "facts-line" }, ...categories.flatMap((fact, i) => [i ? " · " : "", make("b", {}, isolated(fact.name, 40)), ` ${formatShare(fact.share)} (`, isolated(fact.column, 24), `; all rows ${formatShare(fact.usual)})`]), extra(true)));
    for (const text of termFacts(current.groups, code)) if (text.terms.length) more.push(make("p", { class: "facts-line" }, isolated(text.column, 24), ": ", make("b", {}, text.terms.map((each) => each.term).join(", ")), extra(true)));
    return make("article", { class: "cluster-card", "data-card": code },
      make("h3", {}, marker(code), ` ${nameOf(code)}`, make("small", {}, ` ${formatRows(current.sizes[code])}`)), make("ol", { class: "telling" }, rows), ...more);
  }));
  $("cards-hint").textContent = k > MOST_LISTED ? `The ${MOST_LISTED} largest of ${k} clusters.` : "";
  drawHeatMap(found, k);
}
function drawHeatMap(found, k) { // standardised means: a table, so that it can be read aloud and copied
  const strongest = Array.from({ length: profile.d }, (_, j) => [j, Math.max(...current.sizes.map((_, code) => Math.abs(found.mean[code * profile.d + j])))]).sort((a, b) => b[1] - a[1]);
  const columns = strongest.slice(0, Math.min(profile.d, innerWidth < 560 ? 6 : 16)).map(([j]) => j);
  const scale = scaleColors("diverging", 3);
  const linear = (v) => (v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const shade = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const head = make("tr", {}, make("th", { scope: "col" }, "Cluster"), columns.map((j) => make("th", { scope: "col", title: profile.names[j] }, make("span", {}, shorten(profile.names[j], 18)), extra(isExtraColumn(j)))));
  const body = Array.from({ length: Math.min(k, MOST_LISTED) }, (_, code) => make("tr", { class: state.only === code ? "chosen" : "" },
    make("th", { scope: "row" }, marker(code), " " + shorten(current.names[code], 14)),
    columns.map((j) => {
      const at = code * profile.d + j, mean = found.mean[at];
      const color = scale[Math.round(clamp(127.5 + mean * 63, 0, 255))];
      const text = shade(color) > 0.18 ? "#000" : "#fff"; // whichever has more contrast
      return make("td", { style: `background:${css(color)};color:${text}`, title: `${profile.names[j]}: ${formatValue(rawMean(j, mean))}, ${mean.toFixed(2)} standard deviations from the mean of all rows` }, found.n[at] ? (mean > 0 ? "+" : mean < 0 ? "−" : "") + Math.abs(mean).toFixed(1) : "");
    })));
  $("heat").classList.toggle("few", columns.length <= 7);
  $("heat").replaceChildren(make("thead", {}, head), make("tbody", {}, body));
}

// Examples: rows that the pass over all rows kept.
function showExamples() {
  const labels = new Uint16Array(examples.n), sure = new Uint8Array(examples.n);
  vote(examples, current.groups, labels, sure);
  const codes = state.only === null ? current.sizes.map((_, code) => code).slice(0, 12) : [state.only];
  const columns = examples.names.map((_, j) => j).slice(0, innerWidth < 560 ? 5 : 9);
  const kinds = { t: "typical", u: "least certain", o: "odd" };
  const rows = [];
  for (const code of codes) {
    const mine = Array.from(labels.keys()).filter((i) => labels[i] === code);
    chooseExamples(mine, sure).forEach(([kind, i], place) => {
      rows.push(make("tr", { "data-example": kind, class: place ? "" : "first" },
        make("th", { scope: "row" }, place ? "" : marker(code), place ? "" : " " + shorten(current.names[code], 14)),
        make("td", { class: "kind" }, kinds[kind] + (kind === "u" ? ` (${Math.round(sure[i] / 2.55)} %)` : "")), make("td", {}, examples.rows[i].toLocaleString("en")),
        columns.map((j) => make("td", { class: "cell", title: examples.values[i][j] }, shorten(examples.values[i][j], 42)))));
    });
  }
  $("examples").replaceChildren(
    make("thead", {}, make("tr", {}, ["Cluster", "", "Row"].map((text) => make("th", { scope: "col" }, text)), columns.map((j) => make("th", { scope: "col", title: examples.names[j] }, shorten(examples.names[j], 18), extra(j < examples.described))))),
    make("tbody", {}, rows));
  $("examples-hint").textContent = current.sizes.length > 12 && state.only === null ? "The twelve largest clusters. Select a cluster to see its rows." : "";
}

function chooseExamples(mine, sure) { // pairs of a kind and a row of one cluster; each row is an example of one kind only
  const isKind = (kind) => (i) => examples.kinds[i].includes(kind);
  const certain = mine.filter((i) => sure[i] > 200);
  // a row may be typical of a small branch and odd in the whole cluster; and a small cluster may have no certain row
  let typical = certain.filter((i) => isKind("t")(i) && !isKind("o")(i));
  for (const others of [certain.filter(isKind("t")), mine.slice().sort((a, b) => sure[b] - sure[a]).slice(0, 1)]) if (!typical.length) typical = others;
  const chosen = typical.slice(0, 3).map((i) => ["t", i]);
  const add = (kind, rows) => {
    const taken = new Set(chosen.map(([, i]) => i));
    chosen.push(...rows.filter((i) => !taken.has(i)).slice(0, 2).map((i) => [kind, i]));
  };
  add("u", mine.filter((i) => isKind("u")(i) && sure[i] < 250).sort((a, b) => sure[a] - sure[b]));
  add("o", mine.filter(isKind("o")));
  return chosen;
}

// Trust: stability over other graphs, against rows without structure.
function nullAt(name, k) {
  if (!data.null) return null;
  const { ks } = data.null, values = data.null[name];
  if (k <= ks[0]) return values[0];
  for (let i = 1; i < ks.length; i++) if (k <= ks[i]) return values[i - 1] + ((values[i] - values[i - 1]) * (k - ks[i - 1])) / (ks[i] - ks[i - 1]);
  return values[values.length - 1];
}
const REAL = data.trust.real, CORE = 0.6; // least stability
// The cluster beside the cut into the number that stands out most: the cluster there that is the same, if there is one, the
// parts that it is divided into, and whether it is a part itself: a number that stands out less may divide a cluster, but then
// nearly all of what it is divided into must be stable.
function besideBest(code) {
  const [best] = data.suggested;
  const k = current.sizes.length;
  if (!best || best.k === k || current.view.kind === "labeling") return { same: null, parts: 1, isPart: false };
  if (!besideBest.cache || besideBest.cache.groups !== current.groups) {
    const first = nearestCut(best.k) * nUnits;
    const common = new Float64Array(k * best.k), totals = new Float64Array(best.k);
    for (let unit = 0; unit < nUnits; unit++) {
      common[current.groups[unit] * best.k + cutGroups[first + unit]] += unitRows[unit];
      totals[cutGroups[first + unit]] += unitRows[unit];
    }
    const stable = new Float64Array(best.k); // rows in stable clusters, by the cluster that most of their rows are in there
    for (let each = 0; each < k; each++) {
      const rows = Array.from(common.subarray(each * best.k, (each + 1) * best.k));
      if (current.stability && current.stability[each] >= REAL && isBeyondChance(current.stability[each], each, k)) stable[rows.indexOf(Math.max(...rows))] += sum(rows);
    }
    besideBest.cache = { groups: current.groups, common, totals, stable };
  }
  const mine = Array.from(besideBest.cache.common.subarray(code * best.k, (code + 1) * best.k));
  const all = sum(mine), most = Math.max(...mine);
  const at = mine.indexOf(most), whole = besideBest.cache.totals[at];
  const isSmaller = most > 0.9 * all && all < 0.8 * whole;
  const isWeak = strengthAt(k) < 0.5 * best.strength || besideBest.cache.stable[at] < 0.9 * whole;
  return { same: most > 0.85 * (all + whole - most) ? at : null, parts: best.k > k ? mine.filter((rows) => rows > 0.1 * all).length : 1, isPart: isSmaller && isWeak };
}
function isBeyondChance(stability, code, k) { // clearly more stable than parts of rows without structure, for its size
  const share = current.sizes[code] / data.rows, usual = nullAt("level", k);
  return usual === null || clamp((stability - share) / Math.max(1 - share, 1e-9), 0, 1) > usual + data.trust.beyond * (1 - usual);
}
function clusterVerdict(code) { // [kind of note, sentence, kind of cluster], and the stability that it rests on
  const basis = verdictBasis(code);
  return [...judgeCluster(code, basis), basis.stability];
}
function verdictBasis(code) {
  const beside = besideBest(code);
  const stability = current.stability[code], k = current.sizes.length, best = data.suggested[0]?.k;
  const there = beside.same === null ? 0 : data.cuts.stability[nearestCut(best)][beside.same];
  if (!(there > stability)) return { ...beside, stability, k, where: "" };
  const here = Math.round(100 * stability), differs = here !== Math.round(100 * there);
  return { ...beside, stability: there, k: best, where: ` at ${best} clusters${differs ? ` (${here} % at ${k})` : ""}` }; // other clusters of this cut may be wrong
}
function judgeCluster(code, { parts, isPart, stability, k, where }) {
  const share = current.sizes[code] / data.rows;
  const best = data.suggested[0]?.k;
  const isFound = isBeyondChance(stability, code, k);
  const percent = `${Math.round(100 * stability)} %`;
  if (current.sizes[code] < data.trust.rows || share < data.trust.share) return ["look", "Too few rows to judge: outliers or a fragment, unless you know better.", "tiny"];
  const [touch] = touching().filter(([a, b]) => a === code || b === code);
  const other = touch && touch[2] > 0.1 ? current.names[touch[0] === code ? touch[1] : touch[0]] : null;
  const border = other === null ? "" : ` It shares a border with cluster ${shorten(other, 20)}.`;
  if (!data.structure) return ["warning", `A part of a cloud without clusters: other graphs find ${percent} of it again.${border}`, "poor"];
  if (stability >= REAL && isFound) {
    if (isPart) return ["look", `Stable, but a part of a larger cluster: other graphs find ${percent} of it again. At ${best} clusters, which stand out most, it is not separate.`, "part"];
    if (parts > 1) return ["look", `Stable, but probably ${parts} clusters in one: other graphs find ${percent} of it again. At ${best} clusters, which stand out most, it is divided into ${parts}.`, "union"];
    return ["good", `Real: independent graphs find ${percent} of it again${where}.`, "real"];
  }
  if (parts > 1) return ["warning", `Probably ${parts} clusters in one: other graphs find ${percent} of it again, and at ${best} clusters it is divided into ${parts}.`, "union"];
  if (isPart) return ["warning", `Probably a part of a larger cluster: other graphs find ${percent} of it again, and at ${best} clusters, which stand out most, it is not separate.`, "part"];
  if (stability >= CORE && isFound) return ["look", `Its core is real, its border is not certain: other graphs find ${percent} of it again${where}.${border}`, "core"];
  if (!isFound) return ["warning", `Not more than chance: other graphs find ${percent} of it again${where}, hardly more than of parts of a cloud without clusters.${border}`, "chance"];
  return ["warning", `Doubtful: other graphs find only ${percent} of it again${where}. It may be a part of another cluster, or several.${border}`, "poor"];
}
function wholeVerdict() {
  const { view } = current;
  if (!current.stability) return ["look", data.reason && data.cuts.ks.length < 2 ? "No other graphs judge these clusters, so their stability is unknown." : "The stability of these clusters is not known."];
  const k = current.sizes.length;
  const [best] = data.suggested;
  const agreement = view.kind === "cut" ? data.cuts.agreement[view.at] : null, usual = nullAt("agreement", k);
  const because = agreement === null ? "" : ` Independent graphs agree with this cut by ${agreement.toFixed(2)} (adjusted Rand index)${usual === null ? "" : `; in data without structure it would be about ${usual.toFixed(2)}`}.`;
  if (!data.structure) return ["warning", `These rows look like one cloud without clusters: disjoint halves of the rows agree on no number of clusters.${because}`];
  const verdicts = current.sizes.map((_, code) => clusterVerdict(code));
  const count = (kind) => verdicts.filter((each) => each[2] === kind).length;
  const real = count("real"), poor = verdicts.filter((each) => each[0] === "warning").length;
  const why = data.refined ? "independent graphs find each of them again" : "disjoint halves of the rows agree on them most";
  const better = best && best.k !== k ? `${best.k} clusters stand out more than ${k}: ${why}. ` : "";
  if (best && best.strength < 0.1) return ["warning", `The structure is weak: even ${best.k} clusters, which stand out most, are found again hardly better than in random rows.${because}`];
  if (real === k) return ["good", `${k === 2 ? "Both" : `All ${k}`} clusters are real.${because}${better && best.strength > 1.1 * strengthAt(k) ? ` ${better}` : ""}`];
  const say = (n, one, many) => (n ? [`${n} ${n === 1 ? one : many}`] : []);
  const text = [
    real ? `${real} ${real === 1 ? "is" : "are"} clearly real` : "none is clearly real",
    ...say(count("core"), "is real in its core", "are real in their cores"), ...say(count("union"), "probably holds several clusters", "probably hold several clusters each"),
    ...say(count("part"), "is a part of a larger cluster", "are parts of larger clusters"), ...say(count("tiny"), "is too small to judge", "are too small to judge"),
    ...say(count("poor"), "is doubtful", "are doubtful"), ...say(count("chance"), "is not more than chance", "are not more than chance"),
  ].join(", ");
  return [poor > k / 2 ? "warning" : real + count("core") === k ? "good" : "look", `${better}Of these ${k} clusters, ${text}.${because}`];
}
const strengthAt = (k) => (data.suggested.find((each) => each.k === k) || { strength: 0 }).strength;
function markWeakChips() { // numbers that stand out, but have doubtful clusters
  const shown = current;
  for (const chip of document.querySelectorAll(".chip[data-suggested]:not(.best)")) {
    current = resolve({ kind: "cut", at: nearestCut(Number(chip.dataset.suggested)) });
    if (!current.stability || current.sizes.every((_, code) => clusterVerdict(code)[0] !== "warning")) continue;
    chip.classList.add("weak");
    chip.title = "Some of these clusters are doubtful";
  }
  current = shown;
}
function note([kind, text]) { // the first sentence is emphasised
  const first = /^.*?\.(?= |$)/.exec(text)[0];
  const signs = { warning: "!", look: "→", good: "✓" }, names = { warning: "Warning", look: "Note", good: "Good" };
  return make("li", { class: kind }, make("span", { class: "sign", "aria-hidden": "true" }, signs[kind]), make("p", {}, make("span", { class: "hidden" }, names[kind] + ": "), make("b", {}, first), text.slice(first.length)));
}
function showVerdict() {
  $("verdict").replaceChildren(note(wholeVerdict()));
}
function showTrust() {
  const listed = current.stability ? current.sizes.map((_, code) => code).slice(0, MOST_LISTED) : [];
  $("verdicts").replaceChildren(...listed.map((code) => {
    const [kind, text, , stability] = clusterVerdict(code);
    return make("tr", { class: kind, "data-verdict": code }, make("th", { scope: "row" }, marker(code), " " + shorten(current.names[code], 14)),
      make("td", { class: "bar-cell" }, make("span", { class: "track" }, make("i", { style: `width:${100 * stability}%;background:${colorOf(code)}` }))),
      make("td", {}, stability.toFixed(2)), make("td", { class: "sentence" }, text));
  }));
  $("trust-table").hidden = !current.stability;
}
function drawStability() { // agreement and null by number of clusters
  if (!data.null || data.cuts.ks.length < 3) return;
  const height = 190, left = 40, top = 14, bottom = height - 34;
  const [chart, width] = newChart("stability", height);
  const most = data.cuts.ks[data.cuts.ks.length - 1];
  const x = (k) => left + ((width - left - 12) * Math.log(k / 2)) / Math.log(Math.max(most, 3) / 2);
  const y = (v) => bottom - clamp(v, 0, 1) * (bottom - top);
  drawYAxis(chart, width, left, y, [0, 0.25, 0.5, 0.75, 1]);
  const line = (ks, values) => ks.map((k, i) => (i ? "L" : "M") + x(k).toFixed(1) + " " + y(values[i]).toFixed(1)).join("");
  svg(chart, "path", { d: line(data.null.ks, data.null.agreement), fill: "none", stroke: theme("muted"), "stroke-width": 1.5, "stroke-dasharray": "4 4" });
  svg(chart, "path", { d: line(data.cuts.ks, data.cuts.agreement), fill: "none", stroke: theme("accent"), "stroke-width": 2 });
  const at = state.view.kind === "cut" ? state.view.at : null;
  const dots = data.cuts.ks.map((k, i) => [k, i, data.suggested.some((each) => each.k === k)]).sort((a, b) => a[2] - b[2]); // large ones on top
  for (const [k, i, standsOut] of dots) {
    const dot = svg(chart, "circle", { cx: x(k), cy: y(data.cuts.agreement[i]), r: i === at ? 5.5 : standsOut ? 5 : 2.5, fill: theme(i === at ? "ink" : standsOut ? "gap-ink" : "accent"), class: "dot" });
    svg(dot, "title", {}, `${k} clusters: agreement ${data.cuts.agreement[i]}${standsOut ? ", stand out" : ""}`);
    dot.addEventListener("click", () => setView({ kind: "cut", at: i }));
  }
  const [best] = data.suggested;
  if (best) svg(chart, "text", { x: x(best.k), y: Math.max(10, y(data.cuts.agreement[nearestCut(best.k)]) - 9), "text-anchor": "middle", class: "on-lines strong" }, `${best.k} most`);
  for (const k of [2, 3, 5, 8, 12, 20, 35, 60].filter((each) => each <= most)) svg(chart, "text", { x: x(k), y: bottom + 17, "text-anchor": "middle" }, k);
  svg(chart, "text", { x: left, y: height - 3 }, "number of clusters");
  const lowest = Math.min(...data.null.agreement.filter((_, i) => data.null.ks[i] > most / 4), 1); // below the line, where the text is
  svg(chart, "text", { x: width - 12, y: Math.min(y(lowest) + 16, bottom - 4), "text-anchor": "end", class: "on-lines" }, "rows without structure");
}

// Clusters that touch: edges between their representatives.
function touching() {
  if (pairs.cache && pairs.cache.groups === current.groups) return pairs.cache.list;
  const k = current.sizes.length;
  const shared = new Float64Array(k * k);
  for (let i = 0; i < pairs.sums.length; i++) {
    const a = current.groups[pairs.a[i]], b = current.groups[pairs.b[i]];
    shared[a * k + b] += pairs.sums[i];
    shared[b * k + a] += pairs.sums[i];
  }
  const total = Array.from({ length: k }, (_, a) => sum(Array.from(shared.subarray(a * k, a * k + k))));
  const list = [];
  for (let a = 0; a < k; a++) for (let b = a + 1; b < k; b++) if (shared[a * k + b] > 0) list.push([a, b, shared[a * k + b] / Math.max(Math.min(total[a], total[b]), 1e-300)]);
  list.sort((x, y) => y[2] - x[2]);
  pairs.cache = { groups: current.groups, list };
  return list;
}
// Clusters beyond the number of colours share one, with clusters that they hardly touch, that are far away on the map, and
// that have other markers.
function shareColors() {
  const k = current.sizes.length, n = data.colors;
  colorSlots = Array.from({ length: Math.min(k, n) }, (_, code) => code);
  if (k <= n) return;
  const shared = new Float64Array(k * k);
  for (const [a, b, share] of touching()) shared[a * k + b] = shared[b * k + a] = share;
  const x = new Float64Array(k), y = new Float64Array(k), rows = new Float64Array(k).fill(1e-9);
  for (let i = 0; i < drawn.n; i += Math.ceil(drawn.n / 5000)) { // some rows are enough to place a cluster
    const code = current.labels[i];
    x[code] += drawn.xy[2 * i] / 65535;
    y[code] += drawn.xy[2 * i + 1] / 65535;
    rows[code]++;
  }
  for (let code = n; code < k; code++) {
    const costs = new Float64Array(n);
    colorSlots.forEach((slot, other) => {
      const squared = (x[code] / rows[code] - x[other] / rows[other]) ** 2 + (y[code] / rows[code] - y[other] / rows[other]) ** 2;
      const isAlike = code % data.markers.length === other % data.markers.length;
      costs[slot] += 2e5 * shared[code * k + other] + 1 / (squared + 1e-3) + (isAlike ? 1e9 : 0);
    });
    colorSlots.push(costs.indexOf(Math.min(...costs)));
  }
}
function showTouching() {
  const list = touching().filter(([a, b]) => state.only === null || a === state.only || b === state.only).slice(0, 12);
  $("touching").replaceChildren(...list.map(([a, b, share]) => make("tr", {}, make("td", {}, marker(a), " " + shorten(current.names[a], 20) + " and ", marker(b), " " + shorten(current.names[b], 20)), make("td", {}, formatShare(share)))));
  $("touching-none").hidden = list.length > 0;
}

// The rows that a lasso selects.
function showSelection() {
  const panel = $("selection");
  panel.hidden = !state.selected;
  $("selection-csv").hidden = false;
  if (!state.selected) return;
  const chosen = [];
  for (let i = 0; i < drawn.n; i++) if (state.selected[i]) chosen.push(i);
  const isSample = drawn.n < data.rows;
  $("selection-title").textContent = `${formatRows(chosen.length)} selected` + (isSample ? `, of a sample: about ${formatRows((chosen.length * data.rows) / drawn.n)} of all` : "");
  const counts = new Map();
  for (const i of chosen) counts.set(current.labels[i], (counts.get(current.labels[i]) || 0) + 1);
  const by = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([code, n]) => `${nameOf(code)}: ${n.toLocaleString("en")}`).join(" · ");
  const numbers = chosen.slice(0, 12).map((i) => drawn.rows[i].toLocaleString("en")).join(", ") + (chosen.length > 12 ? " …" : "");
  $("selection-text").textContent = `${by}. Rows ${numbers}`;
  const facts = drawn.columns.map((column) => {
    let n = 0, total = 0;
    for (const i of chosen) {
      const value = valueOf(column, i);
      if (!Number.isNaN(value)) [n, total] = [n + 1, total + value];
    }
    const mean = total / n;
    return { j: column.column, mean, score: (mean - profile.total.mean[column.column]) / profile.total.spread[column.column] };
  }).filter((each) => Number.isFinite(each.score)).sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).slice(0, 6);
  $("selection-profile").replaceChildren(...facts.map(({ j, mean, score }) => make("li", {}, make("span", { class: "feature" }, breakable(profile.names[j]), extra(isExtraColumn(j))), direction(score), make("span", { class: "value" }, formatValue(mean)))));
  $("selection-described").replaceChildren(...drawn.described.slice(0, 8).map((column) => make("p", { class: "facts-line" }, isolated(column.name, 24), ": ", make("b", {}, describeSelected(column, chosen)), extra(true))));
}
function describeSelected(column, chosen) { // the most frequent categories, or some of the texts
  if (column.texts) return chosen.map((i) => column.texts[i]).filter(Boolean).slice(0, 2).map((text) => shorten(text, 80)).join(" · ") || "–";
  const counts = new Map();
  for (const i of chosen) if (column.codes[i] < 255) counts.set(column.codes[i], (counts.get(column.codes[i]) || 0) + 1);
  const listed = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
  return listed.map(([code, n]) => `${shorten(column.categories[code], 40)} ${formatShare(n / chosen.length)}`).join(" · ") || "–";
}
function showNothingSelected() {
  $("selection").hidden = false;
  $("selection-title").textContent = "No rows selected";
  $("selection-text").textContent = drawn.n < data.rows ? "The lasso holds none of the sample of rows." : "The lasso holds no rows.";
  $("selection-profile").replaceChildren();
  $("selection-described").replaceChildren();
  $("selection-csv").hidden = true;
}
function csvCell(value) { // text that a spreadsheet would take for a formula gets a quote before it
  let text = String(value);
  if (/^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+(e[+-]?\d+)?$/i.test(text)) text = "'" + text;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function selectionCsv() {
  const head = ["row", "cluster", "share", ...drawn.columns.map((column) => profile.names[column.column]), ...drawn.described.map((column) => column.name)];
  const lines = [head.map(csvCell).join(",")];
  for (let i = 0; i < drawn.n; i++) {
    if (!state.selected[i]) continue;
    const values = drawn.columns.map((column) => { const value = valueOf(column, i); return Number.isNaN(value) ? "" : +value.toPrecision(6); });
    lines.push([drawn.rows[i], current.names[current.labels[i]], (current.sure[i] / 255).toFixed(3), ...values, ...drawn.described.map((column) => (column.texts ? column.texts[i] : column.categories[column.codes[i]] ?? ""))].map(csvCell).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

// Two labelings side by side: flows between their clusters, and scores.
function comparables() {
  const list = data.cuts.ks.map((k, at) => ({ title: data.cuts.ks.length > 1 ? `${k} clusters` : "the model", view: { kind: "cut", at } }));
  return [...data.labelings.map((labeling, at) => ({ title: labeling.title, view: { kind: "labeling", at } })), ...list];
}
function contingency(a, b, n, m) {
  const table = new Float64Array(n * m);
  for (let i = 0; i < drawn.n; i++) table[a[i] * m + b[i]]++;
  return table;
}
function scores(table, n, m, total) { // NMI divides by the larger entropy, as `ultraspec.metrics`; AMI by their mean, as scikit-learn
  const rows = new Float64Array(n), columns = new Float64Array(m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) { rows[i] += table[i * m + j]; columns[j] += table[i * m + j]; }
  const pairsOf = (x) => (x * (x - 1)) / 2;
  const same = sum(Array.from(table, pairsOf)), inRows = sum(Array.from(rows, pairsOf)), inColumns = sum(Array.from(columns, pairsOf));
  const expected = (inRows * inColumns) / Math.max(pairsOf(total), 1), most = (inRows + inColumns) / 2;
  const ari = most === expected ? 1 : (same - expected) / (most - expected);
  const entropy = (counts) => -sum(Array.from(counts, (x) => (x ? (x / total) * Math.log(x / total) : 0)));
  const ha = entropy(rows), hb = entropy(columns);
  let mutual = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) { const x = table[i * m + j]; if (x) mutual += (x / total) * Math.log((total * x) / (rows[i] * columns[j])); }
  const mean = (ha + hb) / 2;
  const chance = expectedInformation(rows, columns, total);
  return { ari, nmi: mean ? mutual / Math.max(ha, hb) : 1, ami: Math.abs(mean - chance) < 1e-12 ? 1 : (mutual - chance) / (mean - chance) };
}
function expectedInformation(rows, columns, total) { // of random labels with these sizes (Vinh, Epps and Bailey 2010)
  const logs = new Float64Array(total + 2); // logarithms of factorials
  for (let i = 2; i <= total; i++) logs[i] = logs[i - 1] + Math.log(i);
  let result = 0;
  const seen = new Map(); // many clusters have the same size
  for (const a of rows) {
    for (const b of columns) {
      if (!a || !b) continue;
      const key = a * (total + 1) + b;
      if (!seen.has(key)) {
        let part = 0;
        for (let x = Math.max(1, a + b - total); x <= Math.min(a, b); x++) {
          part += (x / total) * Math.log((total * x) / (a * b)) * Math.exp(logs[a] + logs[b] + logs[total - a] + logs[total - b] - logs[total] - logs[x] - logs[a - x] - logs[b - x] - logs[total - a - b + x]);
        }
        seen.set(key, part);
      }
      result += seen.get(key);
    }
  }
  return result;
}
function showComparison() {
  const list = comparables();
  const other = list[Number($("compare-with").value)];
  if (!other) return;
  const b = resolve(other.view);
  const a = current;
  const n = a.sizes.length, m = b.sizes.length;
  const table = contingency(a.labels, b.labels, n, m);
  const found = scores(table, n, m, drawn.n);
  $("compare-scores").replaceChildren(...[["ARI", found.ari], ["AMI", found.ami], ["NMI", found.nmi]].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { "data-score": name.toLowerCase() }, value.toFixed(3)))));
  drawFlows(table, a, b);
  const moves = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) if (table[i * m + j]) moves.push([i, j, table[i * m + j]]);
  const rowTotal = (i) => moves.filter((move) => move[0] === i).reduce((total, move) => total + move[2], 0);
  const partner = Array.from({ length: n }, (_, i) => moves.filter((move) => move[0] === i).reduce((best, move) => (best === null || move[2] > best[2] ? move : best), null));
  const moved = moves.filter((move) => partner[move[0]] !== move).sort((x, y) => y[2] - x[2]).slice(0, 12);
  const scale = data.rows / drawn.n;
  $("compare-table").replaceChildren(...moved.map(([i, j, count]) => make("tr", {}, make("td", {}, marker(i), ` ${shorten(a.names[i], 24)}`), make("td", {}, `${shorten(b.names[j], 24)}`), make("td", {}, (scale > 1 ? "about " : "") + formatRows(count * scale)), make("td", {}, formatShare(count / rowTotal(i))))));
  $("compare-none").hidden = moved.length > 0;
}
function drawFlows(table, a, b) {
  const n = a.sizes.length, m = b.sizes.length;
  const height = clamp(Math.max(n, m) * 16, 180, 460), bar = 12, gap = 3;
  const [chart, width] = newChart("flows", height + 22);
  const left = 74, right = width - 74;
  const total = drawn.n || 1;
  const rows = Array.from({ length: n }, (_, i) => sum(Array.from(table.subarray(i * m, i * m + m))));
  const columns = Array.from({ length: m }, (_, j) => rows.reduce((s, _, i) => s + table[i * m + j], 0));
  const partner = columns.map((_, j) => rows.reduce((best, _, i) => (table[i * m + j] > table[best * m + j] ? i : best), 0));
  const order = columns.map((_, j) => j).sort((x, y) => partner[x] - partner[y] || columns[y] - columns[x]);
  const unit = (height - gap * (Math.max(n, m) - 1)) / total;
  const place = (sizes, sequence) => { const starts = []; let at = 16; for (const i of sequence) { starts[i] = at; at += sizes[i] * unit + gap; } return starts; };
  const startA = place(rows, rows.map((_, i) => i)), startB = place(columns, order);
  const usedA = startA.slice(), usedB = startB.slice();
  svg(chart, "text", { x: left, y: 10 }, "shown above");
  svg(chart, "text", { x: right, y: 10, "text-anchor": "end" }, shorten(b.title, 30));
  for (let i = 0; i < n; i++) {
    for (const j of order) {
      const count = table[i * m + j];
      if (!count) continue;
      const thick = count * unit, x1 = left + bar, x2 = right - bar, middle = (x1 + x2) / 2, y1 = usedA[i], y2 = usedB[j];
      usedA[i] += thick;
      usedB[j] += thick;
      if (thick < 0.15) continue;
      const flow = svg(chart, "path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}V${y2 + thick}C${middle} ${y2 + thick} ${middle} ${y1 + thick} ${x1} ${y1 + thick}Z`, fill: colorOf(i), "fill-opacity": isShown(i) ? 0.45 : 0.08, class: "flow" });
      svg(flow, "title", {}, `${nameOf(i)} and ${b.names[j]}: ${formatShare(count / total)} of the rows`);
    }
  }
  rows.forEach((size, i) => {
    svg(chart, "rect", { x: left, y: startA[i], width: bar, height: Math.max(1, size * unit), fill: colorOf(i) });
    if (size * unit > 9) svg(chart, "text", { x: left - 6, y: startA[i] + (size * unit) / 2 + 4, "text-anchor": "end" }, shorten(a.names[i], 9));
  });
  columns.forEach((size, j) => {
    svg(chart, "rect", { x: right - bar, y: startB[j], width: bar, height: Math.max(1, size * unit), fill: theme("muted") });
    if (size * unit > 9) svg(chart, "text", { x: right + 6, y: startB[j] + (size * unit) / 2 + 4 }, shorten(b.names[j], 9));
  });
}
function otherCut(list) { // what to compare with first: the number that stands out most, or the next one if that is shown
  const own = data.cuts.ks[data.cuts.own];
  const k = [...data.suggested.map((each) => each.k), own + 1, own - 1].find((each) => each !== own && data.cuts.ks.includes(each));
  return Math.max(0, list.findIndex(({ view }) => view.kind === "cut" && data.cuts.ks[view.at] === k));
}
function listenToPanels() {
  const list = comparables();
  const start = data.labelings.length ? (data.start === "labeling" ? data.labelings.length + data.cuts.own : 0) : otherCut(list);
  $("compare-with").append(...list.map(({ title }, i) => make("option", { value: i, selected: i === start }, title)));
  $("compare-with").addEventListener("change", showComparison);
  $("compare-show").addEventListener("click", () => setView(list[Number($("compare-with").value)].view));
  const color = $("color-by");
  const options = [["cluster", "cluster"]];
  if (drawn.border.length) options.push(["sure", "certainty (share of the vote)"]);
  if (drawn.confidence) options.push(["confidence", "confidence of the ensemble"]);
  options.push(["odd", "distance from representatives"]);
  drawn.columns.forEach((column, i) => options.push([String(i), shorten(profile.names[column.column], 60) + (isExtraColumn(column.column) ? ` (${NOT_CLUSTERED})` : "")]));
  color.append(...options.map(([value, title]) => make("option", { value }, title)));
  color.addEventListener("change", () => {
    state.color = color.value;
    showScale();
    drawMap();
  });
  $("selection-csv").addEventListener("click", () => download("selected-rows.csv", selectionCsv(), "text/csv"));
  $("selection-clear").addEventListener("click", () => {
    setSelected(null);
    $("map").focus({ preventScroll: true }); // the button hides
  });
}
function showScale() {
  const scale = $("scale");
  scale.hidden = state.color === "cluster";
  if (scale.hidden) return;
  const column = drawn.columns[Number(state.color)];
  const ends = state.color === "odd" ? ["near", "far"] : column ? [formatValue(column.low), formatValue(column.high)] : ["0", "1"];
  scale.replaceChildren(make("span", {}, ends[0]), make("i", { class: state.color === "sure" || state.color === "confidence" ? "confidence" : "feature" }), make("span", {}, ends[1]), make("span", {}, $("color-by").selectedOptions[0].textContent + (column ? ", by rank" : "")));
}
