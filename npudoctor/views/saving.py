"""What can be written to a file: the report in each shape, and a recording of the whole node."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from npudoctor.records import dataclass

if TYPE_CHECKING:
    from npudoctor.findings import Report
    from npudoctor.views.session import Session


class NotSaved(Exception):
    """It was not written; the text says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of file: its name, its ending, and what it is good for."""

    name: str
    ending: str
    about: str


MARKDOWN = Shape("Markdown", ".md", "the report, to paste into an issue")
JSON = Shape("JSON", ".json", "the report, for a program")
TEXT = Shape("Text", ".txt", "the report as `npudoctor check` prints it")
HTML = Shape("HTML", ".html", "the report as a page")
RECORDING = Shape("Recording", ".tar.gz", "this whole node, to be examined on any machine")


def shapes() -> tuple[Shape, ...]:
    """What is offered."""
    return (MARKDOWN, HTML, JSON, TEXT, RECORDING)


def name_for(report: Report | None, shape: Shape) -> str:
    """A file name that says which node and when."""
    host = (report.host.hostname if report else None) or "node"
    day = report.started_at[:10] if report else "now"
    return f"npudoctor-{host}-{day}{shape.ending}"


def save(session: Session, report: Report | None, shape: Shape, path: str) -> str:
    """Write it, never over what is there; the place. Raises NotSaved."""
    place = os.path.abspath(os.path.expanduser(path))
    if os.path.lexists(place):
        raise NotSaved(f"{place} exists")
    try:
        if shape is RECORDING:
            _record(session, place)
        elif report is None:
            raise NotSaved("there is no report yet")
        else:
            text = _renderer(shape)(report)
            with open(place, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as problem:
        raise NotSaved(f"{place}: {problem.strerror}") from problem
    return place


def _renderer(shape: Shape) -> Callable[[Report], str]:
    import importlib

    module = importlib.import_module(f"npudoctor.report.{shape.name.lower()}")
    render: Callable[[Report], str] = module.render
    return render


def _record(session: Session, place: str) -> None:
    from npudoctor import discretion, engine
    from npudoctor.host import bundling
    from npudoctor.host.recorder import RecordingHost

    with session.looking() as host:
        recorder = RecordingHost(host)
        for _ in engine.run(session.node.catalog, recorder, session.node.selection, every_fact=True):
            pass
    kept, _ = discretion.reduced(recorder.notes)
    bundling.write_archive(bundling.files_of(kept), place, replace=False)
