# SPDX-License-Identifier: Apache-2.0
"""onnx's BackendTest on tccc.onnx_backend: the cases that tests/onnx/suite.list names must pass here, too.

usage: backend.py TOP [EVERY [FIRST]]      each EVERY-th case by name, from FIRST on; prints what differs, then `N passed, N failed of N listed`
"""
import sys
import unittest
import warnings

import onnx.backend.test

import tccc.onnx_backend

top, every, first = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1, int(sys.argv[3]) if len(sys.argv) > 3 else 0
warnings.simplefilter("ignore")
with open(top + "/tests/onnx/suite.list") as f:
    listed = {line.split()[0] for line in f if line.strip() and not line.startswith("#")}
# Results that onnx's runner (1.23) cannot compare with anything: it takes len() of a sequence's item without dims.
UNCOMPARABLE = {"test_loop16_seq_none"}
runner = onnx.backend.test.BackendTest(tccc.onnx_backend, __name__)
cases = {}
for group in runner.test_cases.values():
    for name in dir(group):
        if name.startswith("test_") and name.endswith("_cpu") and name[:-4] in listed:
            cases[name[:-4]] = group(name)
names = sorted(cases)[first::every]
passed = 0
for name in names:
    result = unittest.TestResult()
    cases[name].run(result)
    good = result.wasSuccessful() and not result.skipped
    if name in UNCOMPARABLE:
        good = len(result.errors) == 1 and "Unable to compare expected type <class 'numpy.ndarray'>" in result.errors[0][1]
    passed += good
    if not good:
        why = (result.errors or result.failures or [(None, "skipped")])[0][1].strip().splitlines()
        print(f"# {name}: {' | '.join(why[-3:])[:300]}", flush=True)
print(f"{passed} passed, {len(names) - passed} failed of {len(listed)} listed, {len(cases)} in onnx's runner")
sys.exit(passed != len(names) or not names)
