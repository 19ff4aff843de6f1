"""`python -m npudoctor` is the console script.

`python -m` puts the working folder first on the path of imports, which could be anybody's: it is taken out again, as
far as npudoctor can; `python -P -m` does it before anything is imported.
"""

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

from npudoctor.cli import console

if __name__ == "__main__":
    console()
