"""How a step of driver or firmware is verified: not by the exit code alone, which is 0 also where nothing was done."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Sequence

from npudoctor.facts.driver import version_files
from npudoctor.host import ParseError, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.installing.state import Ended, Node, Step
from npudoctor.knowledge.patterns import canonical_version

PREFIX = "/usr/local/Ascend"
TOOL = f"{PREFIX}/driver/tools/upgrade-tool"
DONE, DONE_AT_REBOOT = 0, 2
BY_SIGNAL = 128
"""A shell adds this to the number of the signal that has ended a program."""
_UPGRADE_TOOL = (
    ("--boot_status", re.compile(r"boot[ _]status\s*:\s*(\d+)", re.I), "16", "boot status"),
    (
        "--status",
        re.compile(r"\b(idle|waitting_restart|waiting_restart|waiting_sync|upgrading)\b", re.I),
        "idle",
        "state",
    ),
)
_WRITTEN = (
    *(f"{PREFIX}/driver", f"{PREFIX}/firmware", TOOL, "/etc/ascend_install.info", "/etc/ascend_filelist.info"),
    *("/lib/davinci.conf", "/var/lib/dkms/davinci_ascend", "/sys/module/drv_pcie_host", "/sys/module/davinci_intf"),
)
"""What the vendor's packages write: folders and modules are there or not, files have a digest."""
_FLASHED = re.compile(r"The firmware of \[(\d{1,3})\] chips are successfully upgraded")
_REBOOT = re.compile(r"[Rr]eboot (is )?needed|please check after reboot|Reboot now or after")
_INSTALLED = re.compile(r"(Driver|Firmware) package (installed|upgraded) successfully")


def of_step(host: ApartHost, step: Step, node: Node, code: int | None, log: str, at: str) -> Ended:
    """How a step whose installer has ended is judged."""
    proof, problem = _driver(host, step) if step.component == "driver" else _firmware(host, step, node, log)
    if code is None:
        problem = "its installer was ended, or the node went down: its exit code is not known"
    elif code > BY_SIGNAL:
        problem = f"its installer was ended by signal {code - BY_SIGNAL}"
    elif code not in (DONE, DONE_AT_REBOOT):
        problem = f"its installer ended with exit code {code}"
    reboot = step.component == "firmware" or code == DONE_AT_REBOOT or bool(_REBOOT.search(log))
    return Ended(at=at, exit_code=code, proof=proof, problem=problem, reboot=reboot)


def _driver(host: ApartHost, step: Step) -> tuple[str, str]:
    path = f"{PREFIX}/driver/version.info"
    found = version_at(host, path, lambda text: version_files.parse_driver(text).version)
    if not step.then:
        return ("", f"{path} is still there") if host.fresh().exists(path) else (f"{path} is gone", "")
    if found is None:
        return "", f"{path} is not there: no driver is installed"
    if canonical_version(str(found)) != canonical_version(step.then):
        return "", f"{path} names {found}, not {step.then}"
    if not host.exists(TOOL):
        return "", f"{path} names {found}, and driver/tools/upgrade-tool is not there: the installation is not complete"
    return f"{path} names {found}", ""


def _firmware(host: ApartHost, step: Step, node: Node, log: str) -> tuple[str, str]:
    path = f"{PREFIX}/firmware/version.info"
    found = version_at(host, path, lambda text: version_files.parse_firmware(text).version)
    counts = _FLASHED.findall(log)
    if counts and int(counts[-1]) < len(node.cards):
        return "", f"firmware of {counts[-1]} chips was flashed, of {len(node.cards)} NPUs on the PCI bus"
    if found is None or canonical_version(str(found)) != canonical_version(step.then):
        return "", f"{path} names {found or 'no version'}, not {step.then}"
    if not counts and not _INSTALLED.search(log):
        return "", "its log does not say that the firmware was flashed"
    flashed = (
        f"{counts[-1]} chips flashed, {len(node.cards)} NPUs on the PCI bus"
        if counts
        else "number of flashed chips not known"
    )
    return f"{path} names {found}; {flashed}", ""


def traces(host: ApartHost) -> tuple[tuple[str, str], ...]:
    """What of the files that the vendor's packages write is there, to be compared after a step that failed."""
    fresh = host.fresh()
    found = []
    for path in _WRITTEN:
        said = "none"
        with contextlib.suppress(Unavailable):
            if fresh.exists(path):
                said = "there"
                said = hashlib.sha256(fresh.read_bytes(path, limit=1 << 20)).hexdigest()[:12]
        found.append((path, said))
    driver, firmware = f"{PREFIX}/driver/version.info", f"{PREFIX}/firmware/version.info"
    found.append(
        (driver, str(version_at(host, driver, lambda text: version_files.parse_driver(text).version) or "none"))
    )
    found.append(
        (firmware, str(version_at(host, firmware, lambda text: version_files.parse_firmware(text).version) or "none"))
    )
    return tuple(found)


def changed_files(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> list[str]:
    """The files that a step has changed, with what they said before and after."""
    now = dict(after)
    return [f"{path} {old} → {now[path]}" for path, old in before if path in now and now[path] != old]


def unfinished_upgrades(host: ApartHost) -> list[str]:
    """What the driver's upgrade-tool says of devices that are not started, or of firmware that is not in force.

    Nothing where the tool cannot be asked: the checks of the NPUs are asked, too.
    """
    found = []
    for question, pattern, good, meaning in _UPGRADE_TOOL:
        library = f"LD_LIBRARY_PATH={PREFIX}/driver/lib64:{PREFIX}/driver/lib64/common:{PREFIX}/driver/lib64/driver"
        with contextlib.suppress(Unavailable):
            done = host.run(["env", library, TOOL, "--device_index", "-1", question], timeout=60.0)
            said = [one.lower() for one in pattern.findall(done.stdout)]
            if wrong := sorted({one for one in said if one != good}):
                found.append(f"{meaning} of {sum(one != good for one in said)} devices: {', '.join(wrong)}, not {good}")
    return found


def version_at(host: ApartHost, path: str, parse: Callable[[str], object]) -> object | None:
    """The version in a version.info; None where there is none, or none that is understood."""
    try:
        return parse(host.fresh().read(path))
    except (Unavailable, ParseError):
        return None
