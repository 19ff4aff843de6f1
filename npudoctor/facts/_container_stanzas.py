"""How a container is started with cards: one description, written as docker run, compose, or a Kubernetes pod."""

from __future__ import annotations

import shlex

from npudoctor import knowledge
from npudoctor.records import dataclass

SHM = "16g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stanza:
    """What a container needs: device nodes, the host's files (read only), and shared memory."""

    devices: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    image: str = "IMAGE"
    shm: str = SHM

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the cards."""
        names = (path.removeprefix("/dev/davinci") for path in self.devices)
        return tuple(sorted(int(name) for name in names if name.isdigit()))


def stanza(devices: tuple[str, ...], image: str = "IMAGE") -> Stanza:
    """The stanza for these device nodes, with the mounts that plain Docker needs."""
    plain = [one for one in knowledge.layout().mounts if one.plain and not one.several_nodes]
    return Stanza(devices=devices, mounts=tuple((one.host, one.container) for one in plain), image=image)


def docker(one: Stanza) -> str:
    """`docker run` with plain Docker."""
    words = [f"--device={path}" for path in one.devices]
    words += [f"-v={host}:{inside}:ro" for host, inside in one.mounts]
    words += [f"--shm-size={one.shm}", "--ulimit=memlock=-1", "-it"]
    lines = [shlex.quote(word) for word in words] + [one.image]
    return "docker run --rm \\\n  " + " \\\n  ".join(lines) + "\n"


def ascend_runtime(one: Stanza) -> str:
    """`docker run` with the ascend runtime, which passes nodes and files in by itself."""
    name = knowledge.layout().more["runtime_name"]
    cards = ",".join(map(str, one.numbers)) or "0"
    return (
        f"docker run --rm --runtime={name} -e ASCEND_VISIBLE_DEVICES={cards} \\\n"
        f"  --shm-size={one.shm} --ulimit=memlock=-1 -it {one.image}\n"
    )


def compose(one: Stanza) -> str:
    """A service of a compose file."""
    lines = ["services:", "  train:", f"    image: {one.image}", f"    shm_size: {one.shm}"]
    lines += ["    ulimits:", "      memlock: -1", "    devices:"]
    lines += [f"      - {path}" for path in one.devices]
    lines += ["    volumes:", *(f"      - {host}:{inside}:ro" for host, inside in one.mounts)]
    return "\n".join(lines) + "\n"


def kubernetes(one: Stanza, resource: str = "huawei.com/Ascend910") -> str:
    """A pod; the device plugin passes the nodes in, the runtime class the driver's files."""
    count = len(one.numbers) or 1
    size = one.shm.upper().replace("G", "Gi")
    return "\n".join(
        [
            "apiVersion: v1",
            "kind: Pod",
            "metadata: {name: train}",
            "spec:",
            "  containers:",
            "    - name: train",
            f"      image: {one.image}",
            "      resources:",
            f"        limits: {{{resource}: {count}}}",
            "      volumeMounts: [{name: shm, mountPath: /dev/shm}]",
            "  volumes:",
            f"    - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: {size}}}}}",
            "",
        ]
    )
