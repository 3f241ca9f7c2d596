# SPDX-License-Identifier: Apache-2.0
"""Models that converters write, in the official suite's layout: skl2onnx's of each class of scikit-learn that it knows, onnxmltools' of LightGBM and XGBoost, CatBoost's own,
Keras's layers, operations and networks by tf2onnx; small, fitted or with random weights, of several types of input, with ZipMap and without.

usage: converters.py DIR [KIND|KIND/NAME...]        KIND: sklearn trees keras; what isn't installed is said and left out
       tccc-run --test-suite DIR

Outputs are ONNX Runtime's for all rows and for the first alone, or the library's own where ONNX Runtime has no kernel. A line is printed for what the converter or the library
refuses (`SKIP`), and for a model by which ONNX Runtime is not the library (`differs`). converters.list says why of those that tccc refuses or gives other values for.
"""
import contextlib
import copy
import io
import os
import re
import sys
import traceback
import warnings

os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from case_folder import write_case  # noqa: E402

onnxruntime.set_default_logger_severity(4)


def plain(value):
    """A list of maps as what tccc gives: a tensor whose columns are its keys."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(row.values()) for row in value], np.float32)
    return value


def engine(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = copy.deepcopy(model)
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":  # the default, en_US, isn't installed everywhere
            node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))
    results = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, inputs)
    return {o.name: plain(r) for o, r in zip(model.graph.output, results)}


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    if got.size != want.size:
        return False
    got, want = got.reshape(-1), want.reshape(-1)
    if got.dtype.kind in "OUS" or want.dtype.kind in "OUS":
        return all(str(a) == str(b) for a, b in zip(got, want))
    return np.allclose(got.astype(float), want.astype(float), 1e-3, 1e-4 * max(1.0, float(np.abs(want.astype(float)).max(initial=0))), equal_nan=True)


def store(out, name, model, inputs, truth=(), tol="1e-3 1e-4"):
    """truth: the library's results, held against each result of that place. Two data sets: all rows, and the first alone."""
    runs = []
    for rows in slice(None), slice(0, 1):
        some = {k: v[rows] for k, v in inputs.items()}
        try:
            results = engine(model, some)
        except Exception as e:  # what ONNX Runtime has not: the library's own, where it is one result a row
            if not any(w in str(e) for w in ("NOT_IMPLEMENTED", "No Op registered", "is not a registered")) or not truth or \
                    any(t is None or np.ndim(t) < 1 or len(t) != len(next(iter(inputs.values()))) for t in truth):
                raise
            results = {o.name: np.asarray(t[rows]) for o, t in zip(model.graph.output, truth)}
            for o in model.graph.output:
                if len(o.type.tensor_type.shape.dim) == 2 and results[o.name].ndim == 1:
                    results[o.name] = results[o.name][:, None]
        if not runs:
            for (key, got), want in zip(results.items(), truth):
                if want is not None and not same(got, want):
                    print(f"differs {name}: {key}", flush=True)
        runs.append((some, results))
    write_case(os.path.join(out, name), model, runs, tol)


@contextlib.contextmanager
def attempt(name):
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as said:
            warnings.simplefilter("ignore")
            yield
    except Exception as e:  # of many kinds, none of which is ours
        if os.environ.get("TRACE"):
            traceback.print_exc()
        print(f"SKIP {name}: {type(e).__name__}: {' '.join(str(e).split())[:150]}", flush=True)
    else:
        print("".join(line + "\n" for line in said.getvalue().splitlines() if line.startswith("differs")), end="", flush=True)


# -- scikit-learn ------------------------------------------------------------------------------------------------------------------------

def rows(kind, rng):
    """Samples by features, of a kind; the labels of three classes, of two, a number."""
    from sklearn.datasets import load_iris
    iris = load_iris()
    pick = rng.permutation(150)[:60]
    x, y = iris.data[pick], iris.target[pick]
    if kind == "int64":
        x = np.round(4 * x).astype(np.int64)
    return x.astype({"float": np.float32, "double": np.float64, "int64": np.int64}[kind]), y


GIVEN = {  # what a constructor needs
    "ClassifierChain": "LogisticRegression()", "MultiOutputClassifier": "LogisticRegression()", "MultiOutputRegressor": "Ridge()", "RegressorChain": "Ridge()",
    "OneVsRestClassifier": "LogisticRegression()", "OneVsOneClassifier": "LogisticRegression()", "OutputCodeClassifier": "LogisticRegression()",
    "CalibratedClassifierCV": "LogisticRegression(), cv=2", "StackingClassifier": "[('a', LogisticRegression()), ('b', DecisionTreeClassifier(max_depth=3))]",
    "StackingRegressor": "[('a', Ridge()), ('b', DecisionTreeRegressor(max_depth=3))]", "VotingClassifier": "[('a', LogisticRegression()), ('b', GaussianNB())], voting='soft', flatten_transform=False",
    "VotingRegressor": "[('a', Ridge()), ('b', DecisionTreeRegressor(max_depth=3))]", "GridSearchCV": "LogisticRegression(), {'C': [0.5, 1]}, cv=2",
    "RFE": "DecisionTreeClassifier(max_depth=3)", "RFECV": "DecisionTreeClassifier(max_depth=3), cv=2", "SelectFromModel": "DecisionTreeClassifier(max_depth=3)",
    "ColumnTransformer": "[('a', StandardScaler(), [0, 1]), ('b', MinMaxScaler(), [2, 3])]", "FeatureUnion": "[('a', StandardScaler()), ('b', PCA(2))]",
    "Pipeline": "[('a', StandardScaler()), ('b', LogisticRegression())]", "SelectKBest": "k=2", "GenericUnivariateSelect": "mode='k_best', param=2",
    "KBinsDiscretizer": "n_bins=3, encode='onehot-dense', quantile_method='averaged_inverted_cdf'", "TruncatedSVD": "2", "IncrementalPCA": "2", "KernelPCA": "2, kernel='rbf'", "PCA": "2",
    "TunedThresholdClassifierCV": "LogisticRegression()", "RandomForestClassifier": "7", "RandomForestRegressor": "7", "ExtraTreesClassifier": "7",
    "ExtraTreesRegressor": "7", "GradientBoostingClassifier": "n_estimators=5", "GradientBoostingRegressor": "n_estimators=5", "BaggingClassifier": "n_estimators=3",
    "BaggingRegressor": "n_estimators=3", "AdaBoostClassifier": "n_estimators=3", "AdaBoostRegressor": "n_estimators=3", "HistGradientBoostingClassifier": "max_iter=4",
    "HistGradientBoostingRegressor": "max_iter=4", "MLPClassifier": "(8,), max_iter=50", "MLPRegressor": "(8,), max_iter=50", "SVC": "probability=False",
    "KMeans": "3, n_init=1", "MiniBatchKMeans": "3, n_init=1", "BayesianGaussianMixture": "n_components=2", "GaussianMixture": "2", "IsolationForest": "n_estimators=5",
    "GaussianRandomProjection": "2", "SparseRandomProjection": "2", "NuSVC": "nu=0.3", "QuantileTransformer": "n_quantiles=10", "QuantileRegressor": "solver='highs'",
    "LocalOutlierFactor": "novelty=True", "OneHotEncoder": "sparse_output=False, handle_unknown='ignore'", "RadiusNeighborsClassifier": "radius=2.0",
    "RadiusNeighborsRegressor": "radius=2.0", "LogisticRegressionCV": "cv=2, Cs=2", "SplineTransformer": "n_knots=4", "MultiTaskElasticNetCV": "cv=2", "MultiTaskLassoCV": "cv=2",
}
MORE = {  # further forms of a class
    "SVC": ["probability=True", "kernel='linear'", "kernel='poly', degree=2", "kernel='sigmoid'"], "SVR": ["kernel='linear'", "kernel='poly', degree=2"],
    "KNeighborsClassifier": ["weights='distance'", "1", "metric='manhattan'"], "KNeighborsRegressor": ["weights='distance'", "metric='manhattan'"], "KNNImputer": ["n_neighbors=2, weights='distance'"],
    "RandomForestClassifier": ["3, max_depth=4, criterion='entropy'"], "LogisticRegression": ["penalty='l1', solver='saga'"], "PolynomialFeatures": ["3, interaction_only=True"],
    "OneHotEncoder": ["drop='first', sparse_output=False"], "OrdinalEncoder": ["handle_unknown='use_encoded_value', unknown_value=-1"], "SimpleImputer": ["strategy='median'", "add_indicator=True"],
    "KBinsDiscretizer": ["n_bins=3, encode='ordinal', strategy='uniform'", "n_bins=3, encode='ordinal', strategy='kmeans'"], "Normalizer": ["'l1'", "'max'"], "PowerTransformer": ["'box-cox'"], "MinMaxScaler": ["clip=True"],
    "VotingClassifier": ["[('a', LogisticRegression()), ('b', GaussianNB())], voting='hard', flatten_transform=False"], "IsolationForest": ["n_estimators=5, contamination=0.2"],
    "StackingClassifier": ["[('a', LogisticRegression()), ('b', GaussianNB())], passthrough=True"], "MLPClassifier": ["(8, 4), activation='tanh', max_iter=50", "(8,), activation='logistic', max_iter=50"],
    "GaussianProcessRegressor": ["RBF() + WhiteKernel()", "DotProduct()", "ExpSineSquared()", "Matern(nu=1.5)", "RationalQuadratic()", "C(2.0) * RBF()"],
    "GaussianProcessClassifier": ["RBF()"], "DecisionTreeClassifier": ["max_depth=2"], "TfidfTransformer": ["sublinear_tf=True"], "GradientBoostingClassifier": ["n_estimators=5, init='zero'"],
    "QuantileTransformer": ["n_quantiles=10, output_distribution='normal'"], "SGDClassifier": ["loss='log_loss'", "loss='modified_huber'"], "PCA": ["2, whiten=True"],
    "GaussianMixture": ["2, covariance_type='diag'", "2, covariance_type='spherical'", "2, covariance_type='tied'"], "CalibratedClassifierCV": ["LogisticRegression(), cv=2, method='isotonic'", "LinearSVC(), cv=2"],
    "Binarizer": ["threshold=2.0"], "HistGradientBoostingRegressor": ["max_iter=4, loss='poisson'"], "KernelPCA": ["2, kernel='poly'", "2, kernel='cosine'", "2, kernel='linear'"],
}


def words():
    """Names that the constructors' texts use."""
    import sklearn.calibration, sklearn.compose, sklearn.decomposition, sklearn.ensemble, sklearn.gaussian_process.kernels as kernels  # noqa: E401
    import sklearn.linear_model, sklearn.naive_bayes, sklearn.preprocessing, sklearn.svm, sklearn.tree  # noqa: E401
    names = {"C": kernels.ConstantKernel}
    for m in (sklearn.linear_model, sklearn.naive_bayes, sklearn.tree, sklearn.preprocessing, sklearn.decomposition, sklearn.svm, kernels):
        names.update({k: getattr(m, k) for k in getattr(m, "__all__", dir(m)) if k[0].isupper()})
    return names


TEXTS = ["the cat sat on the mat", "a dog, and a cat.", "Birds fly; dogs don't", "one two three two one", "the end of the story", "no story ends", "CAPITAL letters and the rest", "mat dog bird"]


def sklearn_named(out, wanted):
    import skl2onnx
    from skl2onnx import to_onnx
    from skl2onnx._supported_operators import build_sklearn_operator_name_map
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
    table = {c.__name__: c for c in build_sklearn_operator_name_map() if isinstance(c, type) and c.__module__.startswith("sklearn")}
    names = words()
    for name in sorted(table):
        if not wanted(name):
            continue
        for number, given in enumerate([GIVEN.get(name, "")] + MORE.get(name, [])):
            label = name + (f"_{number}" if number else "")
            text = name in ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
            kinds = ["string"] if text else ["float", "double", "int64"] + (["string"] if name in ("OneHotEncoder", "OrdinalEncoder", "SimpleImputer", "LabelEncoder", "LabelBinarizer", "TargetEncoder") else [])
            if name in ("DictVectorizer", "FeatureHasher"):
                kinds = ["dict"]
            for kind in kinds:
                with attempt(f"sklearn_{label}_{kind}"):
                    sklearn_case(out, f"sklearn_{label}_{kind}", table[name], eval(f"dict(c=table[name]({given}))", {**names, "table": table, "name": name})["c"], kind, to_onnx,
                                 {"float": FloatTensorType, "double": DoubleTensorType, "int64": Int64TensorType, "string": StringTensorType, "dict": None})


def sklearn_case(out, label, cls, net, kind, to_onnx, types):
    from sklearn.base import is_classifier, is_regressor
    rng = np.random.default_rng(5)
    name = cls.__name__
    if kind == "dict":
        return dict_case(out, label, net, to_onnx)
    if kind == "string":
        x = np.array(TEXTS, object).reshape(-1, 1) if "Vectorizer" in name else np.array([list("abc"), list("bbd"), list("acd"), list("cab"), list("abd"), list("bca")], object)
        y = np.arange(len(x)) % 2
    else:
        x, y = rows(kind, rng)
    if "Imputer" in name and kind in ("float", "double"):
        x[::7, 1] = np.nan
        x[3, 2] = np.nan
    numbers = x.astype(float)[:, 0] * 2 + rng.standard_normal(len(x)) if kind != "string" else y.astype(float)
    regress = is_regressor(net)
    target = numbers if regress else y
    if name.startswith("MultiTask") or name in ("MultiOutputRegressor", "RegressorChain", "PLSRegression", "CCA", "PLSCanonical"):
        target = np.stack([numbers, x.astype(float)[:, 1]], 1)
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        target = np.stack([y == 1, y == 2], 1).astype(int)
    if name == "TargetEncoder":
        target = (y == 1).astype(int)
    if name in ("LabelEncoder", "LabelBinarizer"):
        x = x[:, 0] if kind == "string" else y.astype(x.dtype)
    if "Vectorizer" in name:
        net.fit(x[:, 0])
    elif name in ("LabelEncoder", "LabelBinarizer"):
        net.fit(x)
    else:
        net.fit(x, np.abs(target) + 0.1 if name in ("GammaRegressor", "PoissonRegressor", "TweedieRegressor") or "poisson" in str(getattr(net, "loss", "")) else target)
    shape = [None, x.shape[1]] if x.ndim > 1 else [None]
    classifier = is_classifier(net)
    forms = [("", {})]
    if classifier and name not in ("MultiOutputClassifier", "ClassifierChain"):
        forms = [("", {"zipmap": False}), ("_zip", {}), ("_columns", {"zipmap": "columns"})]
    for suffix, options in forms if kind == "float" else forms[:1]:
        model = to_onnx(net, initial_types=[("X", types[kind](shape))], options={id(net): options} if options else None, target_opset={"": 21, "ai.onnx.ml": 3})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if classifier:
                truth = [net.predict(x)] + ([net.predict_proba(x)] if suffix != "_columns" and hasattr(net, "predict_proba") else [])
            elif regress:
                truth = [net.predict(x)]
            elif hasattr(net, "transform") and not hasattr(net, "predict"):
                truth = [net.transform(x[:, 0] if "Vectorizer" in name else x)]
                truth = [t.toarray() if hasattr(t, "toarray") else t for t in truth]
            else:
                truth = []
        if suffix == "_columns":
            truth = []
        store(out, label + suffix, model, {"X": x}, truth)


def dict_case(out, label, net, to_onnx):
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
    data = [{"a": 1.0, "b": 2.0}, {"b": 3.0, "c": -1.0}, {"a": 4.0, "d": 0.5}]
    net.fit(data)
    model = to_onnx(net, initial_types=[("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))])
    # A map is a row of values in the order of the vocabulary; what the words stand for is asked of ONNX Runtime, a map at a time.
    rows = np.array([[row.get(word, 0) for word in net.vocabulary_] for row in data], np.float32)
    truth = np.concatenate([engine(model, {"X": row})["variable"] for row in data])
    if not same(truth, net.transform(data).toarray()):
        print(f"differs {label}: variable", flush=True)
    write_case(os.path.join(out, label), model, [({"X": rows}, {"variable": truth})])


def sklearn_pipelines(out, wanted):
    """Columns of several types, as data frames give them."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
    rng = np.random.default_rng(6)
    n = 40
    table = pd.DataFrame({"age": rng.normal(40, 9, n).astype(np.float32), "fare": rng.exponential(30, n).astype(np.float32), "parts": rng.integers(0, 4, n),
                          "sex": rng.choice(["male", "female"], n), "port": rng.choice(["S", "C", "Q"], n)})
    table["port"] = table["port"].astype(object)
    table["sex"] = table["sex"].astype(object)
    labels = np.where((table["sex"] == "female") ^ (rng.random(n) < 0.2), "yes", "no")
    types = [("age", FloatTensorType([None, 1])), ("fare", FloatTensorType([None, 1])), ("parts", Int64TensorType([None, 1])), ("sex", StringTensorType([None, 1])), ("port", StringTensorType([None, 1]))]
    inputs = {k: table[[k]].to_numpy() for k in table}
    parts = lambda words: ColumnTransformer([("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]), ("w", words, ["sex", "port"]), ("p", "passthrough", ["parts"])])
    for name, net in (("logistic", make_pipeline(parts(OneHotEncoder(handle_unknown="ignore")), LogisticRegression())),
                      ("forest", make_pipeline(parts(OrdinalEncoder()), RandomForestClassifier(5)))):
        with attempt(f"pipeline_{name}"):
            net.fit(table, labels)
            for suffix, options in (("", {"zipmap": False}), ("_zip", {})):
                model = to_onnx(net, initial_types=types, options={id(net): options} if options else None, target_opset={"": 18, "ai.onnx.ml": 3})
                store(out, f"pipeline_{name}{suffix}", model, inputs, [net.predict(table), net.predict_proba(table)])
    for name, words in (("count", CountVectorizer()), ("bigrams", CountVectorizer(ngram_range=(1, 2))), ("tfidf", TfidfVectorizer()), ("characters", CountVectorizer(analyzer="char", ngram_range=(1, 3))),
                        ("stop", TfidfVectorizer(stop_words="english", sublinear_tf=True)), ("binary", CountVectorizer(binary=True, lowercase=False)), ("word", CountVectorizer(token_pattern="[a-zA-Z]+"))):
        with attempt(f"text_{name}"):
            net = make_pipeline(words, LogisticRegression())
            net.fit(TEXTS, np.arange(len(TEXTS)) % 3)
            x = np.array(TEXTS + ["unknown words here", ""], object).reshape(-1, 1)
            model = to_onnx(net, initial_types=[("X", StringTensorType([None, 1]))], options={id(net): {"zipmap": False}}, target_opset={"": 18, "ai.onnx.ml": 3})
            store(out, f"text_{name}", model, {"X": x}, [net.predict(x[:, 0]), net.predict_proba(x[:, 0])])


# -- LightGBM, XGBoost, CatBoost -----------------------------------------------------------------------------------------------------------

def boosters(out, wanted):
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    rng = np.random.default_rng(7)
    x, three = rows("float", rng)
    x[::9, 2] = np.nan
    two, number = (three == 1).astype(int), (3 * np.nan_to_num(x[:, 0]) + rng.standard_normal(len(x))).astype(np.float32)
    types = [("X", FloatTensorType([None, 4]))]

    def classifier(name, net, y, convert, **k):
        with attempt(name):
            net.fit(x, y)
            store(out, name, convert(net, **k), {"X": x}, [np.ravel(net.predict(x)), net.predict_proba(x)])

    def regressor(name, net, convert, y=number, **k):
        with attempt(name):
            net.fit(x, y)
            store(out, name, convert(net, **k), {"X": x}, [net.predict(x)])

    with contextlib.suppress(ImportError):
        import lightgbm as lgb
        to = lambda net, **k: convert_lightgbm(net, "m", types, target_opset=15, **k)
        small = dict(n_estimators=6, num_leaves=6, min_child_samples=3, verbose=-1, n_jobs=1)
        for zipped in False, True:
            s = "_zip" * zipped
            classifier(f"lightgbm_two{s}", lgb.LGBMClassifier(**small), two, to, zipmap=zipped)
            classifier(f"lightgbm_three{s}", lgb.LGBMClassifier(**small), three, to, zipmap=zipped)
        classifier("lightgbm_forest", lgb.LGBMClassifier(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **small), two, to, zipmap=False)
        classifier("lightgbm_forest_three", lgb.LGBMClassifier(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **small), three, to, zipmap=False)
        classifier("lightgbm_dart", lgb.LGBMClassifier(boosting_type="dart", **small), two, to, zipmap=False)
        classifier("lightgbm_ova", lgb.LGBMClassifier(objective="multiclassova", **small), three, to, zipmap=False)
        for objective in "regression regression_l1 huber fair quantile mape".split():
            regressor(f"lightgbm_{objective}", lgb.LGBMRegressor(objective=objective, **small), to)
        for objective in "poisson gamma tweedie cross_entropy".split():
            y = np.abs(number) / np.abs(number).max() * (1 if objective == "cross_entropy" else 5) + (0 if objective == "cross_entropy" else 0.01)
            regressor(f"lightgbm_{objective}", lgb.LGBMRegressor(objective=objective, **small), to, y=y)
        regressor("lightgbm_forest_number", lgb.LGBMRegressor(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **small), to)
        with attempt("lightgbm_categories"):
            parts = np.column_stack([np.nan_to_num(x[:, :2]), rng.integers(0, 6, len(x))]).astype(np.float32)
            net = lgb.LGBMClassifier(**small).fit(parts, (parts[:, 2] % 2).astype(int), categorical_feature=[2])
            store(out, "lightgbm_categories", convert_lightgbm(net, "m", [("X", FloatTensorType([None, 3]))], target_opset=15, zipmap=False), {"X": parts}, [net.predict(parts), net.predict_proba(parts)])
        with attempt("lightgbm_ranker"):
            net = lgb.LGBMRanker(**small).fit(x, three, group=[30, 30])
            store(out, "lightgbm_ranker", to(net), {"X": x}, [net.predict(x)])
        with attempt("lightgbm_booster"):
            net = lgb.train({"objective": "multiclass", "num_class": 3, "verbose": -1, "num_leaves": 5}, lgb.Dataset(x, three), 4)
            store(out, "lightgbm_booster", to(net, zipmap=False), {"X": x}, [None, net.predict(x)])
    with contextlib.suppress(ImportError):
        import xgboost as xgb
        to = lambda net: convert_xgboost(net, "m", types, target_opset=15)
        small = dict(n_estimators=5, max_depth=3, n_jobs=1)
        classifier("xgboost_two", xgb.XGBClassifier(**small), two, to)
        classifier("xgboost_three", xgb.XGBClassifier(**small), three, to)
        classifier("xgboost_base", xgb.XGBClassifier(base_score=0.3, **small), two, to)
        classifier("xgboost_forest", xgb.XGBRFClassifier(**small), two, to)
        classifier("xgboost_forest_three", xgb.XGBRFClassifier(**small), three, to)
        classifier("xgboost_dart", xgb.XGBClassifier(booster="dart", rate_drop=0.3, **small), two, to)
        classifier("xgboost_linear", xgb.XGBClassifier(booster="gblinear", n_estimators=5), two, to)
        for objective in "squarederror absoluteerror pseudohubererror quantileerror".split():
            k = {"quantile_alpha": 0.6} if "quantile" in objective else {}
            regressor(f"xgboost_{objective}", xgb.XGBRegressor(objective=f"reg:{objective}", **k, **small), to)
        for objective in "reg:logistic reg:gamma count:poisson reg:tweedie reg:squaredlogerror".split():
            y = np.abs(number) / np.abs(number).max() * (1 if "logistic" in objective else 5) + (0 if "logistic" in objective else 0.01)
            regressor(f"xgboost_{objective.replace(':', '_')}", xgb.XGBRegressor(objective=objective, **small), to, y=y)
        regressor("xgboost_forest_number", xgb.XGBRFRegressor(**small), to)
        regressor("xgboost_targets", xgb.XGBRegressor(**small), to, y=np.stack([number, -number], 1))
        with attempt("xgboost_ranker"):
            net = xgb.XGBRanker(**small).fit(x, three, group=[30, 30])
            store(out, "xgboost_ranker", to(net), {"X": x}, [net.predict(x)])
    with contextlib.suppress(ImportError):
        import catboost as cat

        def own(net, **k):
            path = os.path.join(out, "catboost.onnx")
            net.save_model(path, format="onnx", export_parameters={"onnx_domain": "ai.tccc", **k})
            model = onnx.load(path)
            os.remove(path)
            return model

        small = dict(iterations=5, depth=3, verbose=False, thread_count=1, allow_writing_files=False, random_seed=1)
        # Its export calls the input "features".
        for name, net, y in (("two", cat.CatBoostClassifier(**small), two), ("three", cat.CatBoostClassifier(**small), three), ("words", cat.CatBoostClassifier(**small), np.array(["no", "yes"])[two]),
                             ("many", cat.CatBoostClassifier(loss_function="MultiClassOneVsAll", **small), three), ("cross", cat.CatBoostClassifier(loss_function="CrossEntropy", **small), two)):
            with attempt(f"catboost_{name}"):
                net.fit(np.nan_to_num(x), y)
                store(out, f"catboost_{name}", own(net), {"features": np.nan_to_num(x)}, [np.ravel(net.predict(np.nan_to_num(x))), net.predict_proba(np.nan_to_num(x))])
        for loss in "RMSE MAE Quantile LogLinQuantile Poisson MAPE MultiRMSE Tweedie:variance_power=1.5".split():
            y = np.stack([number, -number], 1) if loss == "MultiRMSE" else np.abs(number)
            with attempt(f"catboost_{loss[:12]}"):
                net = cat.CatBoostRegressor(loss_function=loss, **small).fit(x, y)
                store(out, f"catboost_{loss.split(':')[0]}", own(net), {"features": x}, [net.predict(x)])


def trees_in_pipelines(out, wanted):
    """LightGBM's and XGBoost's as parts of scikit-learn's pipelines."""
    from skl2onnx import to_onnx, update_registered_converter
    from skl2onnx.common.data_types import FloatTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes, calculate_linear_regressor_output_shapes
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    import lightgbm as lgb
    import xgboost as xgb
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    rng = np.random.default_rng(8)
    x, y = rows("float", rng)
    both = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(lgb.LGBMClassifier, "LightGbmLGBMClassifier", calculate_linear_classifier_output_shapes, convert_lightgbm, options=both)
    update_registered_converter(xgb.XGBClassifier, "XGBoostXGBClassifier", calculate_linear_classifier_output_shapes, convert_xgboost, options=both)
    update_registered_converter(lgb.LGBMRegressor, "LightGbmLGBMRegressor", calculate_linear_regressor_output_shapes, convert_lightgbm, options={"split": None})
    update_registered_converter(xgb.XGBRegressor, "XGBoostXGBRegressor", calculate_linear_regressor_output_shapes, convert_xgboost)
    for name, tree in (("lightgbm", lgb.LGBMClassifier(n_estimators=4, num_leaves=5, verbose=-1)), ("xgboost", xgb.XGBClassifier(n_estimators=4, max_depth=3))):
        with attempt(f"{name}_in_pipeline"):
            net = make_pipeline(StandardScaler(), tree).fit(x, y)
            for suffix, options in (("", {"zipmap": False}), ("_zip", {})):
                model = to_onnx(net, initial_types=[("X", FloatTensorType([None, 4]))], options={id(net): options} if options else None, target_opset={"": 15, "ai.onnx.ml": 3})
                store(out, f"{name}_in_pipeline{suffix}", model, {"X": x}, [net.predict(x), net.predict_proba(x)])
    for name, tree, k in (("lightgbm", lgb.LGBMRegressor(n_estimators=9, num_leaves=5, verbose=-1), {"split": 4}), ("xgboost", xgb.XGBRegressor(n_estimators=4, max_depth=3), {})):
        with attempt(f"{name}_number_in_pipeline"):
            net = make_pipeline(StandardScaler(), tree).fit(x, x[:, 0] * 2)
            model = to_onnx(net, initial_types=[("X", FloatTensorType([None, 4]))], options={id(tree): k} if k else None, target_opset={"": 15, "ai.onnx.ml": 3})
            store(out, f"{name}_number_in_pipeline", model, {"X": x}, [net.predict(x)])


# -- Keras -------------------------------------------------------------------------------------------------------------------------------

LAYERS = """
(8,) Dense(5) | Dense(5, activation='relu') | Dense(5, activation='gelu') | Dense(5, activation='softmax') | EinsumDense('ab,bc->ac', output_shape=6) | UnitNormalization() | RepeatVector(4) | \
    Reshape((2, 4)) | Flatten() | LayerNormalization() | RMSNormalization() | BatchNormalization() | Dropout(0.5) | AlphaDropout(0.5) | GaussianNoise(1.0) | GaussianDropout(0.5) | \
    ActivityRegularization() | Softmax() | ELU() | LeakyReLU() | PReLU() | ReLU(max_value=0.5, threshold=0.1, negative_slope=0.2) | Rescaling(2.0, 0.5) | GroupNormalization(2) | Identity()
(8,) Activation('elu') | Activation('exponential') | Activation('hard_sigmoid') | Activation('hard_silu') | Activation('hard_tanh') | Activation('leaky_relu') | Activation('linear') | Activation('log_sigmoid') | Activation('log_softmax') | \
    Activation('mish') | Activation('relu6') | Activation('selu') | Activation('sigmoid') | Activation('silu') | Activation('softplus') | Activation('softsign') | Activation('tanh') | Activation('celu') | \
    Activation('glu') | Activation('hard_shrink') | Activation('soft_shrink') | Activation('sparse_plus') | Activation('squareplus') | Activation('tanh_shrink') | Activation('threshold') | Activation('sparsemax') | Activation('sparse_sigmoid')
(8, 6) Conv1D(4, 3) | Conv1D(4, 3, strides=2, padding='same') | Conv1D(4, 3, padding='causal', dilation_rate=2) | Conv1D(4, 3, groups=2) | Conv1DTranspose(4, 3, strides=2) | Conv1DTranspose(4, 3, padding='same') | \
    DepthwiseConv1D(3, depth_multiplier=2) | SeparableConv1D(5, 3) | MaxPooling1D(2) | AveragePooling1D(3, strides=2, padding='same') | GlobalMaxPooling1D() | GlobalAveragePooling1D() | AdaptiveAveragePooling1D(4) | AdaptiveMaxPooling1D(4) | \
    UpSampling1D(2) | ZeroPadding1D((1, 2)) | Cropping1D((1, 2)) | Permute((2, 1)) | SpatialDropout1D(0.5) | TimeDistributed(Dense(3)) | Masking() | LayerNormalization(axis=1) | BatchNormalization(axis=1) | \
    SimpleRNN(5) | SimpleRNN(5, return_sequences=True) | GRU(5) | GRU(5, return_sequences=True) | GRU(5, reset_after=False) | LSTM(5) | LSTM(5, return_sequences=True) | LSTM(5, go_backwards=True) | LSTM(5, unroll=True) | \
    GRU(5, unroll=True) | Bidirectional(LSTM(5)) | Bidirectional(GRU(5, return_sequences=True), merge_mode='sum') | Bidirectional(SimpleRNN(4), merge_mode='mul') | RNN(LSTMCell(5)) | RNN(GRUCell(5), return_sequences=True) | \
    RNN(StackedRNNCells([LSTMCell(4), GRUCell(3)])) | LSTM(5, recurrent_activation='hard_sigmoid', activation='relu') | GRU(5, use_bias=False) | Dense(4) | EinsumDense('abc,cd->abd', output_shape=(None, 4)) | \
    EinsumDense('abc,bcd->abd', output_shape=(8, 4)) | ReversibleEmbedding(9, 6)
(8, 9, 4) Conv2D(5, 3) | Conv2D(5, 3, padding='same', strides=2) | Conv2D(4, (3, 2), dilation_rate=(1, 2), padding='same') | Conv2D(4, 3, groups=2) | Conv2D(4, 3, data_format='channels_last', activation='swish') | \
    Conv2DTranspose(3, 3, strides=2) | Conv2DTranspose(3, 3, strides=2, padding='same') | Conv2DTranspose(3, 3, strides=2, output_padding=1) | Conv2DTranspose(3, 3, dilation_rate=2) | \
    DepthwiseConv2D(3) | DepthwiseConv2D(3, strides=2, padding='same', depth_multiplier=2) | DepthwiseConv2D(3, dilation_rate=2) | SeparableConv2D(5, 3, depth_multiplier=2) | MaxPooling2D(2) | MaxPooling2D(3, strides=2, padding='same') | \
    AveragePooling2D(3, strides=2, padding='same') | GlobalMaxPooling2D(keepdims=True) | GlobalAveragePooling2D() | AdaptiveAveragePooling2D((3, 2)) | AdaptiveMaxPooling2D((3, 2)) | UpSampling2D((2, 3)) | UpSampling2D(2, interpolation='bilinear') | \
    UpSampling2D(2, interpolation='bicubic') | UpSampling2D(2, interpolation='lanczos3') | ZeroPadding2D(((1, 2), (0, 3))) | Cropping2D(((1, 2), (0, 3))) | SpatialDropout2D(0.5) | BatchNormalization() | GroupNormalization(2) | GroupNormalization(-1) | \
    LayerNormalization() | LayerNormalization(axis=(1, 2, 3)) | Resizing(5, 12) | Resizing(5, 12, interpolation='nearest') | Resizing(12, 5, interpolation='bicubic') | Resizing(6, 6, crop_to_aspect_ratio=True) | \
    Resizing(6, 6, pad_to_aspect_ratio=True) | Resizing(5, 5, antialias=True) | CenterCrop(4, 5) | PReLU(shared_axes=[1, 2]) | SpectralNormalization(Conv2D(4, 3)) | Permute((3, 1, 2)) | \
    Normalization(mean=[1.0, 2, 3, 4], variance=[1.0, 4, 9, 16]) | ConvLSTM1D(3, 3) | TimeDistributed(Conv1D(4, 3)) | MaxNumBoundingBoxes(3) | Flatten()
(6, 8, 3) RandomFlip() | RandomRotation(0.1) | RandomZoom(0.1) | RandomContrast(0.1) | RandomBrightness(0.1) | RandomTranslation(0.1, 0.1) | RandomCrop(4, 5) | AutoContrast() | Solarization() | RandomGrayscale() | RandomErasing() | RandomHue(0.1) | RandomSharpness(0.5) | Equalization()
(5, 6, 7, 2) Conv3D(3, 2) | Conv3D(3, 3, strides=2, padding='same') | Conv3DTranspose(3, 2, strides=2) | MaxPooling3D(2) | AveragePooling3D(2, padding='same') | GlobalMaxPooling3D() | GlobalAveragePooling3D() | AdaptiveAveragePooling3D((2, 3, 2)) | AdaptiveMaxPooling3D((2, 3, 2)) | \
    UpSampling3D(2) | ZeroPadding3D(1) | Cropping3D(1) | SpatialDropout3D(0.5) | ConvLSTM2D(3, 2) | ConvLSTM2D(3, 3, padding='same', return_sequences=True) | TimeDistributed(Conv2D(3, 2)) | Bidirectional(ConvLSTM2D(2, 2))
(5, 4, 5, 4, 2) ConvLSTM3D(2, 2)
int:(7,) Embedding(12, 5) | Embedding(12, 5, mask_zero=True) | CategoryEncoding(12, output_mode='multi_hot') | CategoryEncoding(12, output_mode='count') | Hashing(5) | IntegerLookup(vocabulary=[3, 4, 5, 9]) | IntegerLookup(vocabulary=[3, 4, 5, 9], output_mode='multi_hot') | \
    Discretization(bin_boundaries=[2.0, 5.0, 8.0]) | HashedCrossing(4)
str:(3,) StringLookup(vocabulary=['a', 'b', 'c']) | StringLookup(vocabulary=['a', 'b'], output_mode='multi_hot') | Hashing(5) | TextVectorization(vocabulary=['a', 'b'])
(16,) Discretization(bin_boundaries=[-0.5, 0.0, 1.0]) | STFTSpectrogram(frame_length=8, frame_step=4, fft_length=8) | MelSpectrogram(fft_length=8, sequence_stride=4, num_mel_bins=3)
"""

MODELS = {  # functions of keras and its layers
    "attention": ("(6, 8)", "L.Attention(use_scale=True)([x, x])"), "additive": ("(6, 8)", "L.AdditiveAttention()([x, x])"), "multi_head": ("(6, 8)", "L.MultiHeadAttention(2, 4)(x, x)"),
    "causal": ("(6, 8)", "L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)"), "grouped": ("(6, 8)", "L.GroupQueryAttention(4, 4, 2)(x, x)"), "add": ("(8,)", "L.Add()([x, L.Dense(8)(x)])"), "subtract": ("(8,)", "L.Subtract()([x, L.Dense(8)(x)])"),
    "multiply": ("(8,)", "L.Multiply()([x, L.Dense(8)(x)])"), "average": ("(8,)", "L.Average()([x, L.Dense(8)(x)])"), "maximum": ("(8,)", "L.Maximum()([x, L.Dense(8)(x)])"), "minimum": ("(8,)", "L.Minimum()([x, L.Dense(8)(x)])"),
    "dot": ("(6, 8)", "L.Dot(axes=2)([x, L.Dense(8)(x)])"), "dot_norm": ("(8,)", "L.Dot(axes=1, normalize=True)([x, L.Dense(8)(x)])"), "concatenate": ("(8,)", "L.Concatenate()([x, L.Dense(3)(x)])"),
    "embedded_lstm": ("int:(7,)", "L.LSTM(4)(L.Embedding(12, 5, mask_zero=True)(x))"), "masked_gru": ("(7, 3)", "L.GRU(4, return_sequences=True)(L.Masking()(x))"), "masked_both": ("(7, 3)", "L.Bidirectional(L.LSTM(4))(L.Masking()(x))"),
    "masked_attention": ("int:(7,)", "(lambda e: L.MultiHeadAttention(2, 4)(e, e))(L.Embedding(12, 8, mask_zero=True)(x))"), "masked_pool": ("int:(7,)", "L.GlobalAveragePooling1D()(L.Embedding(12, 8, mask_zero=True)(x))"),
    "states": ("(7, 3)", "L.LSTM(4, return_state=True)(x)"), "fft": ("(8,)", "K.ops.stack(K.ops.rfft(x), -1)"), "fft2": ("(4, 8)", "K.ops.stack(K.ops.fft2((x, x)), -1)"), "stft": ("(32,)", "K.ops.stack(K.ops.stft(x, 8, 4, 8), -1)"), "erfinv": ("(8,)", "K.ops.erfinv(K.ops.tanh(x))"), "erf": ("(8,)", "K.ops.erf(x)"),
    "topk": ("(8,)", "K.ops.top_k(x, 3)"), "sort": ("(8,)", "K.ops.sort(x)"), "argsort": ("(8,)", "K.ops.argsort(x)"), "cumsum": ("(8,)", "K.ops.cumsum(x, 1)"), "cumprod": ("(8,)", "K.ops.cumprod(x, 1)"), "einsum": ("(6, 8)", "K.ops.einsum('abc,adc->abd', x, x)"),
    "segment": ("(8,)", "K.ops.in_top_k(K.ops.argmax(x, 1), x, 2)"), "logsumexp": ("(8,)", "K.ops.logsumexp(x, 1)"), "unfold": ("(8, 9, 2)", "K.ops.image.extract_patches(x, (3, 3))"), "solve": ("(4, 4)", "K.ops.linalg.inv(x)"), "det": ("(4, 4)", "K.ops.linalg.det(x)"), "qr": ("(4, 4)", "K.ops.linalg.qr(x)"),
    "cholesky": ("(4, 4)", "K.ops.linalg.cholesky(x @ K.ops.transpose(x, (0, 2, 1)))"), "roll": ("(8,)", "K.ops.roll(x, 2, 1)"), "where": ("(8,)", "K.ops.where(x > 0, x, -x)"), "median": ("(8,)", "K.ops.median(x, 1)"), "quantile": ("(8,)", "K.ops.quantile(x, 0.3, 1)"), "bincount": ("int:(7,)", "K.ops.bincount(x, minlength=12)"),
    "one_hot": ("int:(7,)", "K.ops.one_hot(x, 12)"), "take": ("(8,)", "K.ops.take(x, [1, 3], 1)"), "take_along": ("(8,)", "K.ops.take_along_axis(x, K.ops.argsort(x), 1)"), "scan": ("(7, 3)", "K.ops.scan(lambda c, v: (c + v, c * v), x[:, 0], K.ops.transpose(x, (1, 0, 2)))[1]"), "while": ("(8,)", "K.ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5 + 1), (0, x))[1]"), "cond": ("(8,)", "K.ops.cond(K.ops.sum(x) > 0, lambda: x + 1, lambda: x * 2)"),
    "fori": ("(8,)", "K.ops.fori_loop(0, 4, lambda i, a: a + K.ops.cast(i, 'float32'), x)"), "map": ("(5, 4)", "K.ops.map(lambda r: r * K.ops.sum(r), x)"), "affine": ("(6, 8, 3)", "K.ops.image.affine_transform(x, [1.0, 0.1, 0, 0, 1, 0, 0, 0])"), "coordinates": ("(8,)", "K.ops.image.map_coordinates(x, K.ops.stack([K.ops.zeros((5,)), K.ops.arange(5, dtype='float32')]), 1)"), "grayscale": ("(6, 8, 3)", "K.ops.image.rgb_to_grayscale(x)"), "hsv": ("(6, 8, 3)", "K.ops.image.rgb_to_hsv(K.ops.sigmoid(x))"),
    "blur": ("(6, 8, 3)", "K.ops.image.gaussian_blur(x)"), "nan_to_num": ("(8,)", "K.ops.nan_to_num(x)"), "isclose": ("(8,)", "K.ops.isclose(x, x)"), "floor_divide": ("(8,)", "K.ops.floor_divide(x, 0.3)"), "mod": ("(8,)", "K.ops.mod(x, 0.3)"), "arctan2": ("(8,)", "K.ops.arctan2(x, x + 1)"), "logaddexp": ("(8,)", "K.ops.logaddexp(x, x + 1)"), "tile": ("(8,)", "K.ops.tile(x, (1, 2))"), "diag": ("(4, 4)", "K.ops.diagonal(x, axis1=1, axis2=2)"), "tri": ("(4, 4)", "K.ops.tril(x)"), "cross": ("(3,)", "K.ops.cross(x, x + 1)"),
    "scatter": ("(8,)", "K.ops.scatter_update(x, [[0, 1]], K.ops.ones((1,)))"), "ctc": ("(9, 5)", "K.ops.ctc_decode(x, K.ops.full((K.ops.shape(x)[0],), 9))[0]"), "gamma": ("(8,)", "K.ops.log1p(K.ops.exp(x))"), "dynamic_slice": ("(8,)", "K.ops.slice(x, (0, 2), (1, 3))"), "split": ("(8,)", "K.ops.split(x, 4, 1)"), "psnr": ("(8,)", "K.ops.psnr(x, x + 1, 1.0)"), "norm": ("(4, 4)", "K.ops.norm(x, axis=(1, 2))"), "correlate": ("(8,)", "K.ops.nn.depthwise_conv(K.ops.expand_dims(x, -1), K.ops.ones((3, 1, 1)))"), "nonzero": ("(8,)", "K.ops.count_nonzero(x, 1)"), "digitize": ("(8,)", "K.ops.digitize(x, [-1.0, 0.0, 1.0])"), "searchsorted": ("(8,)", "K.ops.searchsorted(K.ops.convert_to_tensor([-1.0, 0.0, 1.0]), x[0])"),
}

NETS = {"MobileNetV2": "(32, 32, 3), alpha=0.35", "MobileNet": "(32, 32, 3), alpha=0.25", "MobileNetV3Small": "(32, 32, 3), minimalistic=True", "MobileNetV3Large": "(32, 32, 3)", "EfficientNetB0": "(32, 32, 3)", "EfficientNetV2B0": "(32, 32, 3)",
        "DenseNet121": "(32, 32, 3)", "ResNet50": "(32, 32, 3)", "ResNet50V2": "(32, 32, 3)", "Xception": "(71, 71, 3)", "InceptionV3": "(75, 75, 3)", "InceptionResNetV2": "(75, 75, 3)", "NASNetMobile": "(32, 32, 3)", "ConvNeXtTiny": "(32, 32, 3)", "VGG16": "(32, 32, 3)"}


def keras_cases(out, wanted):
    import keras as K
    L, made = K.layers, {}
    for line in LAYERS.replace("\\\n", "").strip().splitlines():
        shape, _, layers = line.partition(") ")
        for layer in layers.split(" | "):
            layer = layer.strip()
            made["keras_" + re.sub(r"\W+", "_", layer).strip("_")] = (shape + ")", f"L.{layer}(x)")
    made.update({"keras_ops_" + k: v for k, v in MODELS.items()})
    made.update({"keras_net_" + k: (v.partition("), ")[0].rstrip(")") + ")", f"K.applications.{k}(input_tensor=x, weights=None, classes=5{', ' + v.partition('), ')[2] if '), ' in v else ''})(x)") for k, v in NETS.items()})
    names = {k: getattr(L, k) for k in dir(L) if k[0].isupper()}
    for name, (shape, text) in made.items():
        if not wanted(name.removeprefix("keras_")):
            continue
        with attempt(name):
            K.utils.set_random_seed(1)
            kind, _, dims = shape.rpartition(":")
            x = K.Input(eval(dims), dtype={"": "float32", "int": "int32", "str": "string"}[kind], name="x")
            net = K.Model(x, eval(text, {**names, "L": L, "K": K, "x": x}))
            rng = np.random.default_rng(9)
            net.set_weights([w + (0.1 * rng.random(w.shape)).astype(w.dtype) if w.dtype.kind == "f" else w for w in net.get_weights()])
            whole = (3, *eval(dims))
            value = rng.integers(0, 10, whole).astype(np.int32) if kind == "int" else rng.choice(list("abz"), whole).astype(object) if kind else rng.standard_normal(whole).astype(np.float32)
            truth = net(K.ops.convert_to_tensor(value) if kind != "str" else __import__("tensorflow").constant(value))
            path = os.path.join(out, "keras.onnx")
            net.export(path, format="onnx", verbose=False)
            model = onnx.load(path)
            os.remove(path)
            store(out, name, model, {model.graph.input[0].name: value}, [np.asarray(v) for v in (truth if isinstance(truth, (list, tuple)) else [truth])])


KINDS = {"sklearn": [sklearn_named, sklearn_pipelines], "trees": [boosters, trees_in_pipelines], "keras": [keras_cases]}


def main():
    out, words = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    for kind, makers in KINDS.items():
        chosen = [w.partition("/")[2] for w in words if w.partition("/")[0] == kind]
        if words and not chosen:
            continue
        for maker in makers:
            try:
                maker(out, lambda name, chosen=chosen: not any(chosen) or name in chosen)
            except ImportError as e:
                print(f"SKIP {kind}: {e}", flush=True)


if __name__ == "__main__":
    main()
