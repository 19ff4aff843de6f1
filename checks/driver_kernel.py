"""The driver's side of the kernel: the loaded modules, those of the next boot, and NPU faults in the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.facts.driver.install import DriverInstall, LoadedModules
from npudoctor.facts.driver.next_boot import MODULES, NextBoot
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack
from npudoctor.facts.system.kernel_log import COMMAND, DAYS, KernelLog
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.versions import DriverVersion
from npudoctor.records import record
from npudoctor.sdk import Evidence, Finding, Message, NotApplicable, ParseError, Severity, Unavailable, check

from ._together import by_fault, on
from .messages import driver as messages

_SHOWN = 4
_MOST = 20_000
"""Of a longer log only the last lines are read."""


@check("driver.rebooted", after=("container.devices", "driver.installed"), requires=(DriverStack,))
def loaded_modules_match_driver(
    driver: DriverInstall, modules: LoadedModules, container: Container | None
) -> Iterator[Finding]:
    """Loaded kernel modules match the installed driver.

    After an upgrade the old modules run until the node is rebooted. Libraries and npu-smi of the new driver then talk
    to the old modules, and fail in ways that look like a broken NPU.
    """
    if container is not None:
        raise NotApplicable(messages.DRIVER_OF_THE_HOST.text())
    if driver.file is None or not (driver.file.version or driver.file.package_version):
        raise Unavailable(messages.VERSION_NOT_STATED.text(path=driver.path))
    installed = [found for said in (driver.file.version, driver.file.package_version) if (found := _version(said))]
    running = {name: found for name, said in modules.versions.items() if (found := _version(said))}
    if not installed or not running:
        raise Unavailable(messages.MODULE_VERSION_NOT_STATED.text())
    others = {name: version for name, version in running.items() if version not in installed}
    if not others:
        return
    name, version = next(iter(others.items()))
    yield messages.NOT_REBOOTED.finding(
        installed=driver.file.version or installed[0],
        loaded=version,
        commands=("reboot", f"cat /sys/module/{name}/version {driver.path}"),
        evidence=(
            Evidence(source=driver.path, actual=f"Version={driver.file.version or installed[0]}"),
            *(
                Evidence(source=f"/sys/module/{one}/version", expected=str(installed[0]), actual=str(other))
                for one, other in list(others.items())[:_SHOWN]
            ),
        ),
    )


def _version(text: str | None) -> DriverVersion | None:
    try:
        return DriverVersion.parse(text) if text else None
    except ParseError:
        return None


@check("driver.next-boot", after=("container.devices", "driver.installed"), requires=(DriverStack,))
def next_kernel_has_modules(
    boot: NextBoot, modules: LoadedModules | None, platform: Platform | None
) -> Iterator[Finding]:
    """Driver modules for the kernel that boots next.

    A system update installs a new kernel without driver modules. After the next reboot no NPU is available.
    """
    if boot.release in boot.with_driver:
        return
    if boot.release == boot.running and modules is not None and modules.ours:
        return
    if boot.running not in boot.with_driver:
        raise Unavailable(messages.MODULES_ELSEWHERE.text(path=f"{MODULES}/{boot.running}"))
    yield messages.NEXT_KERNEL_WITHOUT_DRIVER.finding(
        severity=Severity.INFO if boot.dkms else None,
        kernel=boot.release,
        detail=messages.DKMS_WILL_BUILD.text() if boot.dkms else None,
        commands=(
            f"ls {MODULES}/{boot.release}/updates",
            install_headers(boot.release, platform),
            boot_kernel(boot.running, platform),
        ),
        evidence=(
            Evidence(source=boot.source, actual=boot.release),
            Evidence(source="running kernel", actual=messages.KERNEL_WITH_DRIVER.text(kernel=boot.running)),
            Evidence(source=f"{MODULES}/{boot.release}", expected="drv_davinci_intf_host.ko, …", actual="none"),
            kernels_with_driver(boot),
        ),
    )


def install_headers(release: str, platform: Platform | None) -> str:
    """The command that installs the headers of a kernel, by the package manager of this system."""
    if platform is not None and platform.os_id in ("ubuntu", "debian"):
        return f"apt install linux-headers-{release}  # as root"
    return f"yum install kernel-devel-{release}  # as root"


def boot_kernel(release: str, platform: Platform | None) -> str:
    """The command that boots a kernel; Debian and Ubuntu have no grubby."""
    if platform is not None and platform.os_id in ("ubuntu", "debian"):
        return f"reboot  # as root; choose {release} in the boot menu (advanced options)"
    return f"grubby --set-default /boot/vmlinuz-{release}  # as root; the next reboot starts this kernel"


def kernels_with_driver(boot: NextBoot) -> Evidence:
    """Which of the installed kernels have the driver's modules, and which have not."""
    none = messages.NO_KERNEL.text()
    return Evidence(
        source=messages.INSTALLED_KERNELS.text(),
        actual=messages.KERNELS.text(having=boot.with_driver or none, lacking=boot.without_driver or none),
    )


@record(frozen=True)
class Kind:
    """A kind of line in the kernel log, and the finding that it causes.

    A line without any of `words` is skipped before `pattern` is tried; `ours`: it must name the Ascend driver.
    """

    words: tuple[str, ...]
    pattern: str
    message: Message
    ours: bool = True

    def matches(self, message: str) -> bool:
        """Whether a message, in lower case, is of this kind."""
        if not any(word in message for word in self.words) or (self.ours and not any(one in message for one in _OURS)):
            return False
        return re.search(self.pattern, message) is not None


_OURS = ("davinci", "devdrv", "devmm", "hisi_hdc", "drv_", "ascend", " npu", "[npu", "hccs", "hbm", "19e5:")
_BAD = r"(?:lost|lose|miss|timed? ?out|exception|abnormal|stop|fail)"
_GONE = (
    "link down",
    "link is down",
    "fell off",
    "drop off",
    "dropped off",
    "surprise",
    "gone",
)
KINDS = (
    Kind(
        ("heartbeat", "heart beat", "lost"),
        rf"heart ?beat.{{0,30}}{_BAD}|{_BAD}.{{0,30}}heart ?beat|device (?:is )?lost",
        messages.HEARTBEAT_LOST,
    ),
    Kind(
        ("hccs",),
        r"\bhccs\b.{0,300}(?:link (?:is )?down|\bfail|\berror|\bcrc\b|\bfault\b|\bfatal\b)",
        messages.HCCS_FAILED,
    ),
    Kind(_GONE, "link (?:is )?down|fell off|dropp?e?d? off|surprise|device (?:is )?gone", messages.NPU_LOST),
    Kind(("hot reset", "hotreset", "hot_reset"), "hot[ _]?reset", messages.NPU_RESET),
    Kind(
        ("bit", "uncorrect", "ecc error", "temperature"),
        r"(?:multi|double)[- ]?bit.{0,24}(?:ecc|error)|\buncorrect\w{0,64}.{0,24}(?:ecc|error)"
        r"|\bhbm\b.{0,300}(?:ecc error|over ?temp)",
        messages.MEMORY_ERROR,
    ),
    Kind(
        ("fatal",),
        r"(?:aer|pcieport|pcie bus error).{0,300}uncorrect\w{0,64}\W{0,3}fatal|aer:.{0,300}(?<!non-)(?<!non)\bfatal\b",
        messages.PCIE_ERROR,
        ours=False,
    ),
    Kind(
        ("hardware error", "machine check", "edac"),
        r"hardware error.{0,300}(?:event severity: (?:fatal|recoverable)|\buncorrect|\bfatal\b)"
        r"|machine check(?: exception:|.{0,300}(?:\bfatal\b|\buncorrect))|\bedac\b.{0,300} [1-9]\d{0,20} ue ",
        messages.HARDWARE_ERROR,
        ours=False,
    ),
    Kind(
        ("blocked for more than",),
        r"task (?:npu-smi|npu_smi):\d{1,20} blocked|\bblocked\b.{0,300}(?:davinci|devdrv|devmm)",
        messages.HUNG_IN_DRIVER,
        ours=False,
    ),
    Kind(
        ("hang", "hung", "not respond", "fatal", "fault", "dead", "exception"),
        r"^(?!.*(?:init|register|success|enabl|page fault)).*"
        r"\b(?:hang|hangs|hung|not respond\w{0,64}|fatal|fault|dead|exception)\b",
        messages.NPU_FAULT,
    ),
)
"""What the kernel, its PCIe port driver, EDAC and the Ascend driver write; corrected errors are left out."""


@check(
    "driver.kernel-log",
    profile="standard",
    after=("container.devices", "driver.installed"),
    requires=(DriverStack,),
    explained_by=("npu.count", "npu.health", "npu.pcie", "npu.ecc", "npu.topology"),
)
def kernel_log_shows_no_fault(log: KernelLog, cards: Chips | None) -> Iterator[Finding]:
    """No NPU fault in the kernel log in the last 7 days.

    The kernel log usually reports a lost NPU or a failed link before jobs fail.
    """
    slots = {(card.bus_id or "").lower(): card.subject.partition("/")[0] for card in cards.chips} if cards else {}
    of_kind: dict[Kind, list[str]] = {}
    for line in log.lines[-_MOST:]:
        message = _message(line).lower()
        for kind in KINDS:
            if kind.matches(message):
                of_kind.setdefault(kind, []).append(line)
                break
    by_npu: dict[str, list[tuple[Kind, str]]] = {}
    for kind, lines in of_kind.items():
        nobody: list[str] = []
        for line in lines:
            subject = _subject(line, slots, cards)
            if subject is None:
                nobody.append(line)
            else:
                by_npu.setdefault(subject, []).append((kind, line))
        if nobody:
            yield _kind_finding(kind, nobody, ["host"])
    # What the log says of one NPU, its heartbeat, its links and its reset, is one fault: the most severe kind names it.
    faults = [(subject, min((kind for kind, _ in told), key=KINDS.index), told) for subject, told in by_npu.items()]
    for group in by_fault(sorted(faults, key=lambda one: one[0]), len(set(slots.values())), lambda one: one[1]):
        lines = [line for _, _, told in group for _, line in told]
        alike = [line for _, named, told in group for kind, line in told if kind is named]
        yield _kind_finding(group[0][1], lines, [subject for subject, _, _ in group], alike)


def _subject(line: str, slots: Mapping[str, str], cards: Chips | None) -> str | None:
    """The NPU that a line is about; None where it names none, or several."""
    named = {subject for slot, subject in slots.items() if slot and slot in line.lower()}
    numbered = _npu_of_line(_message(line), cards)
    found = named or ({numbered} if numbered else set())
    return next(iter(found)) if len(found) == 1 else None


def _message(line: str) -> str:
    """A line without its time and its host, whose name may contain "npu"."""
    return line.partition(" kernel: ")[2] or line


def _npu_of_line(line: str, cards: Chips | None) -> str | None:
    """The NPU that a line of the driver names by its device number, or by npu-smi's own."""
    told = re.search(r"\b(dev(?:ice)?[_ ]?(?:id)?|davinci|npu) ?[=:(\[]?\s?(\d{1,3})\b", line, re.IGNORECASE)
    if told is None or cards is None:
        return None
    number, of_npu_smi = int(told[2]), told[1].lower() == "npu"
    if not of_npu_smi and (chip := next((one for one in cards.chips if one.device == number), None)) is not None:
        return chip.subject.partition("/")[0]
    return f"npu:{number}" if any(card.subject == f"npu:{number}" for card in cards.chips) else None


_ENDED = r"(?:reset|recover\w{0,8}).{0,60}\b(?:end|ended|done|finish\w{0,3}|complete\w{0,2}|success\w{0,5})\b"


def _events(lines: Sequence[str]) -> int:
    """How often it happened: the end of a reset is no event of its own, and lines of the same second are one."""
    begun = [line for line in lines if not re.search(_ENDED, _message(line).lower())]
    return len({line.partition(" kernel: ")[0] if " kernel: " in line else line for line in begun or lines[:1]})


def _kind_finding(kind: Kind, lines: Sequence[str], subjects: Sequence[str], alike: Sequence[str] = ()) -> Finding:
    """The finding of these lines; `alike` are those of its own kind, which are counted."""
    return kind.message.finding(
        **on(subjects),
        count=_events(alike or lines),
        days=DAYS,
        commands=(f"{' '.join(COMMAND)} | grep -i -e davinci -e devdrv -e hccs -e AER -e 'hardware error'",),
        evidence=tuple(
            Evidence(source=" ".join(COMMAND), expected=messages.NO_SUCH_LINE.text(), actual=line.strip()[:240])
            for line in lines[-_SHOWN:]
        ),
        symptom=list(subjects) != ["host"],
    )
