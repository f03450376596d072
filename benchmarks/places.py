"""Measures `metric="haversine"` on eight million generated places, by the code of docs/tutorials/places.md.

``python benchmarks/places.py`` stores time and scores in results/places.json.
"""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
from common import HERE, machine, store

from ultraspec import USPEC, metrics

PAGE = HERE.parent / "docs" / "tutorials" / "places.md"
PLACES, CITIES = 8_000_000, 40


def main() -> None:
    """Generate places, fit and score."""
    code = re.search(r"^```python\n(.*?)^X, city =", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code is not None
    page: dict[str, Any] = {}
    exec(code[1], page)
    X, city = page["write_places"](PLACES, n_cities=CITIES, seed=0)
    USPEC(CITIES, metric="haversine", random_state=0).fit(X[:20_000])  # compiles
    started, cpu = time.perf_counter(), time.process_time()
    model = USPEC(CITIES, metric="haversine", random_state=0).fit(X)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    known = city >= 0
    clusters = [np.bincount(model.labels_[city == c]) for c in range(CITIES)]
    found = {
        "rows": PLACES,
        "cities": CITIES,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "ami": metrics.ami(city[known], model.labels_[known]),
        "together": sum(bool(counts.max() >= 0.999 * counts.sum()) for counts in clusters),
        "clusters_of_cities": len({int(counts.argmax()) for counts in clusters}),
    }
    store("places", {"machine": machine(), "runs": {"uspec": found}})
    print(found)


if __name__ == "__main__":
    main()
