"""The report of torch's and vLLM's collect_env: the versions that people paste into an issue."""

from __future__ import annotations

import re

from npudoctor.facts.cells import lines_of, refusal, word

_PACKAGE = r"\s*\[(?:pip3?|conda)\]\s+([A-Za-z0-9][\w.-]*)(?:==|\s+)([0-9]\S*)(?:\s.*)?"
_NAMED = {
    "pytorch version": "torch",
    "vllm version": "vllm",
    "vllm ascend version": "vllm_ascend",
    "python version": "python",
    "cann version": "cann",
    "os": "os",
}
_TELLING = {"torch", "torch_npu", "vllm", "vllm_ascend"}


def parse_env_report(text: str) -> dict[str, str]:
    """The packages of a report by name, with underscores, and their versions as written, local parts too.

    What it says of Python and of the system is beside them. Raises ParseError where it names none of torch and
    vLLM.
    """
    found: dict[str, str] = {}
    lines = lines_of(text)
    for line in lines:
        if package := re.fullmatch(_PACKAGE, line):
            found[package[1].lower().replace("-", "_")] = package[2]
        elif named := re.fullmatch(r"\s*([A-Za-z][A-Za-z ]{1,24}?)\s*:\s*(\S.*)", line):
            name, value = _NAMED.get(named[1].lower()), word(named[2])
            if name and value and value not in ("N/A", "Could not collect"):
                found.setdefault(name, value if name == "os" else value.split()[0])
    if not _TELLING & found.keys():
        raise refusal("not a report of collect_env", lines)
    return found
