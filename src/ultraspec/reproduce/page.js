// A fading edge where a table continues to the right; everything else needs no script.
for (const box of document.querySelectorAll(".wide")) {
  const update = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 4);
  box.addEventListener("scroll", update, { passive: true });
  addEventListener("resize", update);
  box.closest("details")?.addEventListener("toggle", update);
  update();
}
