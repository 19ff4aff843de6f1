"""What looks like a credential in command lines and texts: it is shown to nobody and goes into no recording."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TELLING = r"(?i)(pass(wd|word)?|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key|auth)"
_NAME = (
    r"[\w.-]*(?:passwo?r?d|passphrase|secret|token|credential|(?:api|access|private|account)[-_]?key"
    r"|(?<![a-z])pass(?![a-z])|(?<![a-z])pwd(?![a-z]))[\w.-]*"
)
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s\"',;&|]+"
_BY_NAME = (
    (rf"(?i)({_NAME}[\"']?\s*[=:]\s*)(?:{_VALUE})", r"\1***"),
    (rf"(?i)(--?{_NAME}\s+)(?:{_VALUE})", r"\1***"),
)
_BY_SHAPE = (
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}", r"\1 ***"),
    (r"([A-Za-z][\w+.-]*://)[^\s/@\"']+@", r"\1***@"),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "***"),
    (r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-)[\w-]{16,}", "***"),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", "***"),
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", "***"),
)
_TAKING_ONE = {"-p": ("sshpass", "mysql", "mysqldump", "mariadb", "docker", "podman"), "-a": ("redis-cli",)}
"""Options of one letter that take a password, and whose they are."""


def without_credentials(words: Iterable[str]) -> tuple[str, ...]:
    """A command line with `***` for what looks like a credential: by the name before it, or by its own shape."""
    shown: list[str] = []
    hide, tool, before = False, "", ""
    for word in words:
        tool = tool or word.rpartition("/")[2]
        name, equals, _ = word.partition("=")
        secret = not re.search(r"\s", name) and bool(re.search(_TELLING, name))
        option = next((one for one, tools in _TAKING_ONE.items() if word.startswith(one) and tool in tools), "")
        if hide:
            shown.append("***")
        elif secret and equals:
            shown.append(f"{name}=***")
        elif option and word != option:
            shown.append(f"{option}***")
        elif before in ("-u", "--user") and ":" in word:
            shown.append(f"{word.partition(':')[0]}:***")
        else:
            shown.append(masked(word))
        hide = not hide and ((secret and not equals and word.startswith("-")) or word == option != "")
        before = word
    return tuple(shown)


def masked(text: str) -> str:
    """A text with `***` for values that a name before them calls secret, and for what has the shape of a credential."""
    for pattern, shown in _BY_NAME:
        text = re.sub(pattern, shown, text)
    return masked_by_shape(text)


def masked_by_shape(text: str) -> str:
    """A text with `***` for what has the shape of a credential, whatever stands before it."""
    for pattern, shown in _BY_SHAPE:
        text = re.sub(pattern, shown, text)
    return text
