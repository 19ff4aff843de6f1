"""HCCL's network side live, in a network namespace: real kernel settings, sockets with owners, interfaces and files.

Files come from a folder that stands for the node's own (`--root`); the kernel's settings are those of the namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.facts.network.ports import PortRanges
from npudoctor.sim import simulate

RESERVED = "net.ipv4.ip_local_reserved_ports"
EPHEMERAL = "net.ipv4.ip_local_port_range"
NODES = ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{number}" for number in range(8)))
SETTINGS = ("etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d")
LISTEN = """
import socket, sys
held = []
for word in sys.argv[1:]:
    one = socket.create_server(("0.0.0.0", int(word.split(">")[0]))) if ">" not in word else socket.socket()
    if ">" in word:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", int(word.split(">")[0])))
        one.connect(("127.0.0.1", int(word.split(">")[1])))
    held.append(one)
print("ready", flush=True)
sys.stdin.read()
"""


class Namespace:
    """A network of its own, with a folder that stands for the node's files."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        for folder in (*SETTINGS, "dev", "proc/sys", "proc/net", "proc/self", "usr/local"):
            (root / folder).mkdir(parents=True)
        for node in NODES:
            (root / "dev" / node).touch()
        tool = root / "usr/local/bin/npu-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(
            "#!/bin/sh\ncat <<'END'\n" + simulate("healthy-910a").run(["npu-smi", "info"]).stdout + "END\n",
            encoding="utf-8",
        )
        tool.chmod(0o755)

    def run(self, *words: str) -> None:
        """A command in the namespace."""
        subprocess.run(["ip", "netns", "exec", self.name, *words], check=True, capture_output=True)

    def sysctl(self, key: str, value: str) -> None:
        self.run("sh", "-c", f"printf '%s\\n' '{value}' > /proc/sys/{key.replace('.', '/')}")

    def link(self, name: str, address: str | None, *, up: bool = True) -> None:
        """A pair of interfaces, of which one is the node's; it is up where both are."""
        self.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"veth{name}")
        if address:
            self.run("ip", "addr", "add", address, "dev", name)
        if up:
            for each in (name, f"veth{name}"):
                self.run("ip", "link", "set", each, "up")

    @contextlib.contextmanager
    def holding(self, *ports: str) -> Iterator[int]:
        """A process that listens on ports, or is connected from one to another (`60004>60003`); its pid."""
        with subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, "-c", LISTEN, *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder:
            assert holder.stdout is not None and holder.stdin is not None
            assert holder.stdout.readline() == b"ready\n"
            try:
                yield holder.pid
            finally:
                holder.stdin.close()
                holder.wait(60)

    def check(self, id: str, **environ: str) -> Any:
        """The result of one check, as the command line gives it in the namespace."""
        words = [sys.executable, "-m", "npudoctor", "check", "--json", "--role", "full", "--root", str(self.root), id]
        mounts = f"mount --bind /proc/sys {self.root}/proc/sys && mount --bind /proc/$$/net {self.root}/proc/net"
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, "sh", "-c", f'{mounts} && exec "$@"', "sh", *words],
            env={
                "PATH": f"{self.root}/usr/local/bin:{os.environ['PATH']}",
                "HOME": "/root",
                "TERM": "xterm",
                **environ,
            },
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.stdout, done.stderr
        return next(one for one in json.loads(done.stdout)["results"] if one["check"] == id)

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text, encoding="utf-8")


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[Namespace]:
    """A fresh one, where this machine lets us make one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network namespace needs root and iproute2")
    name = f"npudoctor-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, encoding="utf-8", check=False)
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    try:
        own = Namespace(name, tmp_path / "node")
        own.sysctl("net.ipv6.conf.all.disable_ipv6", "1")
        own.run("ip", "link", "set", "lo", "up")
        probe = subprocess.run(
            ["ip", "netns", "exec", name, "sh", "-c", f"mount --bind /proc/sys {own.root}/proc/sys && echo '' > "
             f"/proc/sys/{RESERVED.replace('.', '/')}"],
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        if probe.returncode:
            pytest.skip(f"the namespace's kernel settings cannot be written here: {probe.stderr.strip()}")
        yield own
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def severities(result: Any) -> list[str]:
    return [finding["severity"] for finding in result["findings"]]


def test_what_the_kernel_reserves_is_what_counts(namespace: Namespace) -> None:
    id = "hccl.ports-reserved"
    first = namespace.check(id)
    assert severities(first) == ["warning"]
    assert first["findings"][0]["commands"][0] == f"sudo sysctl -w {RESERVED}=60000-60031"
    namespace.sysctl(RESERVED, "60000-60015,40000")
    assert severities(namespace.check(id)) == ["info"]
    namespace.sysctl(RESERVED, "60000-60031")
    assert namespace.check(id)["findings"] == []
    assert severities(namespace.check(id, HCCL_IF_BASE_PORT="50000")) == ["warning"]
    namespace.sysctl(EPHEMERAL, "20000 40000")
    moved = namespace.check(id, HCCL_IF_BASE_PORT="50000")["findings"][0]
    assert (moved["severity"], moved["code"]) == ("info", "hccl.ports-reserved/not-needed")


def test_the_files_are_read_in_the_order_of_a_boot(namespace: Namespace) -> None:
    id = "hccl.ports-persistent"
    assert namespace.check(id)["blocked_by"] == "hccl.ports-reserved"
    namespace.sysctl(RESERVED, "60000-60031")
    assert "running kernel only" in namespace.check(id)["findings"][0]["detail"]
    namespace.write("usr/lib/sysctl.d/60-hccl.conf", f"{RESERVED} = 60000-60031\n")
    assert namespace.check(id)["findings"] == []
    namespace.write("etc/sysctl.d/90-site.conf", "# of the site\nnet/ipv4/ip_local_reserved_ports = 30000\n")
    undone = namespace.check(id)["findings"][0]
    assert "Line 2 of /etc/sysctl.d/90-site.conf is applied last" in undone["detail"]
    namespace.write("run/sysctl.d/95-again.conf", f"-{RESERVED}=60000-60031\n")
    assert namespace.check(id)["findings"] == []
    namespace.write("etc/sysctl.conf", f"{RESERVED} =\n")
    assert "/etc/sysctl.conf is applied last" in namespace.check(id)["findings"][0]["detail"]
    (namespace.root / "etc/sysctl.conf").unlink()
    (namespace.root / "etc/sysctl.d/95-again.conf").symlink_to("/dev/null")
    assert severities(namespace.check(id)) == ["warning"]


def test_who_holds_a_port_is_named(namespace: Namespace) -> None:
    id = "hccl.ports-free"
    assert namespace.check(id)["status"] == "ok"
    with namespace.holding("60003", "60031", "61000") as pid:
        result = namespace.check(id)
        first, second = result["findings"]
        assert (first["severity"], second["severity"]) == ("error", "info")
        assert "60003" in first["summary"] and f"pid {pid}, root" in first["summary"]
        assert "60031" in second["summary"]
        named = sys.executable if re.fullmatch(r"[\w./-]+", sys.executable) else "(+"  # a path with spaces is not kept
        assert any(named in (one["actual"] or "") for one in first["evidence"])
        assert namespace.check(id, HCCL_IF_BASE_PORT="50000")["findings"] == []
        assert severities(namespace.check(id, HCCL_HOST_SOCKET_PORT_RANGE="60900-61000")) == ["error"]
    assert namespace.check(id)["findings"] == []


def test_an_outgoing_connection_holds_its_port_too(namespace: Namespace) -> None:
    with namespace.holding("9999", "60004>9999"):
        finding = namespace.check("hccl.ports-free")["findings"][0]
    assert (finding["severity"], finding["code"]) == ("error", "hccl.ports-free/taken")
    assert "60004 in use by an outgoing connection" in finding["summary"]


def test_the_port_on_which_ranks_meet_is_looked_at(namespace: Namespace) -> None:
    id = "env.master-port"
    with namespace.holding("29500") as pid:
        assert f"pid {pid}" in namespace.check(id)["findings"][0]["summary"]
        assert namespace.check(id, MASTER_PORT="29611")["findings"] == []
        assert severities(namespace.check(id, MASTER_PORT="60002")) == ["error"]


@pytest.mark.parametrize(
    ("rule", "severity", "code", "params"),
    [
        (None, "info", "first-by-name", {"interface": "bond7", "address": "10.77.2.1"}),
        ("eth7", None, "", {}),
        ("eth", "info", "several-match", {"interfaces": ["eth7", "eth70"], "interface": "eth7"}),
        ("=eth70", None, "", {}),
        ("=eth", "error", "name-elsewhere", {}),
        ("^bond", "warning", "loopback", {"interface": "lo"}),
        ("^bond,lo", None, "", {}),
        ("eth9", "error", "name-down", {"interfaces": ["eth9"]}),
        ("eth8", "error", "name-down", {"interfaces": ["eth8"]}),
        ("ib", "error", "name-elsewhere", {}),
    ],
)
def test_the_interface_that_hccl_would_take_is_named(
    namespace: Namespace, rule: str | None, severity: str | None, code: str, params: dict[str, Any]
) -> None:
    namespace.link("eth7", "10.77.1.1/24")
    if rule != "eth7":
        namespace.link("eth70", "10.77.3.1/24")
    namespace.link("bond7", "10.77.2.1/24")
    namespace.link("eth9", "10.77.9.1/24", up=False)
    namespace.link("eth8", None)
    result = namespace.check("hccl.interface", **({"HCCL_SOCKET_IFNAME": rule} if rule else {}))
    assert severities(result) == ([severity] if severity else [])
    for finding in result["findings"]:
        assert finding["code"] == f"hccl.interface/{code}"
        assert params.items() <= finding["params"].items()


def test_the_way_to_the_other_nodes_is_the_routing_table_s(namespace: Namespace) -> None:
    namespace.link("bond7", "10.77.2.1/24")
    namespace.link("eth7", "10.77.1.1/24")
    namespace.run("ip", "route", "add", "10.99.0.0/16", "via", "10.77.1.254")
    id = "hccl.interface"
    assert namespace.check(id, MASTER_ADDR="10.77.2.9")["findings"] == []
    for master in ("10.77.1.9", "10.99.3.4"):
        finding = namespace.check(id, MASTER_ADDR=master)["findings"][0]
        assert finding["severity"] == "warning"
        assert finding["summary"] == f"HCCL uses bond7 (10.77.2.1), but the route to {master} is eth7"
        assert namespace.check(id, MASTER_ADDR=master, HCCL_SOCKET_IFNAME="=eth7")["findings"] == []


def test_an_address_is_one_of_this_node_or_an_error(namespace: Namespace) -> None:
    namespace.link("eth7", "10.77.1.1/24")
    namespace.link("eth9", "10.77.9.1/24", up=False)
    id = "hccl.interface"
    assert namespace.check(id, HCCL_IF_IP="10.77.1.1")["findings"] == []
    for address, code in (("10.77.1.2", "address-elsewhere"), ("10.77.9.1", "address-down")):
        finding = namespace.check(id, HCCL_IF_IP=address)["findings"][0]
        assert (finding["severity"], finding["code"]) == ("error", f"hccl.interface/{code}")


def test_nothing_was_left_reserved_for_others() -> None:
    """The settings of a namespace are its own: this machine's are untouched."""
    here = Path("/proc/sys") / RESERVED.replace(".", "/")
    if not here.exists():
        pytest.skip("this kernel reserves no ports")
    assert not PortRanges.of((60900, 61000)) & PortRanges.parse(here.read_text(encoding="utf-8")) or os.geteuid() != 0
