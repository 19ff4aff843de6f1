"""A bare node for a whole systemd: simulated NPUs on the bus, headers of its kernel, and packages that act on it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from npudoctor.cli import main
from tests.packages.build import tar_gz

from .conftest import MANAGERS

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = "healthy-910a"
DRIVER, FIRMWARE = "23.0.5", "7.1.0.7.220"
HEADER = """#!/bin/bash
# This script was generated using Makeself 2.4.2
label="ASCEND910 {KIND} RUN PACKAGE"
filesizes="{size}"
skip="000"
log() {{ echo "[{Kind}] [2026-05-06 07:08:09] $*"; }}
mode=
for option in "$@"; do
  case "$option" in
    --full|--upgrade) mode=$option ;;
    --quiet|--nox11|--install-for-all) ;;
    *) log "[ERROR]ERR_NO:0x0004;ERR_DES:unrecognized $option"; exit 1 ;;
  esac
done
echo "$mode $USER $PWD" >>/var/lib/ran-{kind}
log "[INFO]Start time: 2026-05-06 07:08:09"
mkdir -p /var/log/ascend_seclog /usr/local/Ascend
echo "[{Kind}] install" >>/var/log/ascend_seclog/ascend_install.log
while test -e /out/wait-{kind}; do sleep 0.1; done
{work}
exit 0
"""
WORK = {
    "driver": """
cp /node/ascend_install.info /etc/ascend_install.info
cp -r /node/driver /usr/local/Ascend/driver.part
chattr +i /usr/local/Ascend/driver.part/version.info 2>/dev/null && chattr -i /usr/local/Ascend/driver.part/version.info
mv /usr/local/Ascend/driver.part /usr/local/Ascend/driver
cp /node/bin/npu-smi /node/bin/lsmod /usr/local/bin/
cp -r /node/commands /usr/local/
cp -a /node/dev/. /dev/
log "[INFO]Driver package installed successfully! The new version takes effect immediately."
""",
    "firmware": """
cp -r /node/firmware /usr/local/Ascend/firmware
log "[INFO]The firmware of [8] chips are successfully upgraded."
log "[INFO]Firmware package installed successfully! Reboot now or after driver installation for it to take effect"
""",
}
INFO = {
    "driver": f"Version={DRIVER}\npackage_version={DRIVER}\ncompatible_version_fw=[7.0.0,7.1.99]\n",
    "firmware": f"Version={FIRMWARE}\nfirmware_version=1.0\ncompatible_version_drv=[20.0.0,99.0.0]\n",
}


def package(folder: Path, kind: str, name: str) -> None:
    """A package whose header says what it is, and which acts on the node."""
    files = {"version.info": INFO[kind], "install.sh": "exit 1\n"}
    if kind == "driver":
        files["scene.info"] = "os=linux\narch=x86_64\n"
    payload = tar_gz(files)
    text = HEADER.format(kind=kind, Kind=kind.title(), KIND=kind.upper(), size=len(payload), work=WORK[kind])
    text = text.replace('skip="000"', f'skip="{text.count(chr(10)):03}"')
    (folder / name).write_bytes(text.encode() + payload)


def make(root: Path) -> None:
    """What a tree of Debian lacks to be that node."""
    repo, node = root / "repo", root / "node"
    for folder in (repo, node, root / "usr/local/Ascend"):
        folder.mkdir()
    package(repo, "driver", f"Ascend-hdk-910-npu-driver_{DRIVER}_linux-x86_64.run")
    package(repo, "firmware", f"Ascend-hdk-910-npu-firmware_{FIRMWARE}.run")
    assert main(["sim", "tools", str(root / "made"), SCENARIO]) == 0
    made = root / "made"
    for kind in ("driver", "firmware"):
        shutil.copytree(made / "root/usr/local/Ascend" / kind, node / kind)
    for one in ("bin", "commands"):
        shutil.copytree(made / one, node / one)
    shutil.copy(made / "root/etc/ascend_install.info", node)
    shutil.copytree(made / "root/sys/bus/pci/devices", root / "pci")
    (node / "dev").mkdir()
    for minor, name in enumerate((*(f"davinci{number}" for number in range(8)), *MANAGERS)):
        os.mknod(node / "dev" / name, 0o660 | stat.S_IFCHR, os.makedev(236, minor))
        os.chown(node / "dev" / name, 0, 1000)
    shutil.copy(made / "bin/systemd-detect-virt", root / "usr/local/bin")
    for tool in ("lspci", "ifconfig", "udevadm", "modprobe", "modinfo", "make", "gcc", "dkms"):
        script = root / "usr/bin" / tool
        script.write_text("#!/bin/sh\n" + (MAKE if tool == "make" else "exit 0\n"), encoding="utf-8")
        script.chmod(0o755)
    headers = root / "usr/lib/modules" / os.uname().release
    (headers / "build").mkdir(parents=True)
    (headers / "modules.dep").touch()
    (headers / "build/Makefile").write_text("all:\n", encoding="utf-8")
    with open(root / "etc/passwd", "a", encoding="utf-8") as file:
        file.write("HwHiAiUser:x:1000:1000::/home/HwHiAiUser:/bin/bash\n")
    with open(root / "etc/group", "a", encoding="utf-8") as file:
        file.write("HwHiAiUser:x:1000:\n")


MAKE = """
for word in "$@"; do case $word in M=*) : >"${word#M=}/npudoctor_empty.ko" ;; esac; done
"""


BEGIN = """
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin PYTHONPATH={root} PYTHONDONTWRITEBYTECODE=1
NPU="{python} -m npudoctor"
npudoctor() {{ $NPU "$@"; }}
cd /
mount --bind /pci /sys/bus/pci/devices
"""


def bindings() -> list[str]:
    """What the container sees of this machine to run npudoctor."""
    return [f"--bind-ro={path}" for path in dict.fromkeys((sys.base_prefix, str(ROOT)))]


def boot(root: Path, out: Path, script: str, *, limit_s: int, systemd: bool = True) -> str | None:
    """Boot, run the script, power off; what it printed, None where no container starts here. Without systemd, the
    script alone runs."""
    (out / "proof.sh").write_text(BEGIN.format(python=sys.executable, root=ROOT) + script, encoding="utf-8")
    said = out / "said"
    said.unlink(missing_ok=True)
    argv = ["systemd-nspawn", "-D", str(root), "--register=no", "--keep-unit", "--private-network", "--quiet"]
    argv += [*bindings(), f"--bind={out}:/out"]
    argv += ["-b"] if systemd else ["--as-pid2", "/bin/sh", "-c", "exec /bin/sh /out/proof.sh >/out/said 2>&1"]
    with open(out / "console", "wb") as console:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=limit_s, check=False)
    return said.read_text(encoding="utf-8") if said.exists() else None
