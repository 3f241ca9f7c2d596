#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpack the cases that engine_cases.py --store has packed: what ONNX Runtime computes, where there is none.

usage: stored_cases.py DIR
"""
import os, sys, tarfile

with tarfile.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines.tar.xz")) as tar:
    for member in tar:
        path = os.path.join(sys.argv[1], member.name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(tar.extractfile(member).read())
