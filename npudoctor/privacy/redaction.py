"""Stable pseudonyms for what tells who and where a node is: `npudoctor record --redact`.

How it works: the files of a finished recording are read twice. First the names, serial numbers and addresses are
collected where their place says what they are (fields of JSON, columns, labels); then each of them is replaced wherever
it stands, in contents, in paths and in keys of commands, so that what was equal stays equal. Pseudonyms keep the form:
an address stays an address of the same kind (loopback, private, link-local), addresses of one network stay in one, with
the same last part, a MAC stays a MAC, a serial number keeps its length and separators.

IPv4 networks are moved by one difference for each range (10/8, 172.16/12, 192.168/16, all others), which keeps every
common prefix within it. Versions of four numbers look like addresses; only what was collected as one is replaced.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cached_property
from typing import Any

from npudoctor.facts.cann import elf
from npudoctor.host.recording.recorded_node import SLASH
from npudoctor.models import Model
from npudoctor.privacy import identifying_fields, recorded_sources
from npudoctor.privacy.credentials import HIDDEN
from npudoctor.privacy.identifying_fields import Found
from npudoctor.records import replace

_IPV6 = r"(?<![\w:.])(?=[0-9A-Fa-f:.]{2,45}(?![\w:]))(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.]{0,15}(?![\w:])"
_MAC = r"(?<![0-9A-Fa-f:-])[0-9A-Fa-f]{2}(?P<mark>[:-])[0-9A-Fa-f]{2}(?:(?P=mark)[0-9A-Fa-f]{2}){4,18}(?![0-9A-Fa-f:-])"
_DOTTED_MAC = r"(?<![\w.])(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}(?!\w|\.\w)"
_UUID = (
    r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])"
    r"|(?<!\w)(?:[0-9a-f]{64}|[0-9a-f]{32})(?!\w)"  # machine-id(5), ids of containers
)
_KEY_LINE = (
    r"(?<![\w+/=.-])(?=[^\s/]{0,76}[A-Z])(?=[^\s/]{0,76}[a-z])(?=[^\s/]{0,76}\d)(?!(?:[^\s/]{0,76}/){7})"
    r"(?:[A-Za-z0-9+/]{76}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{64})(?![\w+/.-])"
)
"""A line of a private key without its first line: base64 of the width that OpenSSL, OpenSSH and MIME write."""
_RANGES = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_OTHERS = ipaddress.IPv4Network("100.64.0.0/10")
_NETWORK_6 = int(ipaddress.IPv6Address("2001:db8::"))


def redact(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], Pseudonyms]:
    """The files of a recording with pseudonyms, and which pseudonym stands for what."""
    names = Pseudonyms(Found(files))
    kept = {_rename(name, names): names.in_file(name, content) for name, content in files.items()}
    return dict(sorted(kept.items())), names


def _rename(name: str, names: Pseudonyms) -> str:
    if not name.startswith("commands/"):
        return names.apply(name)
    key, _, last = name.removeprefix("commands/").rpartition("/")
    return f"commands/{names.apply(key.replace(SLASH, '/')).replace('/', SLASH)}/{last}"


class Pseudonyms:
    """Which pseudonym stands for what."""

    def __init__(self, found: Found) -> None:
        by_length = sorted(found.hosts, key=lambda name: (-len(name), name))
        short = sorted({name.partition(".")[0] for name in by_length})
        self.hosts = {name: f"host-{short.index(name.partition('.')[0]) + 1}" for name in by_length}
        self.hosts |= {name: f"{self.hosts[name]}.example.com" for name in by_length if "." in name}
        self.users = {name: f"user-{number}" for number, name in enumerate(sorted(found.users), 1)}
        self.serials = {value: _same_form(value, number) for number, value in enumerate(sorted(found.serials), 1)}
        self.folders = {
            path: f"{path[: path.rfind('/') + 1]}folder-{number}"
            for number, path in enumerate(sorted(found.folders), 1)
        }
        self._within_words = found.within_words
        self._old = {address for address in found.addresses if _is_named(address)}
        self._moved: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._networks: dict[int, int] = {}

    # Texts

    def apply(self, text: str) -> str:
        """A text with pseudonyms."""
        return self._tokens.sub(self._token, text)

    def in_file(self, name: str, content: bytes) -> bytes:
        """The content of a file of the recording with pseudonyms; JSON value by value, so that it stays JSON."""
        if content.startswith(elf.MAGIC):
            return self._library(content)
        if b"\0" in content and not name.endswith("/environ"):
            return content
        text = content.decode("utf-8", "surrogateescape")
        path = name.removeprefix("root")
        if name.count("/") == 0 and name.endswith(".json"):
            changed = _map_strings(json.loads(text), self.apply)
            if name == "bundle.json":
                changed["redacted"] = True
            if name == "listings.json":
                changed = {folder: sorted(names) for folder, names in changed.items()}
            text = json.dumps(changed, indent=1, sort_keys=True) + "\n"
        elif identifying_fields.ROUTES.fullmatch(path) or identifying_fields.SOCKETS.fullmatch(path):
            text = re.sub(identifying_fields.HEXADECIMAL, self._in_hexadecimal, text)
            text = re.sub(r"(?<!\w)[0-9A-F]{32}(?=:)", self._six_in_hexadecimal, text)
        elif text.lstrip().startswith("{") and name.startswith("commands/python"):
            text = self._in_json(text)
        else:
            text = self.apply(text)
        return text.encode("utf-8", "surrogateescape")

    def _in_json(self, text: str) -> str:
        try:
            said = json.loads(text)
        except ValueError:
            return self.apply(text)
        return json.dumps(_map_strings(said, self.apply)) + "\n"

    def _library(self, content: bytes) -> bytes:
        """The headers of a library with its folders under pseudonyms."""

        def read(offset: int, length: int) -> bytes:
            return content[offset : offset + length]

        found = elf.parse(read, with_chips=True)
        folders = tuple(map(self.apply, found.runpath))
        if folders == found.runpath:
            return content
        return elf.build(replace(found, runpath=folders))

    @cached_property
    def _tokens(self) -> re.Pattern[str]:
        names = sorted({*self.hosts, *self.users, *self.serials, *self.folders}, key=len, reverse=True)
        literal = "|".join(map(re.escape, names)) or "(?!)"
        parts = [name for name in names if self._within_words and name in self.hosts and _is_distinctive(name)]
        part = "|".join(map(re.escape, parts)) or "(?!)"
        return re.compile(
            rf"(?P<key>{_KEY_LINE})|(?P<hex>(?<!\w)0x[0-9A-Fa-f]{{8}}(?!\w))"
            rf"|(?P<uuid>{_UUID})|(?P<mac>{_MAC}|{_DOTTED_MAC})|(?P<dashed>{identifying_fields.DASHED})"
            rf"|(?P<six>{_IPV6})|(?P<four>{identifying_fields.IPV4})"
            rf"|(?P<name>(?<![\w.-])(?:{literal})(?![\w-]|\.\w))|(?P<part>(?<![A-Za-z0-9])(?:{part})(?![A-Za-z0-9]))"
        )

    def _token(self, match: re.Match[str]) -> str:
        text, kind = match[0], match.lastgroup
        if match["name"] or match["part"]:
            return self.hosts.get(text) or self.users.get(text) or self.serials.get(text) or self.folders[text]
        if match["key"]:
            return HIDDEN
        if match["hex"]:
            moved = self._ipv4.get(identifying_fields.in_hexadecimal(text))
            return f"0x{int(ipaddress.IPv4Address(moved)):08x}" if moved else text
        if match["uuid"]:
            return self._number(text.lower(), text)
        if match["mac"]:
            return self._mac(text)
        if match["dashed"]:
            return self._four(text.replace("-", ".")).replace(".", "-")
        if match["six"]:
            return self._six(text)
        return self._four(text) if match["four"] and kind else text

    # Addresses

    def _four(self, text: str) -> str:
        return self._ipv4.get(text, text)

    def _in_hexadecimal(self, match: re.Match[str]) -> str:
        moved = self._ipv4.get(identifying_fields.of_hexadecimal(match[0]))
        return ipaddress.IPv4Address(moved).packed[::-1].hex().upper() if moved else match[0]

    def _six_in_hexadecimal(self, match: re.Match[str]) -> str:
        packed = bytes.fromhex(match[0])
        words = [packed[place : place + 4][::-1] for place in range(0, 16, 4)]
        moved = ipaddress.IPv6Address(self._six(str(ipaddress.IPv6Address(b"".join(words))))).packed
        return b"".join(moved[place : place + 4][::-1] for place in range(0, 16, 4)).hex().upper()

    @cached_property
    def _ipv4(self) -> dict[str, str]:
        """Each address and its pseudonym."""
        moved: dict[str, str] = {}
        old = sorted(map(ipaddress.IPv4Address, self._old))
        for network in _RANGES:
            inside = [one for one in old if one in network]
            moved |= _shift_addresses(inside, network)
        others = [one for one in old if not any(one in network for network in _RANGES)]
        heads = sorted({int(one) >> 16 for one in others})
        for number, head in enumerate(heads):
            base = ipaddress.IPv4Network((int(_OTHERS.network_address) + ((number % 64) << 16), 16))
            inside = [one for one in others if int(one) >> 16 == head]
            moved |= _shift_addresses(inside, base)
        return moved

    def _six(self, text: str) -> str:
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or address.is_multicast or address.ipv4_mapped:
            return text
        key = str(address)
        if key not in self._moved:
            number = self._numbers["six"] = self._numbers.get("six", 0) + 1
            if address.is_link_local:
                self._moved[key] = f"fe80::{number:x}"
            else:
                network = self._networks.setdefault(int(address) >> 64, len(self._networks) + 1)
                self._moved[key] = str(ipaddress.IPv6Address(_NETWORK_6 + (network << 64) + number))
        return self._moved[key]

    def _mac(self, text: str) -> str:
        if "." in text:
            whole = re.sub(r"(\w\w)(?=\w)", r"\1:", text.replace(".", ""))
            digits = self._mac(whole).replace(":", "")
            return ".".join(digits[place : place + 4] for place in range(0, len(digits), 4))
        octets = re.split("[:-]", text)
        if set(octets) <= {"00"} or set(map(str.lower, octets)) == {"ff"}:
            return text
        number = self._numbers.setdefault("mac " + text.lower(), len(self._numbers) + 1)
        mark = text[2]
        digits = f"02{number:0{len(octets) * 2 - 2}x}"
        return mark.join(digits[place : place + 2] for place in range(0, len(digits), 2))

    def _number(self, key: str, text: str) -> str:
        number = self._numbers.setdefault("id " + key, len(self._numbers) + 1)
        return _same_form(text, number)


def _is_distinctive(name: str) -> bool:
    """Whether a name is no word that others contain."""
    return len(name) > 4 and re.search(r"\d|-|\.", name) is not None


def _is_named(address: str) -> bool:
    """Whether an address names somebody: not the loopback, no mask, nothing that means all or none."""
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return False
    special = one.is_loopback or one.is_unspecified or one.is_multicast or one.is_link_local
    return one.version == 4 and not special and not address.startswith(("255.", "0."))


def _shift_addresses(addresses: Iterable[ipaddress.IPv4Address], network: ipaddress.IPv4Network) -> dict[str, str]:
    """Addresses under a network with other middle parts: moved by one difference, so that common prefixes stay."""
    inside = list(addresses)
    if not inside:
        return {}
    free = (1 << (32 - network.prefixlen)) - 1
    middle = free & ~0xFF
    first = min(int(one) for one in inside) & middle
    for wanted in range(1, 256):
        difference = first ^ ((wanted << 8) & middle)
        moved = {
            str(one): str(ipaddress.IPv4Address(int(network.network_address) | ((int(one) & free) ^ difference)))
            for one in inside
        }
        if not set(moved) & set(moved.values()):
            break
    return moved


def _same_form(value: str, number: int) -> str:
    """A value of the same length and separators that tells no more than a number."""
    places = [place for place, character in enumerate(value) if character.isalnum()]
    digits = f"{number:0{len(places)}d}"[-len(places) :]
    shown = list(value)
    for place, digit in zip(places, digits, strict=True):
        shown[place] = digit
    return "".join(shown)


def apply_to_texts(value: Any, apply: Callable[[str], str]) -> Any:
    """A model or what it consists of, with every text replaced; enumerations stay."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return apply(value)
    if isinstance(value, Model):
        return replace(value, **{one.name: apply_to_texts(getattr(value, one.name), apply) for one in fields(value)})
    if isinstance(value, Mapping):
        return {key: apply_to_texts(one, apply) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(apply_to_texts(one, apply) for one in value)
    return value


def _map_strings(said: Any, apply: Callable[[str], str]) -> Any:
    """A JSON document with every string replaced, and of the keys those that are paths or commands."""
    if isinstance(said, str):
        return apply(said)
    if isinstance(said, dict):
        return {
            apply(key) if "/" in key or " " in key else key: _map_strings(value, apply) for key, value in said.items()
        }
    if isinstance(said, list):
        return [_map_strings(one, apply) for one in said]
    return said


def left_to_read(files: Mapping[str, bytes]) -> list[str]:
    """The files of a recording that hold text of programs or people, with what it is: to be read before sending."""
    found = {}
    for name, content in files.items():
        source = None
        if name.startswith("commands/") and name.endswith(("/stdout", "/stderr")) and content:
            key = name.removeprefix("commands/").rpartition("/")[0].replace(SLASH, "/")
            source = recorded_sources.command(key)
            found[name] = "output of an unknown command" if source is None else ""
        elif name.startswith("root/"):
            source = recorded_sources.file(name.removeprefix("root"), {name.removeprefix("root")}, {})
            found[name] = "" if source or b"\0" in content else recorded_sources.PUBLIC.what
        if source is not None and recorded_sources.TEXT in source.identifies:
            found[name] = source.what
    found["host.json"] = "names of processes and their scripts"
    return [f"{name}: {what}" for name, what in sorted(found.items()) if what and name in files]
