"""Names of hosts that a log tells become pseudonyms; words, versions and links of the public stay."""

import pytest

from npudoctor.privacy import identifying_fields, names_in_logs, redaction

TOLD = {
    "MASTER_ADDR=quartz MASTER_PORT=29500": "quartz",
    "export MASTER_ADDR='quartz-07.prod.acme.cn'": "quartz-07.prod.acme.cn",
    '"master_addr": "onyx3",': "onyx3",
    "host(name)=basalt, EI0006": "basalt",
    "host name: basalt12": "basalt12",
    "  host      : basalt.acme.cn": "basalt.acme.cn",
    "HOSTNAME=opal": "opal",
    "hostname[slate5] serverId[slate6]": "slate6",
    "torchrun --rdzv_endpoint=jade.acme:29400": "jade.acme",
    "torchrun --rdzv-endpoint jade8:29400 --nnodes 2": "jade8",
    "--master-addr obsidian --master-port 29500": "obsidian",
    "rdzv_endpoint : jade9:29400": "jade9",
    "init_method='tcp://garnet:23456'": "garnet",
    "store = TCPStore tcp://[topaz.acme.cn]:23456": "topaz.acme.cn",
    "redis://:pass@topaz4:6379/0": "topaz4",
    "grpc://agate-2:8000": "agate-2",
    "failed to connect to mica8:60000": "mica8",
    "while trying to connect to (mica.rack2, 29500).": "mica.rack2",
    "has failed to connect to [mica-9]:29500 (errno: 111)": "mica-9",
    "ssh: connect to host beryl port 22: Connection timed out": "beryl",
    "ssh: Could not resolve hostname beryl: Name or service not known": "beryl",
    "The IPv6 network addresses of (pyrite, 29500) cannot be retrieved": "pyrite",
    "dial tcp: lookup pyrite7 on 10.0.0.1:53: no such host": "pyrite7",
    "pyrite8: Temporary failure in name resolution": "pyrite8",
    "task failed on host flint, giving up": "flint",
    "RANK 3 on node flint12 died": "flint12",
    "(pid=311, ip=10.1.2.3) the actor on host ray-worker-17": "ray-worker-17",
    "ray start --address=marble:6379": "marble",
    "ray.exceptions: node name=marble4 was lost": "marble4",
    "Successfully assigned team/llama-0 to kube-worker-3": "kube-worker-3",
    "spec.nodeName: kube-4": "kube-4",
    'nodes "kube-5" not found': "kube-5",
    "node/kube-6 cordoned": "kube-6",
    "Node:             kube-7/10.2.3.4": "kube-7",
    "Scheduled  kubelet, kube-8  Pulled image": "kube-8",
    "pod_name=llama-worker-2": "llama-worker-2",
    "http://llama.team.svc.cluster.local:8080/v1": "llama.team.svc.cluster.local",
    "waiting for llama-1.team.svc to answer": "llama-1.team.svc",
    "srun: error: slurm-n44: task 3: Killed": "slurm-n44",
    "slurmstepd: error: *** JOB 123 ON slurmc45 CANCELLED AT 2026-01-01 ***": "slurmc45",
    "SLURM_JOB_NODELIST=granite[01-04,07]": "granite",
    "[granite5:41234] *** Process received signal ***": "granite5",
    "Jan  5 10:11:12 gneiss kernel: npu heartbeat lost": "gneiss",
    "2026-02-02T10:11:12.123+08:00 gneiss2 systemd[1]: started": "gneiss2",
    "{'gneiss-3': [0, 1, 2, 3]}": "gneiss-3",
    "connect to 'schist-b12' failed": "schist-b12",
    "schist:29500 store timed out": "schist",
    "mpirun -host chert:8,marl:8 python": "marl",
    "mpirun -H chert,marl2 -np 2": "chert",
    "marl slots=8": "marl",
    "uname -a: Linux schist 5.10.0-60.aarch64 #1 SMP": "schist",
    "(pid=gcs_server, node=schist)": "schist",
    '"host_ip": "schist"': "schist",
    "localIp: schist": "schist",
    "Failed to connect to schist: timeout": "schist",
    "Host key verification failed for schist.": "schist",
    "[rank3] Mar  3 10:11:12 schist slurmd[77]: error": "schist",
    "schist: slurmstepd: error: step failed": "schist",
    "srun: error: schist[01-02]: tasks 0-1: Killed": "schist",
    "chert[007,009]: Connection refused": "chert",
    "scp -r ckpt chert:/data/ marl:out": "marl",
    "rsync -a me@chert:ckpt /data": "chert",
    "mount -t nfs chert:/export /data": "chert",
    "error: node chert is down": "chert",
    "host 'chert' did not respond": "chert",
    "chert.hpc.uni-acme.de: command not found": "chert.hpc.uni-acme.de",
}
"""Lines, and the name that must be found in each."""

HARMLESS = (
    "copied to host memory; on host side; node: 4, nodes=2, host: aarch64, server: true",
    "RuntimeError at train.py:1234, socket.cpp:697, on node 3 of 4, rank3: failed, Error:12345, npu:0, chip: 0",
    "https://www.hiascend.com/document https://github.com/hicann/hccl https://pypi.org/simple",
    "torch==2.6.0 CANN 8.2.RC1 driver 25.0.rc1.1 kernel 5.10.0-216.0.0.115 target: Ascend910B1",
    "connect to the server timed out, master: None, host=localhost, tcp://127.0.0.1:29500",
    "rank:0 npu:3 step:2000 iter:5000 node=0 node=None 25.5.0:8 10:11:12 EI0006:2000 HcclInit:1234 ret:507033",
    "connect to server: timeout; connect to the peer failed; Linux version 5.10, curl -H Accept:text/plain",
    "error: node memory is lost, rank[0-7]: failed, shape[10,20], weights[0], npu[0-3]: down, x.y.z.net, a.b.io",
    "see mirrors.tuna.tsinghua.edu.cn and docs.kernel.org; scp failed: no space; rsync: error",
    "threading.local, torch.distributed.elastic, module.internal()",
)


@pytest.mark.parametrize("line", list(TOLD))
def test_a_name_in_a_log_is_found(line: str) -> None:
    name = TOLD[line]
    assert name in set(names_in_logs.hosts(line))
    found = identifying_fields.Found({})
    found.in_prose(line)
    assert name not in redaction.Pseudonyms(found).apply(f"{line} /logs/{line}")


@pytest.mark.parametrize("line", HARMLESS)
def test_words_versions_and_public_links_are_no_names(line: str) -> None:
    assert set(names_in_logs.hosts(line)) == set()


def test_a_name_is_found_in_the_name_of_a_file() -> None:
    found = identifying_fields.Found({})
    found.in_prose("MASTER_ADDR=quartz-07")
    shown = redaction.Pseudonyms(found).apply("/logs/run_quartz-07.log plog-quartz-07-rank0 quartz-071")
    assert shown == "/logs/run_host-1.log plog-host-1-rank0 quartz-071"


USERS = {
    "Accepted publickey for umber": "umber",
    "  user: umber": "umber",
    "user: umber /mnt/train.py": "umber",
    '{"user_name": "umber", "n": 1}': "umber",
    "owner: umber": "umber",
    "wandb: Currently logged in as: umber (team)": "umber",
    "job submitted by umber": "umber",
    "/mnt/nas/users/umber/train.py": "umber",
    "/export/home/umber": "umber",
    "cd ~umber/": "umber",
    "Serial Number: 033ABCD10K000123": "033ABCD10K000123",
    "SN=033XYZ990001": "033XYZ990001",
    "serial number 033XYZ990001": "033XYZ990001",
    "board 0x20 serial 044QRS81": "044QRS81",
    "sudo: umber : TTY=pts/0 ; USER=root": "umber",
    "wandb: Currently logged in as: alice (team-umber)": "team-umber",
    'File "/root/umber_project/train.py"': "umber",
    "cd /root/umber/run": "umber",
    "python /data/umber_work/train.py": "umber",
    "git@git.acme.de:ml/umber.git": "umber",
    "bind 0x0a1f2b3c failed": "0x0a1f2b3c",
    "remote 0xC0A80A0B:60000": "0xC0A80A0B",
    f"  {'Ab1cxY9z' * 7}+b/cxY9z": "Ab1cxY9z",
    "port 0011.2233.44ab up": "0011.2233.44ab",
    "peer 10-20-30-41 lost": "10-20-30-41",
}
"""Lines, and the user, serial number or address that must be replaced in each."""


@pytest.mark.parametrize("line", list(USERS))
def test_a_user_a_serial_number_and_an_address_are_replaced(line: str) -> None:
    found = identifying_fields.Found({})
    found.in_prose(line)
    assert USERS[line] not in redaction.Pseudonyms(found).apply(line)


@pytest.mark.parametrize(
    "line",
    [
        *("user: the job ended", "owner: root", "login: failed", "user: unknown", "ranks 0-1-2-3", "2026-11-23"),
        *("driver 25.5.0:8", "10:11:12", "error 507033", "version 1.2.3.4", "sn: none", "~/train.py", "/usr/local/bin"),
        *(
            "/root/ascend/log/debug",
            "/root/miniconda3/envs/x",
            "0x0a000001",
            "0x80c98009",
            "git@github.com:vllm/vllm.git",
        ),
        *(
            "/usr/local/Ascend/ascend-toolkit/8.2.RC1/opp/built-in/op_impl/ai_core/tbe",
            "serial port 3",
            "at 0x7f0a1b2c",
        ),
        "_ZN3c1014torchCheckFailEPKcS1_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ],
)
def test_ordinary_words_stay(line: str) -> None:
    found = identifying_fields.Found({})
    found.in_prose(line)
    found.addresses.discard("1.2.3.4")
    assert redaction.Pseudonyms(found).apply(line) == line
