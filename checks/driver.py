"""The driver: installed, loaded, in step with the firmware, answering, and open to this user."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.driver.firmware_match import FirmwareMatch
from npudoctor.facts.driver.install import DriverInstall, LoadedModules
from npudoctor.facts.driver.version_files import InstallRecord
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_mounts import NPU_SMI, ContainerMounts
from npudoctor.facts.node.context import CardPresence, DriverStack
from npudoctor.facts.node.device_access import DeviceAccess
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer, stopped_by_access
from npudoctor.sdk import HEALTH, Because, Evidence, Finding, Options, Severity, Threshold, Unavailable, check

SLOW = Threshold("npu_smi_slow_s", 5, "s", "a healthy driver answers within a second or two")
KERNEL_LOG = "dmesg | grep -i -e davinci -e devdrv -e hccs | tail -40"

_PLACES = "/usr/local/bin/npu-smi or /usr/local/sbin/npu-smi"
_ELSEWHERE = {
    "device_occupied": "P010",
    "board_type_unavailable": "P009",
    "library_missing": "P060",
    "tool_missing": "P060",
    "permission_denied": "P015",
}


@check("driver.npu-smi", after=("npu.present", "container.devices", "driver.installed"), thresholds=(SLOW,))
def npu_smi_answers(
    answer: NpuSmiAnswer,
    access: DeviceAccess | None,
    container: Container | None,
    mounts: ContainerMounts | None,
    options: Options,
) -> Iterator[Finding]:
    """npu-smi is there, answers, and answers quickly.

    It is the window to the cards: where it fails, jobs mostly fail, too, and nothing can be said of the cards.
    """
    if stopped_by_access(answer, access):
        raise Unavailable(
            f"{answer.reason}, because this user may not open the device nodes", blocked_by="driver.access"
        )
    if mounts is not None and mounts.lack_libraries and answer.failure and answer.failure.cause == "library_missing":
        raise Unavailable(answer.reason or "npu-smi lacks a library", blocked_by="container.driver-files")
    if answer.because is Because.TIMED_OUT and answer.info is None and not answer.timed_out:
        raise Unavailable(answer.reason or "npu-smi was not waited for", because=Because.TIMED_OUT)
    if not answer.found:
        yield _missing(container, mounts)
    elif answer.because is Because.NO_RIGHT:
        yield _not_executable(answer)
    elif answer.timed_out:
        yield _hanging(answer)
    elif answer.info is None:
        yield _failing(answer, container)
    elif answer.seconds > SLOW.of(options):
        yield Finding(
            severity=Severity.WARNING,
            summary=f"npu-smi took {answer.seconds:.1f} s to answer",
            detail="A healthy driver answers within a second or two; a slow one is busy with a card that does not "
            "respond, and monitoring that asks it often slows jobs down.",
            hint="See whether one card is slow, and what the kernel says.",
            commands=("time npu-smi info", KERNEL_LOG),
            evidence=(
                Evidence(
                    source="npu-smi info", expected=f"below {SLOW.of(options):g} s", actual=f"{answer.seconds:.1f} s"
                ),
            ),
            pitfall="P052",
        )


def _missing(container: Container | None, smi: ContainerMounts | None) -> Finding:
    found = smi.by_path.get(NPU_SMI) if smi is not None else None
    is_folder = found is not None and found.is_misplaced
    mounts: tuple[str, ...] = (
        "-v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro",
        "-v /usr/local/dcmi:/usr/local/dcmi:ro",
    )
    mounts += ("-v /usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64:ro",)
    return Finding(
        summary="npu-smi is not installed",
        detail="It comes with the driver. Without it nobody can see the health, the memory or the processes of a card."
        + (" A container gets it from its host." if container else ""),
        hint=(
            "Start the container again with npu-smi and the driver's libraries mounted from the host."
            if container
            else "Look whether it lies outside PATH; if not, install the driver again: the package brings it."
        ),
        commands=(
            ("docker run " + " ".join(mounts) + " …",)
            if container
            else (f"ls -l {_PLACES.replace(' or ', ' ')}", "find / -xdev -name npu-smi -type f 2>/dev/null")
        ),
        evidence=(
            Evidence(
                source="PATH and the usual places",
                expected=_PLACES,
                actual=f"{NPU_SMI} is a folder: the host has npu-smi elsewhere" if is_folder else "not there",
            ),
        ),
        pitfall="P060",
    )


def _not_executable(answer: NpuSmiAnswer) -> Finding:
    path = (answer.reason or "").partition(" ")[0]
    return Finding(
        summary=answer.reason or "npu-smi cannot be executed",
        detail="The tool is here and nobody may run it; a package that was copied by hand loses its modes.",
        hint="Give it the mode that the driver's package gives it, as root; or install the driver again.",
        commands=(f"ls -l {path}", f"sudo chmod 0755 {path}"),
        evidence=(Evidence(source=path, expected="executable", actual="not executable"),),
        pitfall="P060",
    )


def _hanging(answer: NpuSmiAnswer) -> Finding:
    return Finding(
        summary=f"npu-smi did not answer within {min(answer.limit_s, answer.seconds) or answer.limit_s:g} s",
        detail="It waits for the driver, and the driver for a card that does not respond. Jobs that touch that card "
        "will hang the same way, and may not even be killed.",
        hint="Read the kernel log for the card that hangs. Often only a reboot, or power off and on, helps.",
        commands=("ps -eo pid,stat,wchan:30,args | grep '[n]pu-smi'", KERNEL_LOG),
        evidence=(Evidence(source="npu-smi info", expected="an answer", actual=f"none after {answer.seconds:.1f} s"),),
        pitfall="P052",
    )


def _failing(answer: NpuSmiAnswer, container: Container | None) -> Finding:
    failure = answer.failure
    code = knowledge.errors().code(failure.ret) if failure and failure.ret is not None else None
    cause = failure.cause if failure else None
    if container is not None:
        look = "Look on the host: does npu-smi work there, and which other container holds these cards?"
        commands = ("npu-smi info  # on the host", "docker ps  # on the host", "ls -l /dev/davinci*")
    else:
        look = "Look whether the driver's modules are loaded and what the kernel says; then restart or reboot."
        commands = ("lsmod | grep drv_", KERNEL_LOG, "ls -l /dev/davinci*")
    meaning = f" ({code.meaning})" if code else ""
    return Finding(
        severity=Severity(code.severity) if code else Severity.ERROR,
        summary=(answer.reason or "npu-smi fails") + meaning,
        detail=(
            "This alone does not prove that the card is dead: torch_npu may still work in the same container."
            if code and code.severity == "warning"
            else "Nothing can be said of the cards until it works."
        ),
        hint=look,
        commands=commands,
        evidence=(
            Evidence(source=f"{answer.path or 'npu-smi'} info", expected="a table of chips", actual=answer.last_line),
        ),
        pitfall=_ELSEWHERE.get(cause or "", "P009" if container else "P031"),
    )


@check("driver.installed", after=("container.devices",), requires=(DriverStack,))
def driver_is_installed_and_loaded(
    driver: DriverInstall,
    modules: LoadedModules | None,
    answer: NpuSmiAnswer | None,
    container: Container | None,
    cards: CardPresence,
) -> Iterator[Finding]:
    """The driver is on disk and its kernel modules are loaded.

    Without the modules the cards are not even visible as device nodes. A container uses the driver of its host and
    needs only its libraries or npu-smi.
    """
    works = answer is not None and answer.info is not None
    tool = answer is not None and answer.found
    loaded = bool(modules and modules.ours)
    if container is not None:
        if not (driver.is_there or tool):
            yield _absent(driver, in_container=True, cards=cards.cards)
    elif not (driver.is_there or loaded or works):
        yield _absent(driver, in_container=False, cards=cards.cards)
    elif driver.file is None:
        yield _half(driver, answers=works)
    elif modules is not None and not loaded and not works:
        version = driver.file.version or driver.file.package_version
        yield Finding(
            summary=f"driver {version} is on disk, and none of its kernel modules is loaded",
            detail="The node was not rebooted after the installation, or the kernel was updated since and has no "
            "modules of this driver.",
            hint="Reboot; if the modules stay away, install the headers of the running kernel and the driver again.",
            commands=(
                "lsmod | grep drv_",
                "ls /lib/modules/$(uname -r)/build /lib/modules/$(uname -r)/updates",
                KERNEL_LOG,
            ),
            evidence=(
                Evidence(source=driver.path, actual=f"Version={version}"),
                Evidence(source="/proc/modules", expected="drv_davinci_intf_host, drv_devmng_host, …", actual="none"),
            ),
            pitfall="P069",
        )


def _half(driver: DriverInstall, *, answers: bool) -> Finding:
    """`answers`: npu-smi still does, over the modules that are loaded."""
    gone = driver.path if driver.libraries else f"{driver.path} and {driver.prefix}/driver/lib64"
    return Finding(
        summary=f"{gone} {'is' if driver.libraries else 'are'} missing: the driver is only half installed",
        detail="The modules that are loaded keep the cards answering until the next boot, which may not find them; and "
        "nobody can compare the driver's version with CANN and firmware."
        if answers
        else "Modules or libraries of a driver are here, the file that its installer writes last is not.",
        hint="Install the driver again, of the same HDK release as the firmware, and reboot. If it lies under another "
        "folder, /etc/ascend_install.info has to name it.",
        commands=(
            "cat /etc/ascend_install.info",
            "./Ascend-hdk-<chip>-npu-driver_<version>_linux-<arch>.run --full",
        ),
        evidence=(
            Evidence(source=driver.path, expected="Version=…", actual="not there"),
            Evidence(
                source=f"{driver.prefix}/driver/lib64",
                expected="libraries",
                actual="there" if driver.libraries else "not there",
            ),
        ),
        pitfall="P068",
    )


def _absent(driver: DriverInstall, *, in_container: bool, cards: bool) -> Finding:
    if in_container:
        return Finding(
            summary="this container has neither the driver's libraries nor npu-smi",
            detail="A container uses the driver of its host, whose files have to be mounted into it.",
            hint="Start it again with the driver's folders mounted, or with the ascend runtime.",
            commands=("docker run -v /usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64:ro …",),
            evidence=(Evidence(source=f"{driver.prefix}/driver/lib64", expected="libraries", actual="not there"),),
            pitfall="P009",
        )
    return Finding(
        summary="the Ascend driver is not installed" + (", though the cards are here" if cards else ""),
        detail="Without the driver there are no device nodes, and no program can reach a card.",
        hint="Install driver, then firmware, of one HDK release for this chip, as root, and reboot. The driver needs "
        "the user HwHiAiUser and the headers of the running kernel.",
        commands=(
            "getent passwd HwHiAiUser || useradd -m -U HwHiAiUser",
            "./Ascend-hdk-<chip>-npu-driver_<version>_linux-<arch>.run --full --install-for-all",
            "./Ascend-hdk-<chip>-npu-firmware_<version>.run --full",
            "reboot",
        ),
        evidence=(
            Evidence(source=driver.path, expected="Version=…", actual="not there"),
            Evidence(source="/proc/modules", expected="drv_davinci_intf_host, …", actual="none"),
        ),
        pitfall="P068",
    )


@check("driver.firmware", after=("container.devices", "driver.installed", "driver.rebooted"), requires=(DriverStack,))
def driver_accepts_the_firmware(match: FirmwareMatch) -> Iterator[Finding]:
    """Driver and firmware accept each other.

    The board says so itself; the driver's version.info names the range of firmware that it was tested with. A pair
    that does not fit starts cards that fail later.
    """
    bad = {npu_id: flag for npu_id, flag in match.flags.items() if flag.upper() != "OK"}
    everywhere = len(bad) == len(match.flags) > 1
    for npu_id, flag in list(bad.items())[: 1 if everywhere else None]:
        yield _mismatch(
            "host" if everywhere else f"npu:{npu_id}",
            ("all boards say" if everywhere else "the board says")
            + f" that driver and firmware are not compatible ({flag})",
            Evidence(source=f"npu-smi info -t board -i {npu_id}", expected="Compatibility : OK", actual=flag),
        )
    if bad or not match.ranges:
        return
    refused = {source: version for source, version in match.versions.items() if not match.accepts(version)}
    if refused:
        source, version = next(iter(refused.items()))
        yield _mismatch(
            source if source.startswith("npu:") and len(refused) == 1 < len(match.versions) else "host",
            f"firmware {version} is not in the range {match.accepted} that the driver accepts",
            Evidence(source=source, expected=f"{match.accepted} ({match.accepted_path})", actual=str(version)),
        )


def _mismatch(subject: str, summary: str, evidence: Evidence) -> Finding:
    return Finding(
        subject=subject,
        summary=summary,
        detail="Only one of the two was upgraded, or the node was not rebooted in between.",
        hint="Install driver and firmware of the same HDK release and reboot: for an upgrade firmware first, for a "
        "first installation driver first.",
        commands=(
            "./Ascend-hdk-<chip>-npu-firmware_<version>.run --upgrade",
            "./Ascend-hdk-<chip>-npu-driver_<version>_linux-<arch>.run --upgrade",
            "reboot",
        ),
        evidence=(evidence,),
        pitfall="P029",
    )


@check(
    "driver.access",
    tags=(HEALTH,),
    after=("npu.present", "container.devices", "driver.installed"),
    fix="driver.grant-access",
)
def this_user_may_open_the_cards(
    access: DeviceAccess, record: InstallRecord | None, container: Container | None
) -> Iterator[Finding]:
    """This user may open the cards' device nodes.

    They belong to the group that the driver was installed for. Without it npu-smi says -8005 and torch sees no card.
    """
    if access.denied:
        yield _denied(access, record, container)
    elif access.missing and container is None:
        yield Finding(
            summary=f"{', '.join(access.missing)} {'are' if len(access.missing) > 1 else 'is'} missing",
            detail="The driver makes these nodes when its modules are loaded; without them no card can be opened.",
            hint="See whether all modules of the driver are loaded; a reboot loads them again.",
            commands=("lsmod | grep drv_", KERNEL_LOG),
            evidence=(Evidence(source="/dev", expected=", ".join(access.missing), actual="not there"),),
            pitfall="P031",
        )


def _denied(access: DeviceAccess, record: InstallRecord | None, container: Container | None) -> Finding:
    user, first = access.user, access.denied[0]
    named = access.group or (str(access.gid) if access.gid is not None else "the nodes' group")
    nodes = first.path if len(access.denied) == 1 else f"{first.path} and {len(access.denied) - 1} more nodes"
    mode = f"{first.stat.mode:04o}, group {named}" if first.stat else "not readable"
    evidence = [Evidence(source=first.path, expected="rw for this user", actual=mode)]
    evidence.append(Evidence(source=f"groups of {user.name}", expected=named, actual=", ".join(user.groups) or "none"))
    if record is not None and record.install_for_all == "no":
        evidence.append(Evidence(source="/etc/ascend_install.info", actual="Driver_Install_For_All=no"))
    if access.is_member:
        hint = f"{user.name} is in group {named} already: the mode of the nodes keeps it out. Set it to 0660."
        commands: tuple[str, ...] = ("ls -l /dev/davinci* /dev/devmm_svm /dev/hisi_hdc",)
    elif container is not None:
        hint = f"Give the container's user the group {access.gid} of the nodes: numbers count, names do not."
        commands = (f"docker run --group-add {access.gid} …", f"supplementalGroups: [{access.gid}]  # Kubernetes")
    else:
        hint = f"Add {user.name} to the group {named} and log in anew. This opens all cards of the node to {user.name}."
        commands = (f"usermod -aG {named} {user.name}  # as root",)
    return Finding(
        summary=f"{user.name} may not open {nodes}",
        detail="Every job of this user fails when it opens the card; npu-smi ends with -8005.",
        hint=hint,
        commands=commands,
        evidence=tuple(evidence),
        fix=None if access.is_member or container is not None else "driver.grant-access",
        pitfall="P015",
    )
