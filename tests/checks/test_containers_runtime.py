"""containers.runtime: installed, and known to the engines of this host."""

import pytest

from npudoctor.facts.node.ascend_runtime import CONTAINERD, IMPORTED, PROGRAM
from npudoctor.findings import Result, Skip, Status
from npudoctor.testing import run_check

DOCKER = "/etc/docker/daemon.json"
REGISTERED = f'{{"runtimes": {{"ascend": {{"path": "{PROGRAM}"}}}}}}'
TWO = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.ascend.options]\n'


def run(files: dict[str, str], program: str | None = "#!") -> Result:
    return run_check("containers.runtime", files={**files, **({PROGRAM: program} if program else {})})


@pytest.mark.parametrize(
    "files",
    [
        {DOCKER: REGISTERED},
        {DOCKER: f'{{"default-runtime": "npu", "runtimes": {{"npu": {{"path": "{PROGRAM}"}}}}}}'},
        {CONTAINERD: f'{TWO}BinaryName = "{PROGRAM}"\n'},
        {CONTAINERD: "version = 2\n", f"{IMPORTED}/ascend.toml": f'{TWO}BinaryName = "{PROGRAM}"\n'},
        {DOCKER: REGISTERED, CONTAINERD: 'disabled_plugins = ["cri"]\n'},
        {},
    ],
)
def test_an_engine_that_knows_it_passes(files: dict[str, str]) -> None:
    assert run(files).status is Status.OK


@pytest.mark.parametrize(
    ("files", "engine"),
    [
        ({DOCKER: "{}"}, "docker"),
        ({DOCKER: '{"runtimes": {"crun": {"path": "/usr/bin/crun"}}}'}, "docker"),
        ({CONTAINERD: "version = 2\n"}, "containerd"),
        ({DOCKER: REGISTERED, CONTAINERD: "version = 3\n"}, "containerd"),
    ],
)
def test_an_engine_that_does_not_know_it_is_named_with_the_fix(files: dict[str, str], engine: str) -> None:
    result = run(files)
    (finding,) = result.findings
    assert result.status is (Status.OK if len(files) > 1 else Status.WARNING)
    assert finding.code == "containers.runtime/not-registered"
    assert finding.fix is not None
    assert (finding.fix.id, finding.fix.params) == ("container.runtime", {"engine": engine})


def test_without_the_runtime_there_is_nothing_to_check() -> None:
    result = run({DOCKER: "{}"}, program=None)
    assert (result.skip, result.reason) == (Skip.NOT_APPLICABLE, "the Ascend Docker runtime is not installed")
