"""`python -m toolgauge`: the same as the command `toolgauge`."""

import sys

from toolgauge.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
