"use strict";
// The colour scheme: that of the system, or the other one if the button is pressed. Paper is always light.
const root = document.documentElement;
const themeButton = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
function setTheme(name) {
  if (name) root.dataset.theme = name;
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  root.dispatchEvent(new Event("themechange"));
}
themeButton.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
system.addEventListener("change", () => setTheme());
let themeBeforePrint = "";
addEventListener("beforeprint", () => {
  themeBeforePrint = root.dataset.theme || "";
  setTheme("light");
});
addEventListener("afterprint", () => {
  if (themeBeforePrint) root.dataset.theme = themeBeforePrint;
  else delete root.dataset.theme;
  setTheme();
});
themeButton.hidden = false;
setTheme();
