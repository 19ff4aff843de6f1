"""Compares a release that is installed with the one that a framework was published for (knowledge: stacks.json)."""

from __future__ import annotations

import contextlib
import re

from npudoctor import knowledge
from npudoctor.facts.python.requirements import Requirement
from npudoctor.facts.versions import CannVersion, DriverVersion, TorchVersion
from npudoctor.knowledge.pairs import Confidence, Fit, HdkSupport
from npudoctor.knowledge.patterns import covers, train, wheel
from npudoctor.sdk import ParseError, Severity


def misfit(part: str, published: str, here: str) -> Severity | None:
    """How badly a release differs from the published one; None where it fits, or is no version that can be compared.

    A later patch of the published CANN, a later post release of torch_npu, and a newer driver fit. A test build of a
    release (9.1.0-beta.3) is not below it.
    """
    with contextlib.suppress(ParseError):
        if part == "cann":
            return _cann_misfit(published, here)
        if part == "driver":
            return _driver_misfit(published, here)
        if re.match(r"[<>=!~]", published):
            return None if Requirement(part, published).accepts(here) else Severity.ERROR
        return min((_release_misfit(part, one, here) for one in published.split(" or ")), key=_weight)
    return None


def _weight(severity: Severity | None) -> int:
    return -1 if severity is None else severity.rank


def _cann_misfit(published: str, here: str) -> Severity | None:
    bounds = [bound.strip() for bound in published.split(",")]
    if published.startswith((">", "<")):
        version = CannVersion.parse(here)
        low = [CannVersion.parse(bound[2:]) for bound in bounds if bound.startswith(">=")]
        high = [bound.lstrip("<=") for bound in bounds if bound.startswith("<")]
        is_below = all(version < CannVersion.parse(one) and not here.startswith(one) for one in high)
        fits = all(version >= one for one in low) and is_below
        return None if fits else Severity.ERROR
    if covers(published, here):
        return None
    is_older = CannVersion.parse(here) < CannVersion.parse(published)
    return Severity.ERROR if is_older and train(here) != train(published) else Severity.WARNING


def _driver_misfit(published: str, here: str) -> Severity | None:
    """A driver serves an older CANN too: only one that is older than the published one does not fit."""
    for bound in (part.strip() for part in published.split(" or ")[0].split(",")):
        limit = bound.lstrip("<>=!~ ")
        if bound.startswith("<"):
            if not is_older_driver(here, limit) and not (bound.startswith("<=") and covers(limit, here)):
                return Severity.ERROR
        elif is_older_driver(here, limit):
            return Severity.ERROR
    return None


def is_older_driver(driver: str, limit: str) -> bool:
    """Whether a driver is older than a release or than all of `25.0.X`; raises ParseError for what is no version."""
    version = DriverVersion.parse(driver)
    if limit.upper().endswith(".X"):
        stem = tuple(map(int, limit[:-2].split(".")))
        return version.release[: len(stem)] < stem
    return version < DriverVersion.parse(limit)


def is_too_old(driver: str, support: HdkSupport) -> bool:
    """Whether a CANN does not run on a driver: its list excludes it, or all that it names are newer.

    Not where the list rests on too little, or one of the two is no version.
    """
    if support.confidence is Confidence.WEAK:
        return False
    fit = support.judge(driver)
    with contextlib.suppress(ParseError):
        oldest = support.oldest_compatible
        return fit is Fit.OUTSIDE or (fit is Fit.UNKNOWN and oldest is not None and is_older_driver(driver, oldest))
    return fit is Fit.OUTSIDE


def driver_required(cann: str | None, driver: str | None) -> str | None:
    """The driver that is paired with a CANN, where this one is too old for it; None where it suits or is not known."""
    support = knowledge.compatibility().hdk(cann) if cann is not None else None
    if support is None or driver is None or not is_too_old(driver, support):
        return None
    return next((paired for paired in support.paired if ".X" not in paired), support.oldest_compatible)


def _next_patch(release: tuple[int, ...]) -> tuple[int, ...]:
    return (*release[:-1], release[-1] + 1)


def _release_misfit(part: str, published: str, here: str) -> Severity | None:
    if wheel(published) == wheel(here):
        return None
    wanted, found = TorchVersion.parse(wheel(published)), TorchVersion.parse(wheel(here))
    if ".dev" in here and found.release in (wanted.release, _next_patch(wanted.release)):
        return None  # a build of the release's branch: setuptools_scm counts on behind the last tag
    if wanted.release != found.release:
        return Severity.ERROR
    if part == "torch_npu" and found > wanted:
        return None
    return Severity.WARNING if part in ("torch_npu", "triton-ascend", "torch") else Severity.ERROR
