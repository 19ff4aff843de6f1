"""Why a fact is not known. A module of its own, without pydantic, for what must start in no time."""

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
