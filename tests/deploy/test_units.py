"""The units, judged by systemd itself: its verifier here, a whole boot in the slow suite."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from npudoctor import plugins

SYSTEMD = Path(__file__).resolve().parents[2] / "npudoctor" / "deploy" / "systemd"
NAMES = sorted(path.name for path in SYSTEMD.glob("*.service"))


def settings(name: str) -> dict[str, list[str]]:
    """What a unit says, by key."""
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / name).read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def verified(path: Path) -> tuple[int, str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, encoding="utf-8", check=False
    )
    return done.returncode, done.stderr


def test_stopping_the_daemon_leaves_the_hands_off_file_of_an_installation() -> None:
    for name in NAMES:
        if "RuntimeDirectory" in settings(name):
            assert settings(name)["RuntimeDirectoryPreserve"] == ["yes"], name


@pytest.mark.parametrize("name", NAMES)
def test_systemd_has_nothing_to_say_against_a_unit(name: str, tmp_path: Path) -> None:
    text = (SYSTEMD / name).read_text(encoding="utf-8").replace("/usr/local/bin/npudoctor", "/bin/true")
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert verified(tmp_path / name) == (0, "")


def test_systemd_has_something_to_say_against_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\nProtectSystems=yes\n", encoding="utf-8")
    assert "ProtectSystems" in verified(tmp_path / "a.service")[1]


def test_nothing_in_the_unit_hides_the_cards_or_who_holds_them() -> None:
    said = settings("npudoctor.service")
    hiding = ("PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "ProtectProc", "ProcSubset")
    assert not set(said) & {*hiding, "PrivateNetwork", "PrivateUsers", "ProtectKernelLogs", "MemoryDenyWriteExecute"}
    assert said["Type"] == ["notify"]
    assert said["NoNewPrivileges"] == ["yes"]
    assert said["ProtectSystem"] == ["strict"]
    assert "CAP_SYS_ADMIN" not in said["CapabilityBoundingSet"][0]
    assert said["IPAddressDeny"] == ["any"]


def test_the_commands_and_marks_in_the_units_are_those_of_npudoctor() -> None:
    assert settings("npudoctor.service")["ExecStart"] == ["/usr/local/bin/npudoctor daemon"]
    assert settings("npudoctor-setup.service")["ExecStart"] == ["/usr/local/bin/npudoctor setup --yes --resume"]
    text = (SYSTEMD / "npudoctor.service").read_text(encoding="utf-8")
    parameters = plugins.load().fixes["service.install"].parameters.__dataclass_fields__
    for option in ("network", "fixes"):
        assert option in parameters
        assert text.count(f"# Left out by `npudoctor service install --{option}`") == 1
