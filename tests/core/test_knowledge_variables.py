"""Which values of environment variables are legal, and who judges them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.knowledge.values import Kind

MEANING = re.compile(
    r"(is|must contain|adds|allows|bypasses|caches|configures|controls|disables|forces|hides|limits|lists|logs|makes"
    r"|names|overrides|prints|selects|sets|splits|stops|switches|tells) (\S+ )*\S+\."
)
"""The predicate of a variable's meaning: a finite verb, its object, and a full stop."""
SYMPTOM = re.compile(
    r"(?P<subject>([A-Z]|\S*[_.0-9]|ccec|vllm)\S*( \S+){0,6}?) ((is|are|differ|drops|exits|fails?|floods|has|have|hang"
    r"|may|refuse|reports?:?|run|start|use|uses) (\S+ )*\S+|drops|exits|fails|hang)\."
)
"""A symptom: a subject that starts with a capital or a code word, a finite verb, and a full stop."""

LEGAL = {
    "HCCL_IF_IP": ["10.0.0.7", "fe80::1", "::1"],
    "HCCL_IF_BASE_PORT": ["1024", "65520", " 60000 "],
    "HCCL_SOCKET_IFNAME": ["eth", "=eth0,enp0", "^eth", "^=eth0", "bond0.100"],
    "HCCL_SOCKET_FAMILY": ["AF_INET6"],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["auto", "60000", "60000,60050-60100"],
    "HCCL_DETERMINISTIC": ["TRUE", "strict"],
    "HCCL_RDMA_TC": ["0", "132", "252"],
    "HCCL_OP_RETRY_ENABLE": ["L0:0,L1:1,L2:1", "L1:0, L2:0"],
    "HCCL_DFS_CONFIG": ["connection_fault_detection_time:0", "cluster_heartbeat:off,new_key:17"],
    "HCCL_ALGO": ["level0:NA;level1:ring", "anything"],
    "ASCEND_RT_VISIBLE_DEVICES": ["0", "0,1,2,3", "4,7,100"],
    "ASCEND_RUNTIME_OPTIONS": ["NODRV,VIRTUAL", "VIRTUAL"],
    "ASCEND_MODULE_LOG_LEVEL": ["HCCL=1", "HCCL=1:GE=0"],
    "CPU_AFFINITY_CONF": ["1", "2,force:1", "1,npu0:0-23,npu1:24-47"],
    "PYTORCH_NPU_ALLOC_CONF": [
        "expandable_segments:True",
        "max_split_size_mb:256,garbage_collection_threshold:0.8",
        "expandable_segments:False,max_split_size_mb:64",
        "page_size:1g, roundup_power2_divisions:[256:1,512:2,>:4]",
    ],
    "HCCL_EXEC_TIMEOUT": ["68", "1836", "1090.99"],
    "HCCL_OP_EXPANSION_MODE": ["AIV", "AI_CPU", "HOST", "CCU_SCHED"],
    "INF_NAN_MODE_ENABLE": ["0", "1"],
    "OMP_NUM_THREADS": ["1", "24", "4,2"],
    "VLLM_WORKER_MULTIPROC_METHOD": ["spawn"],
    "VLLM_VERSION": ["0.9.1", "0.9.1rc1"],
    "ASCEND_COREDUMP_SIGNAL": ["none", "all"],
    "TORCH_NPU_WARNING_DISABLE": ["yes"],
    "ASCEND_VISIBLE_DEVICES": ["0-7", "Ascend910-0,Ascend910-1", "void"],
    "SOC_VERSION": ["ascend910b1"],
}
ILLEGAL = {
    "HCCL_IF_IP": ["localhost", "10.0.0", "10.0.0.7/24"],
    "HCCL_IF_BASE_PORT": ["1023", "65521", "60000-60031", "6e4", "0xea60", "60_000", "٦٠٠٠٠"],
    "HCCL_SOCKET_IFNAME": ["eth0,,eth1", "eth0 eth1", "="],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["60000:60015", "sixty"],
    "HCCL_DETERMINISTIC": ["1", "yes"],
    "HCCL_RDMA_TC": ["133", "256", "-4"],
    "HCCL_RDMA_SL": ["8"],
    "HCCL_BUFFSIZE": ["0", "200MB", "0.5"],
    "HCCL_DFS_CONFIG": ["connection_fault_detection_time:10", "cluster_heartbeat:maybe", "heartbeat"],
    "HCCL_WHITELIST_DISABLE": ["true"],
    "HCCL_LOGLEVEL": ["INFO"],
    "HCCL_LOGIC_SUPERPOD_ID": ["x" * 128],
    "ASCEND_RT_VISIBLE_DEVICES": ["0, 1", "1,0", "0,0", "0,", "all", "0-7"],
    "ASCEND_GLOBAL_LOG_LEVEL": ["5", "INFO"],
    "ASCEND_RUNTIME_OPTIONS": ["NODRV;VIRTUAL"],
    "PYTORCH_NPU_ALLOC_CONF": [
        "expandable_segments:True,max_split_size_mb:64",
        "max_split_size_mb:20",
        "garbage_collection_threshold:80",
        "expandable_segments=True",
    ],
    "HCCL_EXEC_TIMEOUT": ["-1", "forever"],
    "HCCL_OP_EXPANSION_MODE": ["GPU"],
    "TORCH_TRANSFER_TO_NPU": ["true"],
    "STREAMS_PER_DEVICE": ["16"],
    "OMP_NUM_THREADS": ["0"],
    "VLLM_WORKER_MULTIPROC_METHOD": ["fork"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in LEGAL for value in LEGAL[name]])
def test_a_legal_value_raises_no_alarm(name: str, value: str) -> None:
    variable = knowledge.environment().variable(name)
    assert variable and variable.problem(value) is None


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in ILLEGAL for value in ILLEGAL[name]])
def test_an_illegal_value_is_said_in_words(name: str, value: str) -> None:
    variable = knowledge.environment().variable(name)
    assert variable
    assert re.match(r"[\w'\".-]+.* ", variable.problem(value) or "")


def test_an_empty_value_counts_as_unset() -> None:
    for variable in knowledge.environment().variables:
        assert variable.problem("") is None and variable.problem("  ") is None, variable.name


def test_every_default_that_is_a_value_is_legal() -> None:
    literal = [
        (variable, variable.default)
        for variable in knowledge.environment().variables
        if variable.default
        and re.fullmatch(r"-?\d+|True|False|TRUE|FALSE|AF_INET|enable|L\d.*|\w+:\w+.*", variable.default)
    ]
    assert len(literal) > 35
    assert not [variable.name for variable, default in literal if variable.problem(default)]
    expansion = knowledge.environment().variable("HCCL_OP_EXPANSION_MODE")
    assert expansion and expansion.default == "A2: HOST; A3: AI_CPU; 950: AICPU_TS"
    for family, default in (("A2", "HOST"), ("A3", "AI_CPU"), ("950", "AICPU_TS")):
        assert expansion.problem(default, family=family) is None


def test_the_product_decides_where_products_differ() -> None:
    environment = knowledge.environment()
    wait, rdma, mode = map(environment.variable, ("HCCL_EXEC_TIMEOUT", "HCCL_RDMA_TIMEOUT", "HCCL_OP_EXPANSION_MODE"))
    assert wait and rdma and mode
    assert wait.problem("0", family="910") and not wait.problem("0", family="A2") and not wait.problem("0")
    assert wait.problem("17341", family="310P") and not wait.problem("17341", family="A3")
    assert rdma.problem("24", family="A2") and not rdma.problem("24", family="950") and not rdma.problem("24")
    assert mode.problem("HOST", family="A3") and not mode.problem("HOST", family="910"), "910 is not in its table"
    assert "A3" in (mode.problem("GPU") or "")


def test_what_only_a_host_can_tell_is_left_to_a_check() -> None:
    by_host = {Kind.DIRECTORY, Kind.DIRECTORIES, Kind.FILE, Kind.SAME_PATH, Kind.CONTAINS, Kind.INTERFACE, Kind.ANY}
    left = [v for v in knowledge.environment().variables if v.rule and v.rule.kind in by_host]
    assert len(left) > 30
    for variable in left:
        assert variable.problem("/does/not/exist") is None
        assert variable.rule and (variable.rule.kind is not Kind.ANY or variable.rule.why), f"{variable.name}: why not?"
    table = knowledge.environment().variable("RANK_TABLE_FILE")
    assert table and table.rule and table.rule.absolute and table.rule.no_link


def test_each_variable_has_one_judge() -> None:
    environment = knowledge.environment()
    judged = {name: variable.judge for name in LEGAL if (variable := environment.variable(name))}
    assert judged["ASCEND_RT_VISIBLE_DEVICES"] == "env.visible-devices"
    assert judged["HCCL_IF_BASE_PORT"] == judged["HCCL_HOST_SOCKET_PORT_RANGE"] == "hccl.base-port"
    assert judged["HCCL_IF_IP"] == judged["HCCL_SOCKET_IFNAME"] == "hccl.interface"
    assert judged["HCCL_SOCKET_FAMILY"] is None
    names = {variable.name for variable in environment.judged_by("hccl.timeouts")}
    assert names == {"HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"}
    assert len(list(environment.judged_by(None))) > 60


@pytest.mark.parametrize(
    ("set_to", "family", "illegal"),
    [
        ({"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"}, "A2", True),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, "910", True),
        ({"HCCL_INTRA_ROCE_ENABLE": "0"}, "A2", True),
        ({"HCCL_INTRA_ROCE_ENABLE": "1"}, "A2", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "0"}, "A2", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, "A3", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, None, False),
        ({}, "A2", False),
        ({"INF_NAN_MODE_ENABLE": "0"}, "A3", True),
        ({"INF_NAN_MODE_ENABLE": "0"}, "910", False),
        ({"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}, "A2", False),
        ({"PYTORCH_NPU_ALLOC_CONF": "a:b", "PYTORCH_ALLOC_CONF": "c:d"}, None, True),
        ({"PYTORCH_NPU_ALLOC_CONF": "a:b", "PYTORCH_ALLOC_CONF": ""}, None, False),
    ],
)
def test_variables_that_exclude_each_other_are_found(set_to: dict[str, str], family: str, illegal: bool) -> None:
    assert bool(knowledge.environment().conflicts_in(set_to, family=family)) is illegal


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ASCEND_RT_VISIBLE_DEVICE", "ASCEND_RT_VISIBLE_DEVICES"),
        ("HCCL_SOCKET_IFNAM", "HCCL_SOCKET_IFNAME"),
        ("HCCL_CONECT_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_BUFSFIZE", "HCCL_BUFFSIZE"),
        ("hccl_if_ip", "HCCL_IF_IP"),
        ("ASCEND_LOG_PRINT_TO_STDOUT", None),  # legal, and one letter from the older name
        ("HCCL_IF_IP", None),
        ("HOME", None),
        ("HCCL_SOMETHING_ELSE", None),
    ],
)
def test_a_typing_slip_is_told_from_a_name_of_its_own(name: str, meant: str | None) -> None:
    assert knowledge.environment().misspelling_of(name) == meant


def test_no_known_name_is_a_slip_of_another() -> None:
    environment = knowledge.environment()
    assert not [name for name in environment.recorded if environment.misspelling_of(name)]


def test_what_may_hold_a_password_is_never_recorded() -> None:
    recorded = knowledge.environment().recorded
    assert {"ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "HOME", "CONDA_PREFIX", "no_proxy", "HCCL_IF_IP"} <= recorded
    assert "http_proxy" not in recorded
    assert not [name for name in recorded if re.search("token|secret|passw|credential|key$", name, re.IGNORECASE)]


def test_an_orchestrator_is_known_by_its_variables() -> None:
    environment = knowledge.environment()
    assert environment.orchestrator({"SLURM_JOB_ID": "17"}) == "Slurm"
    assert environment.orchestrator({"HOME": "/root", "SLURM_JOB_ID": ""}) is None
    names = {name for names in environment.orchestrators.values() for name in names}
    assert names <= environment.recorded


@given(st.text(max_size=60))
def test_no_value_upsets_the_judgement(value: str) -> None:
    environment = knowledge.environment()
    for variable in environment.variables:
        for family in (None, "910", "A2", "nonsense"):
            problem = variable.problem(value, family=family)
            assert problem is None or problem.strip()
    assert environment.misspelling_of(value) is None or value not in environment.recorded


def test_every_meaning_is_a_sentence_about_its_variable() -> None:
    wrong = [
        variable.name
        for variable in knowledge.environment().variables
        if not variable.meaning.startswith(f"{variable.name} ")
        or not MEANING.fullmatch(variable.meaning.removeprefix(f"{variable.name} "))
    ]
    assert not wrong


def test_every_symptom_is_a_sentence() -> None:
    environment = knowledge.environment()
    texts = [one.symptom for one in environment.variables if one.symptom is not None]
    texts += [one.symptom for one in environment.conflicts]
    assert len(texts) > 90
    assert not [text for text in texts if not SYMPTOM.fullmatch(text)]


@pytest.mark.parametrize(
    "text",
    ["EI0001", "EI0001.", "Slow.", "Startup error.", "slow start.", "Jobs are slow", "RDMA loss.", "Is slow."],
)
def test_a_fragment_is_no_symptom(text: str) -> None:
    assert not SYMPTOM.fullmatch(text)


@pytest.mark.parametrize("text", ["names.", "extra operator packages.", "sets the host NIC", "host NIC choice"])
def test_a_fragment_is_no_meaning(text: str) -> None:
    assert not MEANING.fullmatch(text)


def test_unused_enum_members_do_not_hide_in_the_tables() -> None:
    used = {v.rule.kind for v in knowledge.environment().variables if v.rule}
    used |= {rule.kind for v in knowledge.environment().variables for rule in (v.rules_by_family or {}).values()}
    assert used == set(Kind)
