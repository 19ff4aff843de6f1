"""The text of `npudoctor explain`: a bold title, labelled paragraphs, and commands to copy."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from npudoctor.explain import fixes
from npudoctor.explain.lines import in_short
from npudoctor.report.look import Look, look_of, wrap

LABEL = 13
"""Columns that a label takes."""

_SEVERITY = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_OF_ANSWERS = {"no-failure": "bold green", "stopped": "bold yellow"}
_ALSO = 4
_NAMED = 6
"""The most ranks that are named one by one."""

_CERTAINTY = {"clear": "strong evidence", "likely": "some evidence", "possible": "weak evidence"}
_LONGEST_COMMAND = 100
"""The most columns of a command with its comment behind it; a longer comment is printed in the lines before it."""

_QUOTED = 3
_HOW = {
    "time": "by time stamps",
    "launcher": "by the launcher's report",
    "order": "by line order",
    "cause": "the other ranks only waited or failed later",
}


def topics(document: Mapping[str, Any], *, no_color: bool = False, width: int | None = None) -> str:
    """The subject of an explanation, for so many columns without colours, or for the terminal."""
    page = _Page(no_color, width)
    asked = Counter(topic["asked"] for topic in document["topics"])
    for number, topic in enumerate(document["topics"]):
        if number:
            page.add_blank()
        if asked[topic["asked"]] > 1:
            page.several(topic["asked"], asked.pop(topic["asked"]), topic["kind"])
        {"check": page.check, "fix": page.fix, "pitfall": page.pitfall, "code": page.code}[topic["kind"]](topic)
    return page.text()


def log(document: Mapping[str, Any], *, no_color: bool = False, width: int | None = None) -> str:
    """The diagnosis of a log, for so many columns without colours, or for the terminal."""
    page = _Page(no_color, width)
    page.log(document)
    return page.text()


class _Page:
    def __init__(self, no_color: bool, width: int | None = None) -> None:
        look = look_of(sys.stdout, no_color=no_color) if width is None else Look(width=width)
        self._width = look.width
        self._names: Mapping[str, str] = {}
        self._out = io.StringIO()
        self._console = look.console(self._out)

    def text(self) -> str:
        return self._out.getvalue()

    def add_blank(self) -> None:
        self._console.print()

    def several(self, name: str, count: int, kind: str) -> None:
        said = {
            "check": f"{name!r} is a check and a fix.",
            "pitfall": f"{count} known issues show {name!r}, the likeliest first; `--log FILE` tells which.",
        }
        meanings = f"{name!r} has {count} meanings; the component that prints it tells which."
        self._console.print(said.get(kind, meanings), soft_wrap=True)
        self.add_blank()

    def _title(self, text: str, aside: str = "", style: str = "bold") -> None:
        self._console.print(Text(text, style=style) + Text(f"  {aside}" if aside else "", style="dim"), soft_wrap=True)

    def _item(self, label: str, text: str | Text | None, *, indent: int = 2) -> None:
        """A labelled paragraph, wrapped below its own beginning; nothing for an empty text."""
        if not text:
            return
        body = (
            text
            if isinstance(text, Text)
            else Text(" ".join(line.strip() for line in text.splitlines() if line.strip()))
        )
        lead = Text(" " * indent) + Text(label.ljust(LABEL), style="cyan")
        if len(label) >= LABEL:
            self._console.print(lead, soft_wrap=True)
            lead = Text(" " * (indent + LABEL))
        for number, piece in enumerate(wrap(body, max(self._width - indent - LABEL, 20), whole=True)):
            piece.rstrip()
            self._console.print((lead if number == 0 else Text(" " * (indent + LABEL))) + piece, soft_wrap=True)

    def _quote(self, label: str, text: str, *, indent: int = 2) -> None:
        """A line of a log, cut to a few lines of the terminal."""
        room = _QUOTED * max(self._width - indent - LABEL, 20)
        self._item(label, Text(in_short(text, room), style="dim"), indent=indent)

    def _fix_steps(self, steps: Iterable[Mapping[str, Any]], *, root: str | None, indent: int = 2) -> None:
        label = "do"
        for step in steps:
            if step["command"]:
                command, _, comment = step["step"].partition("   # ")
                if comment and len(step["step"]) > _LONGEST_COMMAND:
                    self._item(label, f"{comment[:1].upper()}{comment[1:]}:", indent=indent)
                    label = ""
                else:
                    command = step["step"]
                lead = Text(" " * indent) + Text(label.ljust(LABEL), style="cyan") + Text("$ ", style="dim")
                self._console.print(lead + Text(command, style="green"), soft_wrap=True)
            else:
                self._item(label, step["step"], indent=indent)
            label = ""
        if root:
            self._item("", f"(needs root {root})" if root != "always" else "(needs root)", indent=indent)

    def _detected_by(self, checks: Iterable[str], *, indent: int = 2) -> None:
        if names := " ".join(checks):
            self._item("detected by", Text(f"npudoctor check {names}", style="green"), indent=indent)

    # Topics

    def check(self, check: Mapping[str, Any]) -> None:
        self._title(check["id"], check["title"])
        self._item("why", check["why"])
        found = f"profile {check['profile']}"
        if check["facts"]:
            found += f"; uses {', '.join(check['facts'])} (npudoctor facts NAME prints one)"
        self._item("how", found)
        self._item("after", ", ".join(check["after"]) and f"skipped after an error of {', '.join(check['after'])}")
        if check["fix"]:
            self._item("fix", Text(f"npudoctor fix {check['fix']}", style="green"))
        for one in check["thresholds"]:
            said = f"{one['name']} = {one['default']:g} {one['unit']}, in [thresholds] of config.toml: {one['reason']}"
            self._item("limit", said)
        for pitfall in check["pitfalls"]:
            self.add_blank()
            self._title(f"  {pitfall['title']}", pitfall["id"])
            self._item("cause", pitfall["cause"], indent=4)
            self._fix_steps(pitfall["mend"], root=_root(pitfall), indent=4)

    def fix(self, fix: Mapping[str, Any]) -> None:
        self._title(fix["id"], fix["title"])
        self._item("changes", fix["why"])
        self._item("resolves", ", ".join(fix["mends"]))
        effect = fixes.EFFECTS[fix["effect"]]
        root = "; requires root" if fix["root"] else ""
        risk = "safe: reversible, and affects no running job" if fix["safe"] else "asks for confirmation"
        self._item("risk", f"{risk}; effective {effect}{root}")
        given = " ".join(fixes.assignment(one) for one in fix["parameters"])
        if given:
            self._item("parameters", f"--set {given}")
            self._item("", fix["about_parameters"])
        self._item("undo", "each step is journalled before it is done: `npudoctor undo` undoes what can be undone")
        self._fix_steps([{"step": f"npudoctor fix {fix['id']} --dry-run", "command": True}], root=None)

    def pitfall(self, pitfall: Mapping[str, Any]) -> None:
        self._title(pitfall["title"], f"{pitfall['id']}, {pitfall['severity']}, frequency {pitfall['frequency']}")
        self._item("cause", pitfall["cause"])
        self._item("shows", pitfall["detect"])
        self._item("codes", ", ".join(pitfall["codes"]))
        self._fix_steps(pitfall["mend"], root=_root(pitfall))
        self._detected_by(pitfall["foreseen_by"])
        self._sources(pitfall)

    def code(self, code: Mapping[str, Any]) -> None:
        self._title(code["code"], code["name"] or "")
        self._item("of", code["component"])
        self._item("means", code["meaning"] or "no meaning of this code is published")
        if code["wraps_many_causes"]:
            self._item("", "This code wraps many causes; see the lines next to it in the log.")
        self._item("surfaces as", ", ".join(code["surfaces_as"]))
        self._item("check", code["look"] and f"{code['look']} ({code['look_source']})")
        if code["next_step"]:
            self._item("next", f"{code['next_step']} ({code['next_step_source']})")
        elif not (code["look"] or code["pitfalls"]):
            self._item("next", "no source names a next step for this code; the lines before it in the log may")
        self._item("newer", code["newer_code"])
        for pitfall in code["pitfalls"]:
            self._item("issue", f"{pitfall['id']} {pitfall['title']}")
            if code["wraps_many_causes"]:
                continue
            self._fix_steps(pitfall["mend"], root=_root(pitfall), indent=4)
        self._detected_by(code["foreseen_by"])
        self._sources(code)

    def _sources(self, row: Mapping[str, Any]) -> None:
        for number, source in enumerate(row["sources"]):
            self._console.print(
                Text("  ")
                + Text("" if number else "source", style="cyan")
                + Text(" " * (LABEL if number else LABEL - 6))
                + source,
                style="dim",
                soft_wrap=True,
            )
        self._item("as of", row["as_of"])

    # Logs

    def log(self, document: Mapping[str, Any]) -> None:
        self._names = _short([file["name"] for file in document["files"]])
        pitfalls = document["pitfalls"]
        answer = document["answer"]
        if answer:
            self._answer(answer)
        if pitfalls and not answer:
            self._suspect(pitfalls[0])
        if document["notices"] and not (pitfalls or answer or document["messages"]):
            raised = document["unexplained"]
            why = f"No known error: the exception is {raised['shows']};" if raised else "No cause found:"
            self._title(f"{why} what is listed below stopped nothing, or the same command ran again")
        for message in () if pitfalls else document["messages"]:
            self._title(message["meaning"])
            self._quote("evidence", message["text"])
            self._item("at", self._where(message))
        self._ranks(document)
        others = (pitfalls if answer else pitfalls[1:])[:_ALSO]
        self._others("Also in the log" if answer else "Other possible causes", others, by_issue=not answer)
        self._others("" if answer and others else "Also in the log", document["notices"], stopped_nothing=True)
        if document["codes"]:
            self.add_blank()
            self._title("codes")
            for number, code in enumerate(document["codes"]):
                self._code_seen(code)
                if number < _QUOTED and not (pitfalls or answer or document["messages"]):
                    self._quote("", code["first"]["text"])  # nothing else shows what the program said
        if pitfalls and not answer:
            self.add_blank()
            self._console.print(f"Details: npudoctor explain {pitfalls[0]['id']}", soft_wrap=True)

    def _others(
        self, title: str, others: Sequence[Mapping[str, Any]], *, by_issue: bool = False, stopped_nothing: bool = False
    ) -> None:
        if others and title:
            self.add_blank()
            self._title(title)
        for other in others:
            how = "stopped nothing" if stopped_nothing else _CERTAINTY[other["certainty"]]
            if other["follows_from_another"]:
                how = "usually a consequence" if by_issue else "a consequence"
            self._item(other["id"], f"{other['title']} ({how}; {self._where(other['evidence'][0])})")

    def _answer(self, answer: Mapping[str, Any]) -> None:
        self._title(answer["title"], style=_OF_ANSWERS.get(answer["kind"], "bold red"))
        self._quote("evidence", answer["evidence"]["text"])
        self._item("at", self._where(answer["evidence"]))
        if answer["because"] != answer["evidence"]["text"]:
            self._item("because", answer["because"])
        self._fix_steps(answer["steps"], root=None)

    def _suspect(self, pitfall: Mapping[str, Any]) -> None:
        aside = pitfall["id"] + ("" if pitfall["certainty"] == "clear" else f", {_CERTAINTY[pitfall['certainty']]}")
        self._title(pitfall["title"], aside, style=_SEVERITY.get(pitfall["severity"], "bold"))
        self._quote("evidence", pitfall["evidence"][0]["text"])
        self._item("at", self._where(pitfall["evidence"][0]))
        self._item("cause", pitfall["cause"])
        self._fix_steps(pitfall["mend"], root=_root(pitfall) if pitfall["mend"] else None)
        if pitfall["steps_withheld"]:
            count, kinds = pitfall["steps_withheld"], " or ".join(pitfall["withheld_because"])
            steps = "1 step that" if count == 1 else f"{count} steps, each of which"
            self._item(
                "",
                f"(left out: {steps} {kinds}; run the checks first: the log does not show that the device is at fault)",
            )
        self._detected_by(pitfall["foreseen_by"])

    def _ranks(self, document: Mapping[str, Any]) -> None:
        first, blamed = document["first_failure"], document["blamed"]
        answer = document["answer"]
        unexplained = document["unexplained"]
        if unexplained and answer and answer["evidence"]["text"] == unexplained["text"]:
            unexplained = None
        several = first and first["who"] and first["of"] > 1
        if not (blamed or unexplained or several):
            return
        self.add_blank()
        if several:
            how = f"{first['who']}, of {first['of']} that failed ({_HOW[first['known_by']]})"
            self._item("first", f"{how}: {first['shows']} ({self._where(first)})")
            self._item("echoes", self._echoes(document["echoes"], document["echoes_in_all"]))
        for one in blamed:
            self._item("blamed", f"{one['culprit']}, named in the log ({self._where(one)})")
        if unexplained:
            self._item("also", f"{unexplained['shows']} ({self._where(unexplained)})")

    def _echoes(self, echoes: Sequence[Mapping[str, Any]], count: int) -> str:
        """The other ranks, by what they show: `rank 0, rank 1 and 5 more: EI0002 (12 s later)`."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for echo in echoes:
            groups.setdefault(echo["shows"], []).append(echo)
        told = []
        for shows, group in groups.items():
            names = [str(self._names.get(echo["who"], echo["who"]) or echo["who"]) for echo in group]
            rest = len(names) - _NAMED + (count - len(echoes) if group is next(reversed(groups.values())) else 0)
            who = ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            after = [echo["after_s"] for echo in group if echo["after_s"] is not None]
            when = f" ({min(after):.0f} s later)" if after and min(after) >= 1 else ""
            told.append(f"{who}: {shows}{when}")
        return "; ".join(told)

    def _where(self, one: Mapping[str, Any]) -> str:
        """The position of a line, and its rank and time as far as known."""
        name = self._names[one["file"]]
        parts = [f"{name}:{one['line']}" if name else f"line {one['line']}", one["who"]]
        if one["time"]:
            parts.append(("about " if one["time_of_a_line_nearby"] else "") + one["time"])
        return ", ".join(filter(None, parts))

    def _code_seen(self, code: Mapping[str, Any]) -> None:
        unknown = "no meaning is published" if code["known"] else "unknown to npudoctor"
        meaning = code["meaning"] or f"{unknown}; a code of {code['component'] or code['of']}"
        look = f"; check {code['look']}" if code["look"] else ""
        self._item(code["code"], f"{meaning}{look} ({code['count']} ×, {self._where(code['first'])})")


def _root(row: Mapping[str, Any]) -> str | None:
    return row["root_when"] or ("always" if row["needs_root"] else None)


def _short(names: Sequence[str]) -> dict[str, str]:
    """Short names of files: none for a single file, else as much of the path as tells them apart."""
    if len(names) < 2:
        return dict.fromkeys(names, "")
    alike = all(map(os.path.isabs, names)) or not any(map(os.path.isabs, names))
    common = os.path.commonpath([os.path.dirname(name) for name in names]) if alike else ""
    return {name: os.path.relpath(name, common) if common else name for name in names}
