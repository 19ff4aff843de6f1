"""Plug-ins that hold the interpreter, or end the process, where a check or an import of theirs runs.

A match of `re` holds the interpreter: no thread, no signal handler and no time limit of that process goes on meanwhile.
"""

HOLD = "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')\n"

CHECK = """
import os
import subprocess
from collections.abc import Iterator

from npudoctor.sdk import Finding, Host, check


@check("test.stuck", tags=("test",), profile="quick")
def stuck(host: Host) -> Iterator[Finding]:
    \"\"\"A check that never ends.\"\"\"
    {body}
    yield Finding(summary="not reached")
"""

HOLDS = CHECK.format(body="import re; re.match(r'(a+)+$', 'a' * 60 + 'b')")
LEAVES = CHECK.format(body="os._exit(0)")
CRASHES = CHECK.format(body="import ctypes; ctypes.string_at(0)")
"""Checks: one that holds the interpreter, one that ends its process, one that crashes it."""


def starts_first(path: str) -> str:
    """A check that starts a process in a session of its own, writes its number to a file, and holds the interpreter."""
    start = "child = subprocess.Popen(['sleep', '86400'], start_new_session=True); "
    return CHECK.format(
        body=f"{start}open({path!r}, 'w').write(str(child.pid)); import re; re.match(r'(a+)+$', 'a' * 60 + 'b')"
    )
