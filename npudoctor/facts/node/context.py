"""What decides how findings are meant: which parts are here at all, the node's role, and whether a job runs on it."""

from __future__ import annotations

from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall, LoadedModules
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.pci import PciCards
from npudoctor.records import record
from npudoctor.sdk import Because, NotApplicable, Options, Unavailable, probe

DRIVER_ONLY = "driver-only"
FULL = "full"


@record(frozen=True, kw_only=True)
class CardPresence:
    """How many NPUs each source shows; None where it could not be asked. A container's PCI bus is its host's."""

    pci: int | None = None
    nodes: int | None = None
    npu_smi: int | None = None
    in_container: bool = False

    @property
    def cards(self) -> bool:
        """Whether there is an NPU at all."""
        return any((self.pci, self.nodes, self.npu_smi))


@probe(of_the_moment=True)
def card_presence(
    pci: PciCards | None, nodes: DeviceNodes | None, info: NpuSmiInfo | None, container: Container | None
) -> CardPresence:
    """From the PCI bus, /dev and npu-smi; unknown only where none of them could be asked."""
    found = CardPresence(
        pci=None if pci is None or container is not None else len(pci.cards),
        nodes=None if nodes is None else len(nodes.cards) + len(nodes.slices),
        npu_smi=None if info is None else len(info.npus),
        in_container=container is not None,
    )
    if found.nodes is None and not found.cards:
        raise Unavailable("NPUs unknown: PCI bus, /dev and npu-smi are not readable", because=Because.NOT_RECORDED)
    return found


@record(frozen=True, kw_only=True)
class Presence:
    """Which parts of the stack are here: NPUs, driver, a CANN (or the remains of one), torch_npu in the target.

    `cann` is None where it could not be determined.
    """

    cards: bool
    driver: bool
    cann: bool | None
    torch_npu: bool
    in_container: bool

    @property
    def software(self) -> bool:
        """Whether any Ascend software is here, or may be."""
        return self.driver or self.cann is not False or self.torch_npu


@probe(of_the_moment=True)
def presence(
    found: CardPresence,
    driver: DriverInstall | None,
    modules: LoadedModules | None,
    cann: Cann | None,
    python: PythonEnvironment | None,
) -> Presence:
    """A driver or a torch_npu that that could not be determined counts as not here."""
    return Presence(
        cards=found.cards,
        driver=bool((driver and driver.is_there) or (modules and modules.ours and not found.in_container)),
        cann=bool(cann.installs or cann.dead_links or cann.named_in_vain) if cann else None,
        torch_npu=bool(python and python.torch_npu),
        in_container=found.in_container,
    )


@record(frozen=True)
class Role:
    """What the node is for: `full` trains itself, `driver-only` lends its NPUs to containers. `reason` is a clause."""

    name: str
    reason: str


@probe
def role(options: Options, found: Presence | None) -> Role:
    """As asked for; else driver-only is a host with NPUs or a driver, without CANN and without torch_npu."""
    if options.role != "auto":
        return Role(options.role, "--role says so")
    if options.frameworks:
        return Role(FULL, "--for asks for a framework here")
    if found is None or found.cann is None:
        return Role(FULL, "what is installed is not known")
    if found.in_container:
        return Role(FULL, "this is a container")
    if (found.cards or found.driver) and not (found.cann or found.torch_npu):
        return Role(DRIVER_ONLY, "the driver is here, and neither a CANN nor a torch_npu is")
    return Role(FULL, "CANN or torch_npu is here" if found.software else "no Ascend software is here")


@record(frozen=True)
class SoftwareStack:
    """Without content: it is known where CANN, Python, variables and HCCL are to be judged, and says why elsewhere."""


@probe(of_the_moment=True)
def software_stack(found: Presence | None, role: Role) -> SoftwareStack:
    """Not on a node that only lends its NPUs, and not where there is nothing to judge."""
    if role.name == DRIVER_ONLY:
        raise NotApplicable("containers bring their own CANN: this node is driver-only (see --role)")
    if found is not None and not found.cards and not found.software:
        cause = "container.devices" if found.in_container else "npu.present"
        raise Unavailable("no Ascend NPU or software found", blocked_by=cause)
    return SoftwareStack()


@record(frozen=True)
class DriverStack:
    """Without content: it is known where the driver is to be judged: there are NPUs, or there is a driver."""


@probe(of_the_moment=True)
def driver_stack(found: Presence) -> DriverStack:
    """Not where there is neither an NPU nor a driver."""
    if not found.cards and not found.driver:
        cause = "container.devices" if found.in_container else "npu.present"
        raise Unavailable("no Ascend NPU or driver found", blocked_by=cause)
    return DriverStack()


@record(frozen=True)
class Service:
    """Whether live processes hold NPUs, and their pids as far as they are visible here."""

    in_service: bool
    pids: tuple[int, ...] = ()


@probe(of_the_moment=True)
def service(holders: CardHolders | None, found: CardPresence | None) -> Service:
    """From npu-smi's table of processes; one that cannot be judged counts as live."""
    if holders is not None:
        return Service(holders.in_service, tuple(sorted(holders.pids)))
    if found is not None and not found.cards:
        return Service(False)
    raise Unavailable("processes on the NPUs unknown: npu-smi printed no table")
