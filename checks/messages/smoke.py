"""What the checks of the smoke run say.

A rank can fail in any stage, so these messages exist once per stage: `smoke.training/rank-hung`.
"""

from npudoctor.facts.node.smoke import STAGES
from npudoctor.sdk import Message, Sentence, Severity


def _per_stage(name: str, summary: str, hint: str | None = None) -> dict[str, Message]:
    return {stage: Message(f"smoke.{stage}/{name}", summary=summary, hint=hint) for stage in STAGES}


# All stages: ranks that failed

_LOGS = "--keep-logs keeps all logs, including those of CANN; `npudoctor explain --log` reads them."
_CHECK_LIBRARIES = "Put the real libraries first on LD_LIBRARY_PATH: lib64 of the driver and of CANN, not devlib."

RANK_FAILED = _per_stage("rank-failed", "{ranks} failed in {place}: {error}", _LOGS)
RANK_KILLED = _per_stage("rank-killed", "{ranks} killed by {signal} in {place}", _LOGS)
RANK_EXITED = _per_stage(
    "rank-exited", "{ranks} exited with status {status} in {place} without an error message", _LOGS
)
RANK_HUNG = _per_stage(
    "rank-hung", "{ranks} hung in {place}", "The stack shows where it hangs; --keep-logs keeps what it logged before."
)
RANK_STOPPED = _per_stage(
    "rank-stopped", "{ranks} stopped (state T) in {place}", "Find out what sent SIGSTOP, a debugger for example."
)
RANKS_STUCK = _per_stage(
    "ranks-stuck",
    "{ranks} stuck in {place}, none ahead of the others",
    "The stack shows where they hang; --keep-logs keeps what they logged before.",
)
STAGE_TIMED_OUT = _per_stage(
    "timed-out",
    "time limit exceeded in {place} while {ranks} were working",
    "Allow more time for the stage with --deadline {stage}=SECONDS.",
)
_OTHER_NODE = (
    "Read the reports of the other nodes: the one that blames a rank has the cause. If none does, check the network "
    "between the nodes."
)
PEER_LOST = _per_stage("peer-lost", "{ranks} lost the ranks of another node in {place}", _OTHER_NODE)
NODE_AWAITED = _per_stage(
    "waited-for-node", "{ranks} waited for another node in {place} until the time limit", _OTHER_NODE
)
ENDED_BY_LAUNCHER = _per_stage(
    "ended-by-launcher",
    "ranks ended by their launcher in {place}",
    "Read the launcher's log (--keep-logs), and find out what ended the launcher.",
)
RUN_TIMED_OUT = _per_stage(
    "run-timed-out",
    "time limit of the smoke run exceeded in {place}",
    "If nothing else is wrong, allow more time with --timeout.",
)

RANK = Sentence("rank {rank}")
RANK_ON = Sentence("rank {rank} on {npu}")
ALL_RANKS = Sentence("all ranks")
AT = Sentence("{stage}, at {doing}")
NOT_KNOWN = Sentence("unknown")
NO_ERROR_MESSAGE = Sentence("no error message")
MEANING_OF_CODE = Sentence("{meaning} ({code})")

RANK_IN_STAGE = Sentence("rank {rank} in {stage}")
NO_BANDWIDTH = Sentence("no bandwidth was measured")
COMPLETED = Sentence("completed")
LAST_HEARD = Sentence("{cause}, last message {since_s:g} s before")
NEVER_HEARD = Sentence("{cause}, before its first message")
WAITING = Sentence("ranks that only waited")
ERROR_MESSAGE = Sentence("error message of rank {rank}")
LAST_LINE = Sentence("last line in the log of rank {rank}")
LAST_CANN_ERROR = Sentence("last error in the CANN log of rank {rank}")
STACK = Sentence("stack of rank {rank}")
ERROR_CODES = Sentence("error codes of rank {rank}")
KNOWN_ISSUE = Sentence("{title}. {cause}")
CHECKS_NAME_IT = Sentence("Run the {count:check|checks} below, which {count:names|name} what to change on this node.")
NAME_THE_PYTHON = Sentence(
    "This Python has no torch: name the Python that you train with by --python, or activate its environment."
)
KILLED_FROM_OUTSIDE = Sentence(
    "A process or the kernel killed it: check `dmesg` for the out-of-memory killer, and the limits of the cgroup."
)
LIBRARY_CRASHED = Sentence("A library crashed: run `npudoctor check python cann` to find versions that do not match.")
RANKS_REPORTED = Sentence("report of the ranks of `npudoctor smoke`")
NOT_IN_THIS_RUN = Sentence("not part of this run")
ENDED_BEFORE = Sentence("run ended before {stage}")
FAILED_BEFORE = Sentence("run failed in {stage}")

# smoke.launch

ENDED_EARLY = Message("smoke.launch/ended-early", summary="{ranks} ended before reporting in {place}", hint=_LOGS)
ENDED_EARLY_WITH_ERROR = Message(
    "smoke.launch/ended-early-with-error", summary="{ranks} ended before reporting in {place}: {error}", hint=_LOGS
)
NODES_NOT_MET = Message(
    "smoke.launch/nodes-not-met",
    summary="no rank started: the launcher did not meet the other nodes",
    hint="Start the run on all nodes within the same minutes, with the same --nnodes and --rdzv-endpoint. "
    "The first node, --node-rank 0, must be reachable from the others at the endpoint's port.",
)
LEFT_BEHIND = Message(
    "smoke.launch/left-behind",
    summary="{count:process|processes} {pids} of the smoke run could not be ended",
    detail="A process that the kernel cannot end waits for a driver or a file system that does not answer.",
)
NONE = Sentence("none")

# smoke.rendezvous

WRONG_WORLD_SIZE = Message("smoke.rendezvous/wrong-world-size", summary="{ranks} cannot join: {error}", hint=_LOGS)

# smoke.collectives

NO_ARITHMETIC = Message(
    "smoke.collectives/no-arithmetic",
    summary="arithmetic on the NPUs has no effect: 3 + 1 gives {actual} without an error",
    detail="Kernels return success without computing. CANN's stub libraries, which are for linking only, do so.",
    hint=_CHECK_LIBRARIES,
)
NO_EFFECT = Message(
    "smoke.collectives/no-effect",
    summary="collectives return success but leave the data unchanged",
    detail="Nothing was computed or sent. CANN's stub libraries, which are for linking only, do so.",
    hint=_CHECK_LIBRARIES,
)
WRONG_INPUT = Message(
    "smoke.collectives/wrong-input",
    summary="rank {rank} sends wrong values: {operation} {dtype} gives {actual}, not {expected}",
    hint="Exclude this NPU from jobs until it is repaired; check its health and links.",
)
WRONG_RESULT = Message(
    "smoke.collectives/wrong-result",
    summary="rank {rank} receives wrong values: {operation} {dtype} gives {actual}, not {expected}",
    hint="Exclude this NPU from jobs until it is repaired; check its health and links.",
)
WRONG_EVERYWHERE = Message(
    "smoke.collectives/wrong-on-all-ranks",
    summary="all ranks receive wrong values: {operation} {dtype} gives {actual}, not {expected}",
    detail="The result is the same on all ranks, so it does not show which rank sent the wrong part.",
    hint="Halve the NPUs with --cards until one is left that causes it.",
)
RESULT_ON_RANK = Sentence("{operation} {dtype} on rank {rank}")

# smoke.bandwidth

BELOW_EARLIER = Message(
    "smoke.bandwidth/below-earlier-runs",
    summary="all-reduce bandwidth {reached:.1f} GB/s, {usual:.1f} GB/s in earlier runs on these NPUs",
    hint="Compare links and error counters with those of earlier runs, and check what else runs on this node.",
    severity=Severity.WARNING,
)
BELOW_LIMIT = Message(
    "smoke.bandwidth/below-limit",
    summary="all-reduce bandwidth {reached:.1f} GB/s with {ranks} ranks, limit {limit:g} GB/s",
    hint="Find the slow link: `npudoctor check npu` compares links, topology and error counters.",
    severity=Severity.WARNING,
)
BUS_BANDWIDTH = Sentence("all-reduce of {size_mib} MiB, bus bandwidth")
AT_LEAST_GB_S = Sentence("at least {limit:g} GB/s")
AT_LEAST_OF = Sentence("at least {share:g} of {usual:.1f} GB/s")

# smoke.training

NOT_FINITE = Message(
    "smoke.training/not-finite",
    summary="loss of {count:rank|ranks} {ranks} not finite at step {step}",
    hint="Check single NPUs with device math; one that computes NaN where others do not is probably faulty.",
)
GRADIENTS_LOST = Sentence("From this step on the gradients of all ranks are invalid.")
FINITE_LOSSES = Sentence("finite losses")
NOT_FINITE_FROM = Sentence("not finite from step {step} on")
LOSS_NOT_FALLING = Message(
    "smoke.training/loss-not-falling",
    summary="loss does not fall: {early:.4f} at the start, {late:.4f} at the end",
    detail="Gradients or the optimizer's step are wrong; kernels may return without computing.",
    hint="Check whether single NPUs compute correctly.",
)
BELOW = Sentence("below {early:.4f}")

# smoke.in-sync

RANKS_DIFFER = Message(
    "smoke.in-sync/ranks-differ",
    summary="parameters of {count:rank|ranks} {ranks} differ from the others after training",
    detail="Every rank applied the same averaged gradients to the same initial parameters; the results must be equal.",
    hint="Check whether this NPU computes correctly, alone and in collectives.",
)
ALL_RANKS_DIFFER = Message(
    "smoke.in-sync/all-ranks-differ",
    summary="parameters differ between the ranks after training",
    detail="Every rank applied the same averaged gradients to the same initial parameters; the results must be equal.",
    hint="Check whether the NPUs compute correctly, alone and in collectives.",
)
DIGEST = Sentence("digest of the parameters of rank {rank}")
SAME_DATA = Message(
    "smoke.in-sync/same-data",
    summary="ranks {first} and {second} received the same data",
    hint="The ranks do not know their numbers; check what the launcher sets RANK to.",
)
NO_OVERLAP = Sentence("shards without overlap")
SAMPLE = Sentence("sample {sample}")

# smoke.parity

OFF_REFERENCE = Message(
    "smoke.parity/off-reference",
    summary="loss {percent:.2g} % off the CPU reference at step {step}, limit {limit_percent:.2g} %",
    hint="Check whether single NPUs compute correctly; compare with one NPU: npudoctor smoke --cards 0.",
    severity=Severity.WARNING,
)
MEAN_LOSS = Sentence("mean loss at step {step}")
NOT_FINITE_VALUE = Sentence("not finite")
REFERENCE_ELSEWHERE = Sentence("the reference, computed by rank 0, is on another node")

# smoke.scaling

SLOW_RANK = Message(
    "smoke.scaling/slow-rank",
    summary="rank {rank} slow: {own_ms:.1f} ms per step, {usual_ms:.1f} ms on the others",
    detail="All ranks wait for it at every step.",
    hint="Check the clock and the temperature of the NPU, and what else runs on its CPUs.",
    severity=Severity.WARNING,
)
STEPS_ALONE = Sentence("median of 20 steps without communication")
INEFFICIENT = Message(
    "smoke.scaling/inefficient",
    summary="{ranks} ranks only {speedup:.1f} times as fast as one",
    hint="Check the bandwidth table, and whether the ranks are bound to the CPUs near their NPUs.",
    severity=Severity.WARNING,
)
EFFICIENCY = Sentence("step time of one rank alone divided by that of all together")
AT_LEAST = Sentence("at least {limit:g}")
TOO_FEW_STEPS = Sentence("20 steps per rank did not fit into the time limit; slow ranks could not be determined")

# smoke.memory-seen

OTHER_NPU = Message(
    "smoke.memory-seen/other-npu",
    summary="rank {rank} trained on {used} instead of {subject}",
    hint="Compare ASCEND_RT_VISIBLE_DEVICES with the numbers of npu-smi.",
    severity=Severity.WARNING,
)
PROCESS_ROW = Sentence("npu-smi info, process {pid}")
NOT_TESTED = Message(
    "smoke.memory-seen/not-tested",
    severity=Severity.INFO,
    summary="NPU not part of the smoke run",
    detail="An NPU that a check calls unhealthy, that a process holds or that a variable hides takes no part.",
    hint="`npudoctor smoke` names the reason.",
)
NO_MEMORY = Message(
    "smoke.memory-seen/no-memory",
    summary="npu-smi shows no memory in use on {subject} while rank {rank} trained on it",
    detail="The rank may have trained on another NPU, or on the CPU.",
    hint="Compare ASCEND_RT_VISIBLE_DEVICES with the numbers of npu-smi.",
    severity=Severity.WARNING,
)
MEMORY_ROW = Sentence("npu-smi info, memory in use on {npu}")
MEMORY = Sentence("{memory_mb:GB}")
MORE_MEMORY = Sentence("at least {added:GB} more than {before:GB}")
NPU_SMI_SILENT = Sentence("npu-smi did not answer during the run")
