"""Versions as the tables write them, compared as text. Order is the business of npudoctor.facts.versions."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMUNITY = r"(\d+\.\d+\.RC\d+)\.BETA\d+|(\d+\.\d+\.0)\.BETA1"
_CANDIDATE = r"(\d+\.\d+)\.RC(\d+)"
_PATCH = re.compile(r"\.(\d|B\d|SPC\d)")
_TEST_TRAIN = r"\d+\.\d+\.T\d+"


def canonical_version(version: str) -> str:
    """The spelling that is compared: capitals, no leading V, the commercial name (8.0.0.beta1 is 8.0.0)."""
    text = version.strip().upper().removeprefix("V")
    community = re.fullmatch(_COMMUNITY, text)
    return (community[1] or community[2]) if community else text


@lru_cache(maxsize=4096)
def covers(pattern: str, version: str) -> bool:
    """Whether a table's entry means this version: the same, a patch or build of it, or any of `8.5.X`.

    A build of an internal test train (8.0.T6) is never meant.
    """
    wanted, text = canonical_version(pattern), canonical_version(version)
    if re.match(_TEST_TRAIN, text):
        return False
    if wanted.endswith(".X"):
        return text.startswith(wanted[:-1])
    return text == wanted or (text.startswith(wanted) and bool(_PATCH.match(text, len(wanted))))


def covers_later_candidate(pattern: str, version: str) -> bool:
    """Whether `pattern` is a release candidate and `version` a later one of the same train: 8.3.RC1, 8.3.RC2."""
    entry, candidate = (
        re.fullmatch(_CANDIDATE, canonical_version(pattern)),
        re.match(_CANDIDATE, canonical_version(version)),
    )
    return bool(entry and candidate and entry[1] == candidate[1] and int(entry[2]) < int(candidate[2]))


def train(version: str) -> tuple[int, int] | None:
    """Major and minor number; None where the text does not begin with them."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])", canonical_version(version))
    return (int(found[1]), int(found[2])) if found else None


def wheel(version: str) -> str:
    """A Python package's version without its local part: 2.7.1.post4 for 2.7.1.post4+git1234."""
    return version.strip().lower().removeprefix("v").partition("+")[0]
