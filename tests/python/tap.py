# SPDX-License-Identifier: Apache-2.0
"""Functions named test_* of a module are its cases, in order: a line each (TAP)."""
import sys
import traceback


class Skip(Exception):
    pass


def skip(why):
    raise Skip(why)


def raises(kind, text, call, *args, **named):
    """The call raises that exception, whose message holds the text; the exception."""
    try:
        result = call(*args, **named)
    except kind as e:
        assert text in str(e), f"{type(e).__name__} says {str(e)!r}, not {text!r}"
        return e
    raise AssertionError(f"no {kind.__name__} ({text!r}) but {result!r}")


def main(module):
    tests = [(n, f) for n, f in vars(sys.modules[module]).items() if n.startswith("test_")]
    wanted = sys.argv[2:]
    tests = [t for t in tests if not wanted or t[0][5:] in wanted]
    bad = 0
    for number, (name, test) in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {name[5:].replace('_', ' ')}", flush=True)
        except Skip as e:
            print(f"ok {number} - {name[5:].replace('_', ' ')} # SKIP {e}", flush=True)
        except Exception:
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} - {name[5:].replace('_', ' ')}", flush=True)
            bad += 1
    print(f"1..{len(tests)}")
    sys.exit(bad > 0)
