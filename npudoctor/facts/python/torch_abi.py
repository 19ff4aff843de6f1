"""How the target's torch was built: with the C++11 ABI or without."""

from __future__ import annotations

import contextlib
import re

from npudoctor.facts.python.imports import TorchImport
from npudoctor.facts.python.target_python import PythonEnvironment, package_folders
from npudoctor.records import record
from npudoctor.sdk import Host, ParseError, Unavailable, probe

BELOW = "torch/share/cmake/Torch/TorchConfig.cmake"


@record(frozen=True)
class TorchAbi:
    """Whether torch uses the C++11 ABI, and the file or import that says so."""

    cxx11: bool
    source: str


def parse(text: str) -> bool:
    """Read the flag that torch hands to those who compile against it."""
    flag = re.search(r"_GLIBCXX_USE_CXX11_ABI=([01])", text)
    if flag is None:
        raise ParseError("no C++ ABI in the text", line_number=1, line=text[:80])
    return flag[1] == "1"


@probe
def torch_abi(host: Host, python: PythonEnvironment, imported: TorchImport | None) -> TorchAbi:
    """From torch's own TorchConfig.cmake, else from torch, where it is imported anyway."""
    for folder in package_folders(host, python.executable):
        path = f"{folder}/{BELOW}"
        with contextlib.suppress(Unavailable, ParseError):
            return TorchAbi(parse(host.read(path)), path)
    # A wrong ABI of another package breaks the import with autoloading: torch alone then tells its own.
    for attempt in (imported.plain, imported.alone) if imported is not None else ():
        if attempt is not None and attempt.cxx11_abi is not None:
            return TorchAbi(attempt.cxx11_abi, attempt.what)
    raise Unavailable("C++ ABI of torch unknown")
