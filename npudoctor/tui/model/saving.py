"""Files to save: the report in each format, and a recording of the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from npudoctor.host import Refused
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import open_replacement
from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.findings import Report
    from npudoctor.tui.model.session import Session


class NotSaved(Exception):
    """The file was not written; the text says why."""


@record(frozen=True)
class Shape:
    """One file format: its name, its ending, and its use."""

    name: str
    ending: str
    about: str


MARKDOWN = Shape("Markdown", ".md", "report, to paste into an issue")
JSON = Shape("JSON", ".json", "report, for scripts")
TEXT = Shape("Text", ".txt", "report, as printed by `npudoctor check`")
HTML = Shape("HTML", ".html", "report, as a web page")
RECORDING = Shape("Recording", ".tar.gz", "node data for offline diagnosis")


def shapes() -> tuple[Shape, ...]:
    """All formats."""
    return (MARKDOWN, HTML, JSON, TEXT, RECORDING)


def name_for(report: Report | None, shape: Shape) -> str:
    """A file name with host and date; in the home folder where the working folder is /, as behind `npudoctor web`."""
    host = (report.host.hostname if report else None) or "node"
    day = report.started_at[:10] if report else "now"
    return f"{'~/' if os.path.samefile('.', '/') else ''}npudoctor-{host}-{day}{shape.ending}"


def save(session: Session, report: Report | None, shape: Shape, path: str) -> str:
    """Write the file, never over an existing one; return its path. Raises NotSaved and ReadOnly."""
    session.must_allow_changes()
    place = os.path.abspath(in_home(path))
    if os.path.lexists(place):
        raise NotSaved(f"{place} exists")
    try:
        if shape is RECORDING:
            _record(session, place)
        elif report is None:
            raise NotSaved("no report yet: wait for the run to end")
        else:
            text = _renderer(shape)(report)
            with open_replacement(place, mode=0o644, replace=False) as file:
                file.write(text.encode("utf-8", "backslashreplace"))
    except Refused as problem:
        raise NotSaved(problem.reason) from problem
    except OSError as problem:
        raise NotSaved(f"{place}: {problem.strerror}") from problem
    return place


def in_home(path: str) -> str:
    """The path with a leading `~/` as this user's home; a `~name` stays, because looking it up may take long."""
    return f"{accounts.home() or ''}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _renderer(shape: Shape) -> Callable[[Report], str]:
    import importlib

    module = importlib.import_module(f"npudoctor.report.{shape.name.lower()}")
    render: Callable[[Report], str] = module.render
    return render


def _record(session: Session, place: str) -> None:
    from npudoctor import engine
    from npudoctor.host.recording import bundle_writer
    from npudoctor.host.recording.recorder import RecordingHost
    from npudoctor.privacy import recording_policy

    with session.looking() as host:
        recorder = RecordingHost(host)
        for _ in engine.run(session.node.catalog, recorder, session.node.selection, facts=session.node.catalog.probes):
            pass
    kept, _ = recording_policy.reduce_notes(recorder.notes)
    bundle_writer.write_archive(bundle_writer.files_of(kept), place, replace=False)
