# SPDX-License-Identifier: Apache-2.0
# Writes hostile and wrong ONNX files and .tcir texts to a folder, with a table of what tccc must say of each:
#   NAME<TAB>FILE<TAB>STATUS<TAB>PART of the message
# STATUS is 1, or 0 where the file is odd and yet right. No package is needed: the wire format is written here.
import os
import struct
import sys

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
table = []


def varint(n):
    n &= (1 << 64) - 1
    s = b""
    while n > 127:
        s += bytes([n & 127 | 128])
        n >>= 7
    return s + bytes([n])


def num(field, n):
    return varint(field << 3) + varint(n)


def msg(field, body):
    body = body.encode() if isinstance(body, str) else body
    return varint(field << 3 | 2) + varint(len(body)) + body


F32, I64, STRING, F16 = 1, 7, 8, 10


def tensor(name, dtype, dims, raw=None, more=b""):
    s = b"".join(num(1, d) for d in dims) + num(2, dtype) + msg(8, name)
    return s + (msg(9, raw) if raw is not None else b"") + more


def ints(name, values):
    return tensor(name, I64, [len(values)], struct.pack("<%dq" % len(values), *values))


def scalar(name, value, dtype=I64):
    return tensor(name, dtype, [], struct.pack("<q", value) if dtype == I64 else struct.pack("<f", value))


def value(name, dtype=F32, dims=(2, 3)):
    shape = b"".join(msg(1, num(1, d) if isinstance(d, int) else msg(2, d)) for d in dims)
    return msg(1, name) + msg(2, msg(1, num(1, dtype) + (b"" if dims is None else msg(2, shape))))


def attr(name, v):
    s = msg(1, name)
    if isinstance(v, int):
        return s + num(3, v) + num(20, 2)
    if isinstance(v, str):
        return s + msg(4, v) + num(20, 3)
    if isinstance(v, bytes):                       # a graph
        return s + msg(6, v) + num(20, 5)
    return s + b"".join(num(8, k) for k in v) + num(20, 7)


def node(op, ins, outs, domain="", **attrs):
    s = b"".join(msg(1, i) for i in ins.split()) + b"".join(msg(2, o) for o in outs.split())
    s += msg(3, "node_" + outs.split()[0]) + msg(4, op) + b"".join(msg(5, attr(k, v)) for k, v in attrs.items())
    return s + (msg(7, domain) if domain else b"")


def graph(nodes, inputs=(), outputs=(), inits=()):
    return (b"".join(msg(1, n) for n in nodes) + msg(2, "g") + b"".join(msg(5, t) for t in inits) +
            b"".join(msg(11, v) for v in inputs) + b"".join(msg(12, v) for v in outputs))


def model(g, opset=17, more=b""):
    return num(1, 8) + msg(7, g) + msg(8, num(2, opset)) + more


def case(name, data, part="", status=1, suffix="onnx"):
    file = "%s.%s" % (name, suffix)
    with open(os.path.join(out, file), "wb") as f:
        f.write(data)
    table.append("%s\t%s\t%d\t%s" % (name, file, status, part))


def one(name, op, ins, part="", status=1, inputs=None, inits=(), y=("?",), dtype=F32, **attrs):
    """A model of one node. y: the dims declared for its result."""
    inputs = [value("x")] if inputs is None else inputs
    case(name, model(graph([node(op, ins, "y", **attrs)], inputs, [value("y", dtype, y)], inits)), part, status)


BIG = 1 << 40

# -- Files that are cut off or changed: real ones.
with open(sys.argv[2], "rb") as f:
    digits = f.read()
for k in range(16):
    case("cut_%d" % k, digits[:len(digits) * k // 16], "")
changed = bytearray(digits)
for k in range(0, 400, 7):
    changed[k] ^= 0xff
case("changed", bytes(changed))
case("zeros", bytes(100000))
case("ones", b"\xff" * 100000)

# -- Depth, cycles, names.
g = graph([])
for _ in range(20000 // 3 + 1):                    # graph in attribute in node: three messages a level
    g = msg(1, msg(5, msg(6, g)))
case("nested_20000_messages", model(g), "nested more than")
inner = graph([node("Identity", "x", "t")], (), [value("t")])
for _ in range(25):
    inner = graph([node("If", "c", "t", then_branch=inner, else_branch=graph([node("Identity", "x", "t")], (), [value("t")]))],
                  (), [value("t")])
case("ifs_in_ifs", model(graph([node("If", "c", "y", then_branch=inner, else_branch=inner)],
                               [value("x"), value("c", 9, ())], [value("y")])), "", 0)
case("cycle", model(graph([node("Relu", "b", "a"), node("Relu", "a", "b")], [value("x")], [value("b")])), "'b'")
case("missing_tensor", model(graph([node("Add", "x nothing", "y")], [value("x")], [value("y")])), "'nothing'")
case("missing_output", model(graph([node("Relu", "x", "z")], [value("x")], [value("y")])), "'y'")
case("twice_computed", model(graph([node("Relu", "x", "y"), node("Neg", "x", "y")], [value("x")], [value("y")])), "'y'")
case("no_graph", num(1, 8) + msg(8, num(2, 17)), "no graph")
f = msg(1, "f") + msg(4, "x") + msg(5, "y") + msg(7, node("f", "x", "y", "local")) + msg(10, "local")
f += msg(9, msg(1, "local") + num(2, 1))
case("function_calls_itself", model(graph([node("f", "x", "y", "local")], [value("x")], [value("y")]), 17,
                                    msg(8, msg(1, "local") + num(2, 1)) + msg(25, f)), "")
case("opset_99", model(graph([node("Relu", "x", "y")], [value("x")], [value("y")]), 99), "opset 99")

# -- External data outside of the model's folder, and past a file's end.
for name, location, part in (("parent", "../data.bin", "folder"), ("absolute", "/etc/passwd", "folder"),
                             ("link", "link.bin", "folder"), ("dots", "a/../../b", "folder"), ("absent", "no.bin", "no.bin"),
                             ("short", "data.bin", "data.bin")):
    t = tensor("w", F32, [2, 3], None, msg(13, msg(1, "location") + msg(2, location)) + num(14, 1))
    case("external_" + name, model(graph([node("Add", "x w", "y")], [value("x")], [value("y")], [t])), part)
os.symlink("/etc/passwd", os.path.join(out, "link.bin"))
with open(os.path.join(out, "data.bin"), "wb") as f:
    f.write(bytes(20))

# -- Sizes that overflow.
one("dims_overflow", "Add", "x w", "", inits=[tensor("w", F32, [BIG, BIG], b"")])
one("dims_negative", "Add", "x w", "", inits=[tensor("w", F32, [-2, 3], bytes(24))])
one("dims_of_input", "Relu", "x", "", inputs=[value("x", F32, (BIG, BIG, BIG))])
one("data_short", "Add", "x w", "", inits=[tensor("w", F32, [2, 3], bytes(20))])
one("fill_2_62", "ConstantOfShape", "s", "", inputs=[], inits=[ints("s", [1 << 62])])
one("fill_overflow", "ConstantOfShape", "s", "", inputs=[], inits=[ints("s", [BIG, BIG])])
one("fill_negative", "ConstantOfShape", "s", "", inputs=[], inits=[ints("s", [-1])])
one("expand_overflow", "Expand", "x s", "", inits=[ints("s", [BIG, BIG, 2, 3])])
one("tile_overflow", "Tile", "x s", "", inits=[ints("s", [1 << 62, 1 << 62])])
one("tile_negative", "Tile", "x s", "", inits=[ints("s", [-1, 1])])
one("pad_overflow", "Pad", "x s", "", inits=[ints("s", [0, 0, (1 << 63) - 1, (1 << 63) - 1])])
one("pad_more_than_there_is", "Pad", "x s", "", inits=[ints("s", [0, 0, 0, -9])])
one("range_overflow", "Range", "a b c", "", inputs=[], dtype=I64,
    inits=[scalar("a", -(1 << 63)), scalar("b", (1 << 63) - 1), scalar("c", 1)])
one("range_by_zero", "Range", "a b c", "", inputs=[], dtype=I64, inits=[scalar("a", 0), scalar("b", 9), scalar("c", 0)])
one("reshape_overflow", "Reshape", "x s", "", inits=[ints("s", [1 << 62, 1 << 62])])
one("reshape_two_unknown", "Reshape", "x s", "", inits=[ints("s", [-1, -1])])
one("reshape_not_divisible", "Reshape", "x s", "", inits=[ints("s", [4, -1])])
one("resize_overflow", "Resize", "x  r s".replace("  ", " "), "", inits=[ints("s", [BIG, BIG])])
one("onehot_overflow", "OneHot", "i d v", "", inputs=[value("i", I64, (2,))],
    inits=[scalar("d", 1 << 62), tensor("v", F32, [2], bytes(8))])

# -- Wrong ranks, types, attributes.
image = value("x", F32, (1, 3, 8, 8))
weight = tensor("w", F32, [4, 3, 3, 3], bytes(4 * 4 * 27))
one("conv_rank", "Conv", "x w", "", inits=[weight])
one("conv_channels", "Conv", "x w", "", inputs=[value("x", F32, (1, 5, 8, 8))], inits=[weight])
one("conv_stride_0", "Conv", "x w", "", inputs=[image], inits=[weight], strides=[0, 1])
one("conv_stride_negative", "Conv", "x w", "", inputs=[image], inits=[weight], strides=[-1, 1])
one("conv_dilation_big", "Conv", "x w", "", inputs=[image], inits=[weight], dilations=[1 << 62, 1])
one("conv_pads_big", "Conv", "x w", "", inputs=[image], inits=[weight], pads=[1 << 62] * 4)
one("pool_pads_big_empty", "AveragePool", "x", "2^47 bytes", inputs=[value("x", F32, (0, 3, 5, 5))], kernel_shape=[2, 2], pads=[0, 0, 1 << 61, 0])
one("empty_too_big", "Relu", "x", "2^47 bytes", inputs=[value("x", F32, (0, BIG, BIG))])
one("output_too_big", "Relu", "x", "2^47 bytes", y=(2, 1 << 62))
case("sequence_output_too_big", model(graph([node("SequenceConstruct", "x x", "s"), node("ConcatFromSequence", "s", "y", axis=1)], [value("x")],
                                            [value("y", F32, (2, "?", 1 << 62))])), "2^47 bytes")
one("conv_pads_few", "Conv", "x w", "", inputs=[image], inits=[weight], pads=[1, 1])
one("conv_group_0", "Conv", "x w", "", inputs=[image], inits=[weight], group=0)
one("conv_window_too_big", "Conv", "x w", "", inputs=[value("x", F32, (1, 3, 2, 2))], inits=[weight])
one("pool_kernel_0", "MaxPool", "x", "", inputs=[image], kernel_shape=[0, 0])
one("pool_kernel_big", "MaxPool", "x", "", inputs=[image], kernel_shape=[BIG, BIG])
one("pool_no_kernel", "MaxPool", "x", "", inputs=[image])
one("matmul_shapes", "MatMul", "x x", "")
one("matmul_strings", "MatMul", "x x", "", inputs=[value("x", STRING, (2, 2))])
one("add_types", "Add", "x z", "", inputs=[value("x"), value("z", I64)])
one("add_shapes", "Add", "x z", "", inputs=[value("x"), value("z", F32, (2, 4))])
one("declared_type", "Relu", "x", "", dtype=I64)
one("declared_shape", "Relu", "x", "", 0, y=(7, 7))         # exporters leave wrong ones behind: what is computed counts
one("transpose_twice", "Transpose", "x", "", perm=[0, 0])
one("transpose_outside", "Transpose", "x", "", perm=[0, 2])
one("softmax_axis", "Softmax", "x", "", axis=5)
one("concat_shapes", "Concat", "x z", "", inputs=[value("x"), value("z", F32, (5, 4))], axis=0)
one("squeeze_3", "Squeeze", "x a", "", inits=[ints("a", [1])])
one("gather_outside", "Gather", "x i", "", 0, inits=[ints("i", [9])])
one("split_sum", "Split", "x s", "", inits=[ints("s", [1, 9])], axis=0)
one("slice_step_0", "Slice", "x a b c d", "", inits=[ints("a", [0]), ints("b", [2]), ints("c", [0]), ints("d", [0])])
one("slice_extremes", "Slice", "x a b c d", "", 0, y=(2, "?"),
    inits=[ints("a", [-(1 << 63)]), ints("b", [(1 << 63) - 1]), ints("c", [1]), ints("d", [(1 << 63) - 1])])
one("topk_more_than_there_is", "TopK", "x k", "", inits=[ints("k", [9])])
one("attribute_kind", "Softmax", "x", "", axis="one")
one("inputs_too_few", "Add", "x", "")
one("einsum_bad", "Einsum", "x", "", equation="ij->k")
one("cast_to_nothing", "Cast", "x", "", to=77)
one("type_unknown", "Relu", "x", "", inputs=[value("x", 99)])
one("lstm_no_size", "LSTM", "x x x", "")

# -- Arithmetic that the processor refuses, on constants: the result is what the words say, nothing stops.
for name, op, a, b in (("div_0", "Div", 5, 0), ("div_least", "Div", -(1 << 63), -1), ("mod_0", "Mod", 5, 0),
                       ("mod_least", "Mod", -(1 << 63), -1)):
    one("fold_" + name, op, "a b", "", 0, inputs=[], inits=[scalar("a", a), scalar("b", b)], dtype=I64, y=())

# -- Texts.
def text(name, s, part="", status=1):
    case("text_" + name, s.encode() if isinstance(s, str) else s, part, status, "tcir")


text("empty", "", "")
text("binary", bytes(range(256)) * 10)
text("parentheses", "func @main(%x: f32[" + "(" * 20000, "")
text("brackets", "const %c = " + "[" * 20000, "")
text("regions", "func @main(%x: f32[2]) -> (f32[2]) {\n" + "  if(%x) {\n" * 20000, "")
text("long_name", "func @" + "a" * 1000000 + "(", "")
text("dims", "func @main(%x: f32[99999999999999999999,2]) -> (f32[2]) {\n  return(%x)\n}\n", "")
text("dims_overflow", "func @main(%x: f32[4611686018427387904,4611686018427387904]) -> (f32[4611686018427387904,4611686018427387904])"
     " {\n  %y = neg(%x)\n  return(%y)\n}\n", "")
text("undefined", "func @main(%x: f32[2]) -> (f32[2]) {\n  return(%y)\n}\n", "%y")
text("own_operand", "func @main(%x: f32[2]) -> (f32[2]) {\n  %y = add(%y, %x)\n  return(%y)\n}\n", "%y")
text("twice", "func @main(%x: f32[2]) -> (f32[2]) {\n  %x = neg(%x)\n  return(%x)\n}\n", "%x")
text("unknown_op", "func @main(%x: f32[2]) -> (f32[2]) {\n  %y = frobnicate(%x)\n  return(%y)\n}\n", "frobnicate")
text("wrong_type", "func @main(%x: f32[2], %z: i64[2]) -> (f32[2]) {\n  %y = add(%x, %z)\n  return(%y)\n}\n", "")
text("wrong_rank", "func @main(%x: f32[2]) -> (f32[2]) {\n  %y = matmul(%x, %x, %x)\n  return(%y)\n}\n", "")
text("wrong_data", "func @main() -> (f32[3]) {\n  %y = constant() {value = f32[3] [1, 2]}\n  return(%y)\n}\n", "")
text("no_function", "state @p : f32[2] param = f32[2] [1, 2]\n", "")

with open(os.path.join(out, "table"), "w") as f:
    f.write("".join(line + "\n" for line in table))
