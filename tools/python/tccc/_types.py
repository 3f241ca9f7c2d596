# SPDX-License-Identifier: Apache-2.0
"""What inputs and results are described by."""
from typing import NamedTuple, Optional, Tuple, Union


class Value(NamedTuple):
    """An input, result or state variable: numpy's name of its element type; its sizes, where a str is a symbol or an expression of them; shape None: any rank.
    labels: of a result, what the elements of its last axis stand for, where the model says so (ZipMap's classes)."""

    name: str
    dtype: str
    shape: Optional[Tuple[Union[int, str, None], ...]]
    kind: str = "tensor"
    optional: bool = False
    labels: Optional[Tuple[str, ...]] = None
