"""What is installed on a node without driver and CANN: packages, their names, their order, and ways back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Component:
    """A kind of package. `stems` are regular expressions for what is before the version in its file name.

    `published` is the vendor's name with places for hdk, ops, version, arch. `seconds_seen` are the shortest and the
    longest installation of which a log is known, `disk_mb` the room in MB that the vendor asks for; None: not known.
    `reboot` is a clause, empty where none is needed. `first`, `upgrade` and `undo_first` are commands with places for
    file, root (of CANN), prefix, arch, version; `undo_before_8_5` is that of CANN up to 8.3 where it differs. A
    component without `undo_first` has no way back of its own.
    """

    id: str
    title: str
    stems: tuple[str, ...]
    sources: tuple[str, ...]
    confidence: str
    published: str | None = None
    root: bool = False
    reboot: str = ""
    seconds_seen: tuple[int, ...] | None = None
    disk_mb: int | None = None
    first: str | None = None
    upgrade: str | None = None
    undo_first: str | None = None
    undo_before_8_5: str | None = None
    uncertain: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class PackagesOfChip:
    """How packages for the chips with a PCI device id are named: `hdk` before driver and firmware, `ops` in CANN's."""

    device: str
    family: str
    hdk: tuple[str, ...]
    ops: str | None
    sources: tuple[str, ...]


@record(frozen=True)
class Tag:
    """What file names call a chip family, in small letters: 910b is A2."""

    tag: str
    family: str
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Install:
    """The whole table. `orders` has the order of components of a first installation and of an upgrade."""

    as_of: str
    components: tuple[Component, ...]
    chips: tuple[PackagesOfChip, ...]
    tags: tuple[Tag, ...]
    orders: Mapping[str, list[str]]
    signature_suffixes: tuple[str, ...]
    digest_suffixes: tuple[str, ...]
    os_packages: Mapping[str, Mapping[str, list[str]]]

    def component(self, id: str) -> Component:
        """The row of a component; raises KeyError."""
        return self._by_id[id]

    def family(self, tag: str) -> str | None:
        """The chip family that a file name means; None for a tag that is not in the table."""
        return self._by_tag.get(tag.lower())

    def packages_of(self, family: str) -> PackagesOfChip | None:
        """How packages for a family are named."""
        return next((row for row in self.chips if row.family == family), None)

    def driver_packages(self, os_id: str, kernel: str) -> tuple[str, ...]:
        """The system's packages that building the driver needs; empty for a system that is not in the table."""
        for row in self.os_packages.values():
            if any(os_id.lower().startswith(member) for member in row["members"]):
                return tuple(name.format(kernel=kernel) for name in row["driver"])
        return ()

    def install_command(self, os_id: str, kernel: str) -> str | None:
        """The command that installs them; None for a system that is not in the table."""
        names = self.driver_packages(os_id, kernel)
        if not names:
            return None
        members = self.os_packages["debian"]["members"]
        tool = "apt-get" if any(os_id.lower().startswith(member) for member in members) else "dnf"
        return f"{tool} install {' '.join(names)}  # as root"

    @cached_property
    def _by_id(self) -> dict[str, Component]:
        return {row.id: row for row in self.components}

    @cached_property
    def _by_tag(self) -> dict[str, str]:
        return {row.tag: row.family for row in self.tags}


def load() -> Install:
    """Read install.json."""
    data = table.read("install")
    return table.record_of(Install, data, orders={name: data["order"][name] for name in ("first", "upgrade")})
