"""A copy of this machine in namespaces of its own, with the files and tools of a simulated node laid over it.

Everything in it is real but the cards: files on an overlay, kernel settings of a network namespace, mounts, users,
shells. What is done in it is gone with it, and the machine below never sees it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from npudoctor import sim
from npudoctor.host.simulated.host import SimulatedHost

REPOSITORY = Path(__file__).resolve().parents[2]
NPUDOCTOR = os.path.join(sys.prefix, "bin", "npudoctor")
FAKE = "/opt/fake-node"
HOME = "/home/admin"
EMPTIED = ("/tmp/", "/run/")
SCRIPT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs none "$PLACE"
mkdir "$PLACE/up" "$PLACE/work" "$PLACE/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$PLACE/up,workdir=$PLACE/work" "$PLACE/root"
cd "$PLACE/root"
mount --rbind /proc proc
mount --rbind /sys sys
mount -t tmpfs none dev
mkdir dev/shm dev/pts
mount -t tmpfs -o size=16g none dev/shm
for one in null:1:3 zero:1:5 random:1:8 urandom:1:9 tty:5:0; do
  IFS=: read -r name major minor <<END
$one
END
  mknod -m 666 "dev/$name" c "$major" "$minor"
done
ln -s /proc/self/fd dev/fd
mount -t tmpfs none run
mount -t tmpfs none tmp
chmod 1777 tmp
ip link set lo up 2>/dev/null || true
rm -rf .dockerenv home/admin
mkdir home/admin
cp etc/skel/.[a-z]* home/admin/
sed -i 's#^\(root:[^:]*:0:0:[^:]*\):[^:]*:.*#\1:/home/admin:/bin/bash#' etc/passwd
chmod o+x root
for one in $BESIDE; do mkdir -p "./$one"; mount --rbind "$one" "./$one"; done
echo ready
exec sleep infinity
"""


class Machine:
    """Where commands run, as in a shell on that machine."""

    def __init__(self, root: str, holder: int) -> None:
        self.root = root
        self.enter = ("nsenter", "-t", str(holder), "-m", "-n", "-u", "chroot", root)

    def run(
        self,
        *argv: str,
        environ: Mapping[str, str] | None = None,
        user: str = "",
        cwd: str = "/",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with these variables and no others; the output is text."""
        words = ["env", "-i", "-C", cwd]
        words += [f"{name}={value}" for name, value in {"HOME": HOME, "PATH": os.defpath, **(environ or {})}.items()]
        words += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        return subprocess.run(
            [*self.enter, *words, "timeout", "-k", "1", "100", *argv],
            capture_output=True,
            encoding="utf-8",
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def npudoctor(
        self, *words: str, environ: Mapping[str, str] | None = None, user: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run npudoctor."""
        path = {"PATH": f"/usr/local/bin:{os.defpath}", "LANG": "C.UTF-8"}
        return self.run(NPUDOCTOR, *words, environ={**path, **(environ or {})}, user=user)

    def shell(self, script: str) -> str:
        """What a script prints; it must end well."""
        done = self.run("sh", "-ec", script, environ={"PATH": f"/usr/sbin:/sbin:{os.defpath}"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, path: str, content: bytes | str, mode: int = 0o644) -> None:
        """Write a file on that machine."""
        data = content.encode() if isinstance(content, str) else content
        words = [*self.enter, "sh", "-ec", 'mkdir -p "$(dirname "$1")"; cat >"$1"; chmod "$2" "$1"', "-"]
        subprocess.run([*words, path, f"{mode:o}"], input=data, check=True)

    def read(self, path: str) -> str:
        """The text of a file."""
        return self.shell(f"cat '{path}'")

    def state(self, *folders: str) -> str:
        """Every path below some folders with kind, mode, owner and a sum of its content."""
        listed = "-printf '%y %m %u %g %p %l\\n'"
        find = f"find {' '.join(folders)} -name __pycache__ -prune -o -path /var/lib/npudoctor -prune -o"
        sums = f"{find} -type f -exec sha256sum {{}} +"
        return self.shell(f"{{ {find} {listed}; {sums}; }} | grep -v /.cache | sort")


@contextlib.contextmanager
def machine(place: Path) -> Iterator[Machine]:
    """A copy of this machine; skips where this user cannot make one."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "chroot", "setpriv", "mount"))):
        pytest.skip("only root, with util-linux, can copy this machine into namespaces")
    device = os.stat("/").st_dev
    wanted = [str(path) for path in (REPOSITORY, sys.prefix, sys.base_prefix)]
    beside = [path for path in wanted if os.stat(path).st_dev != device or path.startswith(EMPTIED)]
    holder = subprocess.Popen(
        ["unshare", "-m", "-n", "-u", "bash", "-c", SCRIPT],
        env={**os.environ, "PLACE": str(place), "BESIDE": " ".join(beside)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"this machine cannot be copied: {holder.stderr.read().strip()[-200:]}")
        yield Machine(f"{place}/root", holder.pid)
    finally:
        holder.kill()
        holder.communicate()


def lay_over(copy: Machine, scenario: str, scratch: Path) -> SimulatedHost:
    """Put the driver, CANN, tools and cards of a simulated node onto the machine."""
    host = sim.simulate(scenario)
    sim.write_tools(host, str(scratch / "tools"))
    archive = subprocess.run(["tar", "-C", str(scratch), "-c", "tools"], capture_output=True, check=True).stdout
    subprocess.run([*copy.enter, "sh", "-ec", f"mkdir -p {FAKE}; tar -C {FAKE} -x"], input=archive, check=True)
    copy.shell(
        f"cd {FAKE}/tools\n"
        "hostname new-node\n"
        "mount -t tmpfs none /sys/bus/pci/devices\n"
        "cp -a root/sys/bus/pci/devices/. /sys/bus/pci/devices/\n"
        "cp -a root/usr/local/Ascend /usr/local/\n"
        "find root/etc -maxdepth 1 -iname 'ascend*' -exec cp {} /etc/ \\;\n"
        "for one in npu-smi hccn_tool; do\n"
        "  printf '#!/bin/sh\\nexec %s \"$@\"\\n' $PWD/bin/$one >/usr/local/bin/$one\n"
        "  chmod 755 /usr/local/bin/$one; done\n"
        "for one in root/dev/*; do name=${one#root/dev/}; case $name in davinci[0-9]*) minor=${name#davinci};;\n"
        "  davinci*|hisi*|devmm*) minor=200;; *) continue;; esac; mknod -m 660 /dev/$name c 236 $minor; done\n"
    )
    for path, target in host.tree.links.items():
        if path.startswith("/usr/local/Ascend"):
            copy.shell(f"mkdir -p $(dirname {path}); ln -sfn {target} {path}")
    return host
