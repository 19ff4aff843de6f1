"""What in the files of a recording tells who and where a node is: names, addresses and serial numbers, by their places.

A place says what it contains: a field of JSON, a column, a label before a value. Elsewhere nothing is collected, so
that a version of four numbers is not taken for an address.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.host.recording.recorded_node import SLASH
from npudoctor.privacy import names_in_logs, recorded_sources

KEPT_USERS = frozenset(
    {
        *("root", "nobody", "daemon", "bin", "sys", "adm", "mail", "sshd", "dbus", "polkitd", "chrony", "ntp", "redis"),
        *(
            "messagebus",
            "systemd-network",
            "systemd-resolve",
            "systemd-timesync",
            "HwHiAiUser",
            "HwDmUser",
            "HwBaseUser",
        ),
        *("ma-user", "ma-group", "jovyan"),  # of every notebook of ModelArts and JupyterHub
        *(
            "nginx",
            "git",
            "www-data",
            "postgres",
            "mysql",
            "docker",
            "wheel",
            "sudo",
            "users",
            "tty",
            "disk",
            "video",
            "render",
        ),
    }
)
"""Accounts that belong to software and not to a person."""

KEPT_WORDS = frozenset(
    {
        *(
            "user",
            "name",
            "host",
            "node",
            "file",
            "dir",
            "link",
            "char",
            "block",
            "tcp",
            "udp",
            "inet",
            "inet6",
            "live",
        ),
        *(
            "process",
            "login",
            "python",
            "python3",
            "torch",
            "npu",
            "info",
            "kernel",
            "driver",
            "ascend",
            "Ascend",
            "eth0",
        ),
        *("sleeping", "running", "docker", "kubernetes", "v1", "v2", "lo", "up", "down", "UP", "DOWN", "OK", "default"),
        *("dev", "proc", "sys", "etc", "usr", "var", "opt", "lib", "lib64", "run", "tmp", "home", "mnt", "srv", "boot"),
    }
)
"""Names that are words of the tools, of the format and of every file system: they tell nothing, and a parser needs
them."""

KEPT_HOSTS = frozenset({"localhost", "localhost.localdomain", "localhost4", "localhost6", "broadcasthost"})
_NO_KERNEL = r"(?:(?<!\.\d-)(?<!\.\d\d-)(?<!\.\d\d\d-)|(?!(?:\d{1,3}\.){4}[a-z]))"
"""Not the four numbers in a kernel release such as 5.10.0-216.0.0.115.oe2203sp4."""
IPV4 = r"(?<![\w.])" + _NO_KERNEL + r"(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)"
_SERIAL = (
    r"(?im)^[ \t|]{0,40}(?:(?:product|chassis|board)[ _])?"
    r"(?:serial[ _]?(?:number|num|no)?|s/?n|vendor[ _]sn|[vn]?die[ _]?id|uuid|machine-?id)"
    r"[ \t]{0,40}[:=|][ \t]{0,40}(?P<value>[\w-][\w .-]{4,80}\w)[ \t|]{0,40}$"
)
_HOME = r"(?<![\w.-])/(?:home|Users)/([A-Za-z0-9._-]{1,64})(?![\w.-])"
_NAMED_USER = (
    r"(?<![A-Za-z])(?:USER|LOGNAME|SUDO_USER|user|username)=['\"]?(?P<user>[a-z_][a-z0-9_.-]{1,31})(?![\w/])"
    r"|(?<![a-z])uid=\d{1,10}\((?P<id>[^)\s]{1,32})\)"
    r"|(?<![\w./@-])(?P<at>[a-z_][a-z0-9_-]{1,31})@(?P<host>[A-Za-z][A-Za-z0-9.-]{0,252}[A-Za-z0-9])"
)
_USER_IN_PROSE = (
    r"(?<![A-Za-z])(?:[uU]ser(?:[_ -]?[nN]ame)?|[oO]wner|[lL]ogin)['\"]?\s{0,4}[:=]\s{0,4}['\"]?"
    r"(?P<key>[A-Za-z_][\w.-]{1,31})"
    r"(?=['\",;)\]}|]|\s{0,8}$| [/(-])"
    r"|\b(?:logged in as:?|submitted by|owned by) (?:user )?['\"]?(?P<by>[A-Za-z_][\w.-]{1,31})"
    r"|\bAccepted (?:publickey|password|keyboard-interactive\S{0,8}) for (?P<login>[A-Za-z_][\w.-]{1,31})"
    r"|/(?:home|[uU]sers)/(?P<home>[A-Za-z0-9._-]{1,64})(?![\w.-])"
    r"|(?<![\w~/.])~(?P<own>[A-Za-z_][\w.-]{1,31})(?=/)"
)
"""What a log writes of users. A word of the language after `user:` has more words behind it, a name has not."""
_SERIAL_IN_PROSE = (
    r"(?i)(?<![a-z])(?:serial[ _-]?(?:number|num|no)?|s/?n)['\"]?(?:\s{0,4}[:=]|(?<=number)\s)\s{0,4}['\"]?"
    r"(?P<value>[A-Z0-9][\w.-]{4,80})"
)
_SERIAL_ALONE = (
    r"\b(?:[sS]erial|SERIAL|S/N|SN|sn)\s{1,4}(?P<value>(?=[A-Z]{0,40}\d)(?=\d{0,40}[A-Z])[A-Z0-9]{6,40})(?!\w)"
)
_USER_BESIDE = (
    r"\blogged in as:? \S{1,64} \((?P<team>[A-Za-z_][\w.-]{1,63})\)|\bsudo:\s{1,4}(?P<sudo>[A-Za-z_][\w.-]{1,31}) : "
)
_FOLDER = (
    r"(?<![\w.-])(?P<root>/root/(?P<first>[A-Za-z][\w-]{1,63}))(?=/)"
    r"|(?<![\w.-])(?P<named>(?:/[\w.-]{1,64}){1,3}/[A-Za-z][\w-]{0,48}_(?:projects?|work|workspace|codes?|home))(?=/)"
    r"|\bgit@(?P<site>[\w.-]{1,253}):(?P<git>[\w.-]{1,64}(?:/[\w.-]{1,64}){1,4}?)(?=\.git|[\s'\"]|$)"
)
_FOLDERS_OF_TOOLS = re.compile(
    r"(?i)ascend\w{0,16}|atb\w{0,8}|mini(?:conda|forge)\d?|anaconda\d?|envs?|v?env|bin|lib|src|logs?|tmp|te?mp|opt|usr|data\w{0,8}"
    r"|models?|ckpts?|checkpoints?|outputs?|works?|workspaces?|projects?|codes?|scripts?|tests?|train\w{0,8}|kernel_\w{1,32}"
    r"|v?llm\w{0,8}(?:-ascend)?|megatron\w{0,8}|mindspeed\w{0,8}|mindie\w{0,8}|verl|ray_results|torch(?:_npu)?|pytorch|cann\w{0,8}"
)
"""Folders of programs and words, below /root/."""
HEX_ADDRESS = r"(?i)(?<!\w)0x(?:0a[0-9a-f]{2}|ac1[0-f]|c0a8)[0-9a-f]{4}(?!\w)"
"""An address of a private network as HCCL and sockets print it: no error code of CANN or of the driver begins so."""
DASHED = r"(?<![\w-])(?:\d{1,3}-){3}\d{1,3}(?![\w-])"
"""An address as clouds write it into names: 10-20-30-41."""
_LOGIN = (
    r"\bfor user (?P<of>[A-Za-z_][\w.-]{1,31})\b|\bby (?P<by>[A-Za-z_][\w.-]{1,31})\(uid=\d"
    r"|\b(?:Accepted|Failed) [\w/-]{1,32} for (?:invalid user )?(?P<login>[A-Za-z_][\w.-]{1,31}) from\b"
    r"|\bssh (?P<at>[A-Za-z_][\w.-]{1,31})@(?P<host>[A-Za-z][A-Za-z0-9.-]{0,252}[A-Za-z0-9])"
)
"""What sshd, PAM and sudo write of a login, in the log of another program too."""
ROUTES = re.compile(r"/proc/(?:\w{1,16}/)?net/route")
SOCKETS = re.compile(r"/proc/(?:\w{1,16}/)?net/(?:tcp|udp)6?")


class Found:
    """What identifies in the files of a recording, by kind."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.hosts: dict[str, None] = {}
        self.users: dict[str, None] = {}
        self.addresses: set[str] = set()
        self.serials: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        """Paths, and repositories, whose last part names somebody."""
        self.within_words = False
        for name, content in files.items():
            if name.endswith(".json") and name.count("/") == 0:
                self._document(name, json.loads(content))
            elif b"\0" not in content:
                self._text(name, content.decode("utf-8", "replace"))
            self._homes(name.replace(SLASH, "/"))

    def in_prose(self, text: str) -> None:
        """Collect what a log names: addresses, hosts, and users by their home, a variable, an id or a login elsewhere.

        Names of hosts are then also found within other words, such as the name of a log file.
        """
        self.within_words = True
        for name in names_in_logs.hosts(text):
            self.host(name)
        self.addresses |= set(re.findall(IPV4, text))
        self._homes(text)
        for found in re.finditer(_NAMED_USER, text):
            self.user(found["user"] or found["id"] or found["at"])
            if not names_in_logs.is_public(found["host"] or ""):
                self.host(found["host"] or "")
        for found in re.finditer(_USER_IN_PROSE, text, re.MULTILINE):
            name = (found[found.lastgroup or 0]).rstrip(".-")
            if not names_in_logs.is_word(name):
                self.user(name)
        for found in re.finditer(_SERIAL_IN_PROSE, text):
            if re.search(r"\d", found["value"]):
                self.serials.setdefault(found["value"].rstrip(".-"))
        for found in re.finditer(_SERIAL_ALONE, text):
            self.serials.setdefault(found["value"])
        for found in re.finditer(_USER_BESIDE, text):
            self.user(found["team"] or found["sudo"])
        for found in re.finditer(_FOLDER, text, re.MULTILINE):
            path = found["root"] or found["named"] or found["git"]
            if not (found["site"] and names_in_logs.is_public(found["site"])) and not _FOLDERS_OF_TOOLS.fullmatch(
                path.rpartition("/")[2]
            ):
                self.folders.setdefault(path)
        hexadecimal = {in_hexadecimal(one) for one in re.findall(HEX_ADDRESS, text)}
        self.addresses |= {one for one in hexadecimal if not one.startswith("10.0.0.")}
        dashed = {one.replace("-", ".") for one in re.findall(DASHED, text)}
        self.addresses |= {one for one in dashed if is_address(one) and ipaddress.ip_address(one).is_private}

    def _document(self, name: str, said: Any) -> None:
        if name == "bundle.json":
            self.host(said.get("hostname", ""))
            self.user(str(said.get("user", {}).get("name", "")))
            for group in said.get("user", {}).get("groups", ()):
                self.user(group)
            self.user(str(said.get("environment", "")).partition("login:")[2])
        elif name == "host.json":
            for row in said.get("processes", ()):
                self.user(str(row.get("username") or ""))
        elif name == "environ.json":
            for variable in ("USER", "LOGNAME", "SUDO_USER"):
                self.user(said.get(variable, ""))
            self.user(said.get("HOME", "").rstrip("/").rpartition("/")[2])
            self.host(said.get("MASTER_ADDR", ""))
        for text in texts(said):
            self._homes(text)
        if name == "host.json":
            self._addresses(json.dumps([said.get(key) for key in ("interfaces", "sockets")]))
            self._addresses(" ".join(str(row.get("options") or "") for row in said.get("mounts") or ()))
            words = [word for row in said.get("processes") or () for word in row.get("cmdline") or ()]
            self._addresses(" ".join(word for word in words if "/" not in word))  # a path may hold a version
        if name == "environ.json":
            self._addresses(" ".join(value for value in said.values() if "/" not in value or "://" in value))

    def _text(self, name: str, text: str) -> None:
        path = name.removeprefix("root") if name.startswith("root/") else ""
        key = name.removeprefix("commands/").rpartition("/")[0].replace(SLASH, "/") if not path else ""
        self._homes(text)
        for found in re.finditer(_LOGIN, text):
            self.user(found["of"] or found["by"] or found["login"] or found["at"])
            self.host(found["host"] or "")
        if path == "/etc/hosts":
            for line in text.splitlines():
                for word in line.partition("#")[0].split()[1:]:
                    self.host(word)
        if path in ("/etc/passwd", "/etc/group"):
            for line in text.splitlines():
                fields = line.split(":")
                of_person = path == "/etc/passwd" or (
                    len(fields) > 2 and fields[2].isdecimal() and int(fields[2]) > 999
                )
                for member in (*fields[:of_person], *(fields[-1].split(",") if path == "/etc/group" else ())):
                    self.user(member)
        if path == "/etc/hostname":
            self.host(text.strip())
        if "-lldp" in key:
            for found in re.finditer(r"System Name TLV\s{1,8}(\S{1,253})", text):
                self.host(found[1])
        if '"server_id"' in text or '"server_list"' in text:
            for found in re.finditer(r'"(?:server_id|pod_name)":\s?"([^"]{1,253})"', text):
                self.host(found[1])
        identifies = self._identifies(path, key, text)
        if path or recorded_sources.SERIALS in identifies:
            for found in re.finditer(_SERIAL, text):
                value = found["value"].strip()
                if re.search(r"\d", value):
                    self.serials.setdefault(value)
        if ROUTES.fullmatch(path) or SOCKETS.fullmatch(path):
            self.addresses |= {of_hexadecimal(found[0]) for found in re.finditer(HEXADECIMAL, text)}
        elif recorded_sources.ADDRESSES in identifies:
            self._addresses(text)
        elif recorded_sources.TEXT in identifies:
            self._addresses(text, private=True)

    @staticmethod
    def _identifies(path: str, key: str, text: str) -> tuple[str, ...]:
        if path and re.search(r'"(?:server_list|group_list|host_ip)"', text):
            return recorded_sources.RANK_TABLE.identifies
        source = recorded_sources.command(key) if key else recorded_sources.file(path, {path}, {})
        return source.identifies if source else (recorded_sources.TEXT,)

    def host(self, name: str) -> None:
        """Take the name of a host, unless it names no particular one."""
        if (
            name
            and name not in KEPT_WORDS
            and not is_address(name)
            and name.lower() not in KEPT_HOSTS
            and not name.lower().startswith("ip6-")
        ):
            self.hosts.setdefault(name)
            if "." in name and len(name.partition(".")[0]) > 2:
                self.hosts.setdefault(name.partition(".")[0])

    def user(self, name: str) -> None:
        """Take the name of a user or group, unless every system has it."""
        if name and name not in KEPT_USERS | KEPT_WORDS and not name.startswith("systemd") and not name.isdecimal():
            self.users.setdefault(name)

    def _homes(self, text: str) -> None:
        if "/home/" in text or "/Users/" in text:
            for found in re.finditer(_HOME, text):
                self.user(found[1])

    def _addresses(self, text: str, *, private: bool = False) -> None:
        """`private`: only those of private networks, where a version may look like an address."""
        found = {one[0] for one in re.finditer(IPV4, text) if is_address(one[0])}
        self.addresses |= {one for one in found if not private or ipaddress.ip_address(one).is_private}


def texts(said: Any) -> Iterator[str]:
    """All strings of a JSON document, keys included."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict):
        for key, value in said.items():
            yield key
            yield from texts(value)
    elif isinstance(said, (list, tuple)):
        for one in said:
            yield from texts(one)


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


HEXADECIMAL = r"(?<!\w)[0-9A-F]{8}(?=:[0-9A-F]{4}(?!\w)|\s)"
"""An address in /proc/net/route and /proc/net/tcp: four bytes, in the order of the processor."""


def in_hexadecimal(text: str) -> str:
    """The IPv4 address of 0x and eight digits, in the order of the network; empty for another number of digits."""
    return str(ipaddress.IPv4Address(int(text, 16))) if len(text) == 10 else ""


def of_hexadecimal(text: str) -> str:
    """The IPv4 address that eight hexadecimal digits of the kernel mean."""
    return str(ipaddress.IPv4Address(bytes.fromhex(text)[::-1]))
