"""Asks the driver's library libdcmi.so about every chip: `python -I -S read_dcmi.py FD HANDS_OFF`.

It needs the standard library only, and ends with its parent, when the file HANDS_OFF appears, and after a minute
without a request.

A program of its own, because the library prints to stdout, starts programs, can hang for a minute and can crash.
It reads requests from stdin, one marshal object each, until stdin is closed, and answers on the descriptor FD with JSON
lines; knowledge/tables/dcmi.json says what may be bound, and nothing else is. A request has
    library    the path of the library; it is loaded and initialised once, for the first request
    calls      name of a question -> {"v1": symbol, "v2": symbol, "parameters": [...], "v2_parameters": [...],
               "older": the v1 symbol of a library that lacks the first,
               "after": the question that must have an answer before, else it is not asked,
               "not_of": how names of whole chips begin whose library answers -8255: they are not asked}
    structs    name -> {"size": bytes, "fields": [[name, kind, offset, count], ...]}; with "fill" the value of all bytes
               before the call, so that what an older library leaves out shows
    questions  the names of the questions about the node, and of those about each chip
    of_sick    the names of those that are not asked of a chip whose health is 0, OK
    skip       "NPU/CHIP", "/" for the node -> names of questions that are not asked again; "*" for all
and a line is one of
    {"asks": "health", "npu": 3, "chip": 0}                          before a call
    {"tells": "health", "npu": 3, "chip": 0, "rc": 0, "value": 0}    after it; rc is the library's return code
    {"tells": "end"}                                                  the request is answered
Questions about the node have no NPU and no chip; with api v2 (Ascend 950) an NPU is its device id, and `chip` is null.
Own return codes: -99998 the symbol is missing, -99999 the library cannot be loaded, -99997 a count that does not fit
its list. A question that was answered with -8255 (not supported) is not asked of that chip again.
"""

from __future__ import annotations

import _thread
import ctypes
import marshal
import os
import sys
import time
from _struct import unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes as long to import as all else here
    from collections.abc import Iterator
    from typing import Any

NOT_SUPPORTED, WRONG_COUNT, NO_SYMBOL, NOT_LOADED = -8255, -99997, -99998, -99999
SIGCHLD, SIG_DFL = 17, 0
MOST_CARDS, MOST_CHIPS, MOST_CODES = 64, 16, 8
SPARE_BYTES = 256
"""Structures differ in size from driver to driver; each buffer is twice as large as its structure, and this more."""
SPARE_COUNTS = 4
"""A count may be wider in another version, too."""
FORMATS = {"u8": "B", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
SIZES = {"u8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "text": 1}
NOBODY = 65534  # root of the host, seen from a rootless container
MCU, CPU = 1, 2
WATCH_S, IDLE_S = 0.5, 60.0


class Two(ctypes.Structure):
    """Two integers that are passed by value."""

    _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_int))


class Reader:
    """The library, once loaded, and what has been learned of it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.library: Any = None
        self.api: str | None = None
        self.functions: dict[str, Any] = {}
        self.unsupported: set[tuple[str, int | None, int | None]] = set()
        self.idle_since: float | None = None

    def tell(self, **said: Any) -> None:
        """Write one line."""
        line = (to_json(said) + "\n").encode("ascii")
        while line:
            line = line[os.write(self.handle, line) :]

    def start(self, request: dict[str, Any]) -> bool:
        """Load the library and initialise it; False where that failed."""
        self.calls, self.structs, self.of_sick = request["calls"], request["structs"], request["of_sick"]
        self.skip = {place: set(names) for place, names in request["skip"].items()}
        if self.api is not None:
            self.tell(tells="load", rc=0)
            self.tell(tells="init", rc=0, api=self.api)
            return True
        self.tell(asks="load")
        try:
            self.library = load_library(request["library"])
        except OSError as problem:
            self.tell(tells="load", rc=NOT_LOADED, value=str(problem))
            return False
        self.tell(tells="load", rc=0)
        for api in ("v1", "v2"):  # v2 only after v1 refused: dcmiv2_init clears the tables of a good dcmi_init
            self.api = api
            code, _ = self.ask("init")
            if code != NOT_SUPPORTED:
                break
        self.api = self.api if code == 0 else None
        return code == 0

    def ask(
        self, name: str, npu: int | None = None, chip: int | None = None, known: dict[str, Any] | None = None
    ) -> tuple[int | None, Any]:
        """Ask one question and tell its answer; the return code and the value."""
        place = {} if npu is None else {"npu": npu, "chip": chip}
        skipped = self.skip.get(f"{'' if npu is None else npu}/{'' if chip is None else chip}", ())
        symbol = self.calls[name].get(self.api)
        if symbol is None or "*" in skipped or name in skipped:
            return None, None
        if (name, npu, chip) in self.unsupported:
            self.tell(tells=name, **place, rc=NOT_SUPPORTED)
            return NOT_SUPPORTED, None
        self.tell(asks=name, **place)
        extra = {"api": self.api} if name == "init" else {}
        code, value = self.call(symbol, self.parameters(name), (npu, chip), known or {})
        if code in (NO_SYMBOL, NOT_SUPPORTED) and self.api == "v1" and "older" in self.calls[name]:
            code, value = self.call(self.calls[name]["older"], self.parameters(name), (npu, chip), known or {})
        if code == NOT_SUPPORTED and npu is not None:
            self.unsupported.add((name, npu, chip))
        extra |= {} if value is None else {"value": value}
        self.tell(tells=name, **place, rc=code, **extra)
        return code, value

    def parameters(self, name: str) -> list[Any]:
        """The parameters of a question, which differ between the two families for a few."""
        call = self.calls[name]
        found: list[Any] = call.get(f"{self.api}_parameters", call["parameters"])
        return found

    def call(
        self, symbol: str, parameters: list[Any], place: tuple[int | None, int | None], known: dict[str, Any]
    ) -> tuple[int, Any]:
        """Call a function of the table; the return code, and what it wrote where that is 0."""
        for parameter in parameters:
            if isinstance(parameter, dict) and "each" in parameter:
                return self.called_for_each(symbol, parameters, place, known[parameter["each"]])
        types: list[Any] = []
        arguments: list[Any] = []
        results: list[Any] = []
        for parameter in parameters:
            for kind, argument, result in self.argument(parameter, place, known):
                types.append(kind)
                arguments.append(argument)
                if result is not None:
                    results.append(result)
        function = self.functions.get(symbol)
        if function is None:
            try:
                function = self.library[symbol]
            except AttributeError:
                return NO_SYMBOL, None
            function.restype, function.argtypes = ctypes.c_int, types
            self.functions[symbol] = function
        code = function(*arguments)
        if code != 0 or not results:
            return code, None
        counts = [result() for kind, result, _ in results if kind == "count"]
        found = [result for kind, result, _ in results if kind == "value"]
        room = max((most for _, _, most in results), default=0)
        if counts:
            if not 0 <= counts[0] <= room:
                return WRONG_COUNT, counts[0]
            return code, found[0](counts[0])
        values = [result() for result in found]
        return code, values[0] if len(values) == 1 else values

    def called_for_each(
        self, symbol: str, parameters: list[Any], place: tuple[int | None, int | None], values: list[int] | None
    ) -> tuple[int, Any]:
        """The same call for each of some values."""
        found: list[Any] = []
        for value in (values or ())[:MOST_CODES]:
            told = [value if isinstance(one, dict) and "each" in one else one for one in parameters]
            code, answer = self.call(symbol, told, place, {})
            if code != 0:
                return code, None
            found.append(answer)
        return 0, found

    def argument(
        self, parameter: Any, place: tuple[int | None, int | None], known: dict[str, Any]
    ) -> list[tuple[Any, Any, Any]]:
        """The types, arguments and results that one parameter of the table stands for."""
        if parameter == "chip":
            numbers = place[:1] if self.api == "v2" else place
            return [(ctypes.c_int, number, None) for number in numbers]
        if parameter == "npu":
            return [(ctypes.c_int, place[0], None)]
        if isinstance(parameter, int):
            return [(ctypes.c_uint if parameter > 0x7FFFFFFF else ctypes.c_int, parameter, None)]
        if "known" in parameter:
            return [(ctypes.c_int, known[parameter["known"]], None)]
        if "two" in parameter:
            return [(Two, Two(*parameter["two"]), None)]
        if "count" in parameter:
            number = (ctypes.c_int * SPARE_COUNTS)(-1)
            return [(ctypes.c_void_p, ctypes.addressof(number), ("count", lambda: number[0], 0))]
        kind, count = parameter.get("sized") or parameter["out"], parameter.get("length", 1)
        size = self.structs[kind]["size"] if kind in self.structs else SIZES[kind]
        buffer = ctypes.create_string_buffer(2 * size * count + SPARE_BYTES)
        fill = self.structs[kind].get("fill") if kind in self.structs else None if kind == "text" else 255
        if fill and count == 1:  # a number that was not written must not read 0, which is OK
            ctypes.memset(buffer, fill, size)

        def result(told: int = 1) -> Any:
            if kind == "text":
                return buffer.raw[:count].split(b"\0")[0].decode("ascii", "replace").strip()
            values = [self.decode(buffer.raw, kind, at * size) for at in range(told)]
            return values if "length" in parameter else values[0]

        found: list[tuple[Any, Any, Any]] = [(ctypes.c_void_p, ctypes.addressof(buffer), ("value", result, count))]
        if "sized" in parameter:
            told_size = (ctypes.c_uint * SPARE_COUNTS)(size)
            found.append((ctypes.c_void_p, ctypes.addressof(told_size), ("size", lambda: told_size[0], 0)))
        return found

    def decode(self, data: bytes, kind: str, offset: int) -> Any:
        """The value at an offset: a number, or the fields of a structure."""
        if kind not in self.structs:
            return unpack_from("=" + FORMATS[kind], data, offset)[0]
        found: dict[str, Any] = {}
        for name, of, at, count in self.structs[kind]["fields"]:
            if of == "text":
                text = data[offset + at : offset + at + count].split(b"\0")[0]
                found[name] = text.decode("ascii", "replace").strip()
            else:
                values = unpack_from(f"={count}{FORMATS[of]}", data, offset + at)
                found[name] = values[0] if count == 1 else list(values)
        return found

    def answer(self, request: dict[str, Any]) -> None:
        """Answer one request."""
        if self.start(request):
            of_node, of_chip = request["questions"]
            for name in of_node:
                self.ask(name)
            for npu, chip in self.chips():
                self.chip(npu, chip, of_chip)
        self.tell(tells="end")

    def chip(self, npu: int, chip: int | None, questions: list[str]) -> None:
        """Ask one chip all questions; a later one may take the answer of an earlier one."""
        known: dict[str, Any] = {}
        for name in questions:
            if name in self.of_sick and known.get("health") == 0:
                continue
            needs = {part for one in self.parameters(name) if isinstance(one, dict) for part in needed_answers(one)}
            needs |= {before} if (before := self.calls[name].get("after")) else set()
            model = (known.get("chip_info") or {}).get("chip_name") or ""
            if "vir" not in model and model.startswith(tuple(self.calls[name].get("not_of", ()))):
                self.unsupported.add((name, npu, chip))
            if needs <= known.keys():
                code, value = self.ask(name, npu, chip, known)
                if code == 0:
                    known[name] = value
                if name == "unit" and code == 0 and value in (MCU, CPU):
                    return
                if name == "processes" and code == 0 and value:
                    self.tell(tells="names", npu=npu, chip=chip, rc=0, value=[comm(one["pid"]) for one in value])

    def chips(self) -> Iterator[tuple[int, int | None]]:
        """NPU and chip ids; an NPU that was lost has the id -1 and no chips."""
        _, npus = self.ask("npus")
        for npu in (npus or ())[:MOST_CARDS]:
            if npu < 0:
                continue
            if self.api == "v2":
                yield npu, None
                continue
            _, count = self.ask("chips", npu, None)
            if count is None:
                _, ids = self.ask("ids", npu, None)
                count = ids[0] if ids else 0
            if count <= MOST_CHIPS:
                yield from ((npu, chip) for chip in range(count))


def load_library(path: str) -> Any:
    """The library; where some of its symbols are found nowhere, only a call that needs one fails."""
    try:
        return ctypes.CDLL(path)
    except OSError:
        open_it = ctypes.CDLL(None).dlopen
        open_it.restype, open_it.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
        handle = open_it(os.fsencode(path), os.RTLD_LAZY | os.RTLD_GLOBAL)
        if not handle:
            raise
        return ctypes.CDLL(path, handle=handle)


def needed_answers(parameter: dict[str, Any]) -> list[str]:
    """The names of earlier answers that a parameter takes."""
    return [parameter[key] for key in ("known", "each") if key in parameter]


def comm(pid: int) -> str | None:
    """The name of a process as the kernel has it; None where it is not of this container, or gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return None


def to_json(value: Any) -> str:
    """A value as JSON: the json module takes as long to import as all else here."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return '"' + "".join(escape(letter) for letter in value) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_json(key)}: {to_json(one)}" for key, one in value.items()) + "}"
    return "[" + ", ".join(to_json(one) for one in value) + "]"


def escape(letter: str) -> str:
    """A letter inside of a JSON string."""
    if letter in '"\\':
        return "\\" + letter
    if " " <= letter <= "~":
        return letter
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x10000 else "\\ufffd"


def watch(reader: Reader, parent: int, hands_off: str) -> None:
    """End this process, also out of a call that hangs: its parent ended, no request comes, or HANDS_OFF appeared."""
    while True:
        time.sleep(WATCH_S)
        since = reader.idle_since
        if os.getppid() != parent or (since is not None and time.monotonic() - since > IDLE_S):
            os._exit(0)
        try:
            owner = os.lstat(hands_off).st_uid
        except OSError:
            continue
        if owner in (0, os.geteuid(), NOBODY):
            os._exit(0)


def main(handle: int, hands_off: str) -> None:
    """Answer requests until stdin is closed."""
    os.set_inheritable(handle, False)
    ctypes.CDLL(None).signal(SIGCHLD, SIG_DFL)  # the library starts programs while it is initialised
    os.chdir("/")
    reader = Reader(handle)
    _thread.start_new_thread(watch, (reader, os.getppid(), hands_off))
    words = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the library starts must not read, or wait for, a request
    with open(words, "rb") as requests:
        while True:
            reader.idle_since = time.monotonic()
            try:
                request = marshal.load(requests)  # noqa: S302 - from npudoctor itself
            except EOFError:
                return
            reader.idle_since = None
            reader.answer(request)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    sys.stdout = sys.stderr = None
    os._exit(0)  # no destructor of the library runs
