# SPDX-License-Identifier: Apache-2.0
"""Pipelines of scikit-learn, fitted to made-up tables, as skl2onnx writes them. GRAPHS maps names to functions that return a model
and the inputs of a few runs."""
import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR

OPSET = {"": 18, "ai.onnx.ml": 3}
GRAPHS = {}


def table(rows, seed=0):
    r = np.random.default_rng(seed)
    x = r.standard_normal((rows, 5)).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(np.int64) + (x[:, 3] > 1), (x @ np.arange(5) + x[:, 0] ** 2).astype(np.float32)


def numeric(name, estimator, regression=False):
    def make():
        x, label, value = table(120)
        estimator.fit(x, value if regression else label)
        return convert(estimator, x[:1]), [{"X": table(rows, 9)[0]} for rows in (4, 1, 11)]

    GRAPHS[name] = make


def convert(estimator, x=None, types=None):
    """Probabilities as a tensor, not as a sequence of maps."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return to_onnx(estimator, x, initial_types=types, target_opset=OPSET, options={id(last): {"zipmap": False}} if is_classifier(last) else None)


numeric("logistic_regression", make_pipeline(StandardScaler(), LogisticRegression()))
numeric("ridge_of_powers", make_pipeline(PolynomialFeatures(2), Ridge()), True)
numeric("random_forest", RandomForestClassifier(12, max_depth=5, random_state=0))
numeric("forest_regression", RandomForestRegressor(9, max_depth=4, random_state=0), True)
numeric("gradient_boosting", GradientBoostingClassifier(n_estimators=8, random_state=0))
numeric("isolation_forest", IsolationForest(n_estimators=10, random_state=0))
numeric("support_vectors", SVC(probability=False, kernel="rbf", random_state=0))
numeric("support_vector_regression", SVR(kernel="poly"), True)
numeric("nearest_neighbours", KNeighborsClassifier(3))
numeric("naive_bayes", make_pipeline(MinMaxScaler(), GaussianNB()))
numeric("perceptron", make_pipeline(SimpleImputer(), MLPClassifier((8,), max_iter=60, random_state=0)))
numeric("clusters", make_pipeline(PCA(3), KMeans(4, n_init=2, random_state=0)))


def mixed_table():
    """Numbers scaled and words one-hot, from inputs of two types; labels are words."""
    r = np.random.default_rng(3)
    x, label, _ = table(90)
    colours = np.array(["red", "green", "blue", "purple"], object)
    rows = np.concatenate([x.astype(object), colours[r.integers(0, 3, (90, 2))]], 1)
    parts = [("n", StandardScaler(), list(range(5))), ("w", OneHotEncoder(handle_unknown="ignore"), [5, 6])]
    pipeline = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=300))
    pipeline.fit(rows, np.array(["no", "yes", "maybe"])[label])
    model = convert(pipeline, types=[("numbers", FloatTensorType([None, 5])), ("words", StringTensorType([None, 2]))])
    return model, [{"numbers": table(n, 5)[0], "words": colours[r.integers(0, 4, (n, 2))]} for n in (4, 1)]


def text_pipeline():
    """Words weighted by how rare they are, a linear classifier."""
    texts = ["the cat sat on the mat", "a dog ate the cat", "stocks fell sharply today", "markets and stocks rose", "the dog sat", "bonds fell"]
    pipeline = make_pipeline(TfidfVectorizer(lowercase=False), LogisticRegression()).fit(texts, [0, 0, 1, 1, 0, 1])
    runs = np.array(["the dog fell today", "stocks", "cat and bonds sat"], object)[:, None]
    return convert(pipeline, types=[("text", StringTensorType([None, 1]))]), [{"text": runs}, {"text": runs[:1]}]


GRAPHS.update(mixed_table=mixed_table, text_pipeline=text_pipeline)
