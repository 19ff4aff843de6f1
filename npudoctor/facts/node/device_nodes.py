"""The device nodes through which software reaches the NPUs, and what this user may do with them."""

from __future__ import annotations

import contextlib
import re

from npudoctor.records import record
from npudoctor.sdk import Because, FileStat, Host, Unavailable, User, probe

MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
FIRST_VIRTUAL_NUMBER = 100
"""Numbers from here on are slices of an NPU, not NPUs."""

_CARD = r"davinci([0-9]{1,4})"
_SLICE = r"vdavinci([0-9]{1,4})"


def as_passed(path: str) -> str:
    """What `--device` names for a node of a container: a vNPU has another name on its host."""
    number = re.fullmatch(r"/dev/v?davinci([0-9]{1,9})", path)
    if number is None or int(number[1]) < FIRST_VIRTUAL_NUMBER:
        return path
    return f"/dev/vdavinci{number[1]}:/dev/davinci{number[1]}"


@record(frozen=True, kw_only=True)
class DeviceNode:
    """One node below /dev. `number` is that of the NPU or slice, `stat` is None where this user may not ask."""

    path: str
    number: int | None = None
    stat: FileStat | None = None

    @property
    def usable(self) -> bool:
        """Whether this user may read and write it; judged by mode and group, it is never opened."""
        return self.stat is not None and "r" in self.stat.access and "w" in self.stat.access

    @property
    def stands_in(self) -> bool:
        """Whether this is an ordinary file that stands for the node in a recording, so that its rights say nothing."""
        return self.stat is not None and self.stat.kind == "file"


@record(frozen=True, kw_only=True)
class DeviceNodes:
    """The nodes of the Ascend driver below /dev.

    `cards` are /dev/davinciN, `slices` /dev/vdavinciN and numbers from 100; `managers` those of davinci_manager,
    devmm_svm and hisi_hdc that are there; `misplaced` are folders that stand where a node should.
    """

    cards: tuple[DeviceNode, ...]
    slices: tuple[DeviceNode, ...] = ()
    managers: tuple[DeviceNode, ...] = ()
    misplaced: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the NPUs, ascending."""
        return tuple(node.number for node in self.cards if node.number is not None)

    def manager(self, name: str) -> DeviceNode | None:
        """The manager node of that name, if it is there."""
        return next((node for node in self.managers if node.path == f"/dev/{name}"), None)


@probe
def device_nodes(host: Host) -> DeviceNodes:
    """From the names in /dev and what stat says of them; nothing is opened."""
    cards, slices, managers, misplaced = [], [], [], []
    for name in _names(host):
        card, piece = re.fullmatch(_CARD, name), re.fullmatch(_SLICE, name)
        if not (card or piece or name in MANAGERS):
            continue
        match = card or piece
        path = f"/dev/{name}"
        node = DeviceNode(path=path, number=int(match[1]) if match else None, stat=_stat(host, path))
        if node.stat is not None and node.stat.kind == "dir":
            misplaced.append(node.path)
        elif name in MANAGERS:
            managers.append(node)
        elif card and int(card[1]) < FIRST_VIRTUAL_NUMBER:
            cards.append(node)
        else:
            slices.append(node)
    return DeviceNodes(
        cards=tuple(sorted(cards, key=lambda node: node.number or 0)),
        slices=tuple(sorted(slices, key=lambda node: node.number or 0)),
        managers=tuple(managers),
        misplaced=tuple(misplaced),
    )


def cannot_reach_cards(user: User, nodes: DeviceNodes | None) -> str | None:
    """Why this user can open no NPU, as a clause; None where he can open one, or none is known."""
    known = [node for node in (nodes.cards if nodes else ()) if node.stat is not None and not node.stands_in]
    denied = [node for node in known if not _may_use(user, node.stat)]
    if not denied or len(denied) < len(known):
        return None
    path = denied[0].path
    return f"this Python runs as user {user.name}, who has no access to {path}; name another one with --python"


def _may_use(user: User, found: FileStat | None) -> bool:
    if found is None or user.uid == 0:
        return True
    owner, group = found.uid == user.uid, found.gid in (user.gid, *user.gids)
    return (found.mode >> (6 if owner else 3 if group else 0)) & 6 == 6


def _names(host: Host) -> tuple[str, ...]:
    try:
        return host.list_dir("/dev")
    except Unavailable as why:
        if why.because is Because.ABSENT:
            return ()
        raise


def _stat(host: Host, path: str) -> FileStat | None:
    with contextlib.suppress(Unavailable):
        return host.stat(path)
    return None
