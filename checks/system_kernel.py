"""The system under a job: its kernel and C library, its CPUs, its connection tracking, and its clock."""

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
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Options, Threshold, Unavailable, check

from .messages import system as messages

THREADS = "OMP_NUM_THREADS"
FULL_TABLE = Threshold(
    "conntrack_used_percent", 80, "%", "a full table drops new connections silently, and a job opens many at once"
)


@check("system.platform")
def the_system_is_supported(
    platform: Platform, python: PythonEnvironment | None, found: Presence | None
) -> Iterator[Finding]:
    """Kernel and C library supported by driver and wheels.

    A wheel needs the C library of its build or a newer one; the driver builds its modules for the running kernel.
    """
    if found is not None and not (found.cards or found.software):
        raise NotApplicable(messages.NOTHING_REQUIRES_A_SYSTEM.text())
    floor = _floor(python, platform.machine)
    if platform.kernel is None and (floor is None or python is None or python.glibc is None):
        raise Unavailable(messages.PLATFORM_NOT_RECORDED.text(), because=Because.NOT_RECORDED)
    if floor is not None and python is not None and (own := _pair(python.glibc)) is not None and own < floor:
        yield _old_library(python, floor)
    if platform.kernel is not None and found is not None and not found.in_container:
        usual = knowledge.layout().more["recommended_kernels"]
        if (running := _pair(platform.kernel)) is not None and running not in map(_pair, usual):
            yield messages.KERNEL_NOT_RECOMMENDED.finding(
                kernel=platform.kernel,
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
    return messages.GLIBC_OLD.finding(
        version=python.torch_npu.version if python.torch_npu else "",
        least=least,
        glibc=python.glibc,
        commands=("ldd --version", f"{python.pip} debug --verbose | grep manylinux | head"),
        evidence=(
            Evidence(
                source=python.executable,
                expected=messages.GLIBC_OR_NEWER.text(least=least),
                actual=f"glibc {python.glibc}",
            ),
        ),
    )


@check("system.cpu")
def processors_are_left_to_the_job(
    cpu: Cpu, tuning: CpuTuning | None, environment: JobEnvironment | None, cards: Chips | None
) -> Iterator[Finding]:
    """CPU governor and number of OpenMP threads.

    The host launches the operators: a CPU that saves power, or that many threads share, slows a job down.
    """
    slow = {number: name for number, name in tuning.governors.items() if name != "performance"} if tuning else {}
    if slow and cards is not None and cards.count:
        yield messages.GOVERNOR.finding(
            governors=list(dict.fromkeys(slow.values())),
            commands=("cpupower frequency-set -g performance  # as root",),
            evidence=tuple(
                Evidence(source=f"cpu{number} scaling_governor", expected="performance", actual=name)
                for number, name in list(slow.items())[:2]
            ),
        )
    if tuning is not None and tuning.huge_pages == "never" and cards is not None and cards.count:
        expected = messages.ALWAYS_OR_MADVISE.text()
        yield messages.HUGE_PAGES_OFF.finding(
            commands=(f"echo always | sudo tee {HUGE_PAGES}",),
            evidence=(Evidence(source=HUGE_PAGES, expected=expected, actual="never"),),
        )
    if environment is not None and (text := environment.non_empty(THREADS)) is not None:
        yield from _threads(text, cpu, environment, cards)


def _threads(text: str, cpu: Cpu, environment: JobEnvironment, cards: Chips | None) -> Iterator[Finding]:
    """What is wrong with OMP_NUM_THREADS: an invalid value, or too many for the ranks of this node together."""
    variable = knowledge.environment().variable(THREADS)
    if variable is not None and (problem := variable.problem(text)):
        yield messages.THREADS_INVALID.finding(
            name=THREADS,
            problem=problem,
            commands=(f"unset {THREADS}",),
            evidence=(Evidence(source=THREADS, expected=variable.legal, actual=text),),
        )
        return
    here = len(cpu.allowed) if cpu.allowed is not None else cpu.logical
    local = environment.get("LOCAL_WORLD_SIZE", "")
    ranks = int(local) if local.isdecimal() and int(local) else cards.count if cards is not None else 1
    threads = int(text.partition(",")[0])
    if here and threads * max(1, ranks) > here:
        most = max(1, here // max(1, ranks))
        expected = messages.THREADS_IN_ALL.text(cpus=here)
        yield messages.THREADS_MANY.finding(
            name=THREADS,
            value=text,
            ranks=ranks,
            cpus=here,
            most=most,
            commands=(f"export {THREADS}={most}",),
            evidence=(Evidence(source=THREADS, expected=expected, actual=f"{threads} × {ranks}"),),
        )


@check("system.conntrack", thresholds=(FULL_TABLE,))
def the_table_of_connections_has_room(conntrack: Conntrack, options: Options) -> Iterator[Finding]:
    """Connection tracking table not full.

    When it is full the kernel drops every new connection: ranks wait for each other until the timeout.
    """
    if conntrack.used_pct >= FULL_TABLE.of(options):
        larger = 1 << max(20, (conntrack.count * 4).bit_length() - 1)
        most = FULL_TABLE.of(options)
        expected = messages.BELOW_SHARE.text(count=int(conntrack.maximum * most / 100), share=most)
        yield messages.CONNTRACK_FULL.finding(
            used=conntrack.used_pct,
            commands=(
                f"sudo sysctl -w net.netfilter.nf_conntrack_max={larger}",
                "ss -s",
                "dmesg -T | grep nf_conntrack",
            ),
            evidence=(
                Evidence(source=COUNT_FILE, expected=expected, actual=str(conntrack.count)),
                Evidence(source=MAX_FILE, actual=str(conntrack.maximum)),
            ),
        )


@check("system.clock")
def the_clock_is_kept(clock: TimeService, container: Container | None) -> Iterator[Finding]:
    """Clock synchronised.

    Logs of several nodes can be compared, and certificates verified, only if clocks agree.
    """
    if container is not None:
        raise NotApplicable(messages.CLOCK_OF_HOST.text())
    if clock.synchronized is None:
        raise Unavailable(messages.CLOCK_UNKNOWN.text())
    if not clock.synchronized:
        message = messages.CLOCK_UNSYNCHRONISED if clock.ntp else messages.NO_TIME_SERVICE
        yield message.finding(
            commands=("timedatectl status", "sudo timedatectl set-ntp true"),
            evidence=(Evidence(source="timedatectl show", expected="NTPSynchronized=yes", actual="no"),),
        )
