"""Engines run block functions over a row source and combine what they return, always in block order."""
