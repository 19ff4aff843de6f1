"""Prints what a Python looks at when it starts: where it searches, and every file that its .pth files make it read.

For a Python that was started with -S, as a user who owns nothing: the code in its .pth files runs here. Standard
library only, in the syntax of Python 3.6. Before 3.8 no opened file is told, but the search path and the modules.
"""

import json
import os
import sys


def _main() -> None:
    seen = set()

    def note(event: str, told: "tuple[object, ...]") -> None:
        if event == "open" and isinstance(told[0], (str, bytes)) and not (told[2] or 0) & os.O_ACCMODE:  # type: ignore[operator]
            seen.add(os.fsdecode(told[0]))

    del sys.path[0]  # the folder of this script
    if hasattr(sys, "addaudithook"):
        sys.addaudithook(note)
    import site

    site.main()
    seen.update(path for path in sys.path if isinstance(path, str))
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    seen.update(path for path in modules if isinstance(path, str) and path != os.path.abspath(__file__))
    sys.stdout.write("\n" + json.dumps(sorted(map(os.path.abspath, seen))) + "\n")


if __name__ == "__main__":
    _main()
