# SPDX-License-Identifier: Apache-2.0
"""Each operator of ONNX in the form of each of its versions from opset 7 on, one model a version: what changed between versions is an attribute
that became an operand, an operand that became optional, a type, a meaning. FORMS says how an operator is called; a function of the
version where that changes. engine_cases.py runs them with ONNX Runtime, and leaves out what it has no kernel for. Not here: what makes random
numbers or sequences, or holds graphs (the official suite has those); Bernoulli, whose function ONNX Runtime takes from opset 15, where it is
turned round; Dropout's mask before opset 12, which has no meaning when nothing is dropped."""
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper

FIRST = 7
rng = np.random.default_rng(3)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
u = lambda *s: rng.uniform(0.1, 0.9, s).astype(np.float32)
i64 = lambda *v: np.array(v, np.int64)
f32 = lambda *v: np.array(v, np.float32)
i32 = lambda *v: np.array(v, np.int32)
byte = lambda *s: rng.integers(0, 256, s).astype(np.uint8)
flag = lambda *s: rng.integers(0, 2, s).astype(bool)

# name: (operands, attributes[, results]); a Constant is an initialiser, written C(value). A function gets the version.
C = lambda v: ("constant", np.asarray(v))
FORMS = {}
for name in "Abs Asinh Atan Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus " \
            "Softsign Tan Tanh ThresholdedRelu IsNaN IsInf Celu Gelu Shrink NonZero Size Shape".split():
    FORMS[name] = ([f(2, 3, 4)], {})
for name in "Acos Asin Atanh Log Sqrt".split():
    FORMS[name] = ([u(3, 4)], {})
FORMS["Acosh"] = ([1 + u(3, 4)], {})
for name in "Add Sub Mul Div Less Greater LessOrEqual GreaterOrEqual PRelu".split():
    FORMS[name] = ([f(2, 3, 4), f(3, 1)], {})
FORMS["Pow"] = lambda v: ([u(2, 3), f(3)], {}) if v < 12 else ([u(2, 3), i64(1, 2, 3)], {})
for name in "And Or Xor".split():
    FORMS[name] = ([flag(2, 3, 4), flag(3, 1)], {})
FORMS["Not"] = ([flag(3, 4)], {})
FORMS["Equal"] = lambda v: ([i64(1, 2, 3), i64(1, 5, 3)], {}) if v < 11 else ([f32(1, 2, 3), f32(1, 5, 3)], {})
for name in "Max Min Mean Sum".split():
    FORMS[name] = lambda v: ([f(2, 3), f(2, 3), f(2, 3)] if v < 8 else [f(2, 3), f(3), f(2, 1)], {})
FORMS["Mod"] = ([i32(-7, 7, 5), i32(3, -3, 2)], {})
FORMS["BitShift"] = ([byte(6), np.array([1, 0, 2, 3, 1, 2], np.uint8)], {"direction": "LEFT"})
FORMS["Clip"] = lambda v: ([f(3, 4)], {"min": -0.5, "max": 0.4}) if v < 11 else ([f(3, 4), np.float32(-0.5), np.float32(0.4)], {}) if v < 12 \
    else ([i32(-9, 3, 9), np.int32(-2), np.int32(5)], {})
FORMS["Where"] = ([flag(3, 1), f(3, 4), f(4)], {})
FORMS["Cast"] = lambda v: ([f(3, 4) * 9], {"to": T.INT32})
FORMS["CastLike"] = ([f(3, 4) * 9, i32(1)], {})
for name in "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare ReduceSum".split():
    operand = 13 if name == "ReduceSum" else 18
    FORMS[name] = lambda v, operand=operand: ([u(2, 3, 4)], {"axes": [0, 2], "keepdims": 0}) if v < operand else ([u(2, 3, 4), C(i64(0, -1))], {"keepdims": 0})
    FORMS[name + " of no axes"] = lambda v, operand=operand: ([u(2, 3)], {}) if v < operand else ([u(2, 3), C(np.zeros(0, np.int64))], {"noop_with_empty_axes": 1})
for name in "ArgMax ArgMin".split():
    FORMS[name] = lambda v: ([np.round(f(3, 5))], {"axis": 1 if v < 11 else -1, **({"select_last_index": 1} if v > 11 else {})})
for name in "Softmax LogSoftmax Hardmax".split():
    FORMS[name] = ([f(2, 3, 4)], {})
    FORMS[name + " along 1"] = ([f(2, 3, 4)], {"axis": 1})
FORMS["TopK"] = lambda v: ([f(3, 6)], {"k": 2}, 2) if v < 10 else ([f(3, 6), C(i64(2))], {"largest": 0} if v > 10 else {}, 2)
FORMS["Concat"] = ([f(2, 3), f(2, 1)], {"axis": 1})
FORMS["CumSum"] = ([f(3, 4), C(np.int64(1))], {"reverse": 1})
FORMS["DepthToSpace"] = lambda v: ([f(1, 8, 2, 3)], {"blocksize": 2, **({"mode": "CRD"} if v > 1 else {})})
FORMS["SpaceToDepth"] = ([f(1, 2, 4, 6)], {"blocksize": 2})
FORMS["Expand"] = ([f(3, 1), C(i64(2, 1, 4))], {})
FORMS["EyeLike"] = ([f(3, 4)], {"k": 1})
FORMS["Flatten"] = lambda v: ([f(2, 3, 4)], {"axis": 2 if v < 11 else -1})
FORMS["Gather"] = lambda v: ([f(4, 3), C(i64(0, 2) if v < 11 else i64(-1, 2))], {"axis": 0})
FORMS["GatherElements"] = ([f(3, 3), C(np.array([[0, 1, 2], [-1, 0, 0]], np.int64))], {"axis": 0})
FORMS["GatherND"] = lambda v: ([f(2, 3, 4), C(np.array([[1], [0]], np.int64))], {"batch_dims": 1} if v > 11 else {})
FORMS["OneHot"] = lambda v: ([i64(0, 2, 1), C(np.int64(3)), C(f32(0, 5))], {"axis": -1})
FORMS["Pad"] = lambda v: ([f(2, 3)], {"pads": [0, 1, 2, 1], "value": 0.5}) if v < 11 else ([f(2, 3), C(i64(0, 1, 2, 1)), C(np.float32(0.5))], {}) if v < 18 \
    else ([f(2, 3), C(i64(1, 2)), C(np.float32(0.5)), C(i64(-1))], {})
FORMS["Pad reflect"] = lambda v: ([f(2, 4)], {"pads": [0, 1, 0, 2], "mode": "reflect"}) if v < 11 else ([f(2, 4), C(i64(0, 1, 0, 2))], {"mode": "reflect"})
FORMS["Reshape"] = ([f(2, 3, 4), C(i64(0, -1))], {})
FORMS["ReverseSequence"] = ([f(4, 3), C(i64(2, 4, 1))], {"time_axis": 0, "batch_axis": 1})
FORMS["Scatter"] = ([f(3, 3), C(np.array([[1, 0, 2]], np.int64)), f(1, 3)], {"axis": 0})
FORMS["ScatterElements"] = lambda v: ([f(3, 3), C(np.array([[1, 0, 2], [1, 1, 0]], np.int64)) if v > 13 else C(np.array([[1, 0, 2], [2, 1, 0]], np.int64)), f(2, 3)],
                                      {"axis": 0, **({"reduction": "add"} if v > 13 else {})})
FORMS["ScatterND"] = lambda v: ([f(4, 2), C(np.array([[1], [3]], np.int64)), f(2, 2)], {"reduction": "mul"} if v > 13 else {})
FORMS["Slice"] = lambda v: ([f(4, 5)], {"starts": [1, -3], "ends": [3, 100], "axes": [0, 1]}) if v < 10 else ([f(4, 5), C(i64(3, 0)), C(i64(0, 9)), C(i64(0, 1)), C(i64(-1, 2))], {})
FORMS["Split"] = lambda v: ([f(2, 5)], {"split": [2, 3], "axis": 1}, 2) if v < 13 else ([f(2, 5), C(i64(2, 3))], {"axis": 1}, 2)
FORMS["Split equal"] = lambda v: ([f(2, 6)], {"axis": 1}, 3) if v < 18 else ([f(2, 7)], {"axis": 1, "num_outputs": 3}, 3)
FORMS["Squeeze"] = lambda v: ([f(2, 1, 3, 1)], {"axes": [1]}) if v < 13 else ([f(2, 1, 3, 1), C(i64(-1))], {})
FORMS["Unsqueeze"] = lambda v: ([f(2, 3)], {"axes": [0, 3]}) if v < 13 else ([f(2, 3), C(i64(0, -1))], {})
FORMS["Tile"] = ([f(2, 3), C(i64(2, 3))], {})
FORMS["Transpose"] = ([f(2, 3, 4)], {"perm": [2, 0, 1]})
FORMS["Trilu"] = ([f(3, 4), C(np.int64(1))], {"upper": 0})
FORMS["Range"] = ([C(np.int64(3)), C(np.int64(-4)), C(np.int64(-2))], {})
FORMS["Compress"] = ([f(4, 3), C(np.array([True, False, True, True]))], {"axis": 0})
FORMS["Unique"] = ([f32(2, 1, 1, 3, 2)], {"sorted": 0}, 4)
FORMS["ConstantOfShape"] = ([C(i64(2, 3))], {"value": numpy_helper.from_array(i64(7))})
FORMS["Upsample"] = lambda v: ([f(1, 2, 2, 3)], {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "nearest"}) if v < 9 else ([f(1, 2, 2, 3), C(f32(1, 1, 2, 2))], {"mode": "linear"})
FORMS["Resize"] = lambda v: ([f(1, 2, 3, 4), C(f32(1, 1, 2, 1.5))], {"mode": "linear"}) if v < 11 else ([f(1, 2, 3, 4), C(f32()) if v < 13 else "", C(f32(1, 1, 2, 1.5))], {"mode": "linear"}) if v < 18 \
    else ([f(1, 2, 3, 4), "", "", C(i64(6, 7))], {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"})
for name in "GlobalAveragePool GlobalMaxPool GlobalLpPool".split():
    FORMS[name] = ([f(2, 3, 4, 5)], {})
FORMS["AveragePool"] = lambda v: ([f(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 0], "count_include_pad": 1, **({"ceil_mode": 1} if v >= 10 else {}),
                                                    **({"dilations": [1, 2]} if v >= 19 else {})})
FORMS["MaxPool"] = lambda v: ([f(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 0], **({"dilations": [2, 1], "ceil_mode": 1} if v >= 10 else {})}, 2 if v >= 8 else 1)
FORMS["LpPool"] = lambda v: ([f(1, 2, 6, 6)], {"kernel_shape": [2, 3], "strides": [2, 1], "p": 3, **({"ceil_mode": 1, "dilations": [2, 1]} if v >= 18 else {})})
FORMS["MaxUnpool"] = ([f(1, 1, 2, 2), C(np.array([[[[5, 7], [13, 15]]]], np.int64))], {"kernel_shape": [2, 2], "strides": [2, 2]})
FORMS["Conv"] = ([f(1, 4, 6, 7), f(6, 2, 3, 3), f(6)], {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2, 2]})
FORMS["ConvTranspose"] = ([f(1, 4, 3, 4), f(4, 3, 3, 3), f(6)], {"group": 2, "strides": [2, 2], "output_padding": [1, 0], "pads": [1, 0, 1, 1]})
FORMS["DeformConv"] = ([f(1, 2, 4, 4), f(3, 2, 2, 2), 0.3 * f(1, 8, 3, 3)], {"kernel_shape": [2, 2]})
FORMS["BatchNormalization"] = ([f(2, 3, 4), C(u(3)), C(f(3)), C(f(3)), C(u(3))], {"epsilon": 1e-3})
FORMS["InstanceNormalization"] = ([f(2, 3, 5), C(u(3)), C(f(3))], {})
FORMS["GroupNormalization"] = lambda v: ([f(2, 4, 5), C(u(2 if v < 21 else 4)), C(f(2 if v < 21 else 4))], {"num_groups": 2})
FORMS["LayerNormalization"] = ([f(2, 3, 5), C(u(5)), C(f(5))], {})
FORMS["RMSNormalization"] = ([f(2, 3, 5), C(u(5))], {})
FORMS["LpNormalization"] = ([f(2, 3, 5)], {"axis": 1, "p": 1})
FORMS["MeanVarianceNormalization"] = ([f(2, 3, 4, 4)], {})
FORMS["LRN"] = ([f(1, 5, 2, 2)], {"size": 3})
FORMS["Dropout"] = lambda v: ([f(2, 3)], {"ratio": 0.3}) if v < 12 else ([f(2, 3), C(np.float32(0.3))], {}, 2)
FORMS["Gemm"] = lambda v: ([f(4, 3), f(5, 4), C(f(5))] if v < 11 else [f(4, 3), f(5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5})
FORMS["MatMul"] = ([f(2, 3, 4), f(4, 5)], {})
FORMS["Einsum"] = ([f(2, 3, 4), f(2, 5, 4)], {"equation": "...ik,...jk->...ij"})
FORMS["Det"] = ([f(2, 3, 3)], {})
FORMS["GridSample"] = lambda v: ([f(1, 2, 4, 5), f(1, 3, 3, 2)], {"mode": "bilinear" if v < 20 else "linear"})
FORMS["RoiAlign"] = lambda v: ([f(1, 2, 6, 6), C(f32([0, 0, 4, 5], [1, 1, 5, 5]).reshape(2, 4)), C(i64(0, 0))],
                               {"output_height": 2, "output_width": 3, "sampling_ratio": 2, **({"coordinate_transformation_mode": "half_pixel"} if v >= 16 else {})})
FORMS["NonMaxSuppression"] = ([C(np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], np.float32)), C(np.array([[[0.9, 0.8, 0.7]]], np.float32)), C(i64(2)), C(f32(0.5)), C(f32(0.1))], {})
FORMS["QuantizeLinear"] = lambda v: ([f(2, 3) * 20, C(np.float32(0.5)), C(np.uint8(100))], {}) if v < 13 else ([f(2, 3) * 20, C(f32(0.5, 1, 2)), C(np.array([100, 128, 0], np.uint8))], {"axis": 1}) if v < 21 \
    else ([f(2, 4) * 20, C(u(2, 2)), C(np.zeros((2, 2), np.int8))], {"axis": 1, "block_size": 2})
FORMS["DequantizeLinear"] = lambda v: ([byte(2, 3), C(np.float32(0.5)), C(np.uint8(100))], {}) if v < 13 else ([byte(2, 3), C(f32(0.5, 1, 2)), C(np.array([100, 128, 0], np.uint8))], {"axis": 1}) if v < 21 \
    else ([byte(2, 4), C(u(2, 2)), C(np.zeros((2, 2), np.uint8))], {"axis": 1, "block_size": 2})
FORMS["DynamicQuantizeLinear"] = ([f(3, 4)], {}, 3)
FORMS["MatMulInteger"] = ([byte(3, 4), byte(4, 2), C(np.uint8(3)), C(np.uint8(9))], {})
FORMS["ConvInteger"] = ([byte(1, 2, 4, 4), byte(3, 2, 2, 2), C(np.uint8(3))], {})
FORMS["QLinearMatMul"] = ([byte(3, 4), C(np.float32(0.1)), C(np.uint8(7)), byte(4, 2), C(np.float32(0.2)), C(np.uint8(5)), C(np.float32(4)), C(np.uint8(100))], {})
FORMS["QLinearConv"] = ([byte(1, 2, 4, 4), C(np.float32(0.1)), C(np.uint8(7)), byte(3, 2, 2, 2), C(np.float32(0.2)), C(np.uint8(5)), C(np.float32(4)), C(np.uint8(100))], {})
for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    FORMS[name] = lambda v, gates=gates: ([f(5, 2, 3), C(f(2, gates * 4, 3)), C(f(2, gates * 4, 4)), C(f(2, 2 * gates * 4)), C(i32(5, 3))], {"hidden_size": 4, "direction": "bidirectional"}, 2)
    FORMS[name + " batch first"] = lambda v, gates=gates: ([f(2, 5, 3), C(f(1, gates * 4, 3)), C(f(1, gates * 4, 4))], {"hidden_size": 4, "layout": 1}, 2) if v >= 14 else None
FORMS["NegativeLogLikelihoodLoss"] = ([f(3, 4), C(i64(1, 0, 3)), C(u(4))], {"reduction": "mean", "ignore_index": 0})
FORMS["SoftmaxCrossEntropyLoss"] = ([f(3, 4), C(i64(1, 0, 3)), C(u(4))], {"reduction": "sum", "ignore_index": 0})
FORMS["DFT"] = lambda v: ([f(2, 8, 1)], {"axis": 1, "onesided": 1}) if v < 20 else ([f(2, 8, 1), "", C(np.int64(1))], {"onesided": 1})
FORMS["STFT"] = ([f(1, 32, 1), C(np.int64(8)), C(u(16))], {})
for name in "HannWindow HammingWindow BlackmanWindow".split():
    FORMS[name] = ([C(np.int64(9))], {"periodic": 0})
FORMS["MelWeightMatrix"] = ([C(np.int64(8)), C(np.int64(16)), C(np.int64(8000)), C(np.float32(20)), C(np.float32(4000))], {})
FORMS["Multinomial"] = ([C(f32([[-90, 9, -90], [9, -90, -90]]).reshape(2, 3))], {"sample_size": 5, "dtype": T.INT64})
FORMS["StringNormalizer"] = ([np.array(["Monday", "tuesday"], object)], {"case_change_action": "UPPER", "locale": "C"})
FORMS["TfIdfVectorizer"] = ([i32(1, 2, 3, 2)], {"max_gram_length": 2, "min_gram_length": 1, "max_skip_count": 0, "mode": "TF", "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3], "pool_int64s": [1, 2, 3, 2, 3]})
FORMS["MaxRoiPool"] = lambda v: ([f(2, 3, 6, 7), C(f32([1, 0, 0, 4, 5], [0, 1, 1, 9.5, 6], [1, 3, 2, 3, 2], [0, 20, 20, 24, 24]).reshape(4, 5))], {"pooled_shape": [2, 3], "spatial_scale": 0.5})


# -- ai.onnx.ml: LABEL: form. Maps are not here (tests/zipmap.tap, tests/python/converters.py), TreeEnsemble is in the official suite. ----------------------

ML = {}


def ml(label, operands, results=1, **attributes):
    ML[label] = (operands, attributes, results)


AFTER = "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT".split()
words = lambda *v: np.array(v, object)
ml("CategoryMapper of words", [words("b", "z", "a")], cats_strings=["a", "b"], cats_int64s=[4, 7], default_int64=-2)
ml("CategoryMapper of numbers", [i64(7, 5, 4)], cats_strings=["a", "b"], cats_int64s=[4, 7], default_string="?")
ml("FeatureVectorizer", [f(3, 2), f(3, 1)], inputdimensions=[2, 1])
ml("Imputer", [f32(1, np.nan, 3, np.nan, 5, 6).reshape(2, 3)], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
ml("Imputer of one value", [i64(1, 0, 3, 0).reshape(2, 2)], imputed_value_int64s=[9], replaced_value_int64=0)
LABELS = {1: {"words": ([words("b", "z")], {"classes_strings": ["a", "b"], "default_int64": -3}), "numbers": ([i64(1, 9)], {"classes_strings": ["a", "b"], "default_string": "?"})}}
LABELS[2] = {"words": ([words("b", "z")], {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -3}), "numbers": ([i64(6, 9)], {"keys_int64s": [5, 6], "values_strings": ["a", "b"], "default_string": "?"}),
                      "floats": ([f32(1.5, np.nan, 2)], {"keys_floats": [1.5, 7.0], "values_floats": [3.0, 4.0], "default_float": -1.0})}
LABELS[4] = {**LABELS[2], "no number": ([f32(1.5, np.nan, 2)], {"keys_floats": [1.5, float("nan")], "values_floats": [3.0, 4.0]}), "doubles": ([np.array([2.5, 1, 7.25])], {"keys_tensor": numpy_helper.from_array(np.array([1, 2.5])), "values_tensor": numpy_helper.from_array(np.array([0.1, 0.2])),
                                                         "default_tensor": numpy_helper.from_array(np.array([-1.0]))})}
for key in ["words", "numbers", "floats", "doubles", "no number"]:
    ML["LabelEncoder of " + key] = lambda v, key=key: LABELS[v].get(key)
line = lambda targets: {"coefficients": f(targets * 3).tolist(), "intercepts": f(targets).tolist()}
for after in AFTER:
    chances = {"coefficients": (0.3 * u(9)).tolist(), "intercepts": [0.02, 0.03, 0.01]}  # between 0 and 1, which quantiles are taken of
    ml(f"LinearClassifier {after}", [u(4, 3)], 2, classlabels_ints=[7, 3, 5], post_transform=after, **(chances if after == "PROBIT" else line(3)))
    if after != "PROBIT":
        ml(f"LinearClassifier of two {after}", [f(4, 3)], 2, classlabels_strings=["no", "yes"], post_transform=after, multi_class=1, **line(2))
    ml(f"LinearRegressor {after}", [u(4, 3)], targets=2, post_transform=after, coefficients=u(6).tolist(), intercepts=[-0.6, -0.5])
ml("LinearClassifier of one", [f(4, 3)], 2, classlabels_ints=[0, 1], post_transform="LOGISTIC", **line(1))
ml("LinearRegressor of integers", [i64(1, 2, 3, 4, 5, 6).reshape(2, 3)], **line(1))
for norm in "MAX L1 L2".split():
    ml(f"Normalizer {norm}", [u(3, 4) if norm == "MAX" else f(3, 4)], norm=norm)  # ONNX Runtime's MAX has signs, the reference evaluator's has none
ml("OneHotEncoder of numbers", [i64(4, 9, 7)], cats_int64s=[4, 7])
ml("OneHotEncoder of words", [words("b", "a", "b").reshape(3, 1)], cats_strings=["a", "b"], zeros=0)
ml("Scaler", [f(2, 3)], offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 3.0])
ml("Scaler of integers", [i32(1, 2, 3, 4).reshape(2, 2)], offset=[1.5], scale=[2.0])
for kernel in "LINEAR POLY RBF SIGMOID".split():
    of = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 2.0], "support_vectors": f(4 * 3).tolist(), "rho": [0.3, -0.1, 0.2]}
    ml(f"SVMClassifier {kernel}", [f(4, 3)], 2, classlabels_ints=[4, 2, 9], coefficients=f(8).tolist(), vectors_per_class=[2, 1, 1], **of)
    ml(f"SVMClassifier of chances {kernel}", [f(4, 3)], 2, classlabels_strings=["a", "b", "c"], coefficients=f(8).tolist(), vectors_per_class=[2, 1, 1], prob_a=[-1.0, -0.5, -2.0], prob_b=[0.1, 0.2, -0.1], **of)
    of["rho"] = [0.3]
    ml(f"SVMClassifier of two {kernel}", [f(4, 3)], 2, classlabels_ints=[4, 2], coefficients=f(4).tolist(), vectors_per_class=[2, 2], **of)
    ml(f"SVMRegressor {kernel}", [f(4, 3)], n_supports=4, coefficients=f(4).tolist(), **of)
    ml(f"SVMRegressor of one class {kernel}", [f(4, 3)], n_supports=4, coefficients=f(4).tolist(), one_class=1, **of)
ml("SVMClassifier of lines", [f(4, 3)], 2, classlabels_ints=[0, 1, 2], coefficients=f(9).tolist(), rho=f(3).tolist(), kernel_type="LINEAR", kernel_params=[0.5, 0.25, 2.0])
ml("SVMRegressor of a line", [f(4, 3)], coefficients=f(3).tolist(), rho=[0.2], kernel_type="LINEAR")
nodes = {"nodes_treeids": [0] * 5 + [1] * 3, "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2], "nodes_featureids": [0, 0, 1, 0, 0, 2, 0, 0], "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0]}


def tree(mode, classes, prefix, **more):
    """Two trees of three leaves and of two; `classes` weights a leaf."""
    leaves = [(t, n, c) for t, n in ((0, 1), (0, 3), (0, 4), (1, 1), (1, 2)) for c in range(classes)]
    return {**nodes, "nodes_modes": [{"1": "BRANCH_" + mode}.get(c, "LEAF") for c in "10100100"], "nodes_values": [0.25, 0, -0.5, 0, 0, 0.5, 0, 0], f"{prefix}_treeids": [a for a, _, _ in leaves],
            f"{prefix}_nodeids": [b for _, b, _ in leaves], f"{prefix}_ids": [c for _, _, c in leaves], f"{prefix}_weights": f(len(leaves)).tolist(), **more}


def places():
    """Rows at the thresholds, beside them, and without a number."""
    return np.concatenate([f(4, 3), f32(0.25, -0.5, 0.5, np.nan, -0.5, 0.7, 0.3, np.nan, np.nan).reshape(3, 3)])


for mode in "LEQ LT GTE GT EQ NEQ".split():
    ml(f"TreeEnsembleRegressor {mode}", [places()], **tree(mode, 1, "target", n_targets=1, nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0]))
for how in "AVERAGE SUM MIN MAX".split():
    ml(f"TreeEnsembleRegressor {how}", [f(4, 3)], **tree("LEQ", 2, "target", n_targets=2, aggregate_function=how, base_values=[0.5, -0.5]))
for after in AFTER[:4]:
    ml(f"TreeEnsembleClassifier {after}", [f(5, 3)], 2, **tree("LEQ", 3, "class", classlabels_int64s=[3, 1, 2], post_transform=after, base_values=[0.1, 0.2, -0.1]))
ml("TreeEnsembleClassifier of two", [f(5, 3)], 2, **tree("LT", 1, "class", classlabels_strings=["no", "yes"], post_transform="LOGISTIC"))  # by the others ONNX Runtime is not the reference evaluator
ML["TreeEnsembleRegressor of doubles"] = lambda v: None if v < 3 else ([places().astype(np.float64)], {k: numpy_helper.from_array(np.array(a)) if k.endswith("_as_tensor") else a for k, a in
                                                     ((k + "_as_tensor" if k in ("nodes_values", "target_weights") else k, a) for k, a in tree("LEQ", 1, "target", n_targets=1).items())})


def versions(op, domain=""):
    """The version that opset FIRST has, if any, and the later ones."""
    every = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain and s.name == op and not s.deprecated}
    old = [v for v in every if v <= FIRST and not domain]
    return ([max(old)] if old else []) + sorted(v for v in every if v > FIRST or domain)


def cases():
    """(name, operands by name, initialisers, node, number of results, opset, that of ai.onnx.ml or None)"""
    for domain, label, form in [("", *row) for row in FORMS.items()] + [("ai.onnx.ml", *row) for row in ML.items()]:
        op = label.split()[0]
        for v in versions(op, domain):
            made = form(v) if callable(form) else form
            if not made:
                continue
            values, attrs, *count = made
            inputs, constants, names = {}, {}, []
            for k, value in enumerate(values):
                if isinstance(value, str):
                    names.append("")
                    continue
                names.append(f"x{k}")
                (constants if isinstance(value, tuple) else inputs)[names[-1]] = value[1] if isinstance(value, tuple) else np.asarray(value)
            results = [f"y{k}" for k in range(count[0] if count else 1)]
            node = h.make_node(op, names, results, name=label, domain=domain, **attrs)
            yield f"{label.replace(' ', '_')}_{v}", inputs, constants, node, results, 15 if domain else max(v, FIRST), v if domain else None
