"""The target Python of the simulated node: its files, and what the probes that run inside it print."""

from __future__ import annotations

import copy
import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.host import Completed
from npudoctor.host.simulated.tree import Content, FileTree
from npudoctor.sim.cann import elf
from npudoctor.sim.driver import managers
from npudoctor.sim.node import Node
from npudoctor.sim.releases import release_of

PROBES = (
    "environment",
    "import torch",
    "import torch without autoload",
    "import torch_npu",
    "device-math",
)
WITHOUT_PIN = ("2.1.0", "2.1.0rc1", "2.2.0", "2.2.0rc1", "2.3.1rc1")
"""The releases of torch_npu that do not say which torch they need."""

USUAL = {
    "absl-py": "2.1.0",
    "attrs": "23.2.0",
    "certifi": "2024.2.2",
    "cffi": "1.16.0",
    "charset-normalizer": "3.3.2",
    "cloudpickle": "3.0.0",
    "cython": "3.0.11",
    "decorator": "5.1.1",
    "idna": "3.7",
    "numpy": "1.24.0",
    "packaging": "24.0",
    "pathlib2": "2.3.7.post1",
    "pip": "24.0",
    "protobuf": "3.20.0",
    "psutil": "5.9.8",
    "pycparser": "2.22",
    "pyyaml": "6.0.1",
    "requests": "2.31.0",
    "scipy": "1.10.1",
    "setuptools": "69.5.1",
    "six": "1.16.0",
    "sympy": "1.12",
    "tornado": "6.4",
    "typing-extensions": "4.11.0",
    "urllib3": "2.2.1",
    "wheel": "0.43.0",
}
OF_TORCH = {
    "filelock": "3.13.4",
    "fsspec": "2024.3.1",
    "jinja2": "3.1.3",
    "markupsafe": "2.1.5",
    "mpmath": "1.3.0",
    "networkx": "3.1",
}
_NO_LIBHCCL = (
    "ImportError: libhccl.so: cannot open shared object file: No such file or directory. Please check that the cann "
    "package is installed. Please run 'source set_env.sh' in the CANN installation path."
)
_NO_HAL = "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"
_AUTOLOAD = (
    "RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
    "TORCH_DEVICE_BACKEND_AUTOLOAD=0."
)


class Target:
    """The interpreter that trains: its packages can be changed, and what it prints follows."""

    def __init__(self, node: Node, environ: Mapping[str, str]) -> None:
        said = node.scenario.python
        self.node = node
        self.environ = environ
        self.prefix = said.prefix
        self.base_prefix = f"/usr/local/python{said.version}" if said.kind == "venv" else said.prefix
        self.series = ".".join(said.version.split(".")[:2])
        self.site = f"{self.prefix}/lib/python{self.series}/site-packages"
        self.executable = f"{self.prefix}/bin/python{self.series}"
        packages = {**USUAL, **(OF_TORCH if said.torch else {}), "torch": said.torch, "torch-npu": said.torch_npu}
        if said.kind == "system":
            packages = {"pip": "24.0", "setuptools": "69.5.1", "torch": said.torch, "torch-npu": said.torch_npu}
        own = {name: version for name, version in {**packages, **said.packages}.items() if version}
        user_site = f"{node.home}/.local/lib/python{self.series}/site-packages"
        self.copies = {
            name: [{"version": version, "folder": user_site}, {"version": own[name], "folder": self.site}]
            for name, version in said.user_packages.items()
            if name in own
        }
        self.packages = {**own, **said.user_packages}

    def venv(self, prefix: str) -> Target:
        """A new environment of this interpreter."""
        made = copy.copy(self)
        made.prefix = prefix
        made.site = f"{prefix}/lib/python{self.series}/site-packages"
        made.executable = f"{prefix}/bin/python{self.series}"
        made.packages, made.copies = {"pip": "24.0", "setuptools": "69.5.1"}, {}
        return made

    def links(self) -> dict[str, str]:
        """The other names of the interpreter."""
        names = ("python3",) if self.prefix == "/usr" else ("python", "python3")
        return {f"{self.prefix}/bin/{name}": f"python{self.series}" for name in names}

    def files(self) -> Iterator[tuple[str, Content]]:
        """The interpreter, and the packages that somebody looks for by their files."""
        binary = elf(self.node.machine)
        kind = self.node.scenario.python.kind
        yield self.executable, binary
        if kind == "conda":
            yield f"{self.prefix}/conda-meta/history", ""
        if kind == "venv":
            home = f"/usr/local/python{self.node.scenario.python.version}"
            yield f"{self.prefix}/pyvenv.cfg", f"home = {home}/bin\nversion = {self.node.scenario.python.version}\n"
        extension = f"_C.cpython-{self.series.replace('.', '')}-{self.node.machine}-linux-gnu.so"
        for name, library in (("torch", "libtorch_cpu.so"), ("torch-npu", "libtorch_npu.so")):
            if name in self.packages:
                package = f"{self.site}/{name.replace('-', '_')}"
                yield f"{package}/__init__.py", ""
                yield f"{package}/{extension}", binary
                yield f"{package}/lib/{library}", binary
        for name, version in self.packages.items():
            folder = f"{self.site}/{name.replace('-', '_')}-{version}.dist-info"
            lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in self.requires(name))]
            yield f"{folder}/METADATA", "\n".join(["Metadata-Version: 2.1", *lines, ""])
            yield f"{folder}/INSTALLER", "pip\n"

    def requires(self, name: str) -> list[str]:
        """The Requires-Dist lines of a package."""
        if name in (named := self.node.scenario.python.requires):
            return named[name]
        if name == "torch":
            return ["filelock", "typing-extensions>=4.8.0", "sympy", "networkx", "jinja2", "fsspec"]
        version = self.packages[name]
        if name in ("torchvision", "torchaudio"):
            return [f"torch=={_torch_of(name, version)}"]
        if name != "torch-npu" or version in WITHOUT_PIN:
            return []
        local = "+cpu" if self.node.machine == "x86_64" else ""
        return [f"torch=={_base(version)}{local}"]

    def answer(self, probe: str, tree: FileTree) -> Completed | None:
        """What a probe prints; None for one that there is not."""
        if probe == "environment":
            return _completed_script(self._environment(), 0.2)
        if probe == "device-math":
            return _completed_script(self._device_math(tree), 8.0)
        if probe == "import torch_npu":
            return _completed_script(self._torch_npu(tree), 6.4)
        if probe in ("import torch", "import torch without autoload"):
            return _completed_script(self._torch(tree, autoload=probe == "import torch"), 3.3)
        return None

    def _environment(self) -> dict[str, Any]:
        said = self.node.scenario.python
        return {
            "base_prefix": self.base_prefix,
            **({"copies": self.copies} if self.copies else {}),
            "distributions": {
                name: {"requires": self.requires(name), "version": version} for name, version in self.packages.items()
            },
            "executable": f"{self.prefix}/bin/python3",
            "glibc": self.node.system.glibc,
            "implementation": "CPython",
            "machine": self.node.machine,
            "prefix": self.prefix,
            "version": said.version,
        }

    def _torch(self, tree: FileTree, *, autoload: bool) -> dict[str, Any]:
        torch = self.packages.get("torch")
        if torch is None:
            return _error("ModuleNotFoundError: No module named 'torch'")
        loads_itself = min(release_of(torch), release_of(self.packages.get("torch-npu", "0"))) >= (2, 5)
        if autoload and loads_itself and (why := self._why_not(tree)):
            return _error(f"{_AUTOLOAD} ({why})")
        cuda = torch.partition("+cu")[2]
        return {
            "cuda": f"{cuda[:2]}.{cuda[2:]}" if cuda.isdecimal() else None,
            "cxx11_abi": self.node.scenario.python.cxx11_abi,
            "ok": True,
            "seconds": 3.1,
            "version": torch,
        }

    def import_error(self, tree: FileTree) -> str | None:
        """What `import torch_npu` ends with; None where it works."""
        for name in ("torch", "torch-npu"):
            if name not in self.packages:
                return f"ModuleNotFoundError: No module named '{name.replace('-', '_')}'"
        return self._why_not(tree)

    def _torch_npu(self, tree: FileTree) -> dict[str, Any]:
        if why := self.import_error(tree):
            return _error(why)
        devices = self.devices(tree)
        return {
            "available": bool(devices),
            "cann": self.node.cann.version,
            "device_count": len(devices),
            "devices": [self.node.product.soc] * len(devices),
            "ok": True,
            "seconds": 6.2,
            "version": self.packages["torch-npu"],
        }

    def _why_not(self, tree: FileTree) -> str | None:
        """Why `import torch_npu` fails; the loader stops at the first of these."""
        folders = self.environ.get("LD_LIBRARY_PATH", "").split(":")
        if not any(folder and tree.exists(f"{folder}/libhccl.so") for folder in folders):
            return _NO_LIBHCCL
        if not tree.exists("/usr/local/Ascend/driver/lib64/driver/libascend_hal.so"):
            return _NO_HAL
        pinned = _base(self.packages["torch-npu"])
        if _base(self.packages["torch"]) != pinned:
            library = f"{self.site}/torch_npu/lib/libtorch_npu.so"
            return f"ImportError: {library}: undefined symbol: _ZN3c1016impl_PrivateUse1Ev"
        return None

    def devices(self, tree: FileTree) -> list[int]:
        """The numbers of the devices that torch_npu sees."""
        nodes = [f"/dev/{name}" for name in managers(self.node)]
        seen = [chip for chip in self.node.chips_at("npu-smi") if "device-node" not in chip.missing]
        chips = [chip.phy_id if chip.slice_number is None else chip.slice_number for chip in seen]
        usable = [number for number in chips if _is_usable(tree, f"/dev/davinci{number}")]
        if not all(_is_usable(tree, path) for path in nodes):
            return []
        visible = self.environ.get("ASCEND_RT_VISIBLE_DEVICES")
        if visible is None:
            return usable
        wanted = [int(part) for part in visible.split(",") if part.isdecimal()]
        return [usable[index] for index in wanted if index < len(usable)]

    def _device_math(self, tree: FileTree) -> dict[str, Any]:
        said = self._torch_npu(tree)
        if not said["ok"]:
            return {"devices": {}, "error": said["error"], "ok": False}
        chips = {chip.phy_id if chip.slice_number is None else chip.slice_number: chip for chip in self.node.chips}
        devices: dict[str, Any] = {}
        for index, number in enumerate(self.devices(tree)):
            busy = self.node.holders(chips[number])
            devices[str(index)] = {"skipped": "busy"} if busy else {"max_abs_error": 0.0, "ok": True, "seconds": 0.7}
        return {"devices": devices, "ok": True}


def _is_usable(tree: FileTree, path: str) -> bool:
    try:
        return {"r", "w"} <= set(tree.stat(path).access)
    except OSError:
        return False


def _torch_of(name: str, version: str) -> str:
    """The torch that a torchvision (0.20.1) or torchaudio (2.5.1) was released with."""
    if name == "torchaudio":
        return _base(version)
    _, minor, patch = _base(version).split(".")
    return f"2.{int(minor) - 15}.{patch}"


def _base(version: str) -> str:
    """The release that a version belongs to: 2.5.1 of 2.5.1.post1, 2.5.1+cpu and 2.5.1rc1."""
    return ".".join(map(str, release_of(version)))


def _error(text: str) -> dict[str, Any]:
    return {"error": text, "exception": text.partition(":")[0], "ok": False}


def _completed_script(said: Mapping[str, Any], seconds: float) -> Completed:
    return Completed(returncode=0, stdout=json.dumps(said, sort_keys=True) + "\n", seconds=seconds)


def script_of(probe: str) -> str:
    """The file name of the script that asks a probe: `import_torch_npu.py`."""
    return posixpath.basename(probe.replace(" ", "_") + ".py")
