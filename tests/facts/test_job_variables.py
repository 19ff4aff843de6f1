"""Variables of launchers and jobs, and the lines of start-up files that set them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from npudoctor.facts.node.job_variables import belongs_to_a_job, parse, without


@pytest.mark.parametrize(
    ("line", "names", "removable"),
    [
        ("export RANK=3", {"RANK": "3"}, True),
        ("  RANK=3  # of yesterday", {"RANK": "3"}, True),
        ("export RANK=0 WORLD_SIZE='16';", {"RANK": "0", "WORLD_SIZE": "16"}, True),
        ("declare -x MASTER_ADDR=10.7.0.4", {"MASTER_ADDR": "10.7.0.4"}, True),
        ("export HCCL_IF_IP=$(hostname -I)", {"HCCL_IF_IP": "$(hostname"}, False),
        ('export RANK="$SLURM_PROCID"', {"RANK": "$SLURM_PROCID"}, True),
        ("export RANK=0 PATH=/opt/bin:$PATH", {"RANK": "0"}, False),
        ("export RANK=0 && cd /data", {"RANK": "0"}, False),
        ('[ -n "$PS1" ] && export LOCAL_RANK=2', {"LOCAL_RANK": "2"}, False),
        ("if true; then export NODE_RANK=1; fi", {"NODE_RANK": "1"}, False),
        ("export RANK=0 \\", {"RANK": "0"}, False),
        ("# export RANK=0", {}, False),
        (":  # npudoctor: export RANK=0", {}, False),
        ("RANK=0 python3 train.py", {}, False),
        ("echo RANK=0", {}, False),
        ("export OMP_NUM_THREADS=8", {}, False),
        ('echo "unbalanced RANK=0', {}, False),
    ],
)
def test_the_line_that_sets_a_variable_of_a_job_is_found(line: str, names: dict[str, str], removable: bool) -> None:
    found = parse(f"\n{line}\n", "/root/.bashrc")
    assert [(one.line_number, one.names, one.removable) for one in found] == ([(2, names, removable)] if names else [])


def test_a_line_that_another_one_goes_on_in_is_not_taken_out() -> None:
    assert not parse("echo \\\nRANK=0\n", "/root/.bashrc")[0].removable


@pytest.mark.parametrize("name", ["GROUP_RANK", "LOCAL_SIZE", "MASTER_PORT", "SLURM_NODEID", "PMI_RANK", "CM_CHIEF_IP"])
def test_variables_of_launchers_belong_to_a_job(name: str) -> None:
    assert belongs_to_a_job(name)


@pytest.mark.parametrize("name", ["HCCL_SOCKET_IFNAME", "HCCL_IF_BASE_PORT", "LD_LIBRARY_PATH", "ASCEND_HOME_PATH"])
def test_settings_of_a_node_do_not(name: str) -> None:
    assert not belongs_to_a_job(name)


def test_a_file_without_the_line_is_still_a_script(tmp_path: Path) -> None:
    text = 'if true; then\n  export RANK=1\nfi\necho "${RANK:-none}"\n'
    changed = without(text, "/root/.bashrc", [2])
    (tmp_path / "script").write_text(changed, encoding="utf-8")
    done = subprocess.run(["sh", tmp_path / "script"], capture_output=True, encoding="utf-8", check=True, env={})
    assert done.stdout == "none\n"
    assert without("A=1\nRANK=3\n", "/etc/environment", [2]) == "A=1\n# npudoctor: RANK=3\n"


def test_a_long_word_in_quotes_takes_no_time() -> None:
    begin = time.process_time()
    assert parse("RANK='" + "a" * 500_000 + "'\nRANK=1\n", "/root/.profile")[0].line_number == 2
    assert len(parse("RANK=1\n" * 30_000, "/root/.profile")) == 20_000
    assert time.process_time() - begin < 3
