"""The docs as a site: tools/site.py, and the pages that mkdocs.yml names."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # at the end: npudoctor itself is the installed one

from tools import site  # noqa: E402


def page(path: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path))


@pytest.mark.parametrize(
    ("path", "written", "expected"),
    [
        ("index.md", "[a](docs/install.md#deb)", "[a](install.md#deb)"),
        ("index.md", "[![a](docs/pictures/x.svg)](docs/tui.md)", "[![a](pictures/x.svg)](tui.md)"),
        ("index.md", "[a](LICENSE)", "[a](LICENSE.md)"),
        ("index.md", "[a](SECURITY.md)", "[a](SECURITY.md)"),
        ("CHANGELOG.md", "[a](README.md)", "[a](index.md)"),
        ("install.md", "[a](../SECURITY.md)", "[a](SECURITY.md)"),
        ("install.md", "[a](tui.md)", "[a](tui.md)"),
        ("checks/npu.count.md", "[a](../checks.md)", "[a](../checks.md)"),
        ("install.md", "[a](https://a.b/c.md) [b](#here)", "[a](https://a.b/c.md) [b](#here)"),
    ],
)
def test_links_lead_to_pages_of_the_site(path: str, written: str, expected: str) -> None:
    assert site.on_page_markdown(written, page(path)) == expected


def test_a_translated_page_stands_for_the_english_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    (tmp_path / "docs" / "zh").mkdir(parents=True)
    (tmp_path / "docs" / "zh" / "tui.md").write_text("# 终端\n", encoding="utf-8")
    config = SimpleNamespace(theme={"language": "zh"})
    assert site.on_page_read_source(page("tui.md"), config) == "# 终端\n"
    assert site.on_page_read_source(page("install.md"), config) is None
    assert site.on_page_read_source(page("tui.md"), SimpleNamespace(theme={"language": "en"})) is None


def test_the_search_from_a_folder_asks_no_other_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in `offline` adds a script of another site unless a polyfill has the name of that script."""
    file = SimpleNamespace(generated=lambda config, path, content: (path, content))
    monkeypatch.setitem(sys.modules, "mkdocs.structure.files", SimpleNamespace(File=file))
    made = dict(site.on_files([], None))
    polyfills = re.findall(r"polyfills: \[(.*)\]", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert polyfills == ["assets/iframe-worker.js"]
    assert "window.IFrameWorker" in made[polyfills[0]]


def test_every_page_is_in_the_menu_once() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = sorted(re.findall(r"[\w-]+\.md", menu))
    assert named == sorted([*(path.name for path in (ROOT / "docs").glob("*.md")), *site.OUTSIDE.values()])
