"""`check --for NAME`: the pair that the checks of the Python propose is that of the framework's published set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npudoctor import knowledge
from tests.cli.conftest import Command

FRAMEWORKS = [framework.name for framework in knowledge.stacks().frameworks]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("LLaMA-Factory", "llamafactory"), ("llama_factory", "llamafactory"), ("vllm_ascend", "vllm-ascend")),
        *(("vLLM Ascend", "vllm-ascend"), ("MindIE", "mindie"), ("mindie-llm", "mindie"), ("ms_swift", "ms-swift")),
        *(("swift", "ms-swift"), ("SGLang", "sglang"), ("VERL", "verl")),
    ],
)
def test_a_framework_is_known_in_every_spelling(npudoctor: Command, text: str, name: str) -> None:
    report = npudoctor("check", "stack", "--for", text, "--simulate", "new-node", "--json").json
    found = {one["check"]: one["findings"] for one in report["results"]}
    assert found[f"stack.{name}"][-1]["summary"].split(" not installed")[0] == knowledge.stacks().find(text).title
    assert npudoctor("knowledge", "pair", "--for", text, "--json").json["framework"] == name


@pytest.mark.parametrize(
    ("text", "meant"),
    [("vllm", "vllm-ascend"), ("swft", "ms-swift"), ("MindSpeed-LLM", "mindspeed"), ("llama", "llamafactory")],
)
@pytest.mark.parametrize("words", [("knowledge", "pair"), ("check", "--simulate", "new-node")])
def test_a_near_name_is_suggested(npudoctor: Command, words: tuple[str, ...], text: str, meant: str) -> None:
    answer = npudoctor(*words, "--for", text)
    assert answer.code == 2
    assert f"unknown framework '{text}'; did you mean {meant}" in answer.err


def test_a_name_that_is_near_to_none_lists_those_that_are_known(npudoctor: Command) -> None:
    said = npudoctor("knowledge", "pair", "--for", "torch-npu").err
    assert "unknown framework 'torch-npu'; known are vllm-ascend, verl" in said


def test_a_release_may_follow_two_equals_signs(npudoctor: Command) -> None:
    assert npudoctor("knowledge", "pair", "--for", "VeRL==0.8.0").out.startswith("verl 0.8.0\n")


@pytest.mark.parametrize("node", ["new-node", "healthy-910a", "bare-host"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_one_pair_is_proposed_for_a_framework(npudoctor: Command, name: str, node: str) -> None:
    report = npudoctor("check", "python", "stack", "--for", name, "--simulate", node, "--json").json
    found = {one["check"]: one["findings"] for one in report["results"]}
    judged = [*found["python.pairing"], *found["python.cann-pairing"]]
    offers = [one["fix"]["params"] for one in judged if one["fix"]]
    asked = " ".join(command for one in found[f"stack.{name}"] for command in one["commands"])
    for part, wanted in re.findall(r"\b(torch|torch_npu)==([\w.]+)", asked):
        for params in offers:
            assert not params or params[part] == wanted


def test_new_node_for_vllm_ascend(npudoctor: Command) -> None:
    report = npudoctor("check", "--for", "vllm-ascend", "--simulate", "new-node", "--json").json
    pairing = next(one for one in report["results"] if one["check"] == "python.pairing")["findings"][0]
    assert pairing["fix"]["params"] == {"torch": "2.5.1", "torch_npu": "2.5.1.post1"}
    assert "vLLM Ascend 0.9.1" in pairing["hint"]


def test_the_fix_of_the_pair_leaves_only_the_framework_to_install(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path / "node"))
    shown = npudoctor("check", "--for", "vllm-ascend", *node).out
    assert "$ npudoctor fix python.install-pair --simulate new-node" in shown and " --for vllm-ascend" in shown
    refused = npudoctor("fix", "python.install-pair", "--for", "vllm-ascend", *node)
    assert "--for vllm-ascend --yes" in refused.out + refused.err
    assert npudoctor("fix", "python.install-pair", "--for", "vllm-ascend", "--yes", *node).code == 0
    report = npudoctor("check", "--for", "vllm-ascend", "--json", *node).json
    found = {one["check"]: one for one in report["results"]}
    assert found["python.pairing"]["status"] == "ok"
    commands = found["stack.vllm-ascend"]["findings"][0]["commands"]
    assert [command.partition(" -m ")[2] for command in commands] == [
        "pip install vllm==0.9.1",
        "pip install vllm-ascend==0.9.1",
    ]
