# SPDX-License-Identifier: Apache-2.0
"""f64 becomes f16, bf16 or 8 bits by one rounding, not by two through f32: when it runs, for each machine, and in constants."""
import math
import numpy as np
from says import LEVELS, T, agrees, h, model

# bits of the fraction, exponent of the least normal number, largest number
FORMATS = {T.FLOAT16: (10, -14, 65504.0), T.BFLOAT16: (7, -126, float(2.0**128 - 2.0**120)), T.FLOAT8E4M3FN: (3, -6, 448.0), T.FLOAT8E5M2: (2, -14, 57344.0)}


def rounded(v, fraction, least, largest):
    if v == 0 or not math.isfinite(v):
        return v
    unit = 2.0 ** (max(math.frexp(v)[1] - 1, least) - fraction)
    return math.copysign(min(round(abs(v) / unit) * unit, largest), v)


def values(fraction, least, largest):
    """Just beside, and at, the middle of two neighbours: near 1, among the least numbers, below the largest."""
    middles = [1 + (k + 0.5) * 2.0**-fraction for k in range(4)] + [(k + 0.5) * 2.0 ** (least - fraction) for k in range(3)] + [largest / 2 * (1 - 2.0 ** -(fraction + 2))]
    near = [m * (1 + s * 2.0**-45) for m in middles for s in (-1, 0, 1)]
    return np.array(near + [-v for v in near] + [0.0, -0.0, np.nan, 1e-320])


def check_once():
    machines = ["x86-64-v2", "x86-64-v3"]
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        machines += ["x86-64-v4"] if "avx512vl" in f.read() else []
    nodes, inputs, outputs, constants, want = [], {}, {}, {}, []
    for to, form in FORMATS.items():
        x = values(*form)
        inputs[f"x{to}"], constants[f"c{to}"] = x, x
        for kind in "xc":
            nodes += [h.make_node("Cast", [f"{kind}{to}"], [f"{kind}n{to}"], to=to), h.make_node("Cast", [f"{kind}n{to}"], [f"{kind}y{to}"], to=T.FLOAT)]
            outputs[f"{kind}y{to}"] = T.FLOAT
            want.append(np.float32([rounded(float(v), *form) for v in x]))
    agrees(model(nodes, inputs, outputs, constants), inputs, want, tol=0, levels=(*LEVELS, *({"level": 2, "march": m} for m in machines)))
