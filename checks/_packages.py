"""How CANN's packages are called."""

from __future__ import annotations

import contextlib

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.versions import CannVersion
from npudoctor.sdk import ParseError


def package_tag(cards: Chips | None) -> str | None:
    """The chip of these cards as package names spell it; None where it is not known, or no package is made for it."""
    family = knowledge.hardware().family(cards.family or "") if cards is not None else None
    return family.package_tag if family is not None else None


def operators_package(version: str, tag: str | None) -> str:
    """The package of the operators: kernels up to 8.3, ops from 8.5 on."""
    chip = tag or "<chip>"
    with contextlib.suppress(ParseError):
        if CannVersion.parse(version).release < (8, 5):
            return "Atlas-A3-cann-kernels" if chip == "a3" else f"Ascend-cann-kernels-{chip}"
    return f"Ascend-cann-{chip}-ops"
