"""Driver and firmware are installed on a bare node under a real systemd, through a kill and a reboot. Slow."""

import subprocess
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
systemd-inhibit --list --no-pager --no-legend | grep -c 'shutdown:sleep.*block'
npudoctor healthcheck
npudoctor fix hccl.reserve-ports --yes >/dev/null 2>&1; echo "fix: $?"
npudoctor setup --resume >/dev/null 2>&1; echo "resume: $?"
(sleep 1; rm /out/wait-driver) &
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


def test_from_a_bare_node_through_a_kill_and_a_reboot(tmp_path: Path, debian: Path) -> None:
    needs("systemd-nspawn")
    root, out = tmp_path / "root", tmp_path / "out"
    out.mkdir()
    subprocess.run(["cp", "-a", "--reflink=auto", str(debian), str(root)], check=True)
    try:
        installation.make(root)
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    (root / "etc/systemd/system/proof.service").write_text(PROOF, encoding="utf-8")
    wants = root / "etc/systemd/system/multi-user.target.wants/proof.service"
    wants.parent.mkdir(exist_ok=True)
    wants.symlink_to("/etc/systemd/system/proof.service")
    said = installation.boot(root, out, CUT, limit_s=300)
    if said is None:
        pytest.skip("no systemd boots in a container here")
    assert "unit: active\n" in said
    assert "KillMode=process\nRuntimeMaxUSec=infinity\nSendSIGKILL=no\nTimeoutStopUSec=infinity\n1\n" in said
    assert "unhealthy: maintenance: NPU driver 23.0.5 is being installed" in said
    assert "fix: 7\nresume: 7\n" in said
    assert said.count("Driver package installed successfully") == 1
    assert "NOT READY: reboot the node, then npudoctor setup --resume\nattach: 1\n" in said
    assert said.endswith("\n--full root /\n--full root /\n")
    said = installation.boot(root, out, AFTER, limit_s=300)
    assert said is not None
    assert "clone: 7\n" in said
    assert "READY\nresume: 0\n" in said and "NOT READY" not in said
    assert "  done  root (uid 0)  NPU driver 23.0.5 and NPU firmware 7.1.0.7.220" in said
    assert said.endswith("\n1\n")
