"""The driver: installation, kernel modules, firmware, npu-smi and access to the device nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.dcmi.answer import DCMI
from npudoctor.facts.driver.install import RECORD, DriverInstall, LoadedModules
from npudoctor.facts.driver.next_boot import NextBoot
from npudoctor.facts.driver.version_files import DriverFile, InstallRecord
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_mounts import LIBRARIES, NPU_SMI, ContainerMounts
from npudoctor.facts.node.context import CardPresence, DriverStack
from npudoctor.facts.node.device_access import POWERFUL, DeviceAccess
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.slices import parent_number
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer, stopped_by_access
from npudoctor.facts.python.in_sight import UNDECIDED, DevicesInSight
from npudoctor.facts.system.platform import Platform
from npudoctor.records import replace
from npudoctor.sdk import HEALTH, Because, Evidence, Finding, Options, Severity, Threshold, Unavailable, check

from ._packages import DRIVER, FIRMWARE, explain_command, for_this_node, install_commands
from ._places import Place, place_of, start_again
from ._reset import USERS
from .container import recreate, run_command
from .driver_kernel import boot_kernel, install_headers, kernels_with_driver
from .messages import driver as messages
from .messages import places

SLOW = Threshold("npu_smi_slow_s", 5, "s", "a healthy driver answers within a second or two")
ENDED_LOG = "dmesg | grep -i -e 'out of memory' -e davinci -e devdrv | tail -40"
KERNEL_LOG = "dmesg | grep -i -e davinci -e devdrv -e hccs | tail -40"

_COMPLETE = "complete"
_PLACES = (NPU_SMI, "/usr/local/sbin/npu-smi")
_PITFALLS = {
    "device_occupied": "P010",
    "board_type_unavailable": "P009",
    "library_missing": "P060",
    "tool_missing": "P060",
    "permission_denied": "P015",
}


@check(
    "driver.npu-smi",
    after=("npu.present", "container.devices", "driver.installed"),
    thresholds=(SLOW,),
    explained_by=("driver.rebooted",),
)
def npu_smi_answers(
    answer: NpuSmiAnswer,
    access: DeviceAccess | None,
    container: Container | None,
    mounts: ContainerMounts | None,
    sight: DevicesInSight | None,
    info: NpuSmiInfo | None,
    nodes: DeviceNodes | None,
    options: Options,
) -> Iterator[Finding]:
    """npu-smi installed and responding.

    The other checks of the NPUs read it where the driver's library does not answer. Where both fail, most jobs fail
    too, and the state of the NPUs is unknown.
    """
    in_slice = nodes is not None and bool(nodes.slices) and not nodes.cards
    for finding in _of_the_tool(answer, access, container, mounts, sight, options):
        if in_slice and answer.failure is not None and answer.failure.ret == messages.NO_USABLE_CHIP:
            numbers = [node.number for node in nodes.slices if node.number is not None] if nodes else []
            slices = messages.SLICE_NOT_USABLE.text(slices=numbers, parents=sorted({*map(parent_number, numbers)}))
            finding = replace(finding, detail=" ".join(filter(None, (finding.detail, slices))))
        if info is not None and info.source == DCMI and finding.severity is Severity.ERROR:
            detail = " ".join(filter(None, (finding.detail, messages.READ_BY_LIBRARY.text())))
            yield replace(finding, severity=Severity.WARNING, detail=detail)
        else:
            yield finding


def _of_the_tool(
    answer: NpuSmiAnswer,
    access: DeviceAccess | None,
    container: Container | None,
    mounts: ContainerMounts | None,
    sight: DevicesInSight | None,
    options: Options,
) -> Iterator[Finding]:
    reason = answer.reason or messages.SMI_NO_TABLE.text()
    if stopped_by_access(answer, access):
        said = messages.SMI_NO_ACCESS if access is not None and access.denied else messages.SMI_NO_NODE
        raise Unavailable(said.text(reason=reason), blocked_by="driver.access")
    if mounts is not None and mounts.lack_libraries and answer.failure and answer.failure.cause == "library_missing":
        raise Unavailable(reason, blocked_by="container.driver-files")
    if answer.because is Because.TIMED_OUT and answer.info is None and not answer.timed_out:
        raise Unavailable(reason, because=Because.TIMED_OUT)
    if not answer.found:
        yield _missing_finding(container, mounts)
    elif answer.because is Because.NO_RIGHT:
        path = answer.path or NPU_SMI
        yield messages.SMI_NOT_EXECUTABLE.finding(
            reason=reason,
            commands=(f"ls -l {path}", f"sudo chmod 0755 {path}"),
            evidence=(Evidence(source=path, expected="executable", actual="not executable"),),
        )
    elif answer.timed_out:
        yield messages.SMI_TIMED_OUT.finding(
            limit_s=round(answer.seconds) or answer.limit_s,
            commands=("ps -eo pid,stat,wchan:30,args | grep '[n]pu-smi'", KERNEL_LOG),
            evidence=(
                Evidence(
                    source="npu-smi info",
                    expected=messages.CHIP_TABLE.text(),
                    actual=messages.NO_ANSWER.text(seconds=answer.seconds),
                ),
            ),
            symptom=True,
        )
    elif answer.info is None:
        yield _failure(answer, reason, container, sight)
    elif answer.seconds > SLOW.of(options):
        yield messages.SMI_SLOW.finding(
            seconds=answer.seconds,
            commands=("time npu-smi info", KERNEL_LOG),
            evidence=(
                Evidence(source="npu-smi info", expected=f"< {SLOW.of(options):g} s", actual=f"{answer.seconds:.1f} s"),
            ),
        )


def _missing_finding(container: Container | None, mounts: ContainerMounts | None) -> Finding:
    found = mounts.by_path.get(NPU_SMI) if mounts is not None else None
    is_folder = found is not None and found.is_misplaced
    evidence = (
        Evidence(
            source="PATH and the usual places",
            expected=", ".join(_PLACES),
            actual=messages.SMI_IS_A_DIRECTORY.text(path=NPU_SMI) if is_folder else "not found",
        ),
    )
    if container is None:
        return messages.SMI_MISSING.finding(
            commands=(f"ls -l {' '.join(_PLACES)}", "find / -xdev -name npu-smi -type f 2>/dev/null"),
            evidence=evidence,
        )
    mounted = [NPU_SMI, "/usr/local/dcmi", LIBRARIES]
    options = [f"-v {path}:{path}:ro" for path in mounted]
    change = start_again(
        container,
        *options,
        pod=places.POD_FILES.text(paths=mounted),
        request=places.SEND_FILES.text(paths=mounted),
    )
    hint, commands = change.hint or messages.MOUNT_SMI.text(), change.commands
    if is_folder and change.hint is None:
        # The mount itself is the fault: the same command would make the same directory again.
        hint = messages.FIND_SMI_ON_HOST.text(path=NPU_SMI)
        place = f"-v $(command -v npu-smi):{NPU_SMI}:ro"
        commands = start_again(container, place, *options[1:], pod="", request="").commands
        commands = ("command -v npu-smi  # on the host", *commands)
    return messages.SMI_MISSING.finding(
        detail=messages.SMI_OF_THE_HOST.text(), hint=hint, commands=commands, evidence=evidence
    )


def _failure(answer: NpuSmiAnswer, reason: str, container: Container | None, sight: DevicesInSight | None) -> Finding:
    failure = answer.failure
    code = knowledge.errors().code(failure.ret) if failure and failure.ret is not None else None
    hint = None
    commands: tuple[str, ...] = ("lsmod | grep drv_", KERNEL_LOG, "ls -l /dev/davinci*")
    if answer.ended_early:
        hint = messages.RUN_AGAIN.text()
        commands = ("npu-smi info", ENDED_LOG)
    elif failure is not None and failure.cause == "device_occupied":
        hint = messages.FIND_WHO_HOLDS.text()
        commands = (USERS, "npudoctor check containers  # as root", KERNEL_LOG)
    if container is not None and not answer.ended_early:
        hint = messages.CHECK_ON_HOST.text()
        commands = ("npu-smi info  # on the host", "npudoctor check containers  # on the host, as root")
        if place_of(container) is Place.NOTEBOOK:
            hint = places.ASK_THE_OPERATOR.text(request=places.SEND_CHECK.text(reason=reason))
            commands = ()
        commands = (*commands, "ls -l /dev/davinci*")
    source = f"{answer.path or 'npu-smi'} info"
    evidence = [Evidence(source=source, expected=messages.CHIP_TABLE.text(), actual=answer.last_line)]
    pitfall = _PITFALLS.get(failure.cause if failure else "", "P009" if container else "P031")
    common: dict[str, Any] = {"hint": hint, "commands": commands, "pitfall": pitfall, "symptom": True}
    if failure is None or code is None:
        return messages.SMI_FAILED.finding(reason=reason, evidence=tuple(evidence), **common)
    severity, detail = Severity(code.severity), None
    if failure.ret in UNDECIDED:
        detail = messages.NPU_MAY_WORK.text()
        if sight is not None:
            expected = messages.A_DEVICE.text()
            actual = messages.DEVICES_SEEN.text(count=sight.count)
            evidence.append(Evidence(source="torch.npu.device_count()", expected=expected, actual=actual))
            severity = Severity.WARNING if sight.count else Severity.ERROR
            detail = (messages.NPU_WORKS if sight.count else messages.NPU_DOES_NOT_WORK).text(count=sight.count)
    return messages.SMI_ERROR_CODE.finding(
        severity=severity,
        ret=failure.ret,
        meaning=code.meaning,
        detail=detail,
        evidence=tuple(evidence),
        **common,
    )


@check("driver.installed", after=("container.devices",), requires=(DriverStack,))
def driver_is_installed_and_loaded(
    driver: DriverInstall,
    modules: LoadedModules | None,
    answer: NpuSmiAnswer | None,
    container: Container | None,
    cards: CardPresence,
    record: InstallRecord | None,
    nodes: DeviceNodes | None,
    boot: NextBoot | None,
    platform: Platform | None,
    chips: Chips | None,
) -> Iterator[Finding]:
    """Ascend driver installed and kernel modules loaded.

    Without the modules there are no device nodes. A container uses the driver of its host and requires only its
    libraries or npu-smi.
    """
    works = answer is not None and answer.info is not None
    tool = answer is not None and answer.found
    loaded = bool(modules and modules.ours)
    folder = f"{driver.prefix}/driver/lib64"
    package, firmware = (for_this_node(one, chips, platform) for one in (DRIVER, FIRMWARE))
    if container is not None:
        if not (driver.is_there or tool):
            devices = [node.path for node in (*nodes.cards, *nodes.slices, *nodes.managers)] if nodes else ()
            change = recreate(container, devices, [folder])
            yield messages.NOT_MOUNTED.finding(
                hint=change.hint,
                commands=change.commands,
                evidence=(Evidence(source=folder, expected="libraries", actual="not found"),),
                fix=run_command(container, devices),
            )
    elif not (driver.is_there or loaded or works):
        yield messages.NOT_INSTALLED.finding(
            detail=messages.NPUS_ON_THE_BUS.text() if cards.cards else None,
            commands=install_commands(package, firmware),
            evidence=(
                Evidence(source=driver.path, expected="Version=…", actual="not found"),
                Evidence(source="/proc/modules", expected="drv_davinci_intf_host, …", actual="none"),
            ),
        )
    elif driver.file is None:
        yield messages.HALF_INSTALLED.finding(
            paths=[driver.path] if driver.libraries else [driver.path, folder],
            detail=messages.WORKS_UNTIL_REBOOT.text() if works else None,
            commands=(f"cat {RECORD}", explain_command(f"{package} --full")),
            evidence=(
                Evidence(source=driver.path, expected="Version=…", actual="not found"),
                Evidence(source=folder, expected="libraries", actual="found" if driver.libraries else "not found"),
            ),
        )
    elif modules is not None and not loaded and not works:
        yield _not_loaded(driver, driver.file, boot, platform, package)
    else:
        yield from _unfinished_findings(answer, record, package)


def _not_loaded(
    driver: DriverInstall, file: DriverFile, boot: NextBoot | None, platform: Platform | None, package: str
) -> Finding:
    """The driver without its modules; with the kernels that have them, where it is known."""
    version = file.version or file.package_version
    commands: tuple[str, ...] = ("lsmod | grep drv_", KERNEL_LOG)
    detail = hint = None
    evidence: tuple[Evidence, ...] = ()
    if boot is not None and boot.running not in boot.with_driver:
        detail, evidence = messages.NO_MODULES_ON_DISK.text(), (kernels_with_driver(boot),)
        commands = (install_headers(boot.running, platform), explain_command(f"{package} --full"), *commands)
        if boot.with_driver:
            other = boot.with_driver[0]
            detail = messages.MODULES_OF_OTHER_KERNEL.text(
                running=boot.running, kernels=boot.with_driver, count=len(boot.with_driver)
            )
            hint = messages.BOOT_OR_BUILD.text(kernel=other)
            commands = (boot_kernel(other, platform), *commands)
    return messages.MODULES_NOT_LOADED.finding(
        version=version,
        detail=detail,
        hint=hint,
        commands=commands,
        evidence=(
            Evidence(source=driver.path, actual=f"Version={version}"),
            Evidence(source="/proc/modules", expected="drv_davinci_intf_host, drv_devmng_host, …", actual="none"),
            *evidence,
        ),
    )


def _unfinished_findings(answer: NpuSmiAnswer | None, record: InstallRecord | None, package: str) -> Iterator[Finding]:
    """What npu-smi prints below its table, and the status that the installer notes; older ones note none."""
    status = record.driver_install_status if record is not None else None
    warning = answer.warning if answer is not None else None
    if (status is None and warning is None) or (status is not None and status.lower() == _COMPLETE):
        return
    evidence = [
        Evidence(
            source=RECORD,
            expected=f"Driver_Install_Status={_COMPLETE}",
            actual=f"Driver_Install_Status={status}" if status is not None else messages.NO_SUCH_LINE.text(),
        )
    ]
    if warning is not None:
        evidence.append(Evidence(source="npu-smi info", actual=warning))
    yield messages.UNFINISHED.finding(
        commands=(f"cat {RECORD}", explain_command(f"{package} --full")),
        evidence=tuple(evidence),
    )


@check(
    "driver.access",
    tags=(HEALTH,),
    after=("npu.present", "container.devices", "driver.installed"),
    fix="driver.grant-access",
)
def device_nodes_are_accessible(
    access: DeviceAccess, record: InstallRecord | None, container: Container | None, answer: NpuSmiAnswer | None
) -> Iterator[Finding]:
    """NPU device nodes accessible to this user.

    The nodes belong to the group that the driver was installed for. Without access npu-smi fails with -8005, and torch
    finds no NPU.
    """
    if access.denied:
        yield _denied_finding(access, record, container, answer)
    if access.missing and container is None:
        yield messages.NODE_MISSING.finding(
            paths=access.missing,
            count=len(access.missing),
            commands=("lsmod | grep drv_", KERNEL_LOG),
            evidence=(
                Evidence(source="/dev", expected=", ".join(access.missing), actual="not found"),
                *_complaint(answer, access),
            ),
            pitfall="P009" if container is not None else None,
        )


def _complaint(answer: NpuSmiAnswer | None, access: DeviceAccess) -> Iterator[Evidence]:
    """What npu-smi says of the nodes that it cannot open."""
    if answer is not None and stopped_by_access(answer, access):
        source = f"{answer.path or 'npu-smi'} info"
        yield Evidence(source=source, expected=messages.CHIP_TABLE.text(), actual=answer.last_line)


def _denied_finding(
    access: DeviceAccess, record: InstallRecord | None, container: Container | None, answer: NpuSmiAnswer | None
) -> Finding:
    user, first = access.user, access.denied[0]
    group = access.group or (str(access.gid) if access.gid is not None else messages.GROUP_OF_THE_NODES.text())
    stat = first.stat
    mode = messages.MODE_AND_GROUP.text(mode=stat.mode, group=group) if stat else messages.NOT_READABLE.text()
    evidence = [
        Evidence(source=first.path, expected=messages.READ_AND_WRITE.text(user=user.name), actual=mode),
        Evidence(source=f"groups of {user.name}", expected=group, actual=", ".join(user.groups) or "none"),
    ]
    if record is not None and record.install_for_all == "no":
        evidence.append(Evidence(source=RECORD, actual="Driver_Install_For_All=no"))
    if not access.missing or container is not None:
        evidence += _complaint(answer, access)
    hint = None
    commands: tuple[str, ...] = (f"usermod -aG {group} {user.name}  # as root",)
    powerful = group in POWERFUL and container is None
    if access.is_member or powerful:
        denies = messages.MODE_DENIES if access.is_member else messages.GROUP_TOO_POWERFUL
        hint, commands = denies.text(user=user.name, group=group), ("ls -l /dev/davinci* /dev/devmm_svm /dev/hisi_hdc",)
    elif container is not None:
        change = start_again(
            container,
            f"--group-add={access.gid}",
            pod=places.POD_GROUP.text(gid=access.gid),
            request=places.SEND_GROUP.text(gid=access.gid),
        )
        hint, commands = change.hint or messages.ADD_GROUP_IN_CONTAINER.text(gid=access.gid), change.commands
    return messages.NO_ACCESS.finding(
        user=user.name,
        count=len(access.denied),
        group=group,
        hint=hint,
        commands=commands,
        evidence=tuple(evidence),
        fix=None if access.is_member or powerful or container is not None else "driver.grant-access",
    )
