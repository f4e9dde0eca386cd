"""``python -m spotgrad``: the command ``spotgrad`` where its script is not on the path."""

import sys

from spotgrad.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
