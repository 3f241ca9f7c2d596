# SPDX-License-Identifier: Apache-2.0
from os import PathLike
from typing import Any, Dict, List, Tuple, Union

version: str

def compile(model: Union[str, PathLike[str]], output: Union[str, PathLike[str]], options: Dict[str, Any], train: bool, /) -> Tuple[int, List[Tuple[int, str]]]: ...
def build() -> str: ...
