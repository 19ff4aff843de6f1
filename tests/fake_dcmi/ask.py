"""Makes calls of a library and writes what came back: `python ask.py LIBRARY CALLS RESULTS`, in a process of its own.

CALLS is JSON: a list of [name, argument, ...], where a number is passed by value and [N] is a zeroed buffer of N bytes.
RESULTS is JSON: for each call [code, hex of a buffer, ...], or null where there is no such function.
"""

import ctypes
import json
import sys


def main() -> None:
    """Make the calls of the file, in order."""
    library = ctypes.CDLL(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        wanted = json.load(file)
    results: list[list[object] | None] = []
    for name, *arguments in wanted:
        if not hasattr(library, name):
            results.append(None)
            continue
        passed = [
            ctypes.create_string_buffer(one[0]) if isinstance(one, list) else ctypes.c_int(one) for one in arguments
        ]
        code = getattr(library, name)(*passed)
        results.append([code, *(one.raw.hex() for one in passed if isinstance(one, ctypes.Array))])
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
