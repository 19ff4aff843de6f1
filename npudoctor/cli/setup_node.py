"""What an installation of driver and firmware asks the node: which one it is, who holds an NPU, and what is wrong."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from npudoctor import engine
from npudoctor.cli import setup_image
from npudoctor.cli.output import write
from npudoctor.control_characters import escape
from npudoctor.explain.causes import causes_in
from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.driver.install import DriverInstall, FirmwareInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.running_containers import RunningContainer, RunningContainers
from npudoctor.facts.npu_smi import Board
from npudoctor.facts.system.pci import PciCards
from npudoctor.findings import Severity
from npudoctor.fixer.journal import Journal
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.installing import conditions, holders, proof, run
from npudoctor.installing.state import Holder, Node, Step
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.plugins import Catalog
from npudoctor.sdk import Options
from npudoctor.selection import Selection

_BOARDS = PerChip[Board]
_FACTS: tuple[type, ...] = (DriverInstall, FirmwareInstall, PciCards, Chips, _BOARDS)
_HOLDING: tuple[type, ...] = (PciCards, RunningContainers)


def tell(line: str) -> None:
    """Show a line at once; a terminal that is gone is no reason against a step."""
    with contextlib.suppress(OSError):
        write(f"{escape(line)}\n")
        sys.stdout.flush()


def describe_node(host: ApartHost, catalog: Catalog, options: Options, *, unmanaged: bool) -> Node:
    """This node, as a plan describes it; raises Refused where it is not known."""
    cards, serials = _table(host, catalog, options)
    if not cards:
        raise Refused("the NPUs on the PCI bus are not known")
    boot, machine = host.boot_id(), Journal(host).machine_id
    if not boot or not machine:
        raise Refused("the id of this boot or /etc/machine-id is not known")
    system = ""
    with contextlib.suppress(Unavailable):
        system = host.read("/sys/class/dmi/id/product_uuid").strip()
    return Node(cards=cards, serials=serials, machine_id=machine, boot_id=boot, unmanaged=unmanaged, system=system)


def _table(host: ApartHost, catalog: Catalog, options: Options) -> run.Table:
    facts = _gather_facts(host, catalog, options, (PciCards, _BOARDS))
    cards, answers = facts.get(PciCards), facts.get(_BOARDS)
    boards: dict[str, Board] = dict(answers.by_subject) if isinstance(answers, PerChip) else {}
    return (
        tuple(f"{card.slot} {card.device}" for card in cards.cards) if isinstance(cards, PciCards) else (),
        tuple(f"{subject} {board.serial_number}" for subject, board in sorted(boards.items()) if board.serial_number),
    )


def _gather_facts(host: ApartHost, catalog: Catalog, options: Options, kinds: tuple[type, ...]) -> dict[type, object]:
    known = engine.gather(catalog, host.fresh(), options, facts=kinds)
    return {probe.provides: value for probe, value in known.items()}


def caller_of(
    catalog: Catalog, host: ApartHost, options: Options, steps: Sequence[Step], image: str = ""
) -> run.Caller:
    """What the command asks and shows while it goes on with these steps; with an image, its smoke run is asked, too."""
    return run.Caller(
        say=tell,
        wrong=lambda: _find_problems(catalog, host, options, steps) or _wrong_in(image, catalog, host, options),
        free=lambda: free(catalog, host, options),
        causes=causes_in,
        table=lambda: _table(host, catalog, options),
        containers=lambda: {one.id: one.title for one in containers_of(catalog, host, options)},
    )


def containers_of(catalog: Catalog, host: ApartHost, options: Options) -> tuple[RunningContainer, ...]:
    """The running containers that use NPUs or the driver; none where they are not known."""
    found = _gather_facts(host, catalog, options, (RunningContainers,)).get(RunningContainers)
    return found.containers if isinstance(found, RunningContainers) else ()


def free(catalog: Catalog, host: ApartHost, options: Options, stop: Sequence[Holder] = ()) -> None:
    """Raise Refused where a process, a container or a virtual machine holds an NPU, except those that are stopped."""
    if stop and (left := holders.others(host, stop)):
        conditions.refuse_holders(left)
    if not stop:
        conditions.free(host)
    facts = _gather_facts(host, catalog, options, _HOLDING)
    cards, containers = facts.get(PciCards), facts.get(RunningContainers)
    if isinstance(cards, PciCards) and (
        given := [card.slot for card in cards.cards if _is_given_away(host, card.slot)]
    ):
        raise Refused(f"NPUs are given to virtual machines (vfio-pci): {', '.join(given)}")
    if isinstance(containers, Unavailable):
        raise Refused(f"the containers of this node are not known: {containers.reason}")
    if isinstance(containers, RunningContainers):
        stopped = {one.stop[-1] for one in stop}
        if holding := [one for one in containers.containers if one.devices and one.id not in stopped]:
            names = ", ".join(f"{one.title} of {one.runtime}" for one in holding[: conditions.MOST_SHOWN])
            raise Refused(f"NPUs are given to running containers: {names}; stop these by their owner first")
        if unknown := [one for one in containers.containers if one.devices is None]:
            raise Refused(f"the devices of container {unknown[0].title} of {unknown[0].runtime} cannot be listed")
        if containers.unseen:
            raise Refused(f"the devices of {containers.unseen} containers are not known")


def _is_given_away(host: ApartHost, slot: str) -> bool:
    target = host.read_link(f"/sys/bus/pci/devices/{slot}/driver")
    return (target or "").rpartition("/")[2].startswith("vfio")


def _wrong_in(image: str, catalog: Catalog, host: ApartHost, options: Options) -> list[str]:
    """Why the smoke run in the image of the site is no proof; empty without an image."""
    nodes = _gather_facts(host, catalog, options, (DeviceNodes,)).get(DeviceNodes) if image else None
    found = setup_image.problem(host, nodes, image, tell) if image else ""
    return [found] if found else []


def _find_problems(catalog: Catalog, host: ApartHost, options: Options, steps: Sequence[Step]) -> list[str]:
    """What is wrong with the whole: the versions on disk, and every check of driver and NPUs."""
    facts = _gather_facts(host, catalog, options, _FACTS)
    found = []
    if not all(step.then for step in steps):
        return []  # the driver is removed, which was verified: there is nothing to ask
    for step in steps:
        fact = facts.get(DriverInstall if step.component == "driver" else FirmwareInstall)
        file = getattr(fact, "file", None)
        version = str(file.version) if file is not None else "not known"
        if canonical_version(version) != canonical_version(step.then):
            found.append(f"{step.component} is {version}, not {step.then}")
    chips = facts.get(Chips)
    if not isinstance(chips, Chips) or not chips.chips:
        reason = chips.reason if isinstance(chips, Unavailable) else "none is listed"
        found.append(f"the NPUs are not known to the driver: {reason}")
    found += proof.unfinished_upgrades(host)
    selection = Selection(names=("driver", "npu"), options=options)
    for event in engine.run(catalog, host.fresh(), selection):
        if isinstance(event, engine.Done):
            for result in event.report.results:
                errors = [one.summary for one in result.findings if one.severity is Severity.ERROR]
                unknown = [result.reason or "not determined"] if result.leaves_undetermined else []
                found += [f"{text} ({result.check})" for text in (*errors, *unknown)]
    return found
