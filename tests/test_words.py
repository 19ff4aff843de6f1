"""The terms of docs/glossary.md, enforced: every text that a user can read is plain technical English.

How it works: sources are parsed, never imported. Every string, docstring and comment of several words is a text; so
are the paragraphs of the documentation, the known issues and the labels of the terminal interface. Code spans,
options, paths and identifiers are removed first, because their names are contracts. Each text is matched against
`BANNED`; titles are judged on their own.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BANNED = {
    r"(mend|mends|mended|mending)": "archaic; write fix",
    r"(whom|whoever|whomever)": "archaic; name the user or process",
    r"nobody": "unclear who; write unknown, or no user",
    r"could not look": "private term; write could not determine",
    r"looks? (again|anew)": "private term; write re-check",
    r"look(s|ed|ing)? (after|at rest|closely)": "private term; write run, check or search",
    r"(is|are|be|was|not) looked (at|for)": "private term; write checked or searched",
    r"at rest": "metaphor; write idle",
    r"(is|are|be|ran|went|all) well": "archaic; write ok, healthy or passed",
    r"(tells?|told) of": "archaic; write contains, reports or names",
    r"takes? part": "metaphor; write uses or number of",
    r"by (its|his|their) own": "not English; write on its own or automatically",
    r"that much": "vague; give the number",
    r"as it did": "archaic; say what is unchanged",
    r"as (a|one) rule": "archaic; write usually",
    r"at all events": "archaic; write always",
    r"stands? (in|behind|before|below|above|beside|there|first|at|on)": "metaphor; write is, is in or is blocked by",
    r"lies? (in|below|beside|there|within)": "metaphor; write is in",
    r"lets? go of": "metaphor; write releases",
    r"(shall)": "archaic; write must or will",
    r"dearer": "archaic; write more expensive",
    r"(graver|gravest|how grave)": "archaic; write most severe",
    r"foresees?|foreseen|foresaw": "write detects, detected by",
    r"pitfalls?": "write known issue; the table keeps its name",
    r"rights of root|root's rights|lack of rights": "write root privileges or permissions",
    r"takes? (it |them |this |what .{1,30})?back|taken back|taking back": "write undo or roll back",
    r"cut off half way|was cut off|has cut off": "metaphor; write interrupted",
    r"(proved|proves)": "write verified",
    r"does not go with|do not go with|goes? together": "write cannot be combined with, or match",
    r"(un)?fit cards|cards? (is|are) (un)?fit|fit to each other|fits? each other": "write healthy, or match",
    r"cards?": "ambiguous; write NPU (board), chip (npu-smi) or device (torch)",
    r"begin(s)? again": "write restart",
    r"without a word": "idiom; say what is missing",
    r"(is|are) no (list|number|library|port|IP address|log)\b": "write expected X, found Y",
    r"wants? (a|an|the|seconds|no)": "write requires or expects",
    r"there (is|can be) no (such|fact|check|fix|command|kind|table|smoke)": "write unknown X, or X missing",
    r"nothing is wrong": "write No problems found",
    r"the odd ones? out": "idiom; write outlier or differs",
    r"holds? up": "idiom; write blocks or delays",
}
"""Each banned expression (whole words, any case) with the reason and what to write instead."""

NAMES = re.compile(
    r"""
      ```.*?``` | `[^`]*`                                   # code
    | --[\w-]+(?:[= ](?:\[[^\]]*\]|\d[\d,-]*))?             # options
    | https?://\S+ | \bnpudoctor_\w+ | \b_\w+               # addresses, metrics
    | [\w.~*-]*/[\w./*{}-]+                                 # paths
    | \b\w+\.(?:py|md|json|toml|sh|yaml|tcss|svg)\b         # files
    | \bnpu-smi\ info.*                                     # a vendor's command line
    | \b[\w-]+\.[\w.-]+\b | \b\w+_\w+\b                     # ids and names of code
    | %\(\w+\)s | \{[^{}]*\}                                # parameters
    | \bnetwork\ cards | \bNPU\ card\ on\ this | \bInvalid\ card\ id | \bcards?:\ (id|count)  # of the vendor, keys
    | \#\ Written\ by\ npudoctor.*                          # the first line of a file that 0.1 has written
    """,
    re.VERBOSE | re.DOTALL,
)
"""What is no prose: code and names, which are contracts or the words of others."""

ANY = re.compile("|".join(BANNED), re.IGNORECASE)
"""One search that passes every text with a banned expression, so that most texts cost no more."""

SENTENCE = re.compile(
    r"^(a|an|the|what|who|whose|where|when|how|it|there|nobody|nothing|none|every|everything|each)\b"
    r"|\b(is|are|was|were|has|have|had|does|do|may|must|will|fits?|goes|holds?|stands?|lies?)\b"
    r"|, (and |or )?(that|which|who|whose|whom|where)\b|[.;:!?]$",
    re.IGNORECASE,
)
"""Marks of a title that is a sentence and no noun phrase: articles, pronouns, finite verbs, relative clauses."""
TITLES_AS_THEY_ARE = {"ulimits (nofile, nproc, memlock) are high enough"}
"""Titles that the rule would refuse, and that were decided on."""
TITLE_LENGTH, FIX_TITLE_LENGTH, LABEL_LENGTH = 60, 70, 16

LABELS = {
    "Go": "Start",
    "More often": "Faster",
    "Less often": "Slower",
    "Scroll on": "Page down",
    "To mend": "Problems",
}
"""Labels of the terminal interface that were found unclear, with the ones that are used."""

BARE = re.compile(
    r"_*([a-z]*[^\W_e]ed|[a-z]*(?:given|known|shown|taken|written|chosen|broken|hidden|seen|held|kept|lost|made|meant|torn)"
    r"|begun|built|done|drawn|found|frozen|gone|left|ran|said|sent|told|wrong"
    r"|absent|absolute|active|alike|alive|busy|compatible|dead|different|distinct|dynamic|exact|failing|fatal|finite|flat"
    r"|fresh|healthy|unhealthy|idle|inner|invalid|lacking|living|missing|normal|pending|positive|quiet|readable|remaining"
    r"|removable|safe|sick|silent|unlike|usable|visible|writable)_*"
)
"""A participle or adjective as the whole name of a function, which does not say what the function does or gives."""
NAMED_BY_OTHERS = {
    "__missing__": "the standard library's dict asks for it",
    "fresh": "fixes of plug-ins call it on a host since version 0.1",
    "readable": "the standard library's io asks for it",
}
"""Functions whose name is a contract, with the reason."""
DECORATORS_OF_NOUNS = {"property", "cached_property", "computed_field", "setter", "check", "fix", "probe", "on"}
"""Properties, checks, fixes and facts are named as what they are; Textual calls handlers by their decorator."""


# The rules


def complaints(text: str) -> list[str]:
    """What is wrong with the words of a text."""
    if not ANY.search(text):
        return []
    prose = NAMES.sub(" ", text)
    return [
        f"{found[0]!r}: {reason}"
        for expression, reason in BANNED.items()
        if (found := re.search(rf"(?<![\w-])(?:{expression})(?![\w-])", prose, re.IGNORECASE))
    ]


def wrong_title(title: str, *, fix: bool = False) -> str | None:
    """Why a title of a check or a fix is refused; None where it is not."""
    if len(title) > (FIX_TITLE_LENGTH if fix else TITLE_LENGTH):
        return f"{len(title)} characters"
    if fix and not re.match(r"[A-Z][a-z]+ \S", title):
        return "does not begin with an imperative verb"
    found = None if title in TITLES_AS_THEY_ARE else SENTENCE.search(title)
    if found and not (fix and found[0].strip().lower() in ("a", "an", "the")):
        return f"a sentence, by {found[0]!r}; a title is a noun phrase that says what is checked"
    return None


def dead_references(text: str, folder: Path = ROOT) -> list[str]:
    """The pages that a text names and that do not exist, from the root, from docs/ or from the folder of the text."""
    named = re.findall(r"(?<![\w./*~-])((?:[\w-]+/)*[\w-]+\.md)\b", re.sub(r"https?://\S+", "", text))
    return [page for page in named if not any((place / page).exists() for place in (ROOT, ROOT / "docs", folder))]


# The texts


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def rooms(*patterns: str) -> list[Path]:
    """The files of the repository that match."""
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a source with their lines: strings, docstrings, f-strings without their parameters, comments."""
    inside: set[int] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def is_prose(text: str) -> bool:
    """Whether a text has two words side by side, and is no expression, no SQL and no style sheet."""
    return bool(re.search(r"[A-Za-z]{2,}[,;:]? [a-z]{2,}", text)) and not re.search(
        r"\(\?[:P]|\\[bsdw]|\b(SELECT|INSERT|UPDATE|CREATE)\b|\{ [a-z-]+: [^;]+;", text
    )


def sources() -> list[Path]:
    return rooms("npudoctor/*.py", "npudoctor/**/*.py", "checks/**/*.py", "fixes/**/*.py")


def pages() -> list[Path]:
    return [
        *rooms("README.md", "docs/*.md", "Dockerfile"),
        *(path for path in rooms("npudoctor/deploy/**/*") if path.suffix != ".json"),
    ]


def titles(folder: str, decorator: str) -> Iterator[tuple[str, str]]:
    """The id and the title of each check or fix that a folder declares: the first line of its docstring."""
    for path in rooms(f"{folder}/*.py"):
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.FunctionDef):
                continue
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == decorator:
                    name = ast.literal_eval(call.args[0]) if call.args else node.name
                    yield name, (ast.get_docstring(node) or "").partition("\n")[0].rstrip(".")


def bindings() -> Iterator[tuple[str, str]]:
    """The labels of keys and buttons of the terminal interface."""
    for path in rooms("npudoctor/tui/**/*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Binding", "Button"):
                place = 2 if node.func.id == "Binding" else 0
                label = node.args[place] if len(node.args) > place else None
                if isinstance(label, ast.Constant):
                    yield path.name, str(label.value)


def bare_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The functions that are named by a participle or an adjective alone, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and BARE.fullmatch(node.name):
            decorators = {ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in node.decorator_list}
            if not decorators & DECORATORS_OF_NOUNS:
                yield node.lineno, node.name


# The tests


def test_every_text_of_the_sources_is_plain() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {complaint}"
        for path in sources()
        for line, text in texts_of(path)
        if is_prose(text)
        for complaint in complaints(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_page_is_plain() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {complaint} in {paragraph.strip()[:70]!r}"
        for path in pages()
        if path.name != "glossary.md"
        for paragraph in re.split(
            r"\n\s*\n|\n(?=\|)", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        )
        for complaint in complaints(paragraph)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_known_issue_is_plain() -> None:
    table = json.loads((ROOT / "npudoctor/knowledge/tables/pitfalls.json").read_text(encoding="utf-8"))
    wrong = [
        f"{row['id']}: {complaint}"
        for row in table["pitfalls"]
        for part in ("title", "cause", "fix", "detect")
        for text in ([row[part]] if isinstance(row.get(part), str) else row.get(part) or [])
        for complaint in (*complaints(str(text)), *dead_references(str(text)))
    ]
    wrong += [f"{row['id']}: {len(row['title'])} characters" for row in table["pitfalls"] if len(row["title"]) > 64]
    assert not wrong, "\n".join(wrong)


def test_every_title_is_a_noun_phrase() -> None:
    wrong = [f"{id}: {title!r}: {why}" for id, title in titles("checks", "check") if (why := wrong_title(title))]
    wrong += [
        f"{id}: {title!r}: {why}" for id, title in titles("fixes", "fix") if (why := wrong_title(title, fix=True))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_label_is_short_and_clear() -> None:
    labels = list(bindings())
    assert len(labels) > 30
    wrong = [
        f"{file}: {label!r}"
        for file, label in labels
        if label in LABELS or len(label) > LABEL_LENGTH or complaints(label) or not label[0].isupper()
    ]
    assert not wrong, "\n".join(wrong)


def test_every_page_that_is_named_exists() -> None:
    texts = [(path, path.read_text(encoding="utf-8", errors="replace")) for path in (*sources(), *pages())]
    wrong = [f"{path.relative_to(ROOT)}: {page}" for path, text in texts for page in dead_references(text, path.parent)]
    assert not wrong, "\n".join(wrong)


def test_every_function_is_named_by_a_verb_or_by_what_it_gives() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources()
        for line, name in bare_names(parsed(path))
        if name not in NAMED_BY_OTHERS
    ]
    assert not wrong, "\n".join(wrong)


# The rules themselves


@pytest.mark.parametrize(
    "text",
    [
        "what would mend it",
        "nobody could look",
        "held by whomever",
        "one card is sick",
        "the node looks again in a minute",
        "the tool stands behind the driver",
        "3 is no number of seconds above 0",
        "A check also runs in the dearer profiles",
        "Nothing is wrong that these checks can see",
        "docs tell: a pitfall\nthat a check foresees",
    ],
)
def test_a_bad_text_is_refused(text: str) -> None:
    assert complaints(text)


@pytest.mark.parametrize(
    "text",
    [
        "use `--cards 0,1` or --cards 0,1 and GET /v1/cards; npudoctor_cards_fit is a metric",
        "a dictionary look-up costs little; see npudoctor/knowledge/tables/pitfalls.json",
        "NPU 5 has dropped off the PCI bus",
        "the recommended card_view module",
        "discarded cardinality",
    ],
)
def test_a_good_text_passes(text: str) -> None:
    assert not complaints(text)


@pytest.mark.parametrize(
    "title",
    [
        "torch and torch_npu fit each other",
        "Nobody holds a host port of HCCL",
        "The kernel has written of no fault of a card in the last seven days",
        "A job may open enough files",
        "HCCL host ports, which a job needs",
        "HCCL ports reserved.",
        "x" * 61,
    ],
)
def test_a_title_that_is_a_sentence_is_refused(title: str) -> None:
    assert wrong_title(title)


@pytest.mark.parametrize(
    "title",
    [
        "HCCL ports reserved",
        "torch and torch_npu versions match",
        "No misspelled environment variables",
        "NPU network ports: FEC on, no link flaps, no excess errors",
        "ulimits (nofile, nproc, memlock) are high enough",
    ],
)
def test_a_title_that_says_what_is_checked_passes(title: str) -> None:
    assert wrong_title(title) is None
    assert wrong_title("Load CANN and corrected variables from a managed profile script", fix=True) is None
    assert wrong_title("HCCL", fix=True)


def test_a_page_that_does_not_exist_is_found() -> None:
    assert dead_references("see docs/daemon.md, README.md and LAYOUT.md") == ["LAYOUT.md"]
    assert dead_references("[safety](safety.md), [safety](docs/safety.md)", ROOT / "docs") == []
    assert dead_references("https://example.com/a/b.md and docs/nowhere.md") == ["docs/nowhere.md"]


def test_texts_are_found_in_every_form(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text(
        '"""A doc string."""\nx = f"a {1} b"  # a comment here\ny = ("two " "halves")\n', encoding="utf-8"
    )
    assert {text for _, text in texts_of(source)} >= {"A doc string.", "a {} b", "# a comment here", "two halves"}
    assert is_prose("one text") and not is_prose("word") and not is_prose(r"\bone text")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def _named(): ...", ["_named"]),
        ("class Run:\n    def kept(self): ...", ["kept"]),
        ("def outer():\n    def unknown(): ...", ["unknown"]),
        ("class Run:\n    @property\n    def kept(self): ...", []),
        ("@probe\ndef installed(): ...", []),
        ("def need(): ...\ndef is_named(): ...\ndef read_kept(): ...\ndef table(): ...", []),
    ],
)
def test_a_bare_participle_is_no_name_of_a_function(source: str, names: list[str]) -> None:
    assert [name for _, name in bare_names(ast.parse(source))] == names
