"""Slices of a chip (vNPU): their templates, the chip that each is a part of, and the pod that has it.

hiascend.com, 300V_0049 (npu-smi set -t create-vnpu): a slice's number is between 16 x P + 100 and 16 x P + 107, P the
physical id of its chip; on the host it is /dev/vdavinciN. Its name contains the template (vir04, vir05_1c_16g).
"""

from __future__ import annotations

import re

from npudoctor.facts.node.device_nodes import FIRST_VIRTUAL_NUMBER, DeviceNode, DeviceNodes
from npudoctor.facts.node.running_containers import RunningContainers

WHOLE, SLICE, SHARED = "whole", "vnpu", "shared"
OF_A_CHIP = 16
NO_HCCL = "only vNPUs here: they have no network port and do not support HCCL"
HOST_PREFIX = "/dev/vdavinci"

_TEMPLATE = r"(?i)vir[0-9]{2}(?:_[0-9]{1,2}c)?(?:_[0-9]{1,3}g)?(?:_n?dvpp|_n?m)?"


def template_of(name: str | None) -> str | None:
    """The template in the name of a chip; None for a whole one."""
    found = re.search(_TEMPLATE, name or "")
    return found[0] if found else None


def whole_name(name: str | None) -> str | None:
    """The name of the chip without the template."""
    return re.sub(_TEMPLATE, "", name).strip(" -_") or None if name else name


def parent_number(slice_number: int) -> int:
    """The physical id of the chip that a slice is a part of."""
    return (slice_number - FIRST_VIRTUAL_NUMBER) // OF_A_CHIP


def on_the_host(nodes: DeviceNodes | None) -> tuple[DeviceNode, ...]:
    """The slices of this host's chips, beside the chips themselves."""
    return tuple(one for one in nodes.slices if one.path.startswith(HOST_PREFIX)) if nodes else ()


def owners(containers: RunningContainers | None) -> dict[int, str]:
    """Pod or container by the number of a slice that was passed into it."""
    found: dict[int, str] = {}
    for container in containers.containers if containers else ():
        for path in container.cards:
            number = int(re.sub(r"\D", "", path))
            if number >= FIRST_VIRTUAL_NUMBER:
                found[number] = container.title
    return found


__all__ = ["NO_HCCL", "SHARED", "SLICE", "WHOLE", "on_the_host", "owners", "parent_number", "template_of", "whole_name"]
