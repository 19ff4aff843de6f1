"""CANN's operators: the compiled kernels of this chip."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.packages import CannOps
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.versions import CannVersion
from npudoctor.sdk import Evidence, Finding, check

from ._packages import operators_package, package_tag


@check("cann.ops", after=("cann.installed",), requires=(SoftwareStack,))
def operators_fit_toolkit_and_chip(ops: CannOps, cards: Chips | None) -> Iterator[Finding]:
    """The operators are installed, for this chip, in the version of the toolkit.

    The toolkit alone has no kernels: the first operator that a model calls fails, or is compiled for minutes.
    """
    tag = package_tag(cards)
    if not ops.installed or ops.emptied:
        yield _ops_missing(ops, tag)
        return
    if tag is not None and not ops.serves(tag):
        yield Finding(
            summary=f"the operators are for {', '.join(ops.chips)}, these cards need {tag}",
            detail="Operators of another chip cannot run here: every kernel lookup fails.",
            hint=f"Install the operators for {tag}; those of different chips cannot share one prefix.",
            commands=(_package(ops, tag),),
            evidence=(
                Evidence(source=ops.source, expected=tag, actual=ops.package or ", ".join(ops.chips)),
                Evidence(source="cards", actual=(cards.chips[0].name or cards.family) if cards is not None else None),
            ),
            pitfall="P034",
        )
    toolkit = ops.install.version
    if toolkit is None or ops.version is None or _go_together(toolkit, ops.version):
        return
    yield Finding(
        summary=f"the operators are of CANN {ops.version}, the toolkit is {toolkit}",
        detail="The packages of one CANN must be upgraded together; kernels of another release are not found or fail.",
        hint="Install the operators in the toolkit's version.",
        commands=(_package(ops, tag or next(iter(ops.chips), None)),),
        evidence=(
            Evidence(source=ops.install.info_path or ops.install.root, actual=str(toolkit)),
            Evidence(source=ops.source, expected=str(toolkit), actual=ops.stated),
        ),
        pitfall="P059",
    )


def _go_together(toolkit: CannVersion, operators: CannVersion) -> bool:
    several = [CannVersion.parse(text) for text in knowledge.layout().more["cross_compatible_ops"]]
    return toolkit == operators or (toolkit in several and operators in several)


def _ops_missing(ops: CannOps, tag: str | None) -> Finding:
    missing = "not there" if not ops.emptied else "recorded, but no kernels are there"
    return Finding(
        summary=f"the operators of {ops.install.title} are {'gone' if ops.emptied else 'not installed'}",
        detail="Only the toolkit is here; the first operator that a model calls fails with `Cannot find bin of op`.",
        hint="Install the operators for this chip in the toolkit's version, into the same prefix.",
        commands=(_package(ops, tag),),
        evidence=(Evidence(source=ops.source, expected="the package and its kernels", actual=missing),),
        pitfall="P008",
    )


def _package(ops: CannOps, tag: str | None) -> str:
    """The command that installs the operators, in the naming of the release."""
    version = ops.install.stated or "<version>"
    return f"./{operators_package(version, tag)}_{version}_linux-{ops.install.arch or '$(arch)'}.run --install"
