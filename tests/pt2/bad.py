#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives that are wrong, made of a right one.

usage: bad.py GOOD.pt2 DIR [RESIZED.pt2]     writes DIR/NAME.pt2 and DIR/NAME.txt, a part of the message that tccc must give (empty: it may be taken)
"""
import json, os, random, struct, sys, zipfile

good, folder = sys.argv[1:3]
with zipfile.ZipFile(good) as archive:
    ENTRIES = {e.filename: archive.read(e) for e in archive.infolist()}
MODEL = next(n for n in ENTRIES if n.endswith("models/model.json"))
WEIGHTS = next((n for n in ENTRIES if n.endswith("_weights_config.json")), None)
RAW = open(good, "rb").read()


def put(name, data, text):
    open(os.path.join(folder, name + ".pt2"), "wb").write(data)
    open(os.path.join(folder, name + ".txt"), "w").write(text)


def packed(entries, method=zipfile.ZIP_STORED):
    path = os.path.join(folder, "packed")
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    data = open(path, "rb").read()
    os.unlink(path)
    return data


def changed(name, change, entry=MODEL):
    """The JSON of an entry after change(it), which may return another root."""
    root = json.loads(ENTRIES[entry])
    new = change(root)
    return packed({**ENTRIES, entry: json.dumps(root if new is None else new).encode()})


def without(suffix):
    return packed({n: d for n, d in ENTRIES.items() if not n.endswith(suffix)})


def renamed(old, new):
    return packed({n.replace(old, new): d for n, d in ENTRIES.items()})


def graph(root):
    return root["graph_module"]["graph"]


put("empty", b"", "no zip file")
put("text", b"hello, world" * 10, "no zip file")
put("pickle", b"\x80\x02}q\x00." + b"\0" * 40, "pickle")
put("json", b'{"a": 1}', "JSON")
put("short", RAW[:100], "zip")
put("half", RAW[: len(RAW) // 2], "cut off")
put("deflated", packed(ENTRIES, zipfile.ZIP_DEFLATED), "compressed")
put("no_format", without("archive_format"), "archive_format")
put("other_format", packed({**ENTRIES, next(n for n in ENTRIES if n.endswith("archive_format")): b"aoti"}), "another format")
put("big_endian", packed({**ENTRIES, next(n for n in ENTRIES if n.endswith("byteorder")): b"big"}), "little-endian")
put("old", renamed("archive_format", "serialized_exported_program.json"), "2.7 or older")
put("checkpoint", renamed("archive_format", "data.pkl"), "never executed")
put("no_program", without("model.json"), "no program")
put("broken_json", packed({**ENTRIES, MODEL: ENTRIES[MODEL][:-20]}), "JSON")
put("deep_json", packed({**ENTRIES, MODEL: b"[" * 100000}), "JSON")
put("json_list", packed({**ENTRIES, MODEL: b"[]"}), "JSON")
put("other_schema", changed("schema", lambda r: r["schema_version"].update(major=9)), "schema version 9")
put("no_graph", changed("graph", lambda r: r["graph_module"].pop("graph")and None), "no graph")
put("no_nodes", changed("nodes", lambda r: graph(r).pop("nodes") and None), "without nodes")
put("unknown_op", changed("op", lambda r: graph(r)["nodes"][0].update(target="torch.ops.aten.lineear.default")), "unsupported operator: did you mean 'linear'?")
put("absent_op", changed("op", lambda r: graph(r)["nodes"][0].update(target="torch.ops.aten.linalg_matrix_sqrth.default")), "by linalg.eigh")
put("absent_ops", changed("op", lambda r: graph(r)["nodes"][0].update(target="torch.ops.aten._foreach_add.List")), "many tensors at once, as PyTorch's optimizers do")
STACK = 'File "/home/u/model.py", line 9, in forward\n    return self.proj(x)\n  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(x)'
MODULES = "L__self__,,model.Net;L__self__proj,proj,torch.nn.modules.linear.Linear"
LINE = "/home/u/model.py:9, in forward, of 'proj' (Linear): return self.proj(x)"
for name, stack, modules, line in (("line", STACK, MODULES, LINE), ("line_alone", 'File "model.py", line 9', "odd", "model.py:9"), ("line_of_torch", STACK[STACK.index("\n  File"):], ";,", "linear.py:134, in forward: return F.linear(x)")):
    put(name, changed("op", lambda r: graph(r)["nodes"][0].update(target="torch.ops.aten.lineear.Tensor", metadata={"stack_trace": stack, "nn_module_stack": modules})), line)
    put(name + "_of_argument", changed("op", lambda r: graph(r)["nodes"][0].update(metadata={"stack_trace": stack, "nn_module_stack": modules}, inputs=graph(r)["nodes"][0]["inputs"] + [{"name": "surprise", "arg": {"as_int": 1}, "kind": 2}])), line)
put("no_line", changed("op", lambda r: graph(r)["nodes"][0].update(target="torch.ops.aten.lineear.Tensor", metadata={"stack_trace": 'File "model.py", line '})), "node 'linear' (aten.lineear.Tensor): unsupported operator")
put("output_kind", changed("kind", lambda r: r["graph_module"]["signature"]["output_specs"].__setitem__(0, {"surprise": {"arg": {"name": "t"}}})), "1 node")
put("unknown_argument", changed("arg", lambda r: graph(r)["nodes"][0]["inputs"].append({"name": "surprise", "arg": {"as_int": 1}, "kind": 2})), "argument 'surprise'")
for name, target, more in (("no_chunks", "chunk.default", []), ("zero_chunks", "chunk.default", [{"name": "chunks", "arg": {"as_int": 0}, "kind": 1}]), ("no_split_size", "split.Tensor", [])):
    put(name, changed("parts", lambda r: graph(r)["nodes"][1].update(target="torch.ops.aten." + target, inputs=graph(r)["nodes"][1]["inputs"] + more, outputs=[{"as_tensors": [{"name": "relu"}]}])), "is no size")
for name, size, text in (("grown", [99999], "more elements than there were"), ("turned", [-1, -2], "a size below 0")):
    put(name, changed("size", lambda r: graph(r)["nodes"][1].update(target="torch.ops.aten.resize_.default", inputs=graph(r)["nodes"][1]["inputs"] + [{"name": "size", "arg": {"as_ints": size}, "kind": 1}])), text)
put("undefined", changed("undefined", lambda r: graph(r)["nodes"][0]["inputs"][0]["arg"]["as_tensor"].update(name="nobody")), "'nobody' is not defined")
put("twice", changed("twice", lambda r: graph(r)["nodes"].append(graph(r)["nodes"][0])), "defined twice")
put("wrong_size", changed("size", lambda r: next(iter(graph(r)["tensor_values"].values()))["sizes"].append({"as_int": 3})), "")
put("huge_rank", changed("rank", lambda r: graph(r)["tensor_values"][graph(r)["inputs"][-1]["as_tensor"]["name"]].update(sizes=[{"as_int": 2}] * 99)), "99 dims")
put("complex", changed("complex", lambda r: graph(r)["tensor_values"][graph(r)["inputs"][-1]["as_tensor"]["name"]].update(dtype=10)), "complex operands")
put("element_type", changed("element_type", lambda r: graph(r)["tensor_values"][graph(r)["inputs"][-1]["as_tensor"]["name"]].update(dtype=9)), "element type 9")
put("no_specs", changed("specs", lambda r: r["graph_module"]["signature"].update(input_specs=[])), "differ in number")
put("odd_size", changed("odd", lambda r: graph(r)["tensor_values"][graph(r)["inputs"][-1]["as_tensor"]["name"]].update(sizes=[{"as_expr": {"expr_str": "Add(" * 5000}}])), "a size written as")
if WEIGHTS:
    first = next(iter(json.loads(ENTRIES[WEIGHTS])["config"]))
    meta = lambda r: r["config"][first]["tensor_meta"]
    put("pickled_weight", changed("p", lambda r: r["config"][first].update(use_pickle=True), WEIGHTS), "pickles are never executed")
    put("no_weight", changed("p", lambda r: r["config"].pop(first) and None, WEIGHTS), "no data of that name")
    put("no_config", changed("p", lambda r: r.pop("config") and None, WEIGHTS), "config")
    put("lost_weight", changed("p", lambda r: r["config"][first].update(path_name="nowhere"), WEIGHTS), "is missing")
    put("large_weight", changed("p", lambda r: meta(r)["sizes"][0].update(as_int=1 << 40), WEIGHTS), "cut off")
    put("repeated_weight", changed("p", lambda r: (meta(r)["sizes"][0].update(as_int=1 << 40), meta(r)["strides"][0].update(as_int=0)) and None, WEIGHTS), "too often")
    put("negative_stride", changed("p", lambda r: meta(r)["strides"][0].update(as_int=-1), WEIGHTS), "no numbers")
    put("far_offset", changed("p", lambda r: meta(r).update(storage_offset={"as_int": 1 << 62}), WEIGHTS), "cut off")
    put("empty_weight", packed({n: b"" if n.endswith("weight_0") else d for n, d in ENTRIES.items()}), "cut off")
# Directories that lie.
end = RAW.rfind(b"PK\5\6")
for name, at, value, form in (("many_entries", 10, 0xfffe, "<H"), ("far_directory", 16, 0xfffffff0, "<I")):
    put(name, RAW[: end + at] + struct.pack(form, value) + RAW[end + at + struct.calcsize(form) :], "")
# A scale by which an element of the result lies 1e30 elements behind the one before it.
if len(sys.argv) > 3:
    with zipfile.ZipFile(sys.argv[3]) as archive:
        resized = {e.filename: archive.read(e) for e in archive.infolist()}
    assert any(b"0.40625" in d for n, d in resized.items() if n.endswith("models/model.json"))
    put("tiny_scale", packed({n: d.replace(b"0.40625", b"1e-30") if n.endswith(".json") else d for n, d in resized.items()}), "")
# Writes of several elements to one place: PyTorch's order of them is its own.
if len(sys.argv) > 4:
    with zipfile.ZipFile(sys.argv[4]) as archive:
        written = {e.filename: archive.read(e) for e in archive.infolist()}
    graph = next(n for n in written if n.endswith("models/model.json"))
    text = json.loads(written[graph])
    node = next(n for n in text["graph_module"]["graph"]["nodes"] if "as_strided_scatter" in n["target"])
    next(i for i in node["inputs"] if i["name"] == "stride")["arg"] = {"as_ints": [2, 1]}
    put("one_place", packed({**written, graph: json.dumps(text).encode()}), "writes to elements that may lie in one place")
# Noise: no crash, whatever is said.
noise = random.Random(5)
for k in range(int(os.environ.get("NOISE", "20"))):
    data = bytearray(RAW if k % 2 else packed(ENTRIES))
    for _ in range(noise.randint(1, 8)):
        data[noise.randrange(len(data))] = noise.randrange(256)
    put(f"noise_{k:03}", bytes(data), "")
    text = ENTRIES[MODEL].decode()
    for _ in range(noise.randint(1, 4)):
        at = noise.randrange(len(text))
        text = text[:at] + noise.choice(["", "1", "-1", "null", "99999999999", '"x"', "[]", "{}", ","]) + text[at + noise.randint(0, 6) :]
    put(f"words_{k:03}", packed({**ENTRIES, MODEL: text.encode()}), "")
