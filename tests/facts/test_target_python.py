"""Which Python is examined, and what it says of itself."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import (
    PythonEnvironment,
    TargetPython,
    parse_environment,
    python_environment,
    target_python,
    torch_pair,
)
from npudoctor.host import Completed, Host
from npudoctor.host.live.local import LocalHost
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, Options, ParseError, Unavailable

SAID = {
    "executable": "/data/venv/bin/python",
    "version": "3.10.16",
    "implementation": "CPython",
    "prefix": "/data/venv",
    "base_prefix": "/usr",
    "machine": "aarch64",
    "glibc": "2.34",
    "distributions": {
        "torch": {"version": "2.5.1+cpu", "requires": ["filelock"]},
        "torch_npu": {"version": "2.5.1.post1", "requires": ["torch==2.5.1"]},
    },
}


def chosen(host: Host, *, python: str | None = None, **environ: str) -> TargetPython:
    found = target_python.function(host, Options(python=python), JobEnvironment(environ))
    assert isinstance(found, TargetPython)
    return found


def metadata(prefix: str, version: str = "3.11") -> str:
    return f"{prefix}/lib/python{version}/site-packages/torch_npu-2.5.1.dist-info/METADATA"


def test_the_person_s_choice_comes_before_everything() -> None:
    host = FakeHost(files={"/opt/env/bin/python": ""})
    assert chosen(host, python="/opt/env", NPUDOCTOR_PYTHON="/other").path == "/opt/env/bin/python"
    assert chosen(host, python="/usr/bin/python3.9").path == "/usr/bin/python3.9"
    named = chosen(host, NPUDOCTOR_PYTHON="/other/python")
    assert (named.path, named.asked_for) == ("/other/python", True)


def test_the_active_environment_whose_bin_is_first_on_path_comes_first() -> None:
    host = FakeHost(files={f"{prefix}/bin/python": "" for prefix in ("/venv", "/conda", "/usr")})
    both = {"VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"}
    assert chosen(host, **both, PATH="/conda/bin:/venv/bin:/usr/bin").path == "/conda/bin/python"
    assert chosen(host, **both, PATH="/venv/bin:/conda/bin").path == "/venv/bin/python"


def test_one_that_holds_torch_npu_comes_before_one_that_does_not() -> None:
    host = FakeHost(
        files={
            "/usr/bin/python3.9": "",
            "/usr/lib/python3.9/site-packages/torch-2.5.1.dist-info/METADATA": "",
            "/home/dev/miniforge3/envs/npu/bin/python": "",
            metadata("/home/dev/miniforge3/envs/npu"): "",
        },
        links={"/usr/bin/python3": "python3.9"},
    )
    found = chosen(host, HOME="/home/dev", PATH="/usr/bin")
    assert found.path == "/home/dev/miniforge3/envs/npu/bin/python"
    assert "contains torch_npu" in found.why


def test_packages_of_another_minor_version_do_not_count() -> None:
    host = FakeHost(
        files={"/a/bin/python3.9": "", "/b/bin/python3.11": "", metadata("/a", "3.12"): "", metadata("/b"): ""},
        links={"/a/bin/python3": "python3.9", "/b/bin/python3": "python3.11"},
    )
    assert chosen(host, PATH="/a/bin:/b/bin").path == "/b/bin/python3"


def test_environments_that_conda_has_noted_are_found() -> None:
    host = FakeHost(
        files={
            "/home/dev/.conda/environments.txt": "/data/envs/one\n\n/data/envs/two\n",
            "/data/envs/one/bin/python": "",
            "/data/envs/two/bin/python": "",
            metadata("/data/envs/two"): "",
        }
    )
    assert chosen(host, HOME="/home/dev", PATH="/usr/bin").path == "/data/envs/two/bin/python"


def test_npudoctor_s_own_interpreter_is_not_the_patient() -> None:
    host = LocalHost(environ={"PATH": f"{sys.prefix}/bin:/usr/bin"})
    try:
        found = chosen(host, VIRTUAL_ENV=sys.prefix, PATH=f"{sys.prefix}/bin:/usr/bin")
    except Unavailable as why:
        assert "that of npudoctor" in why.reason
    else:
        assert not found.path.startswith(sys.prefix + "/") or "torch_npu" in found.why


def test_a_recording_that_names_no_interpreter_still_answers() -> None:
    host = FakeHost(commands={"python environment": json.dumps(SAID)})
    assert environment_of(host).executable == "/data/venv/bin/python"


def environment_of(host: Host) -> PythonEnvironment:
    found = python_environment.function(host, chosen(host))
    assert isinstance(found, PythonEnvironment)
    return found


def test_names_are_normalised_and_versions_are_kept_as_they_are() -> None:
    found = parse_environment("a line that sitecustomize printed\n" + json.dumps(SAID))
    assert found.release == (3, 10)
    assert found.torch is not None and (found.torch.version, found.torch.base_version) == ("2.5.1+cpu", "2.5.1")
    assert found.torch_npu is not None and found.torch_npu.requires == ("torch==2.5.1",)
    assert found.torch_build is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"version": "three"}', '{"version": "3.9'])
def test_text_that_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_environment(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda deeper: st.dictionaries(st.text(), deeper) | st.lists(deeper)
    )
)
def test_any_answer_is_understood_or_refused(said: object) -> None:
    try:
        found = parse_environment(json.dumps({**SAID, "distributions": said, "shadows": said, "torch_build": said}))
    except ParseError:
        return
    assert all(isinstance(one.version, str) for one in found.distributions.values())


@pytest.mark.parametrize(
    ("answer", "because", "words"),
    [
        (Completed(returncode=None, timed_out=True, seconds=20.0), Because.TIMED_OUT, "timed out after 20 s"),
        (Completed(returncode=1, stderr="  def f(a: str):\nSyntaxError: invalid syntax"), Because.FAILED, "older than"),
        (Completed(returncode=127, stderr="libpython3.so: not found"), Because.FAILED, "libpython3.so: not found"),
        (Completed(returncode=0, stdout="hello"), Because.FAILED, "printed nothing"),
        (Completed(returncode=-11), Because.FAILED, "not a working Python"),
        (Completed(returncode=0, stdout=json.dumps({**SAID, "version": "3.5.2"})), Because.FAILED, "is Python 3.5.2"),
    ],
)
def test_what_is_no_working_python_says_why(answer: Completed, because: Because, words: str) -> None:
    with pytest.raises(Unavailable) as caught:
        environment_of(FakeHost(commands={"python environment": answer}))
    assert caught.value.because is because
    assert words in caught.value.reason


def test_a_missing_half_of_the_pair_names_the_check_that_says_so() -> None:
    complete = parse_environment(json.dumps(SAID))
    assert torch_pair.function(complete).torch_npu.version == "2.5.1.post1"
    for missing, check in (("torch", "python.torch"), ("torch_npu", "python.torch-npu")):
        rest = {name: about for name, about in SAID["distributions"].items() if name != missing}  # type: ignore[attr-defined]
        with pytest.raises(Unavailable) as caught:
            torch_pair.function(parse_environment(json.dumps({**SAID, "distributions": rest})))
        assert caught.value.blocked_by == check
