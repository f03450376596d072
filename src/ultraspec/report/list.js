// The list of clusters.
function showList() { // one button per cluster, with its rows of all the data
  const list = $("clusters");
  const k = current.sizes.length;
  const most = Math.max(1, ...current.sizes);
  list.className = "keys" + (k > 22 ? " long" : k > 14 ? " dense" : "") + (k > 120 ? " many" : "");
  list.closest(".split").classList.toggle("below", k > 22);
  list.style.setProperty("--name", `${Math.min(12, Math.max(...current.names.map((name) => name.length))) + 0.8}ch`);
  list.style.setProperty("--rows", `${most.toLocaleString("en").length + 0.4}ch`);
  $("list-hint").textContent = "Select a cluster to show it alone, select it again to show all." + (k > 120 ? ` Scroll to see all ${k}.` : "");
  list.replaceChildren(...current.sizes.map((size, code) => {
    const color = colorOf(code);
    return make("li", { "data-cluster": code, "data-size": size, class: isShown(code) ? "" : "off" },
      make("button", { type: "button", class: "key", "data-code": code, "aria-pressed": String(state.only === code), "aria-label": `Cluster ${current.names[code]}, ${formatRows(size)}: show only this one`, onclick: () => select(code) },
        marker(code), make("span", { class: "name", title: current.names[code].length > 9 ? current.names[code] : null }, current.names[code]),
        make("span", { class: "track" }, make("i", { style: `width:${(100 * size) / most}%;background:${color}` })),
        make("span", { class: "rows" }, size.toLocaleString("en")), make("span", { class: "share" }, formatShare(size / data.rows))));
  }));
}
