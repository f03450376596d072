"""Engines run block functions over a row source and combine what they return, always in block order."""

from ultraspec.engines.threads import ThreadEngine

__all__ = ["ThreadEngine"]
