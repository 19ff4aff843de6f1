"""What npudoctor knows without looking: tables beside this file, each read once, when it is first asked for.

Every row names its sources, and every table says as of when it holds (`as_of`). Importing this package reads nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each table brings its module with it only when somebody asks
    from npudoctor.knowledge.chips import Hardware
    from npudoctor.knowledge.codes import Errors
    from npudoctor.knowledge.collectives import Hccl
    from npudoctor.knowledge.figures import Baselines
    from npudoctor.knowledge.places import Layout
    from npudoctor.knowledge.releases import Compatibility
    from npudoctor.knowledge.stacks import Combinations
    from npudoctor.knowledge.symptoms import Pitfalls
    from npudoctor.knowledge.variables import Environment


@cache
def compatibility() -> Compatibility:
    """Which torch, torch_npu, CANN, Python and driver releases go together."""
    from npudoctor.knowledge import releases

    return releases.load()


@cache
def combinations() -> Combinations:
    """Releases that were seen or tested together, build names, and what features need."""
    from npudoctor.knowledge import stacks

    return stacks.load()


@cache
def environment() -> Environment:
    """The environment variables that matter, and their legal values."""
    from npudoctor.knowledge import variables

    return variables.load()


@cache
def hardware() -> Hardware:
    """The chip families: names, PCI ids, memory, links and limits."""
    from npudoctor.knowledge import chips

    return chips.load()


@cache
def baselines() -> Baselines:
    """Reference figures: links, compute, all-reduce, idle cards, and the smoke run's thresholds."""
    from npudoctor.knowledge import figures

    return figures.load()


@cache
def pitfalls() -> Pitfalls:
    """The known ways in which a node fails, with symptom, cause and mend."""
    from npudoctor.knowledge import symptoms

    return symptoms.load()


@cache
def errors() -> Errors:
    """The error and fault codes of npu-smi, HCCL, the runtime, torch_npu and the chips."""
    from npudoctor.knowledge import codes

    return codes.load()


@cache
def hccl() -> Hccl:
    """HCCL's ports, times, buffers and choice of interface, and what hccn_tool answers when all is well."""
    from npudoctor.knowledge import collectives

    return collectives.load()


@cache
def layout() -> Layout:
    """Where CANN, driver, device nodes, logs and caches lie, and what a container needs of them."""
    from npudoctor.knowledge import places

    return places.load()


__all__ = [
    "baselines",
    "combinations",
    "compatibility",
    "environment",
    "errors",
    "hardware",
    "hccl",
    "layout",
    "pitfalls",
]
