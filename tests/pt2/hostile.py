#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are right but for one argument of one op, or the recorded size or type of one tensor: numbers far out of range, lists too long or too short,
another kind of value, another tensor, nothing. None may crash what reads them.

usage: hostile.py CASES_DIR OUT_DIR [SEED [PER_ARGUMENT]]     CASES_DIR/*/model.pt2 gives OUT_DIR/NUMBER-CASE.pt2: PER_ARGUMENT (0: one for each op
                                                              instead) of each argument of each ATen name, up to three cases of it
"""
import copy, glob, json, os, random, sys, zipfile

cases, out = sys.argv[1:3]
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
each = int(sys.argv[4]) if len(sys.argv) > 4 else 1
INTS = [-1, 0, 1, 2, 3, 7, -2, -100, 1000, 1 << 31, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -1.0, 1e-30, 1e30, -1e30, 1e300, "NaN", "Infinity", "-Infinity"]


def other(arg, tensors):
    """Another value for an argument."""
    kind = next(iter(arg))
    choices = [{"as_none": True}, {"as_int": rng.choice(INTS)}, {"as_string": "nearest"}, {"as_ints": []}, {"as_float": 0.5}, {"as_bool": True}]
    choices.append({"as_tensor": {"name": rng.choice(tensors)}} if tensors else {"as_none": True})
    if kind == "as_int":
        choices += [{"as_int": v} for v in rng.sample(INTS, 6)]
    elif kind == "as_ints":
        v = list(arg[kind])
        lists = [v[:-1], v + [rng.choice(INTS)], v * 5, [rng.choice(INTS) for _ in v], [rng.choice(INTS)] * 9, [rng.choice(INTS) if rng.random() < .5 else x for x in v]]
        choices += [{kind: x} for x in lists] * 2
    elif kind == "as_float":
        choices += [{kind: v} for v in FLOATS]
    elif kind == "as_scalar_type":
        choices += [{kind: v} for v in (0, 1, 2, 5, 7, 8, 9, 10, 11, 12, 13, 99, -1)]
    elif kind == "as_tensor":
        choices += [{kind: {"name": n}} for n in rng.sample(tensors, min(3, len(tensors)))] + [{kind: {"name": "nobody"}}]
    elif kind in ("as_tensors", "as_optional_tensors"):
        v = list(arg[kind])
        choices += [{kind: v[:-1]}, {kind: v + v}, {kind: []}] * 2
    elif kind == "as_string":
        choices += [{kind: s} for s in ("", "sum", "bilinear", "x" * 300)]
    return rng.choice(choices)


def with_argument(root, node, j):
    root = copy.deepcopy(root)
    graph = root["graph_module"]["graph"]
    inputs = graph["nodes"][node]["inputs"]
    if rng.random() < .12:
        inputs.pop(j)
    else:
        inputs[j]["arg"] = other(inputs[j]["arg"], list(graph["tensor_values"]))
    return root


def with_tensor(root):
    """What is recorded of one tensor is another type, size or number of dims."""
    root = copy.deepcopy(root)
    values = root["graph_module"]["graph"]["tensor_values"]
    tensor = values[rng.choice(list(values))]
    sizes = tensor["sizes"]
    if rng.random() < .3:
        tensor["dtype"] = rng.randint(1, 13)
    elif sizes and rng.random() < .6:
        sizes[rng.randrange(len(sizes))] = {"as_int": rng.choice([0, 1, 2, 3, 1000, 1 << 33])}
    elif sizes and rng.random() < .5:
        sizes.pop()
    else:
        sizes.append({"as_int": 2})
    return root


def variants(root, seen):
    def more(key, most):
        seen[key] = seen.get(key, 0) + 1
        return seen[key] <= most

    for i, node in enumerate(root["graph_module"]["graph"]["nodes"]):
        target, n = node["target"], len(node["inputs"])
        if not each:
            if n and more(target, 1):
                yield with_argument(root, i, rng.randrange(n))
            continue
        for j in range(n):
            for _ in range(each):
                if more((target, node["inputs"][j]["name"]), 3 * each):
                    yield with_argument(root, i, j)
        if more((target, None), 2 * each):
            yield with_tensor(root)


count, seen = 0, {}
os.makedirs(out, exist_ok=True)
for path in sorted(glob.glob(cases + "/*/model.pt2")):
    with zipfile.ZipFile(path) as archive:
        entries = {e.filename: archive.read(e) for e in archive.infolist()}
    name = next(k for k in entries if k.endswith("models/model.json"))
    for root in variants(json.loads(entries[name]), seen):
        with zipfile.ZipFile(f"{out}/{count:06d}-{os.path.basename(os.path.dirname(path))}.pt2", "w") as archive:
            for k, data in entries.items():
                archive.writestr(zipfile.ZipInfo(k), json.dumps(root).encode() if k == name else data)
        count += 1
print(count, "archives")
