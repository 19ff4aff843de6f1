"""Whose variables are judged."""

from __future__ import annotations

import pytest

from npudoctor.facts.node.environment import job_environment
from npudoctor.findings import Because
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Unavailable


def test_variables_are_a_mapping_and_an_empty_one_counts_as_unset() -> None:
    found = job_environment(FakeHost(environ={"RANK": "0", "HCCL_IF_IP": ""}))
    assert dict(found) == {"RANK": "0", "HCCL_IF_IP": ""}
    assert (found["RANK"], found.get("WORLD_SIZE"), found.non_empty("HCCL_IF_IP"), found.non_empty("RANK")) == (
        "0",
        None,
        None,
        "0",
    )
    assert found.whose == "process"


def test_without_variables_the_reason_is_the_host_s() -> None:
    with pytest.raises(Unavailable) as why:
        job_environment(FakeHost(environ=Unavailable("no job environment: started by cron", because=Because.NO_RIGHT)))
    assert why.value.reason == "no job environment: started by cron"
    assert why.value.because is Because.NO_RIGHT
