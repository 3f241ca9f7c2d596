# SPDX-License-Identifier: Apache-2.0
"""Random choices, as who makes models and changes to them (schemas.py, mutated.py, results.py) draws them."""


class Refused(Exception):
    """It can't be made here."""


class Draws:
    """rng: numpy's."""

    def below(self, n):
        return int(self.rng.integers(n))

    def one(self, *choices):
        if not choices:
            raise Refused
        return choices[self.below(len(choices))]
