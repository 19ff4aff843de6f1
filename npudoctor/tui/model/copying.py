"""What can be copied from a screen: each command alone, several in their order, or the whole text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.findings import Result
    from npudoctor.tui.model.fixing import Job, Line


@record(frozen=True)
class Choice:
    """One text for the clipboard, and what a person reads in the list."""

    text: str
    label: str


def of_check(result: Result | None, shown: str) -> list[Choice]:
    """The only command of a check's findings; of several each one, all in this order, and the text as shown."""
    groups = dict.fromkeys(finding.commands for finding in (result.findings if result else ()) if finding.commands)
    single = [Choice(command, command) for command in dict.fromkeys(one for group in groups for one in group)]
    if len(single) == 1:
        return single
    several = [
        Choice("\n".join(group), f"these {len(group)} in this order: {group[0]} …") for group in groups if group[1:]
    ]
    return [*single, *several, *_whole(shown)]


def of_job(job: Job, shown: Iterable[Line]) -> list[Choice]:
    """The command of a change; where its notes hold texts (a docker command, a pod), those and all that is shown."""
    lines = list(shown)
    found = [Choice(job.command_line, job.command_line)] if job.command else []
    for line in job.lines:
        label, _, text = line.text.partition("\n")
        if line.kind.value == "note" and text:
            found.append(Choice(text, f"{label} {' '.join(text.split())}"))
    if len(found) == 1:
        return found
    return [*found, *_whole("\n".join(f"{line.head}{line.text}" for line in lines))]


def _whole(shown: str) -> list[Choice]:
    count = len(shown.splitlines())
    return [Choice(shown, f"the text as shown, {count} line{'s' * (count != 1)}")] if shown.strip() else []
