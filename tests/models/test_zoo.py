"""Every recipe: trains on real rows, predicts all classes, and its ONNX file says the same."""

import hashlib

import numpy as np
import pytest
import torch
from model_rows import (
    cancer_with_gaps,
    digit_images,
    digit_sequences,
    fashion,
    heart,
    needs_data,
    wine,
)

from peerwise.data.rows import Feature, Rows, Sequences
from peerwise.errors import ConfigError, ModelError
from peerwise.models import ZOO, OnnxModel, find_recipe
from peerwise.models.zoo import images, sequences, tables

TABLES = [name for name, recipe in ZOO.items() if recipe.kind == "table"]
IMAGES = [name for name, recipe in ZOO.items() if recipe.kind == "image"]
SEQUENCES = [name for name, recipe in ZOO.items() if recipe.kind == "sequence"]


def _split(rows):
    n = len(rows)
    order = np.random.default_rng(0).permutation(n)
    return rows.take(order[: n * 3 // 5]), rows.take(order[n * 3 // 5 : n * 4 // 5]), rows.take(order[n * 4 // 5 :])


def _assert_file_agrees(fitted, X, classes):
    model = OnnxModel(fitted.to_onnx())
    expected = fitted.predict_proba(X)
    assert expected.shape == (len(X), classes)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)
    assert model.width == classes
    assert model.has_logits
    return expected


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_gaps_and_categories_learn_and_export(name):
    rows, features = cancer_with_gaps()
    train, val, test = _split(rows)
    fitted = find_recipe(name).fit(train, val, classes=2, features=features, seed=1)
    proba = _assert_file_agrees(fitted, rows.X, 2)
    assert (fitted.predict_logits(test.X).argmax(1) == test.y).mean() > 0.9
    assert proba.dtype == np.float64
    assert (fitted.best_epoch is not None) == ZOO[name].by_epochs


@needs_data
@pytest.mark.parametrize("hospital", ["cleveland", "hungarian", "switzerland", "va"])
@pytest.mark.parametrize("name", TABLES)
def test_every_table_recipe_exports_exactly_on_each_hospital(name, hospital):
    rows, features = heart(hospital)
    train, val, _ = _split(rows)
    fitted = find_recipe(name).fit(train, val, classes=2, features=features, seed=1)
    _assert_file_agrees(fitted, rows.X, 2)
    elsewhere, _ = heart("va")
    _assert_file_agrees(fitted, elsewhere.X, 2)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_every_image_net_exports_with_raw_pixels(name, channels, size):
    rows = digit_images(size, channels)
    fitted = find_recipe(name).fit(rows.take(slice(0, 6)), None, classes=10, features=(), seed=1, max_epochs=1)
    _assert_file_agrees(fitted, rows.X[100:105], 10)
    assert fitted.best_epoch == 1


@needs_data
@pytest.mark.parametrize("name", ["small_cnn", "lenet"])
def test_image_nets_learn_fashion_in_a_few_epochs(name):
    rows = fashion(900)
    fitted = find_recipe(name).fit(rows.take(slice(0, 500)), None, classes=10, features=(), seed=0, max_epochs=12)
    assert (fitted.predict_logits(rows.X[500:]).argmax(1) == rows.y[500:]).mean() > 0.55
    _assert_file_agrees(fitted, rows.X, 10)


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence_nets_learn_and_export_with_missing_values(name):
    rows = digit_sequences()
    train, val, test = rows.take(slice(0, 600)), rows.take(slice(600, 800)), rows.take(slice(800, 1200))
    fitted = find_recipe(name).fit(train, val, classes=10, features=(), seed=0, max_epochs=25)
    assert (fitted.predict_logits(test.X).argmax(1) == test.y).mean() > 0.5
    _assert_file_agrees(fitted, test.X, 10)


def test_static_inputs_reach_the_answer():
    rows = digit_sequences()
    only = Sequences(np.eye(10, dtype=np.float32)[rows.y], np.zeros_like(rows.X.series))
    for name in SEQUENCES:
        fitted = find_recipe(name).fit(
            Rows(only[:400], rows.y[:400]), None, classes=10, features=(), seed=0, max_epochs=25
        )
        assert (fitted.predict_logits(only[400:600]).argmax(1) == rows.y[400:600]).mean() > 0.9, name


def test_the_small_cnn_has_the_published_number_of_parameters():
    net = images.small_cnn(3, 32, 10)
    assert sum(p.numel() for p in net.parameters()) - (512 * 10 + 10) == 873_408


@pytest.mark.parametrize(
    ("build", "millions"), [(images.resnet18, 11.17), (images.resnet34, 21.28), (images.mobilenet_v2, 2.24)]
)
def test_deep_nets_have_the_size_of_their_papers(build, millions):
    assert sum(p.numel() for p in build(3, 32, 10).parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def _tiny(kind, n):
    rows = {"table": wine, "image": digit_images, "sequence": digit_sequences}[kind]()
    return rows.take(np.arange(n) * 7)


CHEAP = [name for name in ZOO if name not in ("resnet18", "resnet34", "mobilenet_v2", "alexnet", "vit")]


@pytest.mark.parametrize("name", [*CHEAP, "mobilenet_v2", "vit"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sites_with_one_to_three_rows_train_and_export(name, n):
    rows = _tiny(ZOO[name].kind, n)
    fitted = find_recipe(name).fit(rows, None, classes=11, features=(), seed=0, max_epochs=2)
    _assert_file_agrees(fitted, rows.X, 11)


@pytest.mark.parametrize("name", CHEAP)
def test_a_site_with_one_class_predicts_it(name):
    rows = _tiny(ZOO[name].kind, 20)
    one = Rows(rows.X, np.full(20, 2, dtype=np.int64))
    fitted = find_recipe(name).fit(one, one, classes=4, features=(), seed=0)
    assert (_assert_file_agrees(fitted, rows.X, 4).argmax(1) == 2).all()


@pytest.mark.parametrize("name", ["logistic", "forest", "boosting"])
def test_classes_a_site_lacks_get_the_floor(name):
    rows = wine()
    some = rows.take(np.flatnonzero(rows.y != 1))
    logits = find_recipe(name).fit(some, None, classes=4, features=(), seed=0).predict_logits(rows.X)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[:, [1, 3]], np.log(1e-7), rtol=1e-6)
    assert (logits[:, [0, 2]].max(axis=1) > -1).all()


@pytest.mark.parametrize("name", TABLES)
def test_missing_values_where_training_had_none_and_unknown_codes_are_answered(name):
    rows = wine()
    X = rows.X.copy()
    X[:, 4] = rows.y % 2
    features = tuple(Feature(str(i), ("no", "yes") if i == 4 else ()) for i in range(13))
    fitted = find_recipe(name).fit(Rows(X, rows.y), None, classes=3, features=features, seed=0, max_epochs=3)
    odd = X[:4].copy()
    odd[0] = np.nan
    odd[1, 4] = 7
    assert np.isfinite(_assert_file_agrees(fitted, odd, 3)).all()


@pytest.mark.parametrize("name", CHEAP)
def test_same_seed_gives_the_same_file_and_leaves_random_state_alone(name):
    rows = _tiny(ZOO[name].kind, 25)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    made = [
        find_recipe(name).fit(rows, None, classes=10, features=(), seed=seed, max_epochs=2).to_onnx()
        for seed in (1, 1, 2)
    ]
    digests = [hashlib.sha256(data).hexdigest() for data in made]
    assert digests[0] == digests[1]
    if ZOO[name].by_epochs:
        assert digests[0] != digests[2]
    assert torch.equal(before, torch.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002


def test_files_tell_nothing_of_the_machine_that_wrote_them():
    rows = _tiny("image", 5)
    data = find_recipe("lenet").fit(rows, None, classes=10, features=(), seed=1, max_epochs=1).to_onnx()
    assert b"site-packages" not in data
    assert b".py" not in data


def test_validation_rows_stop_the_training_and_max_epochs_bounds_it():
    rows = wine()
    train, val, _ = _split(rows)
    stopped = find_recipe("mlp").fit(train, val, classes=3, features=(), seed=0)
    assert stopped.best_epoch < 300
    bounded = find_recipe("mlp").fit(train, val, classes=3, features=(), seed=0, max_epochs=4)
    assert bounded.best_epoch <= 4


def test_every_recipe_can_be_fitted_and_nothing_else():
    assert {**tables.FITS, **images.FITS, **sequences.FITS}.keys() == ZOO.keys()
    assert {name for name, recipe in ZOO.items() if not recipe.by_epochs} == {"logistic", "forest", "boosting"}


def test_unknown_recipe_is_named_with_the_choices():
    with pytest.raises(ConfigError, match=r"did you mean 'small_cnn'.*resnet18"):
        find_recipe("smal_cnn")


def test_rows_of_the_wrong_kind_are_refused():
    digits, table = digit_sequences(), wine()
    for name, rows in (("lenet", table), ("lenet", digits), ("tcn", table), ("logistic", digit_images())):
        with pytest.raises(ModelError, match="expected"):
            find_recipe(name).fit(rows, None, classes=10, features=(), seed=0)


def test_no_rows_are_refused():
    for name, rows in (("logistic", wine()), ("mlp", wine()), ("lenet", digit_images())):
        with pytest.raises(ModelError, match="at least one"):
            find_recipe(name).fit(rows.take(slice(0, 0)), None, classes=3, features=(), seed=0)


def test_half_named_columns_are_refused():
    with pytest.raises(ModelError, match="1 features are named, the rows have 13"):
        find_recipe("logistic").fit(wine(), None, classes=3, features=(Feature("a"),), seed=0)


@pytest.mark.parametrize("name", ["mlp", "logistic"])
@pytest.mark.parametrize("known", [True, False])
def test_a_column_that_never_varied_here_does_not_decide_about_other_sites_rows(name, known):
    """As cholesterol at one of the four hospitals, which nobody measured there."""
    rows = wine()
    rows = Rows(rows.X.copy(), rows.y)
    train, val, test = _split(rows)
    for part in (train, val):
        part.X[:, 12] = 3.0 if known else np.nan
    fitted = find_recipe(name).fit(train, val, classes=3, features=(), seed=1)
    elsewhere = test.X.copy()
    elsewhere[:, 12] = 3.0
    np.testing.assert_allclose(fitted.predict_proba(test.X), fitted.predict_proba(elsewhere), atol=1e-6)
    _assert_file_agrees(fitted, test.X, 3)


def test_a_static_input_that_never_varied_here_does_not_decide_about_other_sites_rows():
    rows = digit_sequences().take(np.arange(60))
    static = rows.X.static.copy()
    static[:, 0] = 7.0
    train = Rows(Sequences(static, rows.X.series), rows.y)
    fitted = find_recipe("cnn1d").fit(train, None, classes=10, features=(), seed=0, max_epochs=2)
    strange = static.copy()
    strange[:, 0] = 500.0
    elsewhere = Sequences(strange, rows.X.series)
    np.testing.assert_allclose(fitted.predict_proba(train.X), fitted.predict_proba(elsewhere), atol=1e-6)
