"""The node shown at the top of every screen: its name, its NPUs, and the version chain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from npudoctor.control_characters import all_visible
from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session


@record(frozen=True)
class Joint:
    """One component of the chain, and whether it matches the one before it, by the result of `check`."""

    name: str
    version: str | None
    check: str | None = None
    broken: bool = False


@record(frozen=True, kw_only=True)
class NodeLine:
    """The head of a screen. `badge` marks a node that is not live; empty for a live one."""

    hostname: str = ""
    cards: str = ""
    system: tuple[str, ...] = ()
    badge: str = ""
    chain: tuple[Joint, ...] = ()
    state: str = ""


_JUDGES = (
    ("driver", "driver.installed"),
    ("firmware", "driver.firmware"),
    ("CANN", "cann.driver"),
    ("torch_npu", "python.cann-pairing"),
    ("torch", "python.pairing"),
    ("Python", "python.version"),
)


def badge(source: str, recorded_at: str | None, *, at_login: bool = False) -> str:
    """The badge of a node that is not this machine, and of an environment that is not this process's."""
    node = "SIMULATED" * (source == "simulated")
    if source == "bundle":
        node = f"RECORDED {recorded_at[:10]}" if recorded_at else "RECORDED"
    return " · ".join(part for part in (node, "NEXT LOGIN" * at_login) if part)


def line(session: Session, diagnosis: Diagnosis) -> NodeLine:
    """The head at the end of a run."""
    from npudoctor.facts.node.chips import Chips
    from npudoctor.facts.node.container import Container
    from npudoctor.facts.node.context import Service
    from npudoctor.facts.system.platform import Platform

    with session.looking() as host:
        about = host.about
    platform, container, service = session.fact(Platform), session.fact(Container), session.fact(Service)
    cards = session.fact(Chips)
    state = "" if service is None else "in service" if service.in_service else "idle"
    if cards is not None and not cards.chips:  # a node without chips is not idle either
        state = ""
    system = (
        state,
        f"{container.runtime} container" if container else None,
        platform.os if platform else None,
        about.machine,
    )
    said = NodeLine(
        hostname=about.hostname or "this node",
        cards=_cards(cards),
        system=tuple(part for part in system if part),
        badge=badge(about.source, about.recorded_at, at_login=session.at_login),
        chain=chain(session, diagnosis),
        state=state,
    )
    return all_visible(said)


def _cards(cards: Any) -> str:
    if cards is None:
        return ""
    if not cards.chips:
        return "no NPU"
    kinds = Counter(card.name or card.family or "unnamed" for card in cards.chips)
    return ", ".join(f"{number} × {name}" for name, number in kinds.items())


def chain(session: Session, diagnosis: Diagnosis) -> tuple[Joint, ...]:
    """driver → firmware → CANN → torch_npu → torch → Python, with mismatches marked."""
    from npudoctor.facts.cann.toolkits import Cann
    from npudoctor.facts.driver.install import DriverInstall, FirmwareInstall
    from npudoctor.facts.npu_smi import NpuSmiInfo
    from npudoctor.facts.python.target_python import PythonEnvironment

    driver, info = session.fact(DriverInstall), session.fact(NpuSmiInfo)
    firmware, python, cann = session.fact(FirmwareInstall), session.fact(PythonEnvironment), session.fact(Cann)
    install = (cann.active or next(iter(cann.installs), None)) if cann else None
    distributions = python.distributions if python else {}
    versions = {
        "driver": (driver and driver.file and driver.file.version) or (info and info.driver_version),
        "firmware": firmware and firmware.file.version,
        "CANN": install and (install.stated or install.version),
        "torch_npu": _version(distributions, "torch-npu", "torch_npu"),
        "torch": _version(distributions, "torch"),
        "Python": python and python.version,
    }
    joints = []
    for name, check in _JUDGES:
        result = diagnosis.results.get(check)
        broken = bool(result and result.status.value == "error")
        joints.append(Joint(name, _text(versions[name]), check, broken))
    return tuple(joints)


def _version(distributions: Any, *names: str) -> str | None:
    return next((distributions[name].version for name in names if name in distributions), None)


def _text(value: Any) -> str | None:
    return str(value) if value else None
