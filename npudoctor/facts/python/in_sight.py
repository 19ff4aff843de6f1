"""Whether torch_npu finds a device where npu-smi alone cannot say."""

from __future__ import annotations

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer
from npudoctor.facts.python.imports import IMPORT_TIMEOUT, parse_attempt
from npudoctor.facts.python.target_python import TargetPython, target_python
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, Options, Unavailable, probe

UNDECIDED = (-8020, -9005)
"""Codes with which npu-smi fails on NPUs that may work: occupied resources, a board type that cannot be read."""


@record(frozen=True)
class DevicesInSight:
    """How many devices torch_npu finds."""

    count: int


@probe(of_the_moment=True)
def devices_in_sight(
    host: Host, options: Options, answer: NpuSmiAnswer, variables: JobEnvironment | None
) -> DevicesInSight:
    """By importing torch_npu, and only where npu-smi fails with a code that does not decide.

    The target Python is found here and is no parameter, so that it is not searched for where npu-smi answers.
    """
    if answer.info is not None or answer.failure is None or answer.failure.ret not in UNDECIDED:
        raise NotApplicable("npu-smi itself says what is known of the NPUs")
    if options.profile == "quick":
        raise NotApplicable("not part of profile quick: it imports nothing")
    if variables is None:
        raise Unavailable("no job environment: an import would prove nothing")
    python: TargetPython = target_python(host, options, variables)
    name = "import torch_npu"
    attempt = parse_attempt(host.run_in_target(name, python.path, timeout=IMPORT_TIMEOUT.of(options)), name)
    if not attempt.ok or (attempt.device_count is None and attempt.devices_error is None):
        raise Unavailable("torch_npu does not say which devices there are")
    return DevicesInSight((attempt.device_count or 0) if attempt.available is not False else 0)
