"""A whole systemd boots, in a container of its own: the service is installed, watched, removed, brought back. Slow."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from npudoctor.daemon import state

from .conftest import Cards, needs
from .test_page import marked

pytestmark = pytest.mark.slow

BOOT_S = 300
PROOF = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /out/proof.sh
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/out/said
StandardError=file:/out/said
TimeoutStartSec=240
[Install]
WantedBy=multi-user.target
"""
ASK = "curl -s --max-time 10 --unix-socket /run/npudoctor/npudoctor.sock http://npudoctor"


REFUSED = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def said(name, result):
    print(name, "allowed" if result >= 0 else os.strerror(ctypes.get_errno()))
def family(number):
    try:
        socket.socket(number, socket.SOCK_DGRAM).close()
        return "allowed"
    except OSError as problem:
        return problem.strerror
said("mount", libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
said("swapoff", libc.swapoff(b"/none"))
said("clock_settime", libc.clock_settime(0, (ctypes.c_long * 2)(1, 0)))
said("unshare", libc.unshare(0x20000))
said("ptrace", libc.ptrace(0, 0, 0, 0))
for name in ("AF_PACKET", "AF_ALG", "AF_VSOCK", "AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"):
    print(name, family(getattr(socket, name)))
"""
"""Run under the hardening of a unit: what its filters refuse, and what they leave."""

UNDER = """
own='^(Exec|Type|Watchdog|Restart|Runtime|State|Timeout|RemainAfter)'
started='Type=oneshot\\nExecStart=/opt/npudoctor/bin/python /out/refused.py\\nStandardOutput=file:/out/refused'
sed -E "/$own/d; /^\\[Service\\]/a $started" /etc/systemd/system/npudoctor.service >/run/systemd/system/refused.service
systemctl daemon-reload; systemctl start refused.service; cat /out/refused
"""


class Node:
    """A Debian with systemd, npudoctor and two simulated cards, which runs a script when it has booted."""

    def __init__(self, folder: Path, debian: Path, wheels: Path, cards: Cards) -> None:
        self.root = folder / "root"
        self.out = folder / "out"
        self.cards = cards
        self.out.mkdir()
        subprocess.run(["cp", "-a", "--reflink=auto", str(debian), str(self.root)], check=True)
        shutil.copytree(wheels, self.root / "wheels")
        self._inside("python3", "-m", "venv", "/opt/npudoctor")
        pip = ("/opt/npudoctor/bin/pip", "install", "-q", "--no-index", "--find-links", "/wheels", "npudoctor[daemon]")
        self._inside("env", "-i", "PATH=/usr/bin:/bin", *pip)
        (self.root / "usr/local/bin/npudoctor").symlink_to("/opt/npudoctor/bin/npudoctor")
        well = cards.folder / "well"
        for tool in ("npu-smi", "lsmod"):
            shutil.copy(well / "bin" / tool, self.root / "usr/local/bin")
        shutil.copytree(well / "root/usr/local/Ascend", self.root / "usr/local/Ascend", symlinks=True)
        shutil.copy(well / "root/etc/ascend_install.info", self.root / "etc")
        (self.root / "usr/local/commands").mkdir()
        (self.root / "etc/systemd/system/proof.service").write_text(PROOF, encoding="utf-8")
        wants = self.root / "etc/systemd/system/multi-user.target.wants/proof.service"
        wants.parent.mkdir(exist_ok=True)
        wants.symlink_to("/etc/systemd/system/proof.service")

    def _inside(self, *argv: str) -> None:
        subprocess.run(["chroot", str(self.root), *argv], check=True)

    def boot(self, script: str) -> dict[str, str]:
        """Boot, run the script, power off; what each `## name` part of the script printed."""
        (self.out / "refused.py").write_text(REFUSED, encoding="utf-8")
        (self.out / "proof.sh").write_text(re.sub(r"^## (.+)$", r"echo '## \1'", script, flags=re.M), encoding="utf-8")
        (self.out / "said").unlink(missing_ok=True)
        nodes = [f"--bind={node}:/dev/{node.name}" for node in sorted((self.cards.folder / "dev").iterdir())]
        answers = [f"--bind={self.cards.folder}/commands:/usr/local/commands", f"--bind={self.out}:/out"]
        alone = ["--register=no", "--keep-unit", "--private-network", "--quiet"]
        argv = ["systemd-nspawn", "-b", "-D", str(self.root), *alone, *nodes, *answers]
        with open(self.out / "console", "wb") as console:
            ran = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=BOOT_S, check=False
            )
        if not (self.out / "said").exists():
            lines = (self.out / "console").read_text(errors="replace").splitlines() or [f"exit {ran.returncode}"]
            pytest.skip(f"no systemd boots in a container here: {lines[-1]}")
        parts = re.split(r"^## (.+)\n", (self.out / "said").read_text(encoding="utf-8"), flags=re.M)
        return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, debian: Path, wheels: Path) -> Node:
    needs("systemd-nspawn", "chroot")
    folder = tmp_path_factory.mktemp("node")
    (folder / "cards").mkdir()
    try:
        cards = Cards(folder / "cards")
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    return Node(folder, debian, wheels, cards)


READY = f"""
for _ in $(seq 100); do {ASK}/readyz | grep -q '"ready":true' && break; sleep 0.2; done
"""


FILTERED = [
    "mount Operation not permitted",
    "swapoff Operation not permitted",
    "clock_settime Operation not permitted",
    "unshare Operation not permitted",
    "ptrace Operation not permitted",
    "AF_PACKET Address family not supported by protocol",
    "AF_ALG Address family not supported by protocol",
    "AF_VSOCK Address family not supported by protocol",
    *(f"{name} allowed" for name in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK")),
]


def _known(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """What each check has found out, but for what differs between a service and a shell by its nature."""
    own = ("hccl.", "system.limits", "system.rights")
    return {
        row["check"]: (row["status"], row["because"]) for row in report["results"] if not row["check"].startswith(own)
    }


def test_the_service_is_installed_watched_removed_and_brought_back(node: Node) -> None:
    said = node.boot(f"""
umount /proc/sys/kernel/random/boot_id  # the one of systemd-nspawn's own, which no real node has
## preview
{marked("systemd")}
ls /etc/systemd/system
## install
npudoctor service install --yes --command /usr/local/bin/npudoctor 2>&1; echo "exit $?"
systemctl is-active npudoctor.service; systemctl is-enabled npudoctor.service
## again
npudoctor service install --yes --command /usr/local/bin/npudoctor; echo "exit $?"
## ready
{READY}{ASK}/readyz; echo
## metrics
{ASK}/metrics | grep -E '^npudoctor_card_health'
## hardening
pid=$(systemctl show -p MainPID --value npudoctor.service)
grep -E '^(NoNewPrivs|CapBnd|Seccomp):' /proc/$pid/status
for path in / /etc /root /var/lib/npudoctor /run/npudoctor /var/log; do
    nsenter -t $pid -m sh -c "[ -w $path ] && touch $path/x 2>/dev/null && rm $path/x && echo 'writes $path'"
done
nsenter -t $pid -m sh -c 'ls /dev | grep davinci; ls /proc | grep -cx 1'
## filters
{UNDER}
## same
npudoctor check --profile quick --json --environment login >/out/shell.json
{ASK}/v1/report?profile=quick >/out/daemon.json
## files
stat -c '%a %U %n' /run/npudoctor /run/npudoctor/npudoctor.sock /run/npudoctor/state.json /var/lib/npudoctor
cp /run/npudoctor/state.json /out/state.json
## healthcheck
npudoctor healthcheck; echo "exit $?"
## killed
inode=$(stat -c %i /run/npudoctor)
kill -9 $pid; sleep 7
{READY}systemctl is-active npudoctor.service; systemctl show -p NRestarts --value npudoctor.service
[ "$inode" = "$(stat -c %i /run/npudoctor)" ] && echo 'the folder is the same'
## hangs
mkdir /run/systemd/system/npudoctor.service.d
printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/npudoctor.service.d/often.conf
systemctl daemon-reload; systemctl restart npudoctor.service; sleep 6
systemctl show -p NRestarts --value npudoctor.service
kill -STOP $(systemctl show -p MainPID --value npudoctor.service); sleep 11
{READY}systemctl show -p NRestarts --value npudoctor.service; systemctl is-active npudoctor.service
rm -r /run/systemd/system/npudoctor.service.d; systemctl daemon-reload
## reload
systemctl reload npudoctor.service; sleep 1; systemctl is-active npudoctor.service
## remove
npudoctor service remove --yes 2>&1; echo "exit $?"
systemctl is-active npudoctor.service; ls /etc/systemd/system; ls -d /run/npudoctor /var/lib/npudoctor
## undo
npudoctor undo 2>&1; echo "exit $?"
systemctl is-active npudoctor.service; systemctl is-enabled npudoctor.service
## undo again
npudoctor undo 2>&1; echo "exit $?"
systemctl is-active npudoctor.service; ls /etc/systemd/system
## broken
npudoctor service install --yes --command /bin/false 2>&1; echo "exit $?"
systemctl is-active npudoctor.service; ls /etc/systemd/system
""")
    assert "npudoctor-setup.service" not in said["preview"].splitlines(), "a preview writes nothing"
    assert "+Type=notify" in said["preview"]
    assert said["install"].endswith("exit 0\nactive\nenabled\n"), said["install"]
    assert "already applied; nothing to change\nexit 0\n" in said["again"]
    assert json.loads(said["ready"])["ready"] is True
    assert said["metrics"].count(" 0.0\n") == 2
    hardened = said["hardening"]
    assert "NoNewPrivs:\t1" in hardened
    assert "Seccomp:\t2" in hardened
    assert int(re.search(r"CapBnd:\t(\w+)", hardened)[1], 16) & 1 << 21 == 0, "no CAP_SYS_ADMIN"  # type: ignore[index]
    writes = re.findall("writes (.+)", hardened)
    assert writes == ["/var/lib/npudoctor", "/run/npudoctor", "/var/log"]
    assert hardened.endswith("davinci0\ndavinci1\ndavinci_manager\n1\n"), "cards and processes are seen"
    assert said["filters"].splitlines() == FILTERED
    shell, daemon = (
        json.loads((node.out / name).read_text(encoding="utf-8")) for name in ("shell.json", "daemon.json")
    )
    assert _known(daemon) == _known(shell), "the hardening takes no fact from the daemon"
    assert said["files"].splitlines()[:3] == [
        "755 root /run/npudoctor",
        "660 root /run/npudoctor/npudoctor.sock",
        "644 root /run/npudoctor/state.json",
    ]
    assert state.read(str(node.out / "state.json")) is not None
    assert re.fullmatch(r"healthy: 2 chips, checked by the daemon \d+ s ago\nexit 0\n", said["healthcheck"])
    assert said["killed"] == "active\n1\nthe folder is the same\n"
    assert said["hangs"] == "0\n1\nactive\n", "the watchdog is fed while it works, and bites when it hangs"
    assert said["reload"] == "active\n"
    assert "exit 0\ninactive\n" in said["remove"]
    assert "npudoctor.service" not in said["remove"].partition("exit 0")[2].split()
    assert "/var/lib/npudoctor" in said["remove"], "the history stays"
    assert said["undo"].endswith("exit 0\nactive\nenabled\n"), said["undo"]
    assert "exit 0\ninactive\n" in said["undo again"]
    assert "npudoctor.service" not in said["undo again"].partition("exit 0")[2].split()
    assert "exit 6\ninactive\n" in said["broken"], said["broken"]
    assert "npudoctor.service" not in said["broken"].partition("exit 6")[2].split()


def test_a_first_boot_makes_the_node_ready_and_the_service_comes_up_with_the_machine(node: Node) -> None:
    node.boot("npudoctor service install --setup --yes --command /usr/local/bin/npudoctor\n")
    said = node.boot(f"""
umount /proc/sys/kernel/random/boot_id
## setup
systemctl show -p Result,ActiveState,ExecMainStatus npudoctor-setup.service | sort
journalctl --no-pager -o cat -u npudoctor-setup.service | grep -x 'manual action required:'
ls /var/lib/npudoctor
## daemon
{READY}systemctl is-active npudoctor.service; npudoctor healthcheck
## mended
touch /var/lib/npudoctor/setup.done
systemctl restart npudoctor-setup.service
systemctl show -p ConditionResult --value npudoctor-setup.service
""")
    assert "ExecMainStatus=1" in said["setup"], "work is manual action required: this node has no CANN"
    assert "Result=exit-code" in said["setup"]
    assert "setup.done" not in said["setup"]
    assert "manual action required:" in said["setup"]
    assert said["daemon"].startswith("active\nhealthy: 2 chips, checked by the daemon")
    assert said["mended"] == "no\n"
