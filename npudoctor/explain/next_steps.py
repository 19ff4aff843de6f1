"""What to do about a code of codes.json: from its fault class, its severity or its kind, each with its source."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode
from npudoctor.records import record

_PLUGIN = "fault classes of the Ascend device plug-in (Ascend/mind-cluster, faultCode.json and SwitchFaultCode.json)"
_CLASSES = {
    "NotHandleFault": "no action: the device plug-in lists it as a fault that needs no handling",
    "RestartRequest": "repeat the request; the device plug-in asks for no more",
    "RestartRequestFault": "repeat the request; the device plug-in asks for no more",
    "RestartBusiness": "restart the job; the NPU itself stays in use",
    "FreeRestartNPU": "once no job uses the NPU, reset it",
    "RestartNPU": "end the job on this NPU, then reset the NPU",
    "PreSeparateNPU": "let the job end, then give this NPU no new job until `npudoctor check npu.health` passes",
    "SeparateNPU": "take this NPU out of use and have it examined by the vendor",
    "SeparateFault": "take this part of the node out of use and have it examined by the vendor",
    "SeparateDPU": "take this DPU out of use and have it examined by the vendor",
    "SubHealthFault": "degraded and still in use: watch it, and plan maintenance",
}
_HEADERS = "number scheme of acl, runtime and graph engine (acl_base_rt.h, rt_error_codes.h)"
_FIRST_DIGIT = {
    "1": "correct the call or its environment: the first digit 1 stands for the caller",
    "2": "free or grant the resource, or leave the function out: the first digit 2 stands for resources and support",
    "3": "correct the order of the calls: the first digit 3 stands for a state",
    "5": "read the first ERROR line of the same process in plog: the first digit 5 stands for an inner error",
}
_ALARM_LEVELS = "alarm levels of Ascend products, MindX Edge OM SDK guide 5.0.0, read 2026-11-27"
_CHECK = "`npudoctor check npu.health`"
_SEVERITIES = {
    "minor": f"run {_CHECK} soon: a minor fault has little effect yet, and can grow",
    "major": f"run {_CHECK} now: a major fault can interrupt jobs on the NPU",
    "critical": f"start no job on the NPU and run {_CHECK} at once: a critical fault can stop the device or the node",
}
_BLACK_BOX = "levels of the black box, bits 27-25 of the code"
_LEVELS = {
    "warning": f"run {_CHECK} soon: warning is level 2 of 4 of the black box",
    "critical": f"run {_CHECK} now: critical is level 3 of 4 of the black box",
    "emergency": f"start no job on the NPU and run {_CHECK} at once: emergency is level 4 of 4 of the black box",
}
_MESSAGES = "message tables of the toolkit (error_code.json)"
_MESSAGE_KINDS = frozenset(
    {"acl", "acl-runtime", "aclnn", "aoe", "amct", "driver", "dump", "dvpp", "fe", "ge", "hccl", "hccp", "profiling"}
    | {"tbe", "tsd", "tuning"}
)


@record(frozen=True)
class NextStep:
    """What to do first, and who says so."""

    step: str
    source: str


def of_code(code: Code) -> NextStep | None:
    """The next step for a code; None where no source names one."""
    if code.action:
        classes = [_CLASSES[one] for one in code.action.split("/") if one in _CLASSES]
        if classes:
            return NextStep("; or, by another list, ".join(classes), _PLUGIN)
    if code.severity == "notice":
        return NextStep("no action: this is a notice, and reports no failure", code.sources[0])
    if code.code[0] == "W":
        return NextStep("no action: a code that begins with W is a warning", _MESSAGES)
    if code.generic:
        return NextStep(
            "read the lines beside it: this code stands for many causes and is none by itself", code.sources[0]
        )
    if code.kind == "blackbox" and code.severity in _LEVELS:
        return NextStep(_LEVELS[code.severity], f"{_BLACK_BOX}: {code.sources[0]}")
    if code.severity in _SEVERITIES:
        return NextStep(_SEVERITIES[code.severity], _ALARM_LEVELS)
    if code.code[0] == "E" and code.kind in _MESSAGE_KINDS:
        return NextStep("follow `Solution:` in the text of the message, and the values that it names", _MESSAGES)
    if code.kind in ("acl", "acl-runtime", "acl-rtc", "aclnn", "ge", "dvpp", "transport") and len(code.code) == 6:
        step = _FIRST_DIGIT.get(code.code[0])
        return NextStep(step, _HEADERS) if step else None
    if code.maps_to:
        return NextStep(f"look at {code.maps_to[-1]}, the code as which it reaches the program", code.sources[0])
    return None


def source_of_check(code: ErrorCode, issues: Iterable[str]) -> str:
    """Who says what to check about a frequent code: the known issues that it belongs to, or only its meaning."""
    named = list(issues)
    if not named:
        return f"by its meaning: {code.sources[0]}"
    return f"known issue{'s' if len(named) > 1 else ''} {', '.join(named)}, with their sources"
