"use strict";
// The only thing that needs a script: another colour scheme than the system's.
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
