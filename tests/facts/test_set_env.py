"""What set_env.sh exports, read as text."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.cann.set_env import Exports, read_exports, split_paths
from npudoctor.sdk import Unavailable

SIMPLE = """#!/bin/bash
# the toolkit; export IGNORED=1
export LD_LIBRARY_PATH=/drv/lib64:/drv/lib64/common:$LD_LIBRARY_PATH
export ASCEND_TOOLKIT_HOME="/opt/cann"
export LD_LIBRARY_PATH=${ASCEND_TOOLKIT_HOME}/lib64:${ASCEND_TOOLKIT_HOME}/lib/$(arch):$LD_LIBRARY_PATH
export PYTHONPATH=${ASCEND_TOOLKIT_HOME}/python/site-packages${PYTHONPATH:+:${PYTHONPATH}}
export ASCEND_OPP_PATH=${ASCEND_TOOLKIT_HOME}/opp; export ASCEND_HOME_PATH='/opt/cann'
"""


def exports(text: str, **variables: str) -> Exports:
    return read_exports(text, path="/opt/cann/set_env.sh", machine="aarch64", variables=variables)


def test_exports_are_those_of_the_script_from_the_outer_to_the_inner() -> None:
    found = exports(SIMPLE, PYTHONPATH="/mine")
    assert found.complete
    assert found.entries("LD_LIBRARY_PATH") == (
        "/opt/cann/lib64",
        "/opt/cann/lib/aarch64",
        "/drv/lib64",
        "/drv/lib64/common",
    )
    assert found.variables["PYTHONPATH"] == "/opt/cann/python/site-packages:/mine"
    assert found.variables["ASCEND_OPP_PATH"] == "/opt/cann/opp"
    assert "IGNORED" not in found.variables


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "text",
    [
        SIMPLE,
        'here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nexport A=$here/x B="two words" C=${NOT:-fallback}\n',
        "export A=1 \\\n  B=2\nexport A=$A$B # both\nC=3\nexport C\n",
        "export A=\"a;b|c # d\" B='$A' D=x\\ y\nunset B\nexport E=${A}\n",
    ],
)
def test_what_is_understood_is_what_bash_does(text: str, tmp_path: object) -> None:
    script = f"{tmp_path}/set_env.sh"
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    found = read_exports(text, path=script, machine=subprocess.getoutput("arch"))
    said = subprocess.run(
        ["bash", "-c", f". {script}; env -0"], env={}, capture_output=True, encoding="utf-8", check=True
    ).stdout.split("\0")
    shell = dict(line.split("=", 1) for line in said if "=" in line)
    assert found.complete
    assert found.variables == {name: shell[name] for name in found.variables}
    assert set(shell) - set(found.variables) <= {"PWD", "SHLVL", "_", "OLDPWD"}


def test_functions_and_conditionals_are_passed_over_and_said() -> None:
    found = exports(
        """
add() { export IN_FUNCTION=1
  if [ -n "$1" ]; then export DEEPER=1; fi
}
if [ -d /x ]; then
  export IN_CONDITIONAL=1
fi
[ -d /x ] && export BEHIND_AND=1
for one in a b; do export IN_LOOP=$one; done
case $1 in a) export IN_CASE=1;; esac
add here
export AFTER=1
"""
    )
    assert dict(found.variables) == {"AFTER": "1"}
    assert not found.complete


def test_a_conditional_without_an_export_leaves_the_result_complete() -> None:
    assert exports('if [ -z "$1" ]; then\n  echo hello\nfi\nexport A=1\n') == Exports({"A": "1"}, True)


def test_a_value_that_is_not_understood_is_left_out() -> None:
    found = exports("export A=$(some_tool --prefix)\nexport B=${A/x/y}\nexport C=1\n")
    assert dict(found.variables) == {"C": "1"}
    assert not found.complete


def test_a_sourced_script_is_read_and_one_that_is_missing_is_said() -> None:
    def read(path: str) -> str:
        if path == "/opt/cann/bin/setenv.bash":
            return "export FROM_INNER=$BASH_SOURCE\n"
        raise Unavailable(f"{path} does not exist")

    text = 'source "$(dirname "$BASH_SOURCE")/bin/setenv.bash"\nexport MINE=$BASH_SOURCE\n'
    found = read_exports(text, path="/opt/cann/set_env.sh", machine="x86_64", read=read)
    assert found.variables == {"FROM_INNER": "/opt/cann/bin/setenv.bash", "MINE": "/opt/cann/set_env.sh"}
    assert found.complete
    assert not read_exports(". /nowhere.sh", path="/s", machine="x86_64", read=read).complete


def test_a_script_that_sources_itself_ends() -> None:
    text = "export A=1\nsource $BASH_SOURCE\n"
    found = read_exports(text, path="/s", machine="x86_64", read=lambda _: text)
    assert found.variables == {"A": "1"}
    assert not found.complete


def test_nesting_without_end_is_too_hard_and_no_crash() -> None:
    assert not exports("export A=" + "${A:-" * 5000 + "}" * 5000).complete


@given(st.text(alphabet="export ASCEND_H=/${}()`'\"\\;&|#\n[]ifthen:-+cd pwd{}", max_size=120))
def test_any_text_gives_exports_and_no_exception(text: str) -> None:
    found = exports(text)
    assert all(isinstance(value, str) for value in found.variables.values())


def test_parts_of_a_path_list_are_each_once_without_slash() -> None:
    assert split_paths("/a/:/b::/a:/") == ("/a", "/b", "/")
