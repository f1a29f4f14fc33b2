"""`python -m superarm` is the command line."""

import sys

from superarm.cli import main

if __name__ == "__main__":
    sys.exit(main())
