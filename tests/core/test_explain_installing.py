"""What the installers of the vendor print when they fail leads to the known issue, beside what they always print."""

import json
from pathlib import Path

import pytest

from npudoctor import knowledge
from npudoctor.explain.diagnosis import diagnose
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scan import Scanner

SOUGHT = Sought()
BEFORE = """Verifying archive integrity...  100%   SHA256 checksums are OK. All good.
Uncompressing ASCEND DRIVER RUN PACKAGE  100%
[Driver] [2026-03-04 11:12:13] [INFO]Start time: 2026-03-04 11:12:13
[Driver] [2026-03-04 11:12:13] [INFO]LogFile: /var/log/ascend_seclog/ascend_install.log
[Driver] [2026-03-04 11:12:14] [INFO]base version is 24.1.0.3.
"""
LINES = {
    "P069": "[Driver] [2026-03-04 11:13:40] [ERROR]Drv_dkms_env_check failed, details in : /var/log/x.log",
    "P140": "[Driver] [2026-03-04 11:13:40] [ERROR]The list of missing tools: ifconfig,lsattr,",
    "P068": "[Driver] [2026-03-04 11:13:40] [ERROR]ERR_NO:0x0091;ERR_DES:npuowner group not exists! Please add",
    "P143": "[ERROR]The davinci nodes are occupied by some processes, please stop processes and install again",
    "P144": "[ERROR]The current installation package and environment is not match, please check.",
    "P122": "[ERROR]Arch mismatch, src package is aarch64, cur os is x86-64",
    "P145": "[ERROR]The given directory, including its parents, should belong to root, details in : /x",
    "P149": "[ERROR]free space only 87M, cannot install driver package (greater than 300M)",
    "P150": "[WARNING]Download and install the 23.0.RC1 driver package. Then upgrade to the target version.",
    "P152": "Error in SHA256 checksums: 5a01 is different from 77fe",
    "P031": "[WARNING]Kernel modules can not be removed, reboot needed for installation/upgrade to take effect!",
    "P158": "./Ascend-hdk-910b-npu-driver.run: 90: /var/tmp/selfgz88123/run.sh: Permission denied",
    "P159": "usergroup=root not right!",
    "P065": "tar: ./driver/lib64/libdrvhdc.so: Cannot write: No space left on device",
}
HARMLESS = ("I035", "I048")
"""Lines that are no failure: makeself's about MD5, and pip's about packages of CANN."""


def named(text: str) -> list[str]:
    scanner = Scanner(SOUGHT)
    scanner.read("install.log", [text.encode()])
    return [suspect.pitfall.id for suspect in diagnose(scanner).suspects]


@pytest.mark.parametrize("id", LINES)
def test_the_line_of_a_failed_installer_leads_to_its_cause(id: str) -> None:
    assert named(BEFORE + LINES[id] + "\n")[:1] == [id]


def test_an_installation_that_went_well_names_no_cause() -> None:
    done = "[INFO]Driver package installed successfully! The new version takes effect immediately.\n"
    assert named(BEFORE + "upgradePercentage:30%\nupgradePercentage:100%\n" + done) == []


def test_every_failure_that_was_collected_is_known(shared: Path) -> None:
    rows = json.loads((shared / "knowledge/install.json").read_text(encoding="utf-8"))["known_failures"]
    unknown = [
        f"{row['id']}: {text}"
        for row in rows
        for text in row["examples"]
        if not knowledge.pitfalls().match(text) and row["id"] not in HARMLESS
    ]
    assert not unknown and len(rows) > 40
