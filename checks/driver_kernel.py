"""The driver's side of the kernel: the modules that run, those that will, and what they have written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npudoctor.facts.driver.install import DriverInstall, LoadedModules
from npudoctor.facts.driver.next_boot import MODULES, NextBoot
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack
from npudoctor.facts.system.kernel_log import COMMAND, DAYS, KernelLog
from npudoctor.facts.versions import DriverVersion
from npudoctor.records import dataclass
from npudoctor.sdk import Evidence, Finding, NotApplicable, ParseError, Severity, Unavailable, check

_SHOWN = 4
_MOST = 20_000
"""A log that is flooded is read from its end."""


@check("driver.rebooted", after=("container.devices", "driver.installed"), requires=(DriverStack,))
def loaded_modules_are_the_installed_ones(
    driver: DriverInstall, modules: LoadedModules, container: Container | None
) -> Iterator[Finding]:
    """The kernel has the modules of the driver that is installed.

    After an upgrade the old modules run until the node is rebooted: libraries and npu-smi of the new driver then talk
    to modules of the old one, and fail in ways that look like a broken card.
    """
    if container is not None:
        raise NotApplicable("the driver of a container is its host's")
    if driver.file is None or not (driver.file.version or driver.file.package_version):
        raise Unavailable(f"{driver.path} does not say which driver is installed")
    installed = [found for said in (driver.file.version, driver.file.package_version) if (found := _version(said))]
    running = {name: found for name, said in modules.versions.items() if (found := _version(said))}
    if not installed or not running:
        raise Unavailable("the loaded modules do not say of which driver they are")
    others = {name: version for name, version in running.items() if version not in installed}
    if not others:
        return
    name, version = next(iter(others.items()))
    yield Finding(
        summary=f"driver {driver.file.version or installed[0]} is installed, and modules of {version} are loaded",
        detail="The driver was upgraded, and the node has not been rebooted since. What fails until then is mostly no "
        "fault of a card.",
        hint="Drain the node and reboot it.",
        commands=("reboot", f"cat /sys/module/{name}/version {driver.path}"),
        evidence=(
            Evidence(source=driver.path, actual=f"Version={driver.file.version or installed[0]}"),
            *(
                Evidence(source=f"/sys/module/{one}/version", expected=str(installed[0]), actual=str(other))
                for one, other in list(others.items())[:_SHOWN]
            ),
        ),
        pitfall="P031",
    )


def _version(text: str | None) -> DriverVersion | None:
    try:
        return DriverVersion.parse(text) if text else None
    except ParseError:
        return None


@check("driver.next-boot", after=("container.devices", "driver.installed"), requires=(DriverStack,))
def next_kernel_has_the_driver(boot: NextBoot, modules: LoadedModules | None) -> Iterator[Finding]:
    """The kernel that boots next has the driver's modules.

    An update of the system brings a new kernel, which the driver was not built for: after the next reboot there is no
    card.
    """
    if boot.release in boot.with_driver:
        return
    if boot.release == boot.running and modules is not None and modules.ours:
        return
    if boot.running not in boot.with_driver:
        raise Unavailable(f"no module of the driver lies below {MODULES}/{boot.running}, where npudoctor looks")
    yield Finding(
        severity=Severity.INFO if boot.dkms else Severity.WARNING,
        summary=f"kernel {boot.release} boots next, and has no modules of the Ascend driver",
        detail="The driver is registered with DKMS, which builds its modules for a new kernel; it has not done so yet."
        if boot.dkms
        else "After the next reboot the cards will be gone.",
        hint="Build the modules for that kernel now: install its headers and run the driver's installer again; or keep "
        "the present kernel.",
        commands=(
            f"ls {MODULES}/{boot.release}/updates",
            f"yum install kernel-devel-{boot.release}  # or: apt install linux-headers-{boot.release}",
            f"grubby --set-default /boot/vmlinuz-{boot.running}  # or keep this kernel",
        ),
        evidence=(
            Evidence(source=boot.source, actual=boot.release),
            Evidence(source="running kernel", actual=f"{boot.running}, with the driver's modules"),
            Evidence(source=f"{MODULES}/{boot.release}", expected="drv_davinci_intf_host.ko, …", actual="none"),
        ),
        pitfall="P069",
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of line in the kernel log, and what has happened where it is written.

    A line that holds none of `words` is passed over unread; `ours`: it has to speak of the Ascend driver.
    """

    words: tuple[str, ...]
    pattern: str
    what: str
    ours: bool = True

    def is_told_by(self, message: str) -> bool:
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
    "hot reset",
    "hotreset",
    "surprise",
    "gone",
)
KINDS = (
    Kind(
        ("heartbeat", "heart beat", "lost"),
        rf"heart ?beat.{{0,30}}{_BAD}|{_BAD}.{{0,30}}heart ?beat|device (?:is )?lost",
        "a card's heartbeat was lost",
    ),
    Kind(
        ("hccs",),
        r"\bhccs\b.{0,300}(?:link (?:is )?down|\bfail|\berror|\bcrc\b|\bfault\b|\bfatal\b)",
        "an HCCS link failed",
    ),
    Kind(_GONE, "link (?:is )?down|fell off|dropp?e?d? off|hot ?reset|surprise|device (?:is )?gone", "a card was lost"),
    Kind(
        ("bit", "uncorrect", "ecc error", "temperature"),
        r"(?:multi|double)[- ]?bit.{0,24}(?:ecc|error)|\buncorrect\w{0,64}.{0,24}(?:ecc|error)"
        r"|\bhbm\b.{0,300}(?:ecc error|over ?temp)",
        "a card reported a memory error",
    ),
    Kind(
        ("fatal",),
        r"(?:aer|pcieport|pcie bus error).{0,300}uncorrect\w{0,64}\W{0,3}fatal|aer:.{0,300}(?<!non-)(?<!non)\bfatal\b",
        "the PCIe bus reported a fatal error",
        ours=False,
    ),
    Kind(
        ("hardware error", "machine check", "edac"),
        r"hardware error.{0,300}(?:event severity: (?:fatal|recoverable)|\buncorrect|\bfatal\b)"
        r"|machine check.{0,300}(?:\bfatal\b|\buncorrect)|\bedac\b.{0,300} [1-9]\d{0,20} ue ",
        "the processor reported an uncorrected hardware error",
        ours=False,
    ),
    Kind(
        ("blocked for more than",),
        r"task (?:npu-smi|npu_smi):\d{1,20} blocked|\bblocked\b.{0,300}(?:davinci|devdrv|devmm)",
        "a process hung in the driver",
        ours=False,
    ),
    Kind(
        ("hang", "hung", "not respond", "fatal", "fault", "dead", "exception"),
        r"^(?!.*(?:init|register|success|enabl|page fault)).*"
        r"\b(?:hang|hangs|hung|not respond\w{0,64}|fatal|fault|dead|exception)\b",
        "the driver reported a fault of a card",
    ),
)
"""By what the kernel, its PCIe port driver, EDAC and the Ascend driver write; corrected errors are none of them."""


@check(
    "driver.kernel-log", profile="standard", after=("container.devices", "driver.installed"), requires=(DriverStack,)
)
def kernel_log_is_quiet(log: KernelLog, cards: Chips | None) -> Iterator[Finding]:
    """The kernel has written of no fault of a card in the last seven days.

    A card that is lost, or a link that failed, is mostly announced there before jobs fail.
    """
    slots = {(card.bus_id or "").lower(): card.subject.partition("/")[0] for card in cards.chips} if cards else {}
    of_kind: dict[Kind, list[str]] = {}
    for line in log.lines[-_MOST:]:
        message = _message(line).lower()
        for kind in KINDS:
            if kind.is_told_by(message):
                of_kind.setdefault(kind, []).append(line)
                break
    for kind, lines in of_kind.items():
        named = {subject for line in lines for slot, subject in slots.items() if slot and slot in line.lower()}
        numbered = {subject for line in lines if (subject := _numbered(_message(line), cards))}
        found = named or numbered
        yield _written(kind, lines, next(iter(found)) if len(found) == 1 else "host")


def _message(line: str) -> str:
    """A line without its time and its host, which may be called after the cards."""
    return line.partition(" kernel: ")[2] or line


def _numbered(line: str, cards: Chips | None) -> str | None:
    """The card that a line of the driver names by its device number, where these are npu-smi's own."""
    told = re.search(r"\b(?:dev(?:ice)?[_ ]?(?:id)?|davinci|npu) ?[=:(\[]?\s?(\d{1,3})\b", line, re.IGNORECASE)
    subject = f"npu:{told[1]}" if told else None
    known = {card.subject for card in cards.chips} if cards is not None else set()
    return subject if subject in known else None


def _written(kind: Kind, lines: Sequence[str], subject: str) -> Finding:
    times = f" {len(lines)} times" if len(lines) > 1 else ""
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=f"{kind.what}{times}, says the kernel log of the last {DAYS} days",
        detail="What has happened once may be over; a card that does it again is about to fail.",
        hint="See when it was, and whether jobs failed then; drain the node where it goes on.",
        commands=(f"{' '.join(COMMAND)} | grep -i -e davinci -e devdrv -e hccs -e AER -e 'hardware error'",),
        evidence=tuple(
            Evidence(source=" ".join(COMMAND), expected="no such line", actual=line.strip()[:240])
            for line in lines[-_SHOWN:]
        ),
        pitfall="P052",
    )
