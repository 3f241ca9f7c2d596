# SPDX-License-Identifier: Apache-2.0
"""TfIdfVectorizer: weights belong to the n-grams of the pool, not to the result's columns."""
import numpy as np
from says import T, agrees, h, model, refused

POOL = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 3], "pool_int64s": [1, 2, 3, 1, 2], "ngram_indexes": [1, 0, 1, 3]}
X = np.array([1, 2, 1, 3, 2, 2], np.int64)


def vectorizer(**attrs):
    return model([h.make_node("TfIdfVectorizer", ["x"], ["y"], **{**POOL, **attrs})], {"x": X}, {"y": T.FLOAT}, opset=9, ir=8)


def check_weights():
    for mode, weights, want in (("TF", [0.5, 2, 3, 7], [3, 3, 0, 1]), ("IDF", [0.5, 2, 3, 7], [2, 3, 0, 7]), ("TFIDF", [0.5, 2, 3, 7], [6, 4, 0, 7]),  # of ONNX Runtime
                                ("TFIDF", None, [3, 3, 0, 1]), ("IDF", None, [1, 1, 0, 1])):
        agrees(vectorizer(mode=mode, **({"weights": [float(w) for w in weights]} if weights else {})), {"x": X}, [np.array(want, np.float32)], what=mode)


def check_what_does_not_fit():
    for words, attrs in (("a value for each of the 4 n-grams", {"mode": "TFIDF", "weights": [1.0, 2.0]}), ("in the pool twice", {"mode": "TF", "pool_int64s": [1, 2, 1, 1, 2]}),
                         ("'TFDF'", {"mode": "TFDF"})):
        refused(vectorizer(**attrs), {"x": X}, words)
