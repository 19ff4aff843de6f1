"""What looks like a credential in a text: it is replaced by `***` before anybody sees it.

How it works: each rule names words without which it cannot match. A search for these words is a plain substring search,
so a text without any of them costs next to nothing. A rule then matches from such a word forward only: what stands
before the word is kept anyway and is not part of the expression. Where an expression ignores case, it begins by asking
for one of the first letters of its words: else `re` tries every word at every place. Every quantifier is bounded or is
the last part of its expression, so that the time grows with the length of the text and not faster;
tests/security/test_expressions.py doubles the input of each. Expressions that began with an unbounded run of word
characters were quadratic.
"""

from __future__ import annotations

import re

HIDDEN = "***"

_VALUE = (
    r"(?P<value>\*{3}|\\[\"'][^\n\0]*?\\[\"']"  # quoted within a quoted text (JSON)
    r"|\"[^\n\0]*?(?<!\\)\"|'[^\n\0]*?(?<!\\)'"
    r"|[\"'][^\n\0]*"  # a text that was cut before its closing quote
    r"|(?![{\[=(])[^\s\0\"',;&|<>]+?(?=\\?[\"']|[\s\0,;&|<>]|\Z))"
)
_REST_OF_LINE = r"(?P<value>[^\r\n\0\"'\\]+)"
_ASSIGNED = r"[\w.-]{0,64}(?:\\?[\"'])?\s{0,8}[=:]\s{0,8}"
_STRONG = (
    r"passwo?r?d|passphrase|secret|token(?!iz)|credential|(?:api|access|private|account|license|signing|shared)[-_]?key"
    r"|(?<![a-z])(?:pass|pwd)(?![a-z])"
)
"""Names whose value is a credential wherever they come before `=` or `:`."""
_WEAK = r"(?<![a-z])(?:pw|auth|cookie|session|session[-_]?id|sid|license|sig|signature|passw|tok)"
"""Names whose value is one only before `=`, or as an option: they are frequent words."""
_STRONG_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_WEAK_WORDS = ("pw", "auth", "cookie", "session", "sid", "license", "sig", "tok")
_TELLING = rf"(?i){_STRONG}|{_WEAK}(?![a-z])|(?<![a-z])key(?![a-z])"
_OPTION = r"(?<![\w-])(?P<head>(?P<name>--?[A-Za-z][\w.-]{0,64})(?:=|\s{1,8}))(?![-=])" + _VALUE
_TOOLS = (
    r"sshpass|mysql\w{0,10}|mariadb\w{0,10}|ldap\w{1,8}"
    r"|(?:docker|podman|helm|skopeo|crane|oras)\s{1,4}[a-z\s]{0,20}login"
)
"""Programs that take a password by `-p` or `-w`."""

_RULES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        _STRONG_WORDS,
        rf"(?i)(?=[ptscal])(?P<head>(?:{_STRONG}){_ASSIGNED}){_VALUE}",
    ),
    (
        _WEAK_WORDS,
        rf"(?i)(?=[pacslt])(?P<head>{_WEAK}(?:\\?[\"'])?\s{{0,2}}=\s{{0,2}}){_VALUE}",
    ),
    (("key=",), rf"(?i)(?P<head>[?&]key=){_VALUE}"),
    (
        ("authorization", "cookie", "x-"),
        rf"(?i)(?P<head>(?:\bauthorization|\bcookie|\bx-[\w-]{{0,30}}(?:key|token|auth))\s{{0,4}}:\s{{0,4}}){_REST_OF_LINE}",
    ),
    (
        ("passw", "passphrase"),
        r"(?i)(?<![\w/])(?P<head>(?:passw(?:or)?d|passphrase)\s{1,8})"
        r"(?P<value>(?=[^\s\d]{0,64}\d)(?=[^\sa-z]{0,64}[a-z])[^\s\"',;()]{6,}?(?<!\\)(?=\\?[\"']|[\s,;]|\Z))",
    ),
    (("bearer",), r"(?i)(?P<head>\bbearer\s{1,8})(?P<value>[\w.~+/=-]{6,})"),
    (("basic",), r"(?P<head>\b[Bb]asic\s{1,8})(?P<value>(?=[a-z]{0,200}[0-9A-Z+/=])[\w.~+/=-]{6,})"),
    (
        ("sshpass", "mysql", "mariadb", "login", "ldap"),
        rf"(?P<head>\b(?:{_TOOLS})\b.{{0,200}}?\s-[pw]\s{{0,4}}){_VALUE}",
    ),
    (("redis-cli",), rf"(?P<head>\bredis-cli\b.{{0,200}}?\s-a\s{{0,4}}){_VALUE}"),
)
"""By the name before the value: the words that a text must hold, and the expression; `value` is what is hidden."""

_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("://",), r"(?P<head>://)(?P<value>[^\s/@\"'<>]+|[^\s/@:\"'<>]{0,64}:(?!\d{1,5}/)[^\s@\"'<>]{1,256})(?=@)"),
    (("akia", "asia"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    (
        (
            "gh",
            "github_",
            "gl",
            "hf_",
            "sk-",
            "sk_",
            "xox",
            "npm_",
            "dckr_",
            "pypi-",
            "ya29.",
            "aiza",
            "rk_",
            "do",
            "shp",
        ),
        r"\b(?:gh[pousr]_|github_pat_|gl[a-z]{2,6}-|hf_|sk-|[sr]k_(?:live|test)_|xox[a-z]-|npm_|dckr_[a-z]{2,6}_|pypi-"
        r"|ya29\.|do[opr]_v1_|shp[a-z]{2}_|AIza)[\w-]{16,}",
    ),
    (("eyj",), r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    (("mii", "b3blbn"), r"(?<![\w+/=-])(?:MII[A-Za-z0-9+/]{2}|b3BlbnNzaC1rZXkt)[A-Za-z0-9+/]{16,}={0,2}"),
    (
        ("private key",),
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
)
"""By the shape of the value itself."""


def mask(text: str) -> str:
    """A text with `***` for values that a name before them calls secret, and for what has the shape of a credential."""
    if "-" in text:
        text = re.sub(_OPTION, _option, text)
    return _apply_rules(_SHAPES, _apply_rules(_RULES, text))


def masked_by_shape(text: str) -> str:
    """A text with `***` for what has the shape of a credential, whatever comes before it."""
    return _apply_rules(_SHAPES, text)


def names_a_secret(name: str) -> bool:
    """Whether a variable or an option of this name holds a credential."""
    small = name[:200].casefold()
    return any(word in small for word in (*_STRONG_WORDS, *_WEAK_WORDS)) and re.search(_TELLING, small) is not None


def _apply_rules(rules: tuple[tuple[tuple[str, ...], str], ...], text: str) -> str:
    small = text.lower()
    for words, expression in rules:
        for word in words:
            if word in small:
                text = re.sub(expression, _hide_value, text)
                break
    return text


def _hide_value(match: re.Match[str]) -> str:
    """What was matched with `***` for its value, in the quotes that it had, so that JSON stays JSON."""
    groups = match.groupdict()
    value = groups.get("value") or ""
    if value in ('""', "''"):
        return match[0]
    opening = value[0] if value[:1] in ('"', "'") else ""
    closing = opening if opening and len(value) > 1 and value.endswith(opening) else ""
    return f"{groups.get('head') or ''}{opening}{HIDDEN}{closing}"


def _option(match: re.Match[str]) -> str:
    """An option with its value: hidden by the option's name, or behind `user:` where the option takes both."""
    name, value = match["name"].lstrip("-"), match["value"]
    if name in ("u", "U", "user", "proxy-user") and ":" in value and not re.fullmatch(r"\d{1,10}:\d{1,10}", value):
        return f"{match['head']}{value.partition(':')[0]}:{HIDDEN}"
    if name == "k":
        harmless = value[:1] in "/." or "://" in value or re.fullmatch(r"\d{1,4}[.,\dnr]{0,8}", value)
        return match[0] if harmless else _hide_value(match)
    return _hide_value(match) if names_a_secret(name) else match[0]
