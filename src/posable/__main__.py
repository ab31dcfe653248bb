"""`python -m posable VERB ...`: the command line if the `posable` script is not on the path."""

import sys

from posable.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
