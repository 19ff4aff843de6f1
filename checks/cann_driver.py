"""CANN against what lies below and beside it: the driver, and NNAL with ATB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.packages import Nnal
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.python.torch_abi import TorchAbi
from npudoctor.facts.versions import CannVersion, DriverVersion
from npudoctor.knowledge.pairs import Confidence, Fit, HdkSupport
from npudoctor.sdk import Evidence, Finding, NotApplicable, ParseError, Severity, Unavailable, check

ATB_HOME = "ATB_HOME_PATH"
NEEDING_ATB = ("vllm-ascend", "mindie-llm", "atb-llm")


@check("cann.driver", after=("cann.installed", "driver.installed"), requires=(SoftwareStack,))
def the_driver_fits_this_cann(cann: Cann, driver: DriverInstall | None, info: NpuSmiInfo | None) -> Iterator[Finding]:
    """The driver is one that this CANN runs on.

    A CANN asks for functions that an older driver does not have: `feature is not supported`, 207000, undefined symbols
    that begin with hal or drv. An image that is newer than its host is the usual case.
    """
    install = cann.chosen
    if install is None or install.stated is None:
        raise Unavailable("the version of the CANN is not known", blocked_by=None if install else "cann.installed")
    source, stated = _driver(driver, info)
    support = knowledge.compatibility().hdk(install.stated)
    if support is None:
        yield _unlisted(install, source, stated)
        return
    fit = support.fit(stated)
    older = fit is Fit.UNKNOWN and _is_older(stated, support)
    if (fit is Fit.OUTSIDE or older) and support.confidence is not Confidence.WEAK:
        yield _too_old(install, source, stated, support)
    elif fit in (Fit.OUTSIDE, Fit.UNKNOWN):
        yield _unlisted(install, source, stated)


def _driver(driver: DriverInstall | None, info: NpuSmiInfo | None) -> tuple[str, str]:
    """Where the driver's version is said, and the version."""
    if driver is not None and driver.file is not None:
        version = driver.file.package_version or driver.file.version
        if version is not None:
            return driver.path, str(version)
    if info is not None and info.driver_version is not None:
        return "npu-smi info", str(info.driver_version)
    raise Unavailable("the version of the driver is not known: no version.info, and npu-smi does not say it")


def _is_older(stated: str, support: HdkSupport) -> bool:
    """Whether a driver is older than all that the list names; not where one of the two is no version."""
    oldest = support.oldest_compatible
    if oldest is None:
        return False
    with contextlib.suppress(ParseError):
        version = DriverVersion.parse(stated)
        if oldest.upper().endswith(".X"):
            stem = tuple(map(int, oldest[:-2].split(".")))
            return version.release[: len(stem)] < stem
        return version < DriverVersion.parse(oldest)
    return False


def _too_old(install: CannInstall, source: str, stated: str, support: HdkSupport) -> Finding:
    pair = " or ".join(support.paired) or support.oldest_compatible
    return Finding(
        summary=f"driver {stated} is too old for CANN {install.stated}: it needs {support.oldest_compatible or pair}",
        detail="CANN asks the driver for what it does not have: 207000, EE1015, `feature is not supported`.",
        hint=f"Upgrade driver and firmware (the pair of this CANN is {pair}) and reboot, or use an older CANN.",
        commands=(
            "./Ascend-hdk-<chip>-npu-firmware_<version>.run --upgrade",
            "./Ascend-hdk-<chip>-npu-driver_<version>_linux-<arch>.run --upgrade",
            "reboot",
        ),
        evidence=(
            Evidence(source=source, expected=", ".join(support.compatible) or pair, actual=stated),
            Evidence(source=install.info_path or install.root, actual=f"CANN {install.stated}"),
        ),
        pitfall="P030",
        links=tuple(link for link in support.sources if link.startswith("https://") and " " not in link),
    )


def _unlisted(install: CannInstall, source: str, stated: str) -> Finding:
    as_of = knowledge.compatibility().as_of
    return Finding(
        severity=Severity.INFO,
        summary=f"no list as of {as_of} names driver {stated} together with CANN {install.stated}",
        evidence=(Evidence(source=source, actual=stated),),
    )


@check("cann.nnal", after=("cann.installed",), requires=(SoftwareStack,))
def nnal_fits(
    cann: Cann,
    nnal: Nnal | None,
    environment: JobEnvironment | None,
    python: PythonEnvironment | None,
    abi: TorchAbi | None,
) -> Iterator[Finding]:
    """NNAL with ATB, where something needs it, is here, of this CANN's release, and built like torch.

    Its libraries are C++: with another ABI than torch's, or of another release, they end with undefined symbols that
    begin with _ZN3atb.
    """
    named = environment.filled(ATB_HOME) if environment is not None else None
    needing = [name for name in NEEDING_ATB if python is not None and name in python.distributions]
    if named is None and not needing:
        raise NotApplicable("nothing here needs NNAL: no variable and no installed package speaks of ATB")
    if nnal is None:
        yield _missing(cann, named, needing)
        return
    if named is None:
        yield _not_sourced(nnal, needing)
        return
    yield from _version(cann, nnal)
    built = named.rstrip("/").rpartition("cxx_abi_")[2]
    if abi is not None and built in ("0", "1") and built != str(int(abi.cxx11)):
        right = int(abi.cxx11)
        yield Finding(
            summary=f"ATB is built for C++ ABI {built}, torch for {right}",
            detail="Loading it ends with undefined symbols that begin with _ZN3atb.",
            hint="Source NNAL's script for the ABI of this torch.",
            commands=(f"source {nnal.set_env or '/usr/local/Ascend/nnal/atb/set_env.sh'} --cxx_abi={right}",),
            evidence=(
                Evidence(source=ATB_HOME, expected=f"…/cxx_abi_{right}", actual=named),
                Evidence(source=abi.source, actual=f"C++11 ABI {right}"),
            ),
            pitfall="P014",
        )


def _missing(cann: Cann, named: str | None, needing: list[str]) -> Finding:
    version = cann.chosen.stated if cann.chosen is not None and cann.chosen.stated else "<version>"
    because = f"{ATB_HOME} names {named}, which is not there" if named else f"{needing[0]} is installed and needs it"
    return Finding(
        severity=Severity.WARNING,
        summary=f"NNAL is not installed, and {because}",
        detail="Loading it ends with `libatb.so: cannot open shared object file`.",
        hint="Install NNAL in the toolkit's version and source its script after the toolkit's.",
        commands=(
            f"./Ascend-cann-nnal_{version}_linux-$(arch).run --install",
            "source /usr/local/Ascend/nnal/atb/set_env.sh",
        ),
        evidence=(Evidence(source=ATB_HOME, expected="the folder of an ATB", actual=named or "not set"),),
        pitfall="P013",
    )


def _not_sourced(nnal: Nnal, needing: list[str]) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        summary=f"NNAL is installed, its set_env.sh was not sourced, and {needing[0]} needs it",
        detail="Loading it ends with `libatb.so: cannot open shared object file`.",
        hint="Source its script, after the toolkit's.",
        commands=(f"source {nnal.set_env or '/usr/local/Ascend/nnal/atb/set_env.sh'}",),
        evidence=(Evidence(source=ATB_HOME, expected="…/cxx_abi_0 or …/cxx_abi_1", actual="not set"),),
        pitfall="P013",
    )


def _version(cann: Cann, nnal: Nnal) -> Iterator[Finding]:
    install = cann.chosen
    own = install.version if install is not None else None
    if install is None or own is None or nnal.version is None or _together(own, nnal.version):
        return
    yield Finding(
        severity=Severity.WARNING,
        summary=f"NNAL is of release {nnal.version}, the toolkit of {own}",
        detail="They are made for each other: loading ATB ends with undefined symbols, or a model with wrong results.",
        hint="Install NNAL in the toolkit's version.",
        commands=(f"./Ascend-cann-nnal_{install.stated}_linux-$(arch).run --install",),
        evidence=(Evidence(source=f"{nnal.root}/version.info", expected=str(own), actual=str(nnal.version)),),
        pitfall="P014",
    )


def _together(toolkit: CannVersion, nnal: CannVersion) -> bool:
    several = [CannVersion.parse(text) for text in knowledge.layout().more["cross_compatible_ops"]]
    return toolkit == nnal or (toolkit in several and nnal in several)
