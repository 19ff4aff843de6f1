"""The one line of a node: `NPUDOCTOR1 <sha256> <base64 of gzip>`, found among whatever else was printed.

The checksum is that of the base64 text. A login banner, the noise of a .bashrc and a line that ends half way are told
apart from it.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import re
import zlib
from typing import Any

from npudoctor import data
from npudoctor.fleet.digest import SCHEMA, Digest
from npudoctor.models import adapter

MARK = "NPUDOCTOR1"
MOST_BYTES = 2 << 20
"""The most that is read of one node, compressed."""
MOST_TEXT = 8 << 20
"""The most that it may become."""
MOST_VALUES = 200_000
MOST_DIGITS = 40
LONGEST_NAME = 200

_LINE = re.compile(rf"^.*?\b{MARK} ([0-9a-f]{{64}}) ([A-Za-z0-9+/=]+)[ \r]*$", re.MULTILINE)


class Garbled(ValueError):
    """An answer that is not a digest; the text is one clause."""


def pack(digest: Digest) -> bytes:
    """The digest as compressed JSON; equal digests give equal bytes."""
    text = adapter(Digest).dump_json(digest, exclude_defaults=True, exclude={"schema"}).decode()
    return gzip.compress(f'{{"schema":"{SCHEMA}",{text[1:]}'.encode(), 9, mtime=0)


def line_of(digest: Digest) -> str:
    """The line, without its end."""
    body = base64.b64encode(pack(digest)).decode()
    return f"{MARK} {hashlib.sha256(body.encode()).hexdigest()} {body}"


def find(output: str) -> bytes | None:
    """The compressed digest in what a node printed; None without the mark; raises Garbled for half a line."""
    found = None
    for match in _LINE.finditer(output):
        if hashlib.sha256(match[2].encode()).hexdigest() == match[1]:
            found = match[2]
    if found is not None:
        try:
            return base64.b64decode(found, validate=True)
        except binascii.Error as problem:
            raise Garbled(f"the line is not base64: {problem}") from None
    if MARK in output:
        raise Garbled("the line is incomplete or was changed on its way: its checksum does not match")
    return None


def read(raw: bytes, *, whole: bool = True) -> Digest:
    """A digest from compressed or plain JSON of any origin; raises Garbled.

    Without `whole` its report has only the results with findings and the crashed ones: a merge needs no others.
    """
    if len(raw) > MOST_BYTES:
        raise Garbled(f"more than {MOST_BYTES >> 20} MiB")
    text = _unpack(raw) if raw[:2] == b"\x1f\x8b" else raw
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise Garbled("more values than a digest")
    try:
        said = json.loads(text.decode(), parse_int=_whole_number, parse_constant=_whole_number)
        if b"\\u" in text:
            json.dumps(said, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):  # nested deeper than Python reads
        raise Garbled("not JSON") from None
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise Garbled(f"expected schema {SCHEMA}, found {str(schema)[:60]!r}")
    try:
        return data.read(Digest, said if whole else _of_problems(said), ignore_unknown=True)
    except RecursionError:
        raise Garbled("nested deeper than a digest") from None
    except data.DataError as problem:
        raise Garbled(str(problem)) from None


def _whole_number(text: str) -> int:
    """The number of these digits; raises ValueError for NaN, Infinity, and so many digits that Python is slow."""
    if len(text) > MOST_DIGITS:
        raise ValueError("a number without end")
    return int(text)


def _of_problems(said: dict[str, Any]) -> dict[str, Any]:
    """The same without the results that have nothing to tell."""
    report = said.get("report")
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(report, dict) or not isinstance(results, list):
        return said
    kept = [
        one for one in results if not isinstance(one, dict) or one.get("findings") or one.get("status") == "crashed"
    ]
    return {**said, "report": {**report, "results": kept}}


def _unpack(raw: bytes) -> bytes:
    engine = zlib.decompressobj(wbits=31)
    try:
        text = engine.decompress(raw, MOST_TEXT)
    except zlib.error as problem:
        raise Garbled(f"not gzip: {problem}") from None
    if engine.unconsumed_tail or not engine.eof:
        raise Garbled("incomplete, or larger than a digest")
    return text


def file_name(name: str) -> str:
    """A name as it may be in a file: other characters than letters, digits, dot and dashes as %XX."""
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
    safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe
    if len(safe) > LONGEST_NAME:  # names that begin alike have files of their own
        safe = f"{safe[: LONGEST_NAME - 65]}-{hashlib.sha256(name.encode()).hexdigest()}"
    return safe or "%"
