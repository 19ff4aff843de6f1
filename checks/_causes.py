"""Known causes of a failure inside the target Python, and its evidence."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.python.imports import ImportAttempt, first_line
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.sdk import Evidence

NO_CANN = ("cann.installed", "cann.environment", "cann.libraries", "cann.nnal")
WRONG_PACKAGES = ("python.version", "python.torch", "python.torch-npu", "python.pairing", "python.cann-pairing")
BEHIND_AN_IMPORT = (
    *("npu.present", "container.devices", "container.driver-files", "driver.installed", "driver.access"),
    *("driver.npu-smi", "driver.rebooted", "cann.driver", "cann.ops", "cann.single"),
    *("python.known-bad", "python.packages", "python.conflicts", "system.platform", "system.disk"),
)
"""What may, but need not, keep torch_npu from being imported."""


def cause_of(text: str, check: str) -> Pitfall | None:
    """The known issue that a message shows.

    Of several, one that is not only a consequence and that this check detects: other checks report theirs.
    """
    found = knowledge.pitfalls().match(text)
    order = sorted(found, key=lambda pitfall: (pitfall.consequence, check not in pitfall.foreseen_by))
    return next(iter(order), None)


def as_evidence(attempt: ImportAttempt | None, check: str | None = None) -> Iterator[Evidence]:
    """A failed import, as evidence of a cause; nothing where it was not tried, or works.

    Nor, for a check of the packages, where its error is a known issue that only other checks detect: it is theirs.
    """
    if attempt is not None and not attempt.ok:
        text = attempt.error or attempt.failure
        known = cause_of(text, check) if check else None
        if known is not None and known.foreseen_by and check not in known.foreseen_by:
            return
        yield Evidence(source=f"{attempt.what} in a new process", expected="no error", actual=first_line(text, 400))
