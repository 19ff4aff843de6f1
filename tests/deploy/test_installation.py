"""Driver and firmware are installed on a bare node under a real systemd, through a kill and a reboot. Slow."""

import os
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from . import installation
from .conftest import needs
from .test_boot import PROOF

pytestmark = pytest.mark.slow

WORDS = (
    f"--only driver,firmware --expect driver={installation.DRIVER},firmware={installation.FIRMWARE}"
    " --allow driver.install --allow firmware.install --irreversible --unmanaged --expect-host $(hostname)"
)
CUT = f"""
touch /out/wait-driver
cat >/root/person <<END
#!/bin/sh
export PATH=$PATH PYTHONPATH=$PYTHONPATH
exec $NPU setup --packages /repo {WORDS} --reason T-1
END
chmod +x /root/person
systemd-run --quiet --unit=person /root/person
for _ in $(seq 600); do test -e /var/lib/ran-driver && break; sleep 0.1; done
systemctl kill --signal=KILL person; systemctl stop person
echo "unit: $(systemctl show -p ActiveState --value 'npudoctor-install-*')"
systemctl show -p TimeoutStopUSec -p RuntimeMaxUSec -p KillMode -p SendSIGKILL 'npudoctor-install-*' | sort
timeout 3 systemctl stop 'npudoctor-install-*'; echo "stop: $?"
echo "unit: $(systemctl show -p ActiveState --value 'npudoctor-install-*')"
systemd-inhibit --list --no-pager --no-legend | grep -c 'shutdown:sleep.*block'
npudoctor healthcheck
npudoctor fix hccl.reserve-ports --yes >/dev/null 2>&1; echo "fix: $?"
npudoctor setup --resume >/dev/null 2>&1; echo "resume: $?"
step=$(echo /var/lib/npudoctor/runs/*/step-1)
grep -qE '^[0-9]+ [0-9]+$' $step/pid && echo "pid: $(cat /proc/$(cut -d' ' -f1 $step/pid)/comm)"
rm /out/wait-driver; for _ in $(seq 600); do test -e $step/code && break; sleep 0.1; done
test -e /run/npudoctor/hands-off || echo "hands-off: lifted"
npudoctor setup --attach; echo "attach: $?"
cat /var/lib/ran-driver /var/lib/ran-firmware; ls /run/npudoctor
"""
AFTER = """
cp -a /node/dev/. /dev/
cp /etc/machine-id /root/id; umount /etc/machine-id 2>/dev/null; echo 00000000000000000000000000000001 >/etc/machine-id
npudoctor setup --resume; echo "clone: $?"
cp /root/id /etc/machine-id
npudoctor setup --resume; echo "resume: $?"
npudoctor history
wc -l </var/lib/ran-firmware
"""


FAULTS = f"""
setup() {{ npudoctor setup --packages /repo {WORDS} | tail -1; }}
mkdir -p /var/lib/npudoctor; mount -t tmpfs -o size=12k tmpfs /var/lib/npudoctor
npudoctor setup --packages /repo {WORDS} >/dev/null; echo "full: $?"
umount /var/lib/npudoctor
cp -a /node/holder /dev/davinci9; sleep 600 </dev/davinci9 & holder=$!
npudoctor setup --packages /repo {WORDS} >/dev/null; echo "held: $?"
kill $holder; rm /dev/davinci9
mkdir -p /run/npudoctor; echo "by hand" >/run/npudoctor/hands-off
npudoctor setup --packages /repo {WORDS} >/dev/null; echo "by hand: $?"
rm /run/npudoctor/hands-off; ls /var/lib/ran-driver
touch /out/wait-driver
setup >/out/killed & person=$!
for _ in $(seq 600); do test -e /var/lib/ran-driver && break; sleep 0.1; done
for one in /proc/[0-9]*; do grep -qs '^bash' $one/cmdline && kill -KILL ${{one#/proc/}}; done
wait $person; cat /out/killed; rm /var/lib/ran-driver
setup >/out/killed & person=$!
for _ in $(seq 600); do test -e /var/lib/ran-driver && break; sleep 0.1; done
systemctl kill --signal=KILL 'npudoctor-install-*'; wait $person; cat /out/killed
ls /run/npudoctor; rm /out/wait-driver
setup; cat /var/lib/ran-driver /var/lib/ran-firmware
npudoctor history | grep -c replaced
"""


WITHOUT = f"""
touch /out/wait-driver
setsid $NPU setup --packages /repo {WORDS} >/dev/null 2>&1 & person=$!
for _ in $(seq 600); do test -e /var/lib/ran-driver && break; sleep 0.1; done
kill -HUP $person; wait $person; echo "hung up: $?"
setsid $NPU setup --attach >/out/attached 2>&1 & person=$!
for _ in $(seq 600); do grep -q '  |' /out/attached && break; sleep 0.1; done
kill -TERM $person; wait $person; echo "ended: $?"
rm /out/wait-driver
npudoctor setup --attach; echo "attach: $?"
cat /var/lib/ran-driver /var/lib/ran-firmware
"""


DOWN = f"""
touch /out/wait-driver
systemd-run -q --unit=person --setenv=PATH=$PATH --setenv=PYTHONPATH=$PYTHONPATH $NPU setup --packages /repo {WORDS}
for _ in $(seq 600); do test -e /var/lib/ran-driver && break; sleep 0.1; done
touch /out/asked; systemctl poweroff --no-block; sleep 600
"""


class Node:
    """A bare node that boots, runs a script and powers off."""

    def __init__(self, folder: Path, debian: Path) -> None:
        needs("systemd-nspawn")
        self.root, self.out = folder / "root", folder / "out"
        self.out.mkdir()
        subprocess.run(["cp", "-a", "--reflink=auto", str(debian), str(self.root)], check=True)
        try:
            installation.make(self.root)
            os.mknod(self.root / "node" / "holder", 0o660 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
        (self.root / "etc/systemd/system/proof.service").write_text(PROOF, encoding="utf-8")
        wants = self.root / "etc/systemd/system/multi-user.target.wants/proof.service"
        wants.parent.mkdir(exist_ok=True)
        wants.symlink_to("/etc/systemd/system/proof.service")

    def boot(self, script: str, *, systemd: bool = True) -> str:
        said = installation.boot(self.root, self.out, script, limit_s=300, systemd=systemd)
        if said is None:
            pytest.skip("no systemd boots in a container here")
        return said


def test_a_full_disk_a_holder_and_a_killed_installer_under_systemd(tmp_path: Path, debian: Path) -> None:
    said = Node(tmp_path, debian).boot(FAULTS)
    assert "full: 7\n" in said and "No space left on device" in said
    assert "NPUs are held by sleep pid " in said and "held: 7\n" in said
    assert "maintenance: by hand" in said and "by hand: 7\n" in said
    assert "cannot access '/var/lib/ran-driver'" in said
    assert "INTERRUPTED at step 1: its installer was ended by signal 9\n" in said
    assert "INTERRUPTED at step 1: its installer was ended, or the node went down: its exit code is not known\n" in said
    assert "\nhands-off\n" not in said
    ends = "NOT READY: reboot the node, then npudoctor setup --resume\n--full root /\n--full root /\n--full root /\n"
    assert ends in said


def test_from_a_bare_node_through_a_kill_and_a_reboot(tmp_path: Path, debian: Path) -> None:
    node = Node(tmp_path, debian)
    said = node.boot(CUT)
    assert "unit: active\n" in said
    assert "KillMode=process\nRuntimeMaxUSec=infinity\nSendSIGKILL=no\nTimeoutStopUSec=infinity\n" in said
    assert "\nstop: 124\nunit: deactivating\n1\n" in said
    assert "unhealthy: maintenance: NPU driver 23.0.5 is being installed" in said
    assert "fix: 7\nresume: 7\npid: sh\nhands-off: lifted\n" in said
    assert said.count("Driver package installed successfully") == 1
    assert "NOT READY: reboot the node, then npudoctor setup --resume\nattach: 1\n" in said
    assert said.endswith("\n--full root /\n--full root /\n")
    said = node.boot(AFTER)
    assert "clone: 7\n" in said
    assert "READY\nresume: 0\n" in said and "NOT READY" not in said
    assert "  done  root (uid 0)  NPU driver 23.0.5 and NPU firmware 7.1.0.7.220" in said
    assert said.endswith("\n1\n")


def test_without_systemd_a_lost_terminal_leaves_the_installer_running(tmp_path: Path, debian: Path) -> None:
    said = Node(tmp_path, debian).boot(WITHOUT, systemd=False)
    assert "hung up: 129\n" in said and "ended: 143\n" in said
    assert said.count("Driver package installed successfully") == 1
    assert (
        "NOT READY: reboot the node, then npudoctor setup --resume\nattach: 1\n--full root /\n--full root /\n" in said
    )


def test_a_shutdown_waits_for_the_installer(tmp_path: Path, debian: Path) -> None:
    node = Node(tmp_path, debian)

    def go_on() -> None:
        while not (node.out / "asked").exists():
            time.sleep(0.1)
        time.sleep(5.0)
        (node.out / "wait-driver").unlink()

    threading.Thread(target=go_on, daemon=True).start()
    node.boot(DOWN)
    [code] = node.root.glob("var/lib/npudoctor/runs/*/step-1/code")
    assert code.read_text() == "  0\n"
    assert (node.root / "usr/local/Ascend/driver/version.info").exists()
