"""The operating system and the kernel."""

from __future__ import annotations

import contextlib
import shlex

from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe


@record(frozen=True, kw_only=True)
class Platform:
    """The node's operating system. `os` is its pretty name, `kernel` the running release; None where unknown."""

    machine: str
    os: str | None = None
    os_id: str | None = None
    os_version: str | None = None
    kernel: str | None = None


def parse_os_release(text: str) -> dict[str, str]:
    """The keys of /etc/os-release in lower case; lines that are no assignment are passed over."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            try:
                found[key.strip().lower()] = " ".join(shlex.split(value))
            except ValueError:
                found[key.strip().lower()] = value.strip()
    return found


@probe
def platform(host: Host) -> Platform:
    """From /etc/os-release and /proc/sys/kernel/osrelease."""
    release: dict[str, str] = {}
    kernel = None
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        with contextlib.suppress(Unavailable):
            release = release or parse_os_release(host.read(path))
    with contextlib.suppress(Unavailable):
        kernel = host.read("/proc/sys/kernel/osrelease").strip() or None
    name = " ".join(part for part in (release.get("name"), release.get("version")) if part)
    return Platform(
        machine=host.about.machine,
        os=release.get("pretty_name") or name or None,
        os_id=release.get("id"),
        os_version=release.get("version_id"),
        kernel=kernel,
    )
