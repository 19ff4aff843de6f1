"""The diagnosis of a log as plain data: printed as JSON, and rendered as text. No check is loaded for it.

All that it quotes of the log is without credentials; the diagnosis itself is made from the lines as they are.
"""

from __future__ import annotations

from typing import Any

from npudoctor import __version__, knowledge
from npudoctor.explain import advice
from npudoctor.explain.answers import Answer
from npudoctor.explain.diagnosis import CodeSeen, Diagnosis
from npudoctor.explain.first_failure import FirstFailure
from npudoctor.explain.scoring import STRONG, Suspect
from npudoctor.explain.sightings import Sighting
from npudoctor.explain.signs import Complaint
from npudoctor.knowledge.tables.pitfalls import is_command
from npudoctor.privacy.credentials import mask

LOG = "npudoctor.explain-log/1"
_ECHOES = 64
_EVIDENCE = 5
_LIKELY = 0.25

Document = dict[str, Any]


def of_log(diagnosis: Diagnosis) -> Document:
    """The diagnosis of a log."""
    names = [file.name for file in diagnosis.files]
    inside = any(file.in_container for file in diagnosis.files)
    return {
        "schema": LOG,
        "tool_version": __version__,
        "as_of": knowledge.pitfalls().as_of,
        "files": [
            {
                "name": file.name,
                "bytes": file.bytes,
                "lines": file.lines,
                "problem": file.problem,
                "stopped": file.stopped,
                "clock_shift_s": shift,
            }
            for file, shift in zip(diagnosis.files, diagnosis.shifts, strict=True)
        ],
        "nodes": list(diagnosis.nodes),
        "clocks_apart": [{"node": node, "ahead_s": round(ahead_s)} for node, ahead_s in diagnosis.apart.items()],
        "first_failure": _first(diagnosis.first_failure, names),
        "echoes": [
            {**_sighting(echo.sighting, names), "who": echo.who or None, "after_s": echo.after_s}
            for echo in diagnosis.echoes[:_ECHOES]
        ],
        "echoes_in_all": len(diagnosis.echoes),
        "pitfalls": [_suspect(suspect, names, inside) for suspect in diagnosis.suspects],
        "answer": _answer(diagnosis.answer, names) if diagnosis.answer else None,
        "notices": [_suspect(suspect, names, inside) for suspect in diagnosis.notices],
        "codes": [_code_seen(seen, names) for seen in diagnosis.codes],
        "messages": [{"meaning": text.meaning, **_sighting(one, names)} for text, one in diagnosis.messages],
        "blamed": [{"culprit": mask(one.found.what), **_sighting(one, names)} for one in diagnosis.blamed],
        "in_container": inside,
        "unexplained": _sighting(diagnosis.unexplained, names) if diagnosis.unexplained else None,
    }


def nothing_known(diagnosis: Diagnosis) -> str:
    """What to say of logs without a known error: that they show no failure, or what to send to get help."""
    read = [file for file in diagnosis.files if not file.problem]
    name = read[0].name if len(read) == 1 else f"{len(read)} files"
    lines = sum(file.lines for file in read)
    without = f"no ERROR and no Traceback in {lines} line{'' if lines == 1 else 's'} of {name}"
    loudest = max((file.complains for file in read), default=Complaint.NONE)
    if loudest is Complaint.NONE and not diagnosis.unexplained and not any(file.stopped for file in read):
        return f"{without}: this log shows no failure"
    help = "to get help, send the lines around {} and the newest files of ~/ascend/log/debug/plog"
    if loudest < Complaint.ERROR and not diagnosis.unexplained:
        return f"no known error and {without}; {help.format('what went wrong, with the last ones')}"
    foreign = "; the text is in another language" if all(file.foreign for file in read) else ""
    first = ""
    if one := diagnosis.unexplained:
        first = f"; the first exception is `{one.found.what}` ({diagnosis.files[one.file].name}:{one.line})"
    return f"no known error in {name}{foreign}{first}; {help.format('the first ERROR or Traceback')}"


def _answer(answer: Answer, names: list[str]) -> Document:
    return {
        "kind": answer.kind.value,
        "title": mask(answer.title),
        "because": mask(answer.because),
        "steps": [{"step": mask(step), "command": is_command(step)} for step in answer.steps],
        "evidence": _sighting(answer.sighting, names),
    }


def _first(first: FirstFailure | None, names: list[str]) -> Document | None:
    if first is None:
        return None
    return {**_sighting(first.sighting, names), "who": first.who or None, "known_by": first.by, "of": first.of}


def _suspect(suspect: Suspect, names: list[str], inside: bool) -> Document:
    pitfall = suspect.pitfall
    certainty = "clear" if suspect.weight >= STRONG else "likely" if suspect.weight >= _LIKELY else "possible"
    return {
        "id": pitfall.id,
        "title": pitfall.title,
        "certainty": certainty,
        "score": suspect.score,
        "severity": pitfall.severity,
        "cause": advice.by_place(pitfall.cause, in_container=inside),
        "follows_from_another": pitfall.consequence,
        "mend": [{"step": step, "command": command} for step, command in advice.steps(suspect, in_container=inside)],
        "steps_withheld": advice.count_withheld(suspect),
        "withheld_because": list(advice.withheld_kinds(suspect)),
        "needs_root": pitfall.needs_root,
        "root_when": pitfall.root_when,
        "foreseen_by": list(pitfall.foreseen_by),
        "evidence": [_sighting(one, names) for one in suspect.evidence[:_EVIDENCE]],
        "sources": list(pitfall.sources),
    }


def _code_seen(seen: CodeSeen, names: list[str]) -> Document:
    code, row = seen.code, seen.row
    return {
        "code": seen.spelled,
        "known": (code or row) is not None,
        "meaning": code.meaning if code else row.meaning if row else None,
        "look": code.look if code else None,
        "of": seen.family or (code.kind if code else row.kind if row else None),
        "component": row.component if row else None,
        "pitfalls": list(code.pitfalls) if code else [],
        "count": seen.count,
        "first": _sighting(seen.first, names),
    }


def _sighting(one: Sighting, names: list[str]) -> Document:
    return {
        "file": names[one.file],
        "line": one.line,
        "offset": one.offset,
        "who": one.source.label or None,
        "time": str(one.moment) if one.moment else None,
        "time_of_a_line_nearby": one.moment_near,
        "shows": mask(one.found.what),
        "text": one.quoted,
    }
