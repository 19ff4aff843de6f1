"""The steps of a known issue for one log: numbers of the log filled in, and no dangerous step on weak evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from npudoctor import knowledge
from npudoctor.explain.figures import FULL_DEVICE
from npudoctor.explain.patterns import MEMORY_PATTERNS, Kind
from npudoctor.explain.scoring import STRONG, Suspect, is_wrapper
from npudoctor.knowledge.tables.pitfalls import is_command

_DANGEROUS = re.compile(
    r"\breset\b|\breinstall|\bkill(?:all)?\b|\bpkill\b|\breboot\b|power.?cycle|\bRMA\b|\brmmod\b|\bfirmware\b"
    r"|^(?:end|stop|terminate)\b.{0,40}\b(?:process|job|container|launcher|service)"
    r"|\b(?:upgrade|replace) .{0,40}(?:driver|HDK|NPU)|\brm -r",
    re.IGNORECASE,
)
_KINDS = (
    (re.compile(r"\breset\b|power.?cycle|\breboot\b", re.IGNORECASE), "resets the NPU or reboots the node"),
    (re.compile(r"\bkill|\bpkill|^(?:end|stop|terminate)\b", re.IGNORECASE), "ends a process or a container"),
    (re.compile(r"\brm(?:mod)?\b", re.IGNORECASE), "removes files or modules"),
    (re.compile(""), "changes the driver, the firmware or the NPU"),
)
_CODE = re.compile(r"\bE[A-Z]?\d{4,5}\b|\bERR\d{5}\b|-?\d{4,}")
_OF_CODES = re.compile(
    r"\\[a-zA-Z]|\b(?:error|errors?|[Ee]rr[Cc]ode|codes?|ret|is|runtime|result|errno|failed|fail|get|npu|board|type|dcmi|dsmi|mod|ule"
    r"|el|module|model|initialized?|[Ff]ailed to start the device)\b"
)
"""What a symptom spells beside a code, and torch_npu's sentence for one: neither says more than the code."""

_ASSIGNED = re.compile(r"\b(?P<name>[A-Z_]{3,40})=\d+\b")
_INSIDE = "In a container, "
_OF_IMAGES = "For an image, "
_PULLS_AN_IMAGE = re.compile(r"[Pp]ull(?:ing)? (?:and unpack )?image|/v2/|\bmanifests?/|from daemon: ")
_PLACE = re.compile(r"<(\w{1,40})>")
_DEVICE = re.compile(r"\b(?:dev|device|logic)[ _]?id\W{1,3}(\d{1,3})\b", re.IGNORECASE)
"""The driver's number of a device: npu-smi calls it Chip Logic ID."""


def steps(suspect: Suspect, *, in_container: bool = False) -> Iterator[tuple[str, bool]]:
    """The steps, each with whether it is a command.

    `<name>` becomes what the named group of a symptom found in the log, and the value of a variable the size that the
    log asks for. A step that resets, reinstalls or ends
    something is left out where no message of the device speaks for it. Where the log shows a container, the steps for
    one come first, and those for images where it shows that one is pulled. The command that shows the NPU of a faulty
    device precedes them, where the log numbers the device.
    """
    of_image = any(_PULLS_AN_IMAGE.search(one.text) for one in suspect.evidence)
    first = tuple(words for words, here in ((_INSIDE, in_container), (_OF_IMAGES, of_image)) if here)
    values = {name: value for one in reversed(suspect.evidence) for name, value in one.found.values}
    trusted = speaks_of_device(suspect)
    if devices := _devices_in(suspect):
        where = ", in the container of the log" if in_container else ""
        yield (
            f"npu-smi info -m   # the NPU of each device that the log numbers ({', '.join(devices)}): "
            f"Chip Logic ID{where}",
            True,
        )
    for step in sorted(suspect.pitfall.fix, key=lambda step: not step.startswith(first)):
        if trusted or not is_dangerous(step):
            filled = _PLACE.sub(lambda place: values.get(place[1], place[0]), step)
            filled = _ASSIGNED.sub(lambda found: _as_needed(found, values), filled)
            yield filled, is_command(filled)


def _devices_in(suspect: Suspect) -> tuple[str, ...]:
    """The devices that the lines of a fault of the hardware number."""
    lines = (one.text for one in suspect.evidence if one.found.kind is Kind.SYMPTOM and suspect.pitfall.device_fault)
    return tuple(dict.fromkeys(number for line in lines for number in _DEVICE.findall(line)))


def by_place(cause: str, *, in_container: bool) -> str:
    """A cause, with what it says of containers in front where the log shows one."""
    before, inside, after = cause.partition(f" {_INSIDE}")
    return f"{inside[1:]}{after} {before}" if inside and in_container and before.startswith("On a host") else cause


def _as_needed(found: re.Match[str], values: Mapping[str, str]) -> str:
    """An assignment of a step, with the value that the log asks for."""
    wanted = values.get("needed") if found["name"] == values.get("variable") else None
    return f"{found['name']}={wanted}" if wanted else found[0]


def count_withheld(suspect: Suspect) -> int:
    """How many steps are left out."""
    return 0 if speaks_of_device(suspect) else sum(map(is_dangerous, suspect.pitfall.fix))


def withheld_kinds(suspect: Suspect) -> tuple[str, ...]:
    """What the steps that are left out do."""
    left_out = filter(is_dangerous, suspect.pitfall.fix) if count_withheld(suspect) else ()
    return tuple(dict.fromkeys(next(kind for form, kind in _KINDS if form.search(step)) for step in left_out))


def is_dangerous(step: str) -> bool:
    """Whether a step costs a job, a device or an installation if the diagnosis is wrong."""
    return _DANGEROUS.search(step.partition("   #")[0]) is not None


def speaks_of_device(suspect: Suspect) -> bool:
    """Whether a symptom of its own names the issue: no wrapper, no advice, and more than a code says.

    That the memory of a device is full says nothing of who holds it: there the numbers of the log have to.
    """
    shown = [one.found for one in suspect.evidence if one.found.kind is Kind.SYMPTOM and not one.advice]
    if suspect.pitfall.id == FULL_DEVICE:
        return any(one.by in MEMORY_PATTERNS for one in shown)
    return suspect.weight >= STRONG and any(not is_wrapper(one.by) and not is_code_only(one.by) for one in shown)


@cache
def is_code_only(expression: str) -> bool:
    """Whether a symptom is only a code, its name, or the sentence that a program prints for one."""
    if re.search(r"[^\W\d_]{2}", _OF_CODES.sub(" ", _CODE.sub(" ", expression))) is None:
        return True
    return " " not in expression and any(code.symbol == expression for code in knowledge.codes().rows)
