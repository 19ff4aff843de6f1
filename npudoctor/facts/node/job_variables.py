"""The variables that a launcher sets or that belong to one job, and the lines of start-up files that set them.

A login file that sets one of them gives it to every job of the user, and one that unsets it takes it from a job that
wants it: no fix writes them there. The line that sets one can be removed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from npudoctor.records import record

NAMES = frozenset(
    {
        "ASCEND_DEVICE_ID",
        "ASCEND_RT_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "DEVICE_ID",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "HCCL_IF_IP",
        "JOB_ID",
        "NODE_RANK",
        "NPU_VISIBLE_DEVICES",
        "RANK",
        "RANK_ID",
        "RANK_INDEX",
        "RANK_SIZE",
        "RANK_TABLE_FILE",
        "ROLE_NAME",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "WORLD_SIZE",
    }
)
FAMILIES = (
    "CM_",  # CANN without a rank table: CM_CHIEF_IP, CM_WORKER_SIZE
    "LOCAL_",  # LOCAL_RANK, LOCAL_WORLD_SIZE
    "MASTER_",  # MASTER_ADDR, MASTER_PORT
    "MPI_LOCAL",
    "MV2_COMM_WORLD_",
    "OMPI_COMM_WORLD_",
    "PMIX_",
    "PMI_",
    "SLURM_",
    "TORCHELASTIC_",
)
"""Launchers set more of these with each release, so they are told by how their names begin."""

SYSTEM_WIDE = "/etc/environment"
"""pam_env reads it at each login: NAME=VALUE, without a shell."""

OUT_OF_FORCE = ("# npudoctor: ", ":  # npudoctor: ")
"""How a line begins that a fix has put out of force: in /etc/environment, and in a shell's file, where an `if` may need
a command in its body."""

_LONGEST = 4096
"""Characters of a line that is read: shlex takes time by the square of a quoted word."""

_MOST_LINES = 20_000
"""Lines of a file that are read; a login file has hundreds."""

_ASSIGNMENT = r"(?s)([A-Za-z_]\w*)=(.*)"
_EXPORTED = r"(?:^|[;&|({]|\b(?:then|else|do))\s*export\s+([^;&|#]*)"
_NAMED = r"(?<!\w)([A-Za-z_]\w*)=([^\s;&|)]*)"
_MORE = r"[;&|<>()`]|\\$"
"""A sign that a line may do more than set what it names: another command, a redirection, or one that goes on."""

_EXPORT = (["export"], ["declare", "-x"], ["typeset", "-x"], ["readonly"])


@record(frozen=True, kw_only=True)
class SettingLine:
    """A line that sets variables of a job, counted from 1: what it gives them, as far as that is written there.

    `removable`: it does nothing else, so that it can be taken out. `text` is the line without blanks around it.
    """

    path: str
    line_number: int
    names: Mapping[str, str]
    text: str
    removable: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line_number}"

    def may_set(self, name: str, value: str) -> bool:
        """Whether a variable may have this value from here: what a shell computes is not known."""
        said = self.names.get(name)
        return said is not None and (said == value or "$" in said or "`" in said)


def belongs_to_a_job(name: str) -> bool:
    """Whether a variable belongs to a launcher or to one job."""
    return name in NAMES or name.startswith(FAMILIES)


def parse(text: str, path: str) -> tuple[SettingLine, ...]:
    """The lines of a start-up file of a shell, or of /etc/environment, that set variables of a job."""
    found = []
    goes_on = False
    for number, line in enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], 1):
        names, removable = _settings(line)
        mine = {name: value for name, value in names.items() if belongs_to_a_job(name)}
        if mine:
            alone = removable and len(mine) == len(names) and not goes_on
            found.append(SettingLine(path=path, line_number=number, names=mine, text=line.strip(), removable=alone))
        goes_on = line.endswith("\\")
    return tuple(found)


def _settings(line: str) -> tuple[dict[str, str], bool]:
    """What a line sets, and whether it does nothing but set it."""
    if "=" not in line or len(line) > _LONGEST or line.lstrip().startswith("#"):
        return {}, False
    try:
        words = shlex.split(line.rstrip("\\"), comments=True)
    except ValueError:
        return {}, False
    for begin in _EXPORT:
        if words[: len(begin)] == begin:
            words = words[len(begin) :]
            break
    if words:
        words[-1] = words[-1].rstrip(";")
    matches = [re.fullmatch(_ASSIGNMENT, word) for word in words if word]
    if matches and all(matches):
        names = {match[1]: match[2] for match in matches if match}
        code = line.partition(" #")[0].strip().rstrip(";")
        return names, not re.search(_MORE, code)
    exported = (found[1] for found in re.finditer(_EXPORTED, line.partition(" #")[0]))
    return {name: value.strip("'\"") for text in exported for name, value in re.findall(_NAMED, text)}, False


def without(text: str, path: str, numbers: Iterable[int]) -> str:
    """A file with these lines put out of force: a comment in /etc/environment, else a command that does nothing."""
    lines = text.split("\n")
    for number in numbers:
        line = lines[number - 1].strip()
        lines[number - 1] = OUT_OF_FORCE[path != SYSTEM_WIDE] + line
    return "\n".join(lines)


def setters(lines: Iterable[SettingLine], variables: Mapping[str, str], names: Iterable[str]) -> list[SettingLine]:
    """The lines from which these variables may have the values that they have."""
    wanted = [name for name in names if name in variables]
    return [line for line in lines if any(line.may_set(name, variables[name]) for name in wanted)]
