"""What a node still needs that is not in the folder, by the name under which the vendor publishes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.staged_packages import Package
from npudoctor.facts.versions import CannVersion
from npudoctor.host import ParseError
from npudoctor.knowledge.tables.install import PackagesOfChip
from npudoctor.packages.node import Node
from npudoctor.packages.sets import PackageSet
from npudoctor.records import record

CONTAINERS, BARE, BOTH = "containers", "bare", "both"
PURPOSES = (CONTAINERS, BARE, BOTH)
"""What will run on the node: jobs in containers that bring CANN, jobs on the node itself, or both."""
OPS_FROM = (8, 5)
"""The CANN from which on operators are called ops; before, kernels."""


@record(frozen=True, kw_only=True)
class Missing:
    """A package that is needed; `published` is its file name, with <…> for what is not known. `why` is a clause."""

    component: str
    published: str
    why: str


def find_missing(chosen: PackageSet | None, node: Node, purpose: str) -> tuple[Missing, ...]:
    """What the chosen set lacks for a purpose on a node."""
    return tuple(_iterate_missing(chosen, node, purpose))


def _iterate_missing(chosen: PackageSet | None, node: Node, purpose: str) -> Iterator[Missing]:
    have = {part.component for part in chosen.parts} if chosen else set()
    names = knowledge.install().packages_of(node.families[0]) if len(node.families) == 1 else None
    cann = _version(chosen, "toolkit", "combined") or node.cann
    if not node.in_container:
        yield from _of_driver(chosen, have, node, names, cann)
    if purpose == CONTAINERS:
        return
    if not have & {"toolkit", "combined"} and node.cann is None:
        yield Missing(component="toolkit", published=_published_as("toolkit", node, names, cann), why="no CANN")
    if have & {"toolkit", "combined"} and not have & {"ops", "kernels"}:
        component = "ops" if _has_ops(cann) else "kernels"
        published = _published_as(component, node, names, cann)
        yield Missing(
            component=component, published=published, why="CANN's operators for these chips, of the same version"
        )
    if "torch_npu" not in have:
        yield from _of_frameworks(chosen, node, cann)


def _of_driver(
    chosen: PackageSet | None, have: set[str], node: Node, names: PackagesOfChip | None, cann: str | None
) -> Iterator[Missing]:
    driver = _version(chosen, "driver", "hdk_bundle", "combined")
    if not have & {"driver", "hdk_bundle", "combined"} and node.driver is None and node.driver_known:
        support = knowledge.compatibility().hdk(cann) if cann else None
        paired = support.paired[0] if support and support.paired else None
        yield Missing(
            component="driver", published=_published_as("driver", node, names, paired), why="no driver on the node"
        )
    if have & {"driver", "combined"} and not have & {"firmware", "hdk_bundle"}:
        rows = knowledge.combinations().driver_firmware
        seen = next(
            (row.firmware for row in rows if row.driver.lower() == (driver or "").lower() and row.firmware), None
        )
        why = f"firmware of the HDK release of driver {driver}"
        yield Missing(component="firmware", published=_published_as("firmware", node, names, seen), why=why)


def _of_frameworks(chosen: PackageSet | None, node: Node, cann: str | None) -> Iterator[Missing]:
    releases = knowledge.compatibility().releases_for_cann(cann, python=node.python) if cann else ()
    best = releases[0] if releases else None
    python = (node.python or next(iter(best.pythons), None) if best else node.python) or "<python>"
    tag = python.replace(".", "")
    platforms = [name for name in (best.platforms if best else ()) if node.arch and name.endswith(node.arch)]
    platform = platforms[0] if platforms else f"<manylinux>_{node.arch or '<arch>'}"
    torch = best.torch if best else "<version>"
    local = "+cpu" if best and any("+cpu" in need for need in best.requires(node.arch or "") or ()) else ""
    why = f"CANN {cann} is paired with torch_npu {best.version}" if best else "the pair of the CANN"
    have = {part.component for part in chosen.parts} if chosen else set()
    if "torch" not in have:
        yield Missing(component="torch", published=f"torch-{torch}{local}-cp{tag}-cp{tag}-{platform}.whl", why=why)
    version = best.version if best else "<version>"
    yield Missing(component="torch_npu", published=f"torch_npu-{version}-cp{tag}-cp{tag}-{platform}.whl", why=why)


def _published_as(component: str, node: Node, names: PackagesOfChip | None, version: str | None) -> str:
    row = knowledge.install().component(component)
    arch = node.arch or "<arch>"
    text = row.published or ""
    if component == "kernels" and names is not None and names.ops == "A3":
        text = "Atlas-A3-cann-kernels_{version}_linux-{arch}.run"
    return text.format(
        hdk=names.hdk[0] if names else "Ascend-hdk-<chip>",
        ops=(names.ops if names else None) or "<chip>",
        version=version or "<version>",
        arch=arch,
        arch_hdk=re.sub("x86_64", "x86-64", arch),
    )


def _version(chosen: PackageSet | None, *components: str) -> str | None:
    part: Package | None = chosen.of(*components) if chosen else None
    return part.version if part else None


def _has_ops(cann: str | None) -> bool:
    try:
        return CannVersion.parse(cann or "").release[:2] >= OPS_FROM
    except ParseError:
        return True
