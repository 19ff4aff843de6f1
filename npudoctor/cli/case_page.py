"""What is in front of a recording for a vendor's ticket: a report, an index, and the offer of device logs."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Mapping

from npudoctor.cli.output import say
from npudoctor.control_characters import escape
from npudoctor.findings import Report
from npudoctor.host import Host, Unavailable, is_mutable
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.steps.files import untrusted_writer

TOOL = "msnpureport"
TOOLS = ("/usr/local/Ascend/driver/tools/msnpureport", "/usr/local/bin/msnpureport")
NEEDED_BYTES = 2 << 30
"""Free space below which the export of device logs is not offered: npudoctor's own limit."""

LIMIT_S = 600
"""The export of a device that hangs never ends."""

_PARTS = {
    "bundle.json": "the node's name, user and npudoctor's version",
    "commands": "what programs such as npu-smi printed",
    "environ.json": "environment variables",
    "failed.json": "what could not be read, and why",
    "host.json": "measurements: processes, disks, memory",
    "links.json": "symbolic links",
    "listings.json": "names in folders",
    "missing.json": "what does not exist",
    "root": "files of the node",
    "stat.json": "owners and modes of files",
}


def of(found: Report, recorder: RecordingHost, host: Host, *, redacted: bool) -> str:
    """The page of `npudoctor report` about the recorded node."""
    from npudoctor.cli import report
    from npudoctor.report import case

    return case.markdown(report.of(found, recorder, changes=report.changes_of(host, None), redacted=redacted))


def index(files: Mapping[str, bytes]) -> str:
    """What lies where in the recording."""
    counts = Counter(name.partition("/")[0] for name in files)
    lines = [f"| {name} | {_PARTS.get(name, 'data of the node')} | {count} |" for name, count in sorted(counts.items())]
    intro = [
        "# Recording of a node by npudoctor",
        "",
        "`npudoctor check --replay FILE` diagnoses it on any machine.",
        "",
    ]
    page = "| REPORT.txt | findings, inventory and npu-smi: read this first | 1 |"
    return "\n".join([*intro, "| part | contains | files |", "| --- | --- | --- |", page, *lines]) + "\n"


def device_logs(host: Host, place: str, *, wanted: bool) -> str:
    """Export the vendor's device logs beside a recording where the person wants it; what to say about them.

    Without msnpureport nothing is said. It is root's tool and runs for `LIMIT_S` seconds at most, in a new folder.
    """
    tool = next((path for path in TOOLS if os.access(path, os.X_OK)), None) or host.which(TOOL)
    if tool is None:
        return f"device logs were not exported: {TOOL} is not installed\n" if wanted else ""
    if os.geteuid() == 0 and (writer := untrusted_writer(host, tool)):
        return f"device logs were not exported: root does not run {tool}: {writer}\n"
    folder = f"{place.removesuffix('.tar.gz').removesuffix('.tgz').rstrip('/')}-device-logs"
    free = shutil.disk_usage(os.path.dirname(folder)).free
    if free < NEEDED_BYTES:
        return (
            f"Device logs are not in it: {TOOL} needs {NEEDED_BYTES >> 30} GiB of free space, "
            f"{os.path.dirname(folder)} has {free / (1 << 30):.1f} GiB\n"
        )
    if not wanted:
        sudo = "" if os.geteuid() == 0 else "sudo "
        return (
            f"Device logs are not in it; --device-logs exports them, or:\n"
            f"  $ mkdir {shlex.quote(folder)} && cd {shlex.quote(folder)} && {sudo}timeout {LIMIT_S} {tool}\n"
        )
    return _export_device_logs(host, tool, folder)


def _export_device_logs(host: Host, tool: str, folder: str) -> str:
    assert is_mutable(host)
    folder = os.path.realpath(folder)
    try:
        if os.geteuid() == 0 and (other := _changed_by_others(os.path.dirname(folder))):
            return (
                f"device logs were not exported: name a recording in a folder that only root can change, not {other}\n"
            )
        os.mkdir(folder, mode=0o700)
    except OSError as problem:
        return f"device logs were not exported: {folder}: {problem.strerror}\n"
    say(f"npudoctor: {TOOL} exports the device logs into {folder}; this can take {LIMIT_S // 60} minutes")
    try:
        done = host.run_streaming(["sh", "-c", 'cd "$1" && exec "$2"', "sh", folder, tool], timeout=LIMIT_S)
    except Unavailable as why:
        return f"device logs were not exported: {why.reason}\n"
    size = sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)
    if done.timed_out:
        return f"{TOOL} did not end within {LIMIT_S} s; what it has exported is in {folder} ({size >> 20} MiB)\n"
    if done.returncode:
        last = next(reversed((done.stderr or done.stdout).split("\n")[-2:-1]), "")
        return f"{TOOL} ended with {done.returncode}{': ' * bool(last)}{escape(last[:200])}; see {folder}\n"
    return f"Device logs are in {folder} ({size >> 20} MiB); they are as the NPUs have them, without pseudonyms\n"


def _changed_by_others(folder: str) -> str | None:
    """The folder on the way to this one, or itself, where another user could put a link in the place of a new folder.

    All are judged by descriptors, from below, so that a name which changes meanwhile does not count; what root makes in
    a sticky folder no other user can rename. Raises OSError.
    """
    opened = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    at = os.open(folder, opened)
    try:
        if os.readlink(f"/proc/self/fd/{at}") != folder:
            return folder
        while True:
            here = os.fstat(at)
            if here.st_uid != 0 or (here.st_mode & 0o022 and not here.st_mode & stat.S_ISVTX):
                return os.readlink(f"/proc/self/fd/{at}")
            above = os.open("..", opened, dir_fd=at)
            is_top = os.path.samestat(here, os.fstat(above))
            os.close(at)
            at = above
            if is_top:
                return None
    finally:
        os.close(at)
