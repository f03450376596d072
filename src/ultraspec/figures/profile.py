"""Time and memory of the phases of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Phase:
    """A phase of a fit: its time, and the peak of the resident memory in bytes, if it is known."""

    name: str
    seconds: float
    resident_bytes: int | None


def phases(model: Any) -> list[Phase]:
    """Return the phases of a fit in order; none if the model comes from a file."""
    profile = getattr(model, "fit_profile_", {})
    return [Phase(str(name), float(facts["seconds"]), facts["resident_bytes"]) for name, facts in profile.items()]
