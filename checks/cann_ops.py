"""The operator package of CANN: the compiled kernels of this chip."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.packages import CannOps
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.versions import CannVersion
from npudoctor.sdk import Evidence, Finding, check

from ._packages import explain_command, operators_package, package_tag
from .messages import cann as messages


@check("cann.ops", after=("cann.installed",), requires=(SoftwareStack,))
def operators_match_toolkit_and_chip(ops: CannOps, cards: Chips | None) -> Iterator[Finding]:
    """Operator package for this chip and toolkit installed.

    The toolkit alone has no kernels: the first operator that a model calls fails, or is compiled for minutes.
    """
    tag = package_tag(cards)
    if not ops.installed or ops.emptied:
        yield _ops_missing(ops, tag)
        return
    if tag is not None and not ops.serves(tag):
        yield messages.WRONG_CHIP.finding(
            chips=ops.chips,
            chip=tag,
            commands=(_package(ops, tag),),
            evidence=(
                Evidence(source=ops.source, expected=tag, actual=ops.package or ", ".join(ops.chips)),
                Evidence(source="NPUs", actual=(cards.chips[0].name or cards.family) if cards is not None else None),
            ),
        )
    toolkit = ops.install.version
    if toolkit is None or ops.version is None or _is_compatible(toolkit, ops.version):
        return
    yield messages.OPS_MISMATCH.finding(
        operators=ops.version,
        toolkit=toolkit,
        commands=(_package(ops, tag or next(iter(ops.chips), None)),),
        evidence=(
            Evidence(source=ops.install.info_path or ops.install.root, actual=str(toolkit)),
            Evidence(source=ops.source, expected=str(toolkit), actual=ops.stated),
        ),
    )


def _is_compatible(toolkit: CannVersion, operators: CannVersion) -> bool:
    several = [CannVersion.parse(text) for text in knowledge.layout().more["cross_compatible_ops"]]
    return toolkit == operators or (toolkit in several and operators in several)


def _ops_missing(ops: CannOps, tag: str | None) -> Finding:
    found, actual = messages.OPS_MISSING, "not found"
    if ops.emptied:
        found, actual = messages.KERNELS_MISSING, messages.RECORDED_WITHOUT_KERNELS.text()
    return found.finding(
        version=ops.install.stated or "<version>",
        commands=(_package(ops, tag),),
        evidence=(Evidence(source=ops.source, expected=messages.PACKAGE_AND_KERNELS.text(), actual=actual),),
    )


def _package(ops: CannOps, tag: str | None) -> str:
    """The command that installs the operators, in the naming of the release."""
    version = ops.install.stated or "<version>"
    package = f"{operators_package(version, tag)}_{version}_linux-{ops.install.arch or '$(arch)'}"
    return explain_command(f"./{package}.run --install")
