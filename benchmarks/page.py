"""The page: seconds to write it, size of the file, milliseconds per step of its slider, in headless Chromium.

``python benchmarks/page.py`` writes benchmarks/results/page.json. It needs playwright and Chromium. A step is what one
input event of the slider does: all labels of the drawn rows, the map, the list, the tree, and all figures in sight.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from common import RESULTS, machine
from playwright.sync_api import sync_playwright

from ultraspec import USPEC, datasets, report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
STEP = """k => {
    const slider = document.getElementById("n-clusters");
    slider.value = k;
    const started = performance.now();
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    document.getElementById("map").getContext("2d").getImageData(0, 0, 1, 1); // wait until the canvas is painted
    return performance.now() - started;
}"""
# name, rows, rows drawn one by one at most
CASES = [
    ("20,000 points", 20_000, 20_000),
    ("200,000 points", 200_000, 200_000),
    ("raster of 2,000,000 rows", 2_000_000, 20_000),
]


def measure(page: Any, path: Path) -> dict[str, Any]:
    """Open a page and move its slider."""
    started = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_function("typeof drawAll === 'function'")
    opened = time.perf_counter() - started
    for k in (3, 9, 20):
        page.evaluate(STEP, k)  # until the script is compiled
    times = [page.evaluate(STEP, k) for k in [*range(2, 61), *range(59, 1, -1)]]
    return {
        "open_seconds": round(opened, 2),
        "step_ms_median": round(statistics.median(times), 1),
        "step_ms_90_percent": round(sorted(times)[int(0.9 * len(times))], 1),
        "steps": len(times),
    }


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=len(CASES))
    chosen = parser.parse_args()
    program = os.environ.get("ULTRASPEC_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    results = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, n_rows, points in CASES[: chosen.cases]:
            X, _ = datasets.generate("cg", n_rows, random_state=0)
            model = USPEC(6, random_state=0).fit(X)
            path = Path(folder) / "page.html"
            started = time.perf_counter()
            report.write(model, X, path, points=points)
            seconds = time.perf_counter() - started
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            found = {
                "case": name,
                "rows": n_rows,
                "write_seconds": round(seconds, 1),
                "file_mb": round(path.stat().st_size / 1e6, 2),
            }
            results.append({**found, **measure(page, path)})
            page.close()
            print(results[-1])
        browser.close()
    (RESULTS / "page.json").write_text(
        json.dumps({"machine": machine(), "pages": results}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
