"""What the kernel has written in the last seven days about NPUs, buses, hardware errors and memory that ran out."""

from __future__ import annotations

import re

from npudoctor.facts.node.container import Container
from npudoctor.records import record
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Unavailable, probe

COMMAND = ("journalctl", "-k", "--since", "-7d")
DAYS = 7
_OF_INTEREST = (
    r"davinci|devdrv|devmm|hisi_hdc|drv_\w{1,32}_host|\bascend\b|\bhccs\b|\bnpu\b|\b19e5:|"
    r"\bmce\b|machine check|hardware error|\bAER\b|pcieport|\bEDAC\b|\bghes\b|"
    r"out of memory|oom-kill|\bhung_task\b|blocked for more than|soft lockup"
)
_HIDDEN = r"insufficient permissions|not seeing messages from other users|ermission denied|not permitted"


@record(frozen=True)
class KernelLog:
    """The lines that may report a fault, as written, oldest first, and how many lines there are in all."""

    lines: tuple[str, ...]
    seen: int


def parse(text: str) -> KernelLog:
    """Keep the lines of interest of a kernel log; the journal's own remarks are no lines of it."""
    written = [line for line in text.splitlines() if line.strip() and not re.match(r"-- |Hint: ", line)]
    wanted = re.compile(_OF_INTEREST, re.IGNORECASE)
    return KernelLog(tuple(line.rstrip() for line in written if wanted.search(line)), len(written))


@probe(of_the_moment=True)
def kernel_log(host: Host, container: Container | None = None) -> KernelLog:
    """From `journalctl -k`; unavailable where this user sees nothing of it, and in a container, which has none."""
    if container is not None:
        raise NotApplicable("the kernel log of the host is not visible inside a container")
    done = host.run(COMMAND)
    if reason := _why_nothing(done):
        raise reason
    return parse(done.stdout)


def _why_nothing(done: Completed) -> Unavailable | None:
    command = " ".join(COMMAND)
    if done.timed_out:
        return Unavailable(f"`{command}` timed out after {done.seconds:.3g} s", because=Because.TIMED_OUT)
    text = done.stdout + done.stderr
    seen = parse(done.stdout).seen
    if not seen and re.search(_HIDDEN, text):
        return Unavailable("this user has no access to the kernel log", because=Because.NO_RIGHT)
    if not seen and "No journal files were found" in text:
        return Unavailable("no kernel journal on this node")
    if done.returncode:
        said = next((line.strip()[:160] for line in text.splitlines() if line.strip()), "no output")
        return Unavailable(f"`{command}` failed: {said}", because=Because.FAILED)
    return None
