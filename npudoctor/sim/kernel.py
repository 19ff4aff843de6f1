"""Kernel settings as the kernel takes them: what it refuses, and how it writes back what it was given."""

from __future__ import annotations

import errno
import os
import re

from npudoctor.host.live import measures

RESERVED_PORTS = "net.ipv4.ip_local_reserved_ports"
PORT_RANGE = "net.ipv4.ip_local_port_range"

DEFAULTS = {
    RESERVED_PORTS: "60000-60031",
    PORT_RANGE: "32768\t60999",
    "net.core.somaxconn": "4096",
    "net.netfilter.nf_conntrack_max": "1048576",
    "net.netfilter.nf_conntrack_count": "1874",
    "kernel.pid_max": "4194304",
    "kernel.threads-max": "8249032",
    "vm.swappiness": "10",
}

_LONGEST_WRITE = 4096
_LONGEST_NUMBER = 21
_NUMBER = r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*"


def path_of(key: str) -> str:
    """The file of a setting: /proc/sys/net/ipv4/ip_local_reserved_ports."""
    return "/proc/sys/" + key.replace(".", "/")


def accept(key: str, written: str, old: str) -> str:
    """What a setting reads after something was written to its file; raises OSError, EINVAL, where it is refused."""
    if not written:
        return old
    if key == RESERVED_PORTS:
        return measures.ranges(_ports(written[:_LONGEST_WRITE]))
    if key == PORT_RANGE:
        numbers = [int(part) for part in written.split() if part.isdecimal()]
        if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1] <= 65535:
            raise _refusal()
        return f"{numbers[0]}\t{numbers[1]}"
    if old.lstrip("-").isdecimal() and not re.fullmatch(r"-?\d+", written.strip()):
        raise _refusal()
    return written.strip()


def _ports(written: str) -> set[int]:
    """Read a list of ports as the kernel's bitmaps are read: no blanks, hex and octal numbers count as such."""
    rest = written.lstrip("\n")
    found: set[int] = set()
    while rest:
        low, rest = _number(rest, "-,\n")
        high = low
        if rest.startswith("-"):
            high, rest = _number(rest[1:], ",\n")
        if high < low:
            raise _refusal()
        found.update(range(low, high + 1))
        rest = rest[1:].lstrip("\n")
    return found


def _number(text: str, ends: str) -> tuple[int, str]:
    match = re.match(_NUMBER, text)
    if match is None or match.end() >= _LONGEST_NUMBER:
        raise _refusal()
    rest = text[match.end() :]
    word = match[0].lower()
    base = 16 if word.startswith("0x") else 8 if word.startswith("0") else 10
    if (rest and rest[0] not in ends) or int(word, base) > 65535:
        raise _refusal()
    return int(word, base), rest


def _refusal() -> OSError:
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))
