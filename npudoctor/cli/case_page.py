"""What is in front of a recording for a vendor's ticket: a report, an index, and the offer of device logs."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping

from npudoctor.findings import Report
from npudoctor.host import Host
from npudoctor.host.recording.recorder import RecordingHost

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


def device_logs() -> str:
    """How to export the vendor's device logs into this folder, or why not; empty where the tool is not installed."""
    tool = next((path for path in TOOLS if os.access(path, os.X_OK)), None)
    if tool is None:
        return ""
    free = shutil.disk_usage(os.getcwd()).free
    if free < NEEDED_BYTES:
        return (
            f"Device logs are not in it: msnpureport needs {NEEDED_BYTES >> 30} GiB of free space, "
            f"this folder has {free / (1 << 30):.1f} GiB\n"
        )
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"Device logs are not in it. To export them into this folder:\n  $ {sudo}timeout {LIMIT_S} {tool}\n"
