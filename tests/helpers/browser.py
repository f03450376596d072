"""A real browser for the tests of pages: any installed Chromium, driven by playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextlib.contextmanager
def open_browser():
    """Yield a headless browser; skip the test if none is installed."""
    api = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright, which is not installed")
    program = os.environ.get("ULTRASPEC_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as driver:
        if program is None and not Path(driver.chromium.executable_path).exists():
            pytest.skip("no Chromium is installed (apt-get install chromium, or: playwright install chromium)")
        # a container's root has no sandbox; the pages are our own
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """An open page, and the errors on it."""

    def __init__(self, browser, path, *, width=1100, dark=False, **options):
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **options)
        self.page = self.context.new_page()
        self.troubles, self.requests = [], []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.troubles.append("a dialog"), dialog.dismiss()))
        self.page.on("requestfailed", lambda request: self.troubles.append("failed: " + request.url))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(Path(path).as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.context.close()

    def run(self, code, argument=None):
        """Evaluate a script on the page."""
        return self.page.evaluate(code, argument)

    def colored(self, selector):
        """Count the pixels of a canvas that are not grey."""
        return self.run(
            """selector => {
                const canvas = document.querySelector(selector), {width, height} = canvas;
                const copy = new OffscreenCanvas(width, height).getContext("2d", {willReadFrequently: true});
                copy.drawImage(canvas, 0, 0);
                const {data} = copy.getImageData(0, 0, width, height);
                let n = 0;
                for (let i = 0; i < data.length; i += 4) {
                    const [r, g, b, a] = data.slice(i, i + 4);
                    if (a > 60 && Math.max(r, g, b) - Math.min(r, g, b) > 40) n++;
                }
                return n;
            }""",
            selector,
        )

    def image(self, selector):
        """Return the contents of a canvas."""
        return self.run("selector => document.querySelector(selector).toDataURL()", selector)

    def boxes(self, selector):
        """Return width and height of all elements."""
        return self.run(
            "s => [...document.querySelectorAll(s)].map(e => e.getBoundingClientRect()).map(b => [b.width, b.height])",
            selector,
        )
