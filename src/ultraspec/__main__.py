"""``python -m ultraspec``."""

from ultraspec.cli import main

main()
