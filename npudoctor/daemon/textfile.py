"""Metrics of a single run as a file for node_exporter's textfile collector, replaced as a whole."""

from __future__ import annotations

import os
import time

from npudoctor.daemon import metrics, view
from npudoctor.engine import Done


def write(path: str, done: Done) -> None:
    """Write the metrics; raises OSError and then leaves the old file in place.

    The draft lies beside it under a name that the collector passes over.
    """
    facts = {probe.provides: value for probe, value in done.facts.items()}
    text = metrics.render(view.of_report(done.report, facts, at=time.time(), seconds=done.report.duration_s))
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(handle, "wb") as file:
            os.fchmod(handle, 0o644)  # the collector is another user
            file.write(text)
            file.flush()
            os.fsync(handle)
        os.replace(draft, path)
    except OSError:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise
