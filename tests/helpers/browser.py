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
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Browser(chromium)
        chromium.close()


class Browser:
    """A running browser, and tabs that wait for the next visit: to open a new one takes longer than to load a page."""

    def __init__(self, chromium):
        self._chromium = chromium
        self._idle = []

    @contextlib.contextmanager
    def tab(self, width, scheme, **options):
        """Yield a tab; one that was used before, unless it needs options of its own."""
        size = {"width": width, "height": 800}
        if options:
            with self._chromium.new_context(viewport=size, color_scheme=scheme, **options) as session:
                yield session.new_page()
            return
        page = self._idle.pop() if self._idle else self._chromium.new_context().new_page()
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        yield page
        page.goto("about:blank")
        self._idle.append(page)  # a tab whose test failed is not used again


class Visit:
    """An open page, and the errors on it."""

    def __init__(self, browser, path, *, width=1100, dark=False, **options):
        self._tab = browser.tab(width, "dark" if dark else "light", **options)
        self.page = self._tab.__enter__()
        self.troubles, self.requests = [], []
        self._listeners = {
            "console": lambda message: self.troubles.append(message.text),
            "pageerror": lambda error: self.troubles.append(str(error)),
            "dialog": lambda dialog: (self.troubles.append("a dialog"), dialog.dismiss()),
            "requestfailed": lambda request: self.troubles.append("failed: " + request.url),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        self.page.goto(Path(path).as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self._tab.__exit__(*exc_info)

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
