"""What npudoctor knows without looking: the tables in tables/, each read once, when it is first asked for.

Every row names its sources, and every table says as of when it holds (`as_of`). Importing this package reads nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each table brings its module with it only when somebody asks
    from npudoctor.knowledge.tables.baselines import Baselines
    from npudoctor.knowledge.tables.codes import Codes
    from npudoctor.knowledge.tables.combinations import Combinations
    from npudoctor.knowledge.tables.compatibility import Compatibility
    from npudoctor.knowledge.tables.dcmi import Dcmi
    from npudoctor.knowledge.tables.environment import Environment
    from npudoctor.knowledge.tables.errors import Errors
    from npudoctor.knowledge.tables.hardware import Hardware
    from npudoctor.knowledge.tables.hccl import Hccl
    from npudoctor.knowledge.tables.install import Install
    from npudoctor.knowledge.tables.layout import Layout
    from npudoctor.knowledge.tables.pitfalls import Pitfalls
    from npudoctor.knowledge.tables.services import Services
    from npudoctor.knowledge.tables.stacks import Stacks


@cache
def compatibility() -> Compatibility:
    """Which torch, torch_npu, CANN, Python and driver releases go together."""
    from npudoctor.knowledge.tables import compatibility as table

    return table.load()


@cache
def combinations() -> Combinations:
    """Releases that were seen or tested together, build names, and what features need."""
    from npudoctor.knowledge.tables import combinations as table

    return table.load()


@cache
def dcmi() -> Dcmi:
    """What is called of the driver's library libdcmi.so, and what its return codes mean."""
    from npudoctor.knowledge.tables import dcmi as table

    return table.load()


@cache
def environment() -> Environment:
    """The environment variables that matter, and their legal values."""
    from npudoctor.knowledge.tables import environment as table

    return table.load()


@cache
def hardware() -> Hardware:
    """The chip families: names, PCI ids, memory, links and limits."""
    from npudoctor.knowledge.tables import hardware as table

    return table.load()


@cache
def baselines() -> Baselines:
    """Reference figures: links, compute, all-reduce, idle NPUs, and the smoke run's thresholds."""
    from npudoctor.knowledge.tables import baselines as table

    return table.load()


@cache
def pitfalls() -> Pitfalls:
    """The known ways in which a node fails, with symptom, cause and fix."""
    from npudoctor.knowledge.tables import pitfalls as table

    return table.load()


@cache
def errors() -> Errors:
    """The error and fault codes of npu-smi, HCCL, the runtime, torch_npu and the chips."""
    from npudoctor.knowledge.tables import errors as table

    return table.load()


@cache
def codes() -> Codes:
    """All codes of all components, and their printed forms; errors() says what to check for the frequent ones."""
    from npudoctor.knowledge.tables import codes as table

    return table.load()


@cache
def hccl() -> Hccl:
    """HCCL's ports, times, buffers and choice of interface, and what hccn_tool answers when nothing fails."""
    from npudoctor.knowledge.tables import hccl as table

    return table.load()


@cache
def install() -> Install:
    """The packages of driver, firmware, CANN and frameworks: names, order, commands, ways back."""
    from npudoctor.knowledge.tables import install as table

    return table.load()


@cache
def layout() -> Layout:
    """Where CANN, driver, device nodes, logs and caches lie, and what a container needs of them."""
    from npudoctor.knowledge.tables import layout as table

    return table.load()


@cache
def services() -> Services:
    """Services of frameworks: which commands start them, and on which ports and addresses they listen."""
    from npudoctor.knowledge.tables import services as table

    return table.load()


@cache
def stacks() -> Stacks:
    """Frameworks on top of torch_npu and CANN: which releases go together, and on which chips."""
    from npudoctor.knowledge.tables import stacks as table

    return table.load(combinations())


__all__ = [
    "baselines",
    "codes",
    "combinations",
    "compatibility",
    "dcmi",
    "environment",
    "errors",
    "hardware",
    "hccl",
    "install",
    "layout",
    "pitfalls",
    "services",
    "stacks",
]
