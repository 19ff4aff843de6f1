"""CANN against the driver, and against NNAL with ATB."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.packages import Nnal
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.published_releases import is_too_old
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.python.torch_abi import TorchAbi
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.versions import CannVersion
from npudoctor.knowledge.pairs import HdkSupport
from npudoctor.sdk import Evidence, Finding, NotApplicable, Options, Severity, Unavailable, check

from ._packages import explain_command, upgrade_commands
from .messages import cann as messages

ATB_HOME = "ATB_HOME_PATH"
SET_ENV = "/usr/local/Ascend/nnal/atb/set_env.sh"
NEEDING_ATB = ("vllm-ascend", "mindie-llm", "atb-llm")


@check("cann.driver", after=("cann.installed", "driver.installed"), requires=(SoftwareStack,))
def driver_matches_cann(
    cann: Cann,
    driver: DriverInstall | None,
    info: NpuSmiInfo | None,
    cards: Chips | None,
    platform: Platform | None,
    container: Container | None,
) -> Iterator[Finding]:
    """Driver version supported by this CANN.

    CANN calls functions that an older driver does not have: `feature is not supported`, 207000, undefined symbols that
    begin with hal or drv. The usual case is an image that is newer than its host.
    """
    install = cann.chosen
    if install is None or install.stated is None:
        blocker = None if install else "cann.installed"
        raise Unavailable(messages.CANN_VERSION_UNKNOWN.text(), blocked_by=blocker)
    source, stated = _driver(driver, info)
    support = knowledge.compatibility().hdk(install.stated)
    if support is None:
        yield _not_listed(install, source, stated)
        return
    if is_too_old(stated, support):
        yield _too_old(install, source, stated, support, upgrade_commands(cards, platform) if container is None else ())
    elif not support.judge(stated).is_good:
        yield _not_listed(install, source, stated)


def _driver(driver: DriverInstall | None, info: NpuSmiInfo | None) -> tuple[str, str]:
    """The source of the driver's version, and the version."""
    if driver is not None and driver.stated is not None:
        return driver.path, driver.stated
    if info is not None and info.driver_version is not None:
        return info.shown_by, str(info.driver_version)
    raise Unavailable(messages.DRIVER_VERSION_UNKNOWN.text())


def _too_old(
    install: CannInstall,
    source: str,
    stated: str,
    support: HdkSupport,
    commands: tuple[str, ...],
) -> Finding:
    paired = support.paired or (support.oldest_compatible,)
    return messages.DRIVER_TOO_OLD.finding(
        driver=stated,
        cann=install.stated,
        required=support.oldest_compatible or paired,
        paired=paired,
        hint=None if commands else messages.UPGRADE_ON_THE_HOST.text(paired=paired),
        commands=commands,
        evidence=(
            Evidence(source=source, expected=", ".join(support.compatible or support.paired), actual=stated),
            Evidence(source=install.info_path or install.root, actual=f"CANN {install.stated}"),
        ),
        links=tuple(link for link in support.sources if link.startswith("https://") and " " not in link),
    )


def _not_listed(install: CannInstall, source: str, stated: str) -> Finding:
    return messages.DRIVER_NOT_LISTED.finding(
        driver=stated,
        cann=install.stated,
        as_of=knowledge.compatibility().as_of,
        evidence=(Evidence(source=source, actual=stated),),
    )


@check("cann.nnal", after=("cann.installed",), requires=(SoftwareStack,))
def nnal_matches(
    cann: Cann,
    nnal: Nnal | None,
    environment: JobEnvironment | None,
    python: PythonEnvironment | None,
    abi: TorchAbi | None,
    options: Options,
) -> Iterator[Finding]:
    """NNAL and ATB match toolkit and torch.

    Their libraries are C++. With another ABI than that of torch, or of another release, they fail with undefined
    symbols that begin with _ZN3atb. Checked only where a package, a variable or the framework of --for requires ATB.
    """
    named = environment.non_empty(ATB_HOME) if environment is not None else None
    table = knowledge.stacks()
    asked = {table.framework(name).package for name in options.frameworks}
    packages = asked | (python.distributions.keys() if python is not None else set())
    needing = [name for name in NEEDING_ATB if name in packages]
    if named is None and not needing:
        raise NotApplicable(messages.NNAL_NOT_REQUIRED.text())
    if nnal is None:
        asked |= {part for name in options.frameworks for row in table.of(name) for part in row.requires}
        severity = Severity.WARNING if asked.isdisjoint(needing) else Severity.ERROR
        yield _missing_finding(cann, named, needing, severity)
        return
    if named is None:
        yield _not_loaded(nnal, needing)
        return
    yield from _version(cann, nnal)
    built = named.rstrip("/").rpartition("cxx_abi_")[2]
    if abi is not None and built in ("0", "1") and built != str(int(abi.cxx11)):
        right = int(abi.cxx11)
        yield messages.ATB_ABI.finding(
            atb=built,
            torch=right,
            commands=(f"source {nnal.set_env or SET_ENV} --cxx_abi={right}",),
            evidence=(
                Evidence(source=ATB_HOME, expected=f"…/cxx_abi_{right}", actual=named),
                Evidence(source=abi.source, actual=f"C++11 ABI {right}"),
            ),
        )


def _missing_finding(cann: Cann, named: str | None, needing: list[str], severity: Severity) -> Finding:
    """NNAL is missing: an error where the node is judged for a framework that requires it."""
    version = cann.chosen.stated if cann.chosen is not None and cann.chosen.stated else "<version>"
    commands = (explain_command(f"./Ascend-cann-nnal_{version}_linux-$(arch).run --install"), f"source {SET_ENV}")
    evidence = (Evidence(source=ATB_HOME, expected=messages.ATB_DIRECTORY.text(), actual=named or "not set"),)
    if named is not None:
        return messages.NNAL_PATH_INVALID.finding(
            variable=ATB_HOME, path=named, severity=severity, commands=commands, evidence=evidence
        )
    return messages.NNAL_MISSING.finding(package=needing[0], severity=severity, commands=commands, evidence=evidence)


def _not_loaded(nnal: Nnal, needing: list[str]) -> Finding:
    return messages.NNAL_NOT_LOADED.finding(
        package=needing[0],
        commands=(f"source {nnal.set_env or SET_ENV}",),
        evidence=(Evidence(source=ATB_HOME, expected="…/cxx_abi_0, …/cxx_abi_1", actual="not set"),),
    )


def _version(cann: Cann, nnal: Nnal) -> Iterator[Finding]:
    install = cann.chosen
    own = install.version if install is not None else None
    if install is None or own is None or nnal.version is None or _is_compatible(own, nnal.version):
        return
    yield messages.NNAL_MISMATCH.finding(
        nnal=nnal.version,
        toolkit=own,
        commands=(f"./Ascend-cann-nnal_{install.stated}_linux-$(arch).run --install",),
        evidence=(Evidence(source=f"{nnal.root}/version.info", expected=str(own), actual=str(nnal.version)),),
    )


def _is_compatible(toolkit: CannVersion, nnal: CannVersion) -> bool:
    several = [CannVersion.parse(text) for text in knowledge.layout().more["cross_compatible_ops"]]
    return toolkit == nnal or (toolkit in several and nnal in several)
