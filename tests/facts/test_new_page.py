"""A page of npu-smi that nobody has asked for yet: added in the four files that docs/development.md names, it works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
GIVEN = {"NAME": "humidity", "QUERY": "humidity", "PRODUCT": "invented"}
PARSER = '''"""What `npu-smi info -t humidity` says of a chip."""

from __future__ import annotations

from npudoctor.facts.cells import integer, lines_of, refusal
from npudoctor.facts.npu_smi.blocks import pairs_of
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Humidity:
    """A page of `-t humidity`, in percent."""

    core_pct: int | None = None


def parse_humidity(text: str) -> Humidity:
    """Read a page of `npu-smi info -t humidity`."""
    page = dict(pairs_of(text))
    if "corehumidity(%)" not in page:
        raise refusal("this is not a page of npu-smi info -t humidity", lines_of(text))
    return Humidity(core_pct=integer(page["corehumidity(%)"]))
'''
TEXT = "\tCore Humidity(%)               : 812\n"
USE = """
from npudoctor import plugins
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Options

probe = next(one for one in plugins.load().probes.values() if one.name == "npu_smi.humidity")
host = FakeHost(commands={"npu-smi info -t humidity -i 3": "\\tCore Humidity(%) : 812\\n"})
print(probe(host, Options(), NpuSmiInfo(npus=(Chip(npu_id=3, chip_id=0),))).by_subject["npu:3"].core_pct)
"""


def the_list() -> list[str]:
    """The files that docs/development.md names, with the names of this page in them."""
    text = (ROOT / "docs/development.md").read_text(encoding="utf-8")
    section = text[text.index("## A page of npu-smi") :].split("\n## ")[0]
    files = re.findall(r"(?m)^\d\. `([^`]+)`", section)
    for name, word in GIVEN.items():
        files = [file.replace(name, word) for file in files]
    return files


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product and the tests of its samples, with the new page in the files of the list and in no other."""
    folder = tmp_path_factory.mktemp("copy")
    passed_over = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "npudoctor", folder / "npudoctor", ignore=passed_over)
    for room in ("checks", "fixes"):
        shutil.copytree(ROOT / room, folder / "npudoctor" / room, ignore=passed_over)
    shutil.copytree(ROOT / "tests/facts", folder / "tests/facts", ignore=passed_over)
    shutil.copy(ROOT / "pyproject.toml", folder)
    parser, table, sample, expected = (folder / name for name in the_list())
    parser.write_text(PARSER, encoding="utf-8")
    rows = table.read_text(encoding="utf-8")
    row = 'PAGES = (\n    Page("humidity", "humidity", chips, parse_humidity, Humidity),\n'
    assert rows.count("PAGES = (\n") == 1
    rows = rows.replace("PAGES = (\n", row)
    table.write_text(rows.replace("from npudoctor.facts.npu_smi.table", _IMPORT, 1), encoding="utf-8")
    sample.parent.mkdir()
    sample.write_text(TEXT, encoding="utf-8")
    expected.write_text(json.dumps({"core_pct": 812}), encoding="utf-8")
    return folder


_IMPORT = "from npudoctor.facts.npu_smi.humidity import Humidity, parse_humidity\nfrom npudoctor.facts.npu_smi.table"


def said(folder: Path, *words: str, text: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_four_files_are_enough() -> None:
    assert len(the_list()) == 4


def test_the_new_page_is_parsed_and_its_fact_is_known(copy: Path) -> None:
    run = "import npudoctor, sys; from npudoctor.cli import main; sys.exit(main(['parse', 'npu-smi-humidity']))"
    assert json.loads(said(copy, "-c", run, text=TEXT)) == {"core_pct": 812}
    assert said(copy, "-c", USE) == "812\n"


def test_the_new_page_passes_the_tests_of_all_pages(copy: Path) -> None:
    words = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/facts/test_samples.py",
        "-k",
        "humidity or has_a_sample",
    )
    assert " passed" in said(copy, *words)
