"""``python -m ultraspec``."""

import sys

from ultraspec.cli import main

if __name__ == "__main__":
    sys.exit(main())
