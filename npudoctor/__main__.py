"""`python -m npudoctor` is the console script."""

import sys

from npudoctor.cli import main

if __name__ == "__main__":
    sys.exit(main())
