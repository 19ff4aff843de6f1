"""The system under a job: its kernel and C library, its processors, its table of connections, and its clock."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.conntrack import COUNT_FILE, MAX_FILE, Conntrack
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Presence
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.clock import TimeService
from npudoctor.facts.system.cpu import Cpu
from npudoctor.facts.system.cpu_tuning import HUGE_PAGES, CpuTuning
from npudoctor.facts.system.platform import Platform
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Options, Severity, Threshold, Unavailable, check

THREADS = "OMP_NUM_THREADS"
FULL_TABLE = Threshold(
    "conntrack_used_percent", 80, "%", "a full table drops new connections without a word, and a job opens many at once"
)


@check("system.platform")
def the_system_is_supported(
    platform: Platform, python: PythonEnvironment | None, found: Presence | None
) -> Iterator[Finding]:
    """Kernel and C library are those that driver and wheels are made for.

    A wheel needs the C library of its build or a newer one; the driver builds its modules for the running kernel.
    """
    if found is not None and not (found.cards or found.software):
        raise NotApplicable("neither a card nor Ascend software is here that would ask something of the system")
    floor = _floor(python, platform.machine)
    if platform.kernel is None and (floor is None or python is None or python.glibc is None):
        raise Unavailable("neither the kernel's release nor the C library is known", because=Because.NOT_RECORDED)
    if floor is not None and python is not None and (own := _pair(python.glibc)) is not None and own < floor:
        yield _old_library(python, floor)
    if platform.kernel is not None and found is not None and not found.in_container:
        usual = knowledge.layout().more["recommended_kernels"]
        if (running := _pair(platform.kernel)) is not None and running not in map(_pair, usual):
            yield Finding(
                severity=Severity.INFO,
                summary=f"kernel {platform.kernel} is of none of the lines that the driver is recommended for",
                hint="Nothing has to be done while the driver's modules load.",
                evidence=(
                    Evidence(source="/proc/sys/kernel/osrelease", expected=", ".join(usual), actual=platform.kernel),
                ),
            )


def _pair(text: str | None) -> tuple[int, int] | None:
    """The first two numbers of a version: (5, 10) for 5.10.0-216.aarch64."""
    numbers = (text or "").split(".")[:2]
    digits = ["".join(letter for letter in part if letter.isdecimal()) for part in numbers]
    return (int(digits[0]), int(digits[1])) if len(digits) == 2 and all(digits) else None


def _floor(python: PythonEnvironment | None, machine: str) -> tuple[int, int] | None:
    """The oldest C library that the wheel of the installed torch_npu runs on; None where it is not known."""
    torch_npu = python.torch_npu if python is not None else None
    row = knowledge.compatibility().release(torch_npu.version) if torch_npu is not None else None
    return row.glibc_floor(machine) if row is not None else None


def _old_library(python: PythonEnvironment, floor: tuple[int, int]) -> Finding:
    least = ".".join(map(str, floor))
    version = python.torch_npu.version if python.torch_npu else ""
    return Finding(
        severity=Severity.WARNING,
        summary=f"glibc {python.glibc} is older than the {least} that torch_npu {version} was built for",
        detail=f"Importing it ends with: version `GLIBC_{least}' not found.",
        hint="Use a newer system, a container image with one, or a torch_npu with wheels for this one.",
        commands=("ldd --version", f"{python.executable} -m pip debug --verbose | grep manylinux | head"),
        evidence=(
            Evidence(source=python.executable, expected=f"glibc {least} or newer", actual=f"glibc {python.glibc}"),
        ),
        pitfall="P039",
    )


@check("system.cpu")
def processors_are_left_to_the_job(
    cpu: Cpu, tuning: CpuTuning | None, environment: JobEnvironment | None, cards: Chips | None
) -> Iterator[Finding]:
    """The processors run at full speed, and a job does not start more threads than there are processors.

    Launching operators is work for the host: a processor that saves power, or that many threads share, slows it down.
    """
    slow = {number: name for number, name in tuning.governors.items() if name != "performance"} if tuning else {}
    if slow and cards is not None and cards.count:
        yield Finding(
            severity=Severity.INFO,
            summary=f"the processors' governor is {', '.join(dict.fromkeys(slow.values()))}, not performance",
            hint="For training let them run at full speed.",
            commands=("cpupower frequency-set -g performance  # as root",),
            evidence=tuple(
                Evidence(source=f"cpu{number} scaling_governor", expected="performance", actual=name)
                for number, name in list(slow.items())[:2]
            ),
            pitfall="P090",
        )
    if tuning is not None and tuning.huge_pages == "never" and cards is not None and cards.count:
        yield Finding(
            severity=Severity.INFO,
            summary="transparent huge pages are switched off",
            commands=(f"echo always | sudo tee {HUGE_PAGES}",),
            evidence=(Evidence(source=HUGE_PAGES, expected="always or madvise", actual="never"),),
            pitfall="P090",
        )
    if environment is not None and (text := environment.filled(THREADS)) is not None:
        yield from _threads(text, cpu, environment, cards)


def _threads(text: str, cpu: Cpu, environment: JobEnvironment, cards: Chips | None) -> Iterator[Finding]:
    """What is wrong with OMP_NUM_THREADS: an illegal value, or too many for the ranks of this node together."""
    variable = knowledge.environment().variable(THREADS)
    if variable is not None and (problem := variable.problem(text)):
        yield Finding(
            severity=Severity.WARNING,
            summary=f"{THREADS}: {problem}",
            detail="OpenMP drops it with a message and takes one thread for each processor, in every rank.",
            commands=(f"unset {THREADS}",),
            evidence=(Evidence(source=THREADS, expected=variable.legal, actual=text),),
        )
        return
    here = len(cpu.allowed) if cpu.allowed is not None else cpu.logical
    local = environment.get("LOCAL_WORLD_SIZE", "")
    ranks = int(local) if local.isdecimal() and int(local) else cards.count if cards is not None else 1
    threads = int(text.partition(",")[0])
    if here and threads * max(1, ranks) > here:
        yield Finding(
            severity=Severity.INFO,
            summary=f"{THREADS}={text} for {ranks} ranks is more threads than the {here} processors here",
            hint=f"At most {max(1, here // max(1, ranks))} for a job on all cards.",
            commands=(f"export {THREADS}={max(1, here // max(1, ranks))}",),
            evidence=(Evidence(source=THREADS, expected=f"{here} threads in all", actual=f"{threads} × {ranks}"),),
            pitfall="P090",
        )


@check("system.conntrack", thresholds=(FULL_TABLE,))
def the_table_of_connections_has_room(conntrack: Conntrack, options: Options) -> Iterator[Finding]:
    """The kernel's table of connections has room.

    Once it is full the kernel drops every new connection: ranks wait for each other until their time is up.
    """
    if conntrack.used_pct >= FULL_TABLE.of(options):
        larger = 1 << max(20, (conntrack.count * 4).bit_length() - 1)
        yield Finding(
            severity=Severity.WARNING,
            summary=f"the kernel's table of connections is {conntrack.used_pct:.0f} % full",
            detail="New connections are dropped once it is full: `nf_conntrack: table full, dropping packet`.",
            hint="Allow more, and see who opens so many.",
            commands=(
                f"sudo sysctl -w net.netfilter.nf_conntrack_max={larger}",
                "ss -s",
                "dmesg -T | grep nf_conntrack",
            ),
            evidence=(
                Evidence(
                    source=COUNT_FILE, expected=f"less than {FULL_TABLE.of(options):g} %", actual=str(conntrack.count)
                ),
                Evidence(source=MAX_FILE, actual=str(conntrack.maximum)),
            ),
            pitfall="P079",
        )


@check("system.clock")
def the_clock_is_kept(clock: TimeService, container: Container | None) -> Iterator[Finding]:
    """A time service keeps the clock.

    Logs of several nodes can only be laid beside each other, and certificates only be trusted, where clocks agree.
    """
    if container is not None:
        raise NotApplicable("the clock of a container is its host's")
    if clock.synchronized is None:
        raise Unavailable("the time service does not say whether the clock is synchronised")
    if not clock.synchronized:
        yield Finding(
            severity=Severity.INFO,
            summary="the clock is not synchronised" + ("" if clock.ntp else ", and no time service is switched on"),
            hint="Let chrony or another time service keep it; with several nodes their logs otherwise do not compare.",
            commands=("timedatectl status", "sudo timedatectl set-ntp true"),
            evidence=(Evidence(source="timedatectl show", expected="NTPSynchronized=yes", actual="no"),),
        )
