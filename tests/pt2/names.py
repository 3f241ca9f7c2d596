#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each core ATen name of aten.def stand in a case? usage: names.py ATEN.DEF DIR [LIST]      DIR/NAME/model.pt2; LIST: of these names alone"""
import json, os, re, sys, zipfile


def nodes(graph):
    for node in graph["nodes"]:
        yield node
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                yield from nodes(argument["arg"]["as_graph"]["graph"])


def main():
    core = {name.partition(".")[0] for name, flags in re.findall(r'^ATEN\("([^"]*)", ([A-Z| ]*),', open(sys.argv[1]).read(), re.M) if "CORE" in flags.split(" | ")}
    seen = set()
    for case in open(sys.argv[3]).read().split() if len(sys.argv) > 3 else os.listdir(sys.argv[2]):
        with zipfile.ZipFile(os.path.join(sys.argv[2], case, "model.pt2")) as archive:
            root = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
        seen |= {node["target"].removeprefix("torch.ops.aten.").partition(".")[0] for node in nodes(root["graph_module"]["graph"])}
    missing = sorted(core - seen)
    print(f"{len(core) - len(missing)} of {len(core)} names of core ATen{': not ' + ', '.join(missing) if missing else ''}")
    return bool(missing) or not core


if __name__ == "__main__":
    sys.exit(main())
