"""What became of each node that was expected: answered, or why not, with the next step."""

from __future__ import annotations

import re
from typing import NamedTuple

from npudoctor.findings import Line
from npudoctor.models import Model


class Kind(NamedTuple):
    """One kind of outcome: `summary` of the nodes, `hint` the next step. `answered`: there is a digest."""

    name: str
    summary: str
    hint: str
    answered: bool = False


KINDS = {
    one.name: one
    for one in (
        Kind("answered", "answered", "", answered=True),
        Kind("late", "answered after the time limit", "Raise --timeout.", answered=True),
        Kind("name", "host name not resolved", "Correct the name, DNS or /etc/hosts on this machine."),
        Kind("route", "no route, or connection refused or timed out", "Check that the node is up and sshd runs."),
        Kind("host-key", "host key unknown or changed", "Verify the key, then accept it with ssh by hand."),
        Kind("permission", "login refused", "Run `ssh NODE true` by hand: key, agent, user, or ssh_config."),
        Kind("banner", "connection closed before login", "Lower --fanout, or raise MaxStartups in sshd_config."),
        Kind("ssh", "ssh failed", "Run `ssh NODE true` by hand."),
        Kind("sudo", "sudo refused", "Allow it in the sudoers of the node, or check without --sudo."),
        Kind("no-npudoctor", "npudoctor not found", "Install it there, or name it with --remote-command."),
        Kind("old-version", "npudoctor without the command node", "Install the npudoctor of this machine there."),
        Kind("garbled", "answer not readable", "Run `npudoctor node --line` on the node."),
        Kind("untrusted", "answer that another user could have written", "Merge as its owner, or copy it as root."),
        Kind("too-much", "output larger than 2 MiB, discarded", "Check what the login shell prints on the node."),
        Kind("timed-out", "timed out", "Run `npudoctor check` on the node; raise --timeout if it is only slow."),
        Kind("killed", "ended by a signal", "Check the kernel log of the node for the out-of-memory killer."),
        Kind("silent", "nothing received", "Check whether the engine has run on the node."),
        Kind("failed", "command failed without an answer", "Run `npudoctor node --line` on the node."),
        Kind("scheduler", "not asked: taken out by the scheduler", "Return it to service, or remove it from the list."),
        Kind("busy", "not asked: the scheduler has no free slot there", "Retry later, or run inside the allocation."),
    )
}


class Outcome(Model):
    """What became of one node. `kind` is a name of `KINDS`, `detail` the last line that says why.

    `started` and `received` are times of this machine, in seconds since 1970: between them the node answered. `owner`
    is the user whose file the answer was read from, where that is neither root nor this user.
    """

    node: Line
    kind: Line
    detail: Line | None = None
    started: float | None = None
    received: float | None = None
    owner: Line | None = None

    @property
    def answered(self) -> bool:
        """Whether there is a digest."""
        return self.about.answered

    @property
    def about(self) -> Kind:
        """What its kind means."""
        return KINDS.get(self.kind, KINDS["failed"])


_SSH = (
    ("name", r"could not resolve hostname|name or service not known|temporary failure in name resolution"),
    ("host-key", r"host key verification failed|remote host identification has changed"),
    ("permission", r"permission denied|too many authentication failures|no supported authentication"),
    ("banner", r"connection closed by|connection reset|kex_exchange_identification|banner exchange"),
    ("route", r"no route to host|connection refused|connection timed out|network is unreachable|operation timed out"),
)


def without_digest(
    code: int | None, stderr: str, *, timed_out: bool = False, overflow: bool = False
) -> tuple[str, str]:
    """The kind and the detail of an answer without a digest, from the exit code and what was printed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    detail = lines[-1][:300] if lines else ""
    text = stderr.lower()
    if overflow:
        return "too-much", ""
    if timed_out or code == 124:
        return "timed-out", detail
    if re.search(r"^sudo: |is not in the sudoers", text, re.MULTILINE):
        return "sudo", next((line for line in lines if "sudo" in line), detail)
    if code in (126, 127) or re.search(r"npudoctor\S{0,200}: (command not found|not found|no such file)", text):
        return "no-npudoctor", detail
    if "unknown command 'node'" in text:
        return "old-version", detail
    if code == 255:
        for kind, pattern in _SSH:
            if found := next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None):
                return kind, found
        return "ssh", detail
    if code is not None and (code < 0 or code in (137, 143)):
        return "killed", detail or f"exit code {code}"
    return ("silent" if code in (0, None) else "failed"), detail or (f"exit code {code}" if code else "")
