"use strict";
// Another colour scheme than the system's, and a fading edge where a table goes on: all else needs no script.
const root = document.documentElement, button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
function show() {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}
button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; show(); });
system.addEventListener("change", show);
button.hidden = false;
show();
for (const box of document.querySelectorAll(".wide")) {
  const look = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 4);
  box.addEventListener("scroll", look, { passive: true });
  addEventListener("resize", look);
  box.closest("details")?.addEventListener("toggle", look);
  look();
}
