#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: run.py [PART[:TEXT]...]: the functions check_*() of the parts (all of them: every file beside this one that has such), one TAP line each."""
import importlib, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parts = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".py") and f not in ("run.py", "says.py"))
    checks = []
    for name in parts:
        name, _, text = name.partition(":")
        part = importlib.import_module(name)
        checks += [(name, k[6:], getattr(part, k)) for k in sorted(vars(part)) if k.startswith("check_") and text in k]
    print(f"1..{len(checks)}")
    for n, (part, name, check) in enumerate(checks, 1):
        try:
            check()
            print(f"ok {n} - {part}: {name.replace('_', ' ')}", flush=True)
        except Exception as e:  # whatever it is, this check has failed and the others go on
            print(f"not ok {n} - {part}: {name.replace('_', ' ')}\n# {type(e).__name__}: {e}".replace("\n", "\n# ").replace("\n# # ", "\n# "), flush=True)


if __name__ == "__main__":
    main()
