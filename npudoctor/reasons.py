"""Why a fact is unknown. A separate module without pydantic, for commands that must start fast."""

from __future__ import annotations

from enum import Enum


class Because(str, Enum):
    """What kept npudoctor from knowing a fact. TIMED_OUT and FAILED leave a run undetermined; the others do not."""

    NOT_APPLICABLE = "not-applicable"
    ABSENT = "absent"
    NO_RIGHT = "no-right"
    NOT_RECORDED = "not-recorded"
    TIMED_OUT = "timed-out"
    FAILED = "failed"
