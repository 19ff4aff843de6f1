"""A machine that lacks what every machine has, such as /tmp, /proc or accounts: an answer, and no traceback."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import sim
from tests.plain_user import ALICE, accounts_missing, as_root

pytestmark = [as_root, pytest.mark.skipif(bool(accounts_missing()), reason=str(accounts_missing()))]

ENTRY = "import sys; from npudoctor.cli import console; console()"
"""What the console script does."""

READING = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
"""A plain user can read where the tests lie."""

EMPTY = "mount -t tmpfs -o mode=0755 tmpfs"
MACHINES = {
    "no /tmp": "mount -t tmpfs -o ro,mode=0 tmpfs /tmp",
    "no /sys": f"{EMPTY} /sys",
    "no /proc": f"{EMPTY} /proc",
    "no /proc/net": "mount --bind {folder} /proc/self/net",
    "nothing of these": f"{EMPTY} /sys; mount -t tmpfs -o ro,mode=0 tmpfs /tmp; {EMPTY} /proc",
    "no accounts": "for name in passwd group shadow nsswitch.conf; do mount --bind /dev/null /etc/$name; done",
    "hidepid": "mount -t proc -o hidepid=2 proc /proc",
    "no capabilities": "true",
    "read-only": "mount -o remount,ro,bind / 2>/dev/null || mount --bind / / && mount -o remount,ro,bind /",
}
AS = {
    "no capabilities": "setpriv --inh-caps=-all --bounding-set=-all",
    "hidepid": f"setpriv --reuid={ALICE} --regid={ALICE} --clear-groups {READING}",
}
"""As whom npudoctor runs there."""


@pytest.fixture(scope="module")
def tools() -> Iterator[Path]:
    """The tools of a healthy node, as real programs, in a folder that is not /tmp."""
    with tempfile.TemporaryDirectory(prefix="npudoctor-test-", dir="/var/tmp") as name:
        sim.write_tools(sim.simulate("healthy-910a"), name)
        os.chmod(name, 0o755)
        (Path(name) / "empty").mkdir()
        yield Path(name)


def on(machine: str, tools: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """npudoctor on that machine."""
    if machine in AS and not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is not installed")
    here = (sys.executable, sys.prefix, str(Path(__file__).resolve()))
    if "/tmp" in MACHINES[machine] and any(path.startswith("/tmp/") for path in here):
        pytest.skip("npudoctor is below /tmp here, which this machine does not have")
    prepare = f"mount --make-rprivate /; {MACHINES[machine].replace('{folder}', str(tools / 'empty'))}"
    script = f'{prepare}; cd /; exec {AS.get(machine, "")} "$@"'
    argv = ["unshare", "--mount", "sh", "-ec", script, "sh", sys.executable, "-c", ENTRY, *words]
    variables = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent"}
    return subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=300, env=variables)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_check_is_an_answer(machine: str, tools: Path) -> None:
    for node in (["--root", str(tools)], []):
        done = on(machine, tools, "check", "--profile", "quick", "--json", *node)
        assert done.returncode in (0, 1, 3), done.stderr
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        results = json.loads(done.stdout)["results"]
        assert not [result for result in results if result["status"] == "crashed"]
        if node:
            [card] = [result for result in results if result["check"] == "npu.health"]
            assert card["status"] in ("ok", "skipped"), card


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("words", [("facts",), ("healthcheck", "--no-daemon"), ("explain", "P001"), ("list",)])
def test_so_are_other_commands(machine: str, tools: Path, words: tuple[str, ...]) -> None:
    done = on(machine, tools, *words)
    assert done.returncode in (0, 1, 3), done.stderr
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert done.stdout
