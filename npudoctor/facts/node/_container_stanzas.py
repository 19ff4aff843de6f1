"""How a container is started with NPUs: one description, written as docker run, compose, or a Kubernetes pod."""

from __future__ import annotations

import json
import re
import shlex

from npudoctor import knowledge
from npudoctor.facts.node.ascend_runtime import VIRTUAL, runtime_for
from npudoctor.facts.node.device_nodes import FIRST_VIRTUAL_NUMBER, as_passed
from npudoctor.records import record

SHM = "16g"


@record(frozen=True, kw_only=True)
class Stanza:
    """What a container needs: device nodes, the host's files (read only), and shared memory (`shm`, None for Docker's).

    `host_network`: it uses the network of its host, as a job on several nodes does. `engine` is the program that
    starts it.

    `group` is the number of the device nodes' group, for an image whose user is not root; `command` is what runs
    instead of the image's own.
    """

    devices: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    image: str = "IMAGE"
    shm: str | None = SHM
    name: str = "train"
    group: str | None = None
    command: tuple[str, ...] = ()
    host_network: bool = False
    engine: str = "docker"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the NPUs."""
        found = (re.fullmatch(r"/dev/v?davinci([0-9]{1,9})", path) for path in self.devices)
        return tuple(sorted(int(name[1]) for name in found if name))

    @property
    def has_slices(self) -> bool:
        """Whether a vNPU is among them."""
        return any(number >= FIRST_VIRTUAL_NUMBER for number in self.numbers)

    @property
    def cards(self) -> str:
        """The numbers of the NPUs as the ascend runtime reads them."""
        return ",".join(map(str, self.numbers)) or "0"


def stanza(
    devices: tuple[str, ...],
    image: str = "IMAGE",
    *,
    shm: str | None = SHM,
    name: str = "train",
    group: str | None = None,
    command: tuple[str, ...] = (),
    several_nodes: bool = False,
    engine: str | None = None,
) -> Stanza:
    """The stanza for these device nodes, with the mounts that plain Docker needs.

    `several_nodes` adds what a job on several nodes and most inference stacks need: hccn_tool, /etc/hccn.conf, and the
    network of the host.
    """
    plain = [one for one in knowledge.layout().mounts if one.plain and (several_nodes or not one.several_nodes)]
    return Stanza(
        devices=devices,
        mounts=tuple((one.host, one.container) for one in plain),
        image=image,
        shm=shm,
        name=name,
        group=group,
        command=command,
        host_network=several_nodes,
        engine=engine or "docker",
    )


def _network_files() -> tuple[tuple[str, str], ...]:
    """What the ascend runtime does not mount by itself."""
    return tuple((one.host, one.container) for one in knowledge.layout().mounts if one.plain and one.several_nodes)


def docker(one: Stanza) -> str:
    """`docker run` with plain Docker, or the same of another engine."""
    words = [f"--device={as_passed(path)}" for path in one.devices]
    words += [f"-v={host}:{inside}:ro" for host, inside in one.mounts]
    words += _limits(one)
    lines = [shlex.quote(word) for word in words] + [shlex.join([one.image, *one.command])]
    return f"{one.engine} run --rm \\\n  " + " \\\n  ".join(lines) + "\n"


def ascend_runtime(one: Stanza) -> str:
    """The same with the ascend runtime, which passes nodes and files in by itself."""
    words = [
        one.engine,
        "run",
        "--rm",
        f"--runtime={runtime_for(one.engine)}",
        "-e",
        f"ASCEND_VISIBLE_DEVICES={one.cards}",
    ]
    words += ["-e", VIRTUAL] if one.has_slices else []
    words += [f"-v={host}:{inside}:ro" for host, inside in _network_files() if one.host_network]
    return f"{shlex.join(words)} \\\n  {shlex.join([*_limits(one), one.image, *one.command])}\n"


def _limits(one: Stanza) -> list[str]:
    """What a job needs besides: shared memory and locked memory; a terminal, where no command is named."""
    words = [f"--group-add={one.group}"] if one.group else []
    words += ["--network=host"] if one.host_network else []
    words += [f"--shm-size={one.shm}", "--ulimit=memlock=-1"] if one.shm else []
    return words if one.command else [*words, "-it"]


def _runtime() -> str:
    return str(knowledge.layout().more["runtime_name"])


def compose(one: Stanza) -> str:
    """A service of a compose file, with plain Docker."""
    lines = _service(one)
    lines += ["    devices:", *(f"      - {as_passed(path)}" for path in one.devices)]
    lines += ["    volumes:", *(f"      - {host}:{inside}:ro" for host, inside in one.mounts)]
    return "\n".join(lines) + "\n"


def ascend_compose(one: Stanza) -> str:
    """A service of a compose file, with the ascend runtime."""
    lines = [*_service(one), f"    runtime: {_runtime()}"]
    if one.host_network:
        lines += ["    volumes:", *(f"      - {host}:{inside}:ro" for host, inside in _network_files())]
    lines += ["    environment:", f'      ASCEND_VISIBLE_DEVICES: "{one.cards}"']
    lines += ["      {}: {}".format(*VIRTUAL.split("="))] if one.has_slices else []
    return "\n".join(lines) + "\n"


def _service(one: Stanza) -> list[str]:
    lines = ["services:", f"  {one.name}:", f"    image: {one.image}"]
    lines += [f"    command: {json.dumps(one.command)}"] if one.command else []
    lines += [f'    group_add: ["{one.group}"]'] if one.group else []
    lines += ["    network_mode: host"] if one.host_network else []
    lines += [f"    shm_size: {one.shm}", "    ulimits:", "      memlock: -1"] if one.shm else []
    return lines


def kubernetes(one: Stanza, resource: str = "huawei.com/Ascend910") -> str:
    """A pod; the device plugin passes the nodes in, the runtime class the driver's files."""
    count = len(one.numbers) or 1
    files = _network_files() if one.host_network else ()
    names = [path.rpartition("/")[2].replace("_", "-").replace(".", "-") for path, _ in files]
    size = (one.shm or SHM).upper().replace("G", "Gi")
    return "\n".join(
        [
            "apiVersion: v1",
            "kind: Pod",
            f"metadata: {{name: {one.name}}}",
            "spec:",
            *(["  hostNetwork: true"] if one.host_network else []),
            "  containers:",
            f"    - name: {one.name}",
            f"      image: {one.image}",
            "      resources:",
            f"        limits: {{{resource}: {count}}}",
            "      volumeMounts:",
            "        - {name: shm, mountPath: /dev/shm}",
            *(
                f"        - {{name: {name}, mountPath: {inside}, readOnly: true}}"
                for name, (_, inside) in zip(names, files, strict=True)
            ),
            "  volumes:",
            *(
                f"    - {{name: {name}, hostPath: {{path: {path}, type: File}}}}"
                for name, (path, _) in zip(names, files, strict=True)
            ),
            f"    - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: {size}}}}}",
            "",
        ]
    )
