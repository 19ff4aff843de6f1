"""`python -m npudoctor` is the console script.

`python -m` puts the working folder, which another user may control, first on the import path: it is removed again as
early as possible; `python -P -m` does so before anything is imported.
"""

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

from npudoctor.cli import console

if __name__ == "__main__":
    console()
