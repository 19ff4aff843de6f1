"""What the kernel's settings will be after a reboot: sysctl.conf and the sysctl.d folders, in their precedence."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
"""A file hides the files of the same name in the folders after its own (sysctl.d(5), and sysctl(8) for `--system`)."""

LAST_FILE = "/etc/sysctl.conf"


OURS = ("/etc/sysctl.d/99-npudoctor-hccl.conf", "/etc/sysctl.d/zz-npudoctor-hccl.conf")
"""The file of npudoctor's own for HCCL's ports; the second where a file of somebody else would be read after it."""


def ours_after(path: str | None) -> str:
    """The file of npudoctor's own that is read after a file of somebody else (None: after none)."""
    if path is None or posixpath.basename(path) < posixpath.basename(OURS[0]):
        return OURS[0]
    return OURS[1]


@record(frozen=True, kw_only=True)
class Setting:
    """One assignment in one file; `key` has dots between its parts, `line_number` counts from 1."""

    key: str
    value: str
    path: str
    line_number: int


@record(frozen=True)
class SysctlFiles:
    """Every assignment in the order in which it is made at boot, so the last one of a key is in force.

    `unreadable` names the files that this user may not read: what they assign is not known.
    """

    settings: tuple[Setting, ...]
    unreadable: tuple[str, ...] = ()

    def of(self, key: str) -> tuple[Setting, ...]:
        """The assignments of one key; the last one is in force after a reboot."""
        return tuple(setting for setting in self.settings if setting.key == key)


def parse(text: str, path: str) -> tuple[Setting, ...]:
    """Read one file; comments, and a key without a value, which only shields it from patterns, are passed over."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        key, equals, value = stripped.partition("=")
        if stripped[:1] not in ("", "#", ";") and equals:
            name = canonical_key(key.strip().removeprefix("-"))
            found.append(Setting(key=name, value=value.strip(), path=path, line_number=number))
    return tuple(found)


def canonical_key(key: str) -> str:
    """The key with dots between its parts: where the first separator is a slash, dots stand for slashes and back."""
    separator = next((letter for letter in key if letter in "./"), ".")
    return key if separator == "." else key.translate(str.maketrans("./", "/."))


def order(listed: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
    """The files that count, as boot reads them: by file name, whatever their folder, and sysctl.conf last."""
    chosen: dict[str, str] = {}
    for folder, names in listed:
        for name in names:
            if name.endswith(".conf"):
                chosen.setdefault(name, f"{folder}/{name}")
    return (*(chosen[name] for name in sorted(chosen)), LAST_FILE)


@probe
def sysctl_files(host: Host) -> SysctlFiles:
    """From the files that are there; one that links to /dev/null assigns nothing."""
    listed = [(folder, _names(host, folder)) for folder in FOLDERS]
    settings: list[Setting] = []
    unreadable = []
    for path in order(listed):
        if host.read_link(path) == "/dev/null":
            continue
        try:
            settings += parse(host.read(path), path)
        except Unavailable as why:
            if why.because is Because.NOT_RECORDED:
                raise
            if why.because is not Because.ABSENT:
                unreadable.append(path)
    return SysctlFiles(tuple(settings), tuple(unreadable))


def _names(host: Host, folder: str) -> tuple[str, ...]:
    try:
        return host.list_dir(folder)
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED:
            raise
        return ()
