"""The folders to which CANN and frameworks write caches and logs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from npudoctor.facts.node.cache_folders import CacheFolder, CacheFolders
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.working_folder import INSTEAD
from npudoctor.sdk import Evidence, Finding, Severity, check

from .messages import stack as messages

_MESSAGES = {
    "owner": messages.CACHE_NOT_WRITABLE,
    "read-only": messages.CACHE_READ_ONLY,
    "file": messages.CACHE_NO_DIRECTORY,
}


@check("stack.cache-folders", requires=(SoftwareStack,))
def cache_folders_are_writable(found: CacheFolders) -> Iterator[Finding]:
    """Cache directories of the job writable.

    CANN, Triton, torch.compile and vLLM write compiled code and logs below the directories that ASCEND_WORK_PATH,
    ASCEND_CACHE_PATH, TRITON_CACHE_DIR, VLLM_CACHE_ROOT and others name, else below HOME. Judged only for a job that
    --environment pid:N names, and in a pod.
    """
    causes: dict[tuple[str, str, str], list[CacheFolder]] = {}
    for folder in found.folders:
        if folder.why_not is not None:
            causes.setdefault((folder.variable, folder.judged, folder.why_not), []).append(folder)
    for (variable, judged, why_not), folders in causes.items():
        value = folders[0].value
        yield _MESSAGES[why_not].finding(
            severity=Severity.ERROR if variable in INSTEAD else Severity.WARNING,
            variable=variable,
            path=judged if judged.startswith(f"{value}/") else value,
            pid=found.pid,
            judged=judged,
            what=list(dict.fromkeys(folder.what for folder in folders)),
            commands=(f"ls -ld {shlex.quote(judged)}",),
            evidence=(Evidence(source=variable, actual=value),),
            pitfall="P106",
        )
