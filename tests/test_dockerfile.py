"""What can be said of the Dockerfile without building it."""

import argparse
import json
import re
from pathlib import Path

from npudoctor.cli import healthcheck

ROOT = Path(__file__).parents[1]


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its text, continued lines joined."""
    lines = [
        line
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def last_stage() -> list[tuple[str, str]]:
    steps = instructions()
    start = max(place for place, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


def test_the_last_stage_builds_nothing_and_runs_as_an_ordinary_user() -> None:
    words = [word for word, _ in last_stage()]
    assert [rest for word, rest in instructions() if word == "FROM"] == ["${BASE} AS build", "${BASE}"]
    assert [rest for word, rest in last_stage() if word == "USER"] == ["npudoctor"]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert not [rest for word, rest in last_stage() if word == "RUN" and re.search(r"\b(pip|apt|gcc|make)\b", rest)]


def test_what_is_copied_is_there_and_reaches_the_build() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    }
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_health_check_is_npudoctors_and_answers_before_docker_gives_up() -> None:
    [rest] = [rest for word, rest in last_stage() if word == "HEALTHCHECK"]
    options, _, command = rest.partition(" CMD ")
    program, name, *argv = json.loads(command)
    assert (program, name) == ("npudoctor", "healthcheck")
    parser = argparse.ArgumentParser(exit_on_error=False)
    healthcheck.configure(parser)
    limit = re.search(r"--timeout=(\d+)s", options)
    assert limit
    assert parser.parse_args(argv).timeout < int(limit[1])


def test_the_base_is_named_by_its_digest() -> None:
    [base] = [rest for word, rest in instructions() if word == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.1\d-slim-\w+@sha256:[0-9a-f]{64}", base)


def test_a_build_asks_no_registry_for_anything_but_its_base() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not re.search(r"^#\s*syntax=", text, re.MULTILINE)
    assert text.count("${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}") == 1, "what the base has set stays, and no empty entry"
