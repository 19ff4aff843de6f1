"""Compares a release that is installed with the one that a framework was published for (knowledge: stacks.json)."""

from __future__ import annotations

import contextlib
import re

from npudoctor.facts.python.requirements import Requirement
from npudoctor.facts.versions import CannVersion, TorchVersion
from npudoctor.knowledge.patterns import covers, train, wheel
from npudoctor.sdk import ParseError, Severity


def misfit(part: str, published: str, here: str) -> Severity | None:
    """How badly a release differs from the published one; None where it fits, or is no version that can be compared.

    A later patch of the published CANN, or a later post release of torch_npu, fits.
    """
    with contextlib.suppress(ParseError):
        if part == "cann":
            return _cann_misfit(published, here)
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
        high = [CannVersion.parse(bound.lstrip("<=")) for bound in bounds if bound.startswith("<")]
        fits = all(version >= one for one in low) and all(version < one for one in high)
        return None if fits else Severity.ERROR
    if covers(published, here):
        return None
    is_older = CannVersion.parse(here) < CannVersion.parse(published)
    return Severity.ERROR if is_older and train(here) != train(published) else Severity.WARNING


def _release_misfit(part: str, published: str, here: str) -> Severity | None:
    if wheel(published) == wheel(here):
        return None
    wanted, found = TorchVersion.parse(wheel(published)), TorchVersion.parse(wheel(here))
    if wanted.release != found.release:
        return Severity.ERROR
    if part == "torch_npu" and found > wanted:
        return None
    return Severity.WARNING if part in ("torch_npu", "triton-ascend", "torch") else Severity.ERROR
