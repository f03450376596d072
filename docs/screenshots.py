"""Pictures of the report for its tutorial: ``python docs/screenshots.py``, with playwright and Chromium.

The example of the tutorial writes the report.
"""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pages
from PIL import Image
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# each picture reaches from the top of one element to the bottom of another
SHOTS = {
    "report-top": ("body", "#map-card"),
    "report-tree": ("#choose", "#choose"),
    "report-features": ("#features", "#features"),
    "report-trust": ("#trust", "#trust"),
    "report-compare": ("#compare", "#compare"),
    "report-graph": ("#graph-card", "#graph-card"),
}
MARGIN = 8


def shoot(page: Any, first: str, last: str) -> Image.Image:
    """Take a picture of the part of a page between two elements."""
    top = page.locator(first).first.bounding_box()
    bottom = page.locator(last).first.bounding_box()
    full = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    ratio = full.width / page.viewport_size["width"]
    low = max(0, top["y"] - MARGIN)
    high = bottom["y"] + bottom["height"] + MARGIN
    return full.crop((0, int(low * ratio), full.width, int(high * ratio)))


def save(image: Image.Image, path: Path) -> None:
    """Write a PNG with few colours, which is small."""
    image.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(pages.DOCS)}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Run the first example of the tutorial and take all pictures."""
    program = os.environ.get("ULTRASPEC_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    examples = pages.run(pages.DOCS / "tutorials" / "report.md")
    next(examples)  # changes to the folder of the example
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 940, "height": 800}, color_scheme="light").new_page()
        page.goto(Path("report.html").absolute().as_uri())
        page.wait_for_timeout(500)
        page.add_style_tag(content=".chooser { position: static !important; }")  # it would cover other parts
        for name, (first, last) in SHOTS.items():
            save(shoot(page, first, last), pages.DOCS / "images" / f"{name}.png")
        browser.close()
    examples.close()


if __name__ == "__main__":
    main()
