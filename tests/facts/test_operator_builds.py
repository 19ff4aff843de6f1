"""For which chips custom operators were built: by files, folders and sections of libraries."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.cann.elf import Elf, build, reduce_library
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.operator_builds import operator_builds
from npudoctor.facts.python.target_python import TargetPython
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.sdk import Unavailable

PACKAGES = "/env/lib/python3.11/site-packages"
ROOT = "/usr/local/Ascend/ascend-toolkit/8.3.RC2"
VENDORS = f"{ROOT}/opp/vendors"
KERNEL = "op_impl/ai_core/tbe/kernel"


def library(*chips: str) -> bytes:
    return build(Elf(machine="aarch64", end=0, needed=("libascendcl.so",), chips=chips))


def of_node(host: Any, **variables: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    function: Any = operator_builds.function
    cann = Cann(installs=(CannInstall(root=ROOT, names=(ROOT,)),), named_in_vain={})
    found = function(host, TargetPython(path="/env/bin/python", why="test"), JobEnvironment(variables), cann)
    return [(build.package, build.chips, build.families) for build in found.builds]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        ({f"{PACKAGES}/vllm_ascend/__init__.py": b""}, []),
        (
            {f"{PACKAGES}/vllm_ascend/libvllm_ascend_kernels.so": library("ascend310p3")},
            [("vllm-ascend", ("ascend310p3",), ("310P",))],
        ),
        (
            {
                f"{PACKAGES}/vllm_ascend/vllm_ascend_C.cpython-311-aarch64-linux-gnu.so": library(),
                f"{PACKAGES}/vllm_ascend/lib/libvllm_ascend_kernels.so": library("ascend910b4-1"),
            },
            [("vllm-ascend", ("ascend910b4-1",), ("A2", "A3"))],
        ),
        (
            {f"{PACKAGES}/sgl_kernel_npu/lib/libsgl_kernel_npu.so": library("ascend910_9382")},
            [("sgl-kernel-npu", ("ascend910_9382",), ("A2", "A3"))],
        ),
        (
            {f"{PACKAGES}/deep_ep/deep_ep_cpp.so": library("ascend910proa")},
            [("deep-ep", ("ascend910proa",), ("910",))],
        ),
        ({f"{PACKAGES}/deep_ep/a.so": library("ascend910b")}, [("deep-ep", ("ascend910b",), ("910",))]),
        ({f"{PACKAGES}/deep_ep/a.so": library("ascend777")}, [("deep-ep", ("ascend777",), ())]),
        (
            {f"{PACKAGES}/deep_ep/vendors/hwcomputing/{KERNEL}/ascend910_93/x/x.o": b""},
            [("deep-ep", ("ascend910_93",), ("A3",))],
        ),
        ({f"{VENDORS}/custom/{KERNEL}/ascend310p/moe/moe.o": b""}, [("custom", ("ascend310p",), ("310P",))]),
        ({f"{VENDORS}/custom/{KERNEL}/config/ascend910b/a.json": b""}, [("custom", ("ascend910b",), ("A2",))]),
        (
            {
                f"{VENDORS}/old/{KERNEL}/ascend310p/moe.o": b"",
                f"{VENDORS}/new/{KERNEL}/ascend910b/moe.o": b"",
                f"{VENDORS}/config.ini": b"load_priority=new, other\n",
            },
            [("new", ("ascend910b",), ("A2",))],
        ),
        (
            {
                f"{PACKAGES}/vllm_ascend/_build_info.py": b"__soc_version__ = 'ascend310p1'\n",
                f"{PACKAGES}/vllm_ascend/libvllm_ascend_kernels.so": library("ascend310p1"),
            },
            [("vllm-ascend", ("ascend310p1",), ("310P",))],
        ),
    ],
)
def test_what_names_the_chip_of_a_build(files: dict[str, bytes], found: list[Any]) -> None:
    assert of_node(FakeHost(files=files)) == found


@pytest.mark.parametrize(
    "content",
    [library(), b"", b"ELF...ascend310p dav-m200", library("ascend310p3")[:90], library("ascend310p3")[:-70]],
    ids=range(5),
)
def test_a_library_that_names_no_chip_is_said(content: bytes) -> None:
    host = FakeHost(files={f"{PACKAGES}/vllm_ascend/vllm_ascend_C.so": content})
    with pytest.raises(Unavailable, match="vllm-ascend names a chip"):
        of_node(host)


def test_folders_that_a_variable_names_count_too() -> None:
    host = FakeHost(files={f"/opt/ops/vendors/c/{KERNEL}/ascend310p/moe.o": b""})
    assert of_node(host, ASCEND_CUSTOM_OPP_PATH="/opt/ops/vendors/c:/gone") == [("c", ("ascend310p",), ("310P",))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("__editable___vllm_ascend_0_11_0_finder.py", "MAPPING: dict = {'x': '/x', 'vllm_ascend': '/src/vllm_ascend'}"),
        ("__editable__.vllm_ascend-0.11.0.pth", "/src\n"),
    ],
)
def test_a_package_in_its_source_folder_is_found(name: str, text: str) -> None:
    info = b"__soc_version__ = 'ascend910_9391'\n"
    host = FakeHost(files={f"{PACKAGES}/{name}": text.encode(), "/src/vllm_ascend/_build_info.py": info})
    assert of_node(host) == [("vllm-ascend", ("ascend910_9391",), ("A3",))]


def test_few_bytes_of_a_library_are_read_and_a_recording_keeps_its_chips() -> None:
    path = f"{PACKAGES}/vllm_ascend/vllm_ascend_C.so"
    content = library("ascend310p3") + bytes(8 << 20)
    host = RecordingHost(FakeHost(files={path: content}))
    of_node(host)
    parts = host.notes.parts[path]
    assert sum(map(len, parts.values())) < 20_000
    small = reduce_library(parts, len(content))
    assert len(small) < 2_000
    assert of_node(FakeHost(files={path: small})) == [("vllm-ascend", ("ascend310p3",), ("310P",))]
