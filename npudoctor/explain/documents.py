"""The results of `explain` as plain data: printed as JSON, and rendered as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npudoctor import __version__, knowledge
from npudoctor.explain import fixes, next_steps, topics
from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.plugins import Catalog
from npudoctor.sdk import Check, Fix

TOPICS = "npudoctor.explain/1"
_SEVERITIES = {
    **dict.fromkeys(("major", "critical", "emergency"), "error"),
    **dict.fromkeys(("minor", "warning"), "warning"),
    "notice": "info",
}

Document = dict[str, Any]


def of_topics(found: Iterable[tuple[str, topics.Topic]], catalog: Catalog) -> Document:
    """The subjects of an explanation, each with the name that was asked for."""
    told = [{"asked": name, **_topic(one, catalog)} for name, one in found]
    return {"schema": TOPICS, "tool_version": __version__, "topics": told}


def _topic(topic: topics.Topic, catalog: Catalog) -> Document:
    if isinstance(topic, Check):
        return of_check(topic, catalog)
    if isinstance(topic, Fix):
        return {"kind": "fix", **fixes.of_fix(topic, catalog)}
    if isinstance(topic, Pitfall):
        return _pitfall(topic, catalog)
    return _code(topic, catalog) if isinstance(topic, ErrorCode) else _plain_code(topic)


def of_check(check: Check, catalog: Catalog) -> Document:
    """The explanation of a check, also for one page for each in docs/checks."""
    fix = catalog.fixes.get(check.fix or "")
    return {
        "kind": "check",
        "id": check.id,
        "title": check.title,
        "why": check.why or None,
        "tags": list(check.tags),
        "profile": check.profile,
        "facts": list(topics.facts_of(check, catalog)),
        "after": list(check.after),
        "fix": check.fix,
        "fix_title": fix.title if fix else None,
        "thresholds": [
            {"name": one.name, "default": one.usual, "unit": one.unit, "reason": one.reason} for one in check.thresholds
        ],
        "findings": [
            {"code": message.code, "severity": message.severity.value, "summary": message.summary}
            for message in catalog.messages_of(check)
        ],
        "pitfalls": [_pitfall(pitfall, catalog) for pitfall in topics.pitfalls_of(check)],
    }


def _pitfall(pitfall: Pitfall, catalog: Catalog) -> Document:
    return {
        "kind": "pitfall",
        "id": pitfall.id,
        "title": pitfall.title,
        "severity": pitfall.severity,
        "frequency": pitfall.frequency,
        "cause": pitfall.cause,
        "detect": pitfall.detect,
        "mend": [{"step": step, "command": command} for step, command in topics.mended_by(pitfall)],
        "needs_root": pitfall.needs_root,
        "root_when": pitfall.root_when,
        "reversible": pitfall.reversible,
        "codes": list(pitfall.codes),
        "foreseen_by": [check.id for check in topics.checks_for([pitfall], catalog.checks)],
        "sources": list(pitfall.sources),
        "as_of": knowledge.pitfalls().as_of,
    }


def _code(code: ErrorCode, catalog: Catalog) -> Document:
    found = topics.pitfalls_of(code)
    row = knowledge.codes().of_id(code.code)
    return {
        "kind": "code",
        "code": code.code,
        "of": code.kind,
        "name": code.name or (row.symbol if row else None),
        "meaning": code.meaning,
        "look": code.look,
        "look_source": next_steps.source_of_check(code, (issue.id for issue in found)) if code.look else None,
        "severity": code.severity,
        "wraps_many_causes": code.generic,
        "newer_code": code.same_as,
        "confidence": code.confidence,
        "pitfalls": [_pitfall(pitfall, catalog) for pitfall in found],
        "foreseen_by": list(
            dict.fromkeys(
                [
                    *(["npu.health"] if code.kind == "chip" else []),  # npu-smi shows the codes of a chip there
                    *(check.id for check in topics.checks_for(found, catalog.checks)),
                ]
            )
        ),
        "sources": list(dict.fromkeys([*code.sources, *(row.sources if row else ())])),
        "as_of": knowledge.errors().as_of,
        **_more(row),
        **({"next_step": None, "next_step_source": None} if code.look else {}),
    }


def _plain_code(code: Code) -> Document:
    return {
        "kind": "code",
        "code": code.id,
        "of": code.kind,
        "name": code.symbol,
        "meaning": code.meaning,
        "look": None,
        "look_source": None,
        "severity": _SEVERITIES.get(code.severity or ""),
        "wraps_many_causes": code.generic,
        "newer_code": None,
        "confidence": code.confidence,
        "pitfalls": [],
        "foreseen_by": [],
        "sources": list(code.sources),
        "as_of": knowledge.codes().as_of,
        **_more(code),
    }


def _more(code: Code | None) -> Document:
    """What codes.json adds to a code; nothing known for a code that only errors.json has."""
    step = next_steps.of_code(code) if code else None
    return {
        "component": code.component if code else None,
        "next_step": step.step if step else None,
        "next_step_source": step.source if step else None,
        "surfaces_as": list(code.maps_to) if code else [],
        "fault_class": code.action if code else None,
        "fault_severity": code.severity if code else None,
    }
