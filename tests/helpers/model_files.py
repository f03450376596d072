"""Models, and tools to take their files apart and put them together again, for the tests of model files."""

from __future__ import annotations

import functools
import json
import struct
import tempfile

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.helpers.common import blobs
from ultraspec import USENC, USPEC, load, save
from ultraspec.persistence import container
from ultraspec.persistence.model_files import ModelFileError

SMALL = {"n_representatives": 40, "random_state": 0}
X, _ = blobs(600)


def ensemble(**options):
    return USENC(4, n_estimators=3, base_clusters=(4, 8), **{**SMALL, **options})


def paper_ensemble(**options):
    return USENC.paper(4, n_estimators=3, base_clusters=(4, 8), regularization=1e-3, **{**SMALL, **options})


MODELS = {
    "USPEC": lambda: USPEC.paper(4, regularization=1e-3, **SMALL),
    "USENC": paper_ensemble,
    "auto": lambda: USPEC(4, **SMALL),
    "ensemble": ensemble,
}


@functools.cache
def fitted(kind):
    return MODELS[kind]().fit(X)


def as_loaded(model):
    """Save and load a model."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, f"{folder}/m.ultraspec")
        return load(f"{folder}/m.ultraspec")


def same(one, other, rows):
    """Check that two models are the same in all that a file keeps."""
    for method in ("predict", "transform"):
        np.testing.assert_array_equal(getattr(other, method)(rows), getattr(one, method)(rows), strict=True)
    for name in sorted(set(vars(one)) & {"representatives_", "eigenvalues_", "feature_names_in_"}):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name), strict=True)
    for name in ("n_clusters_", "n_iter_", "n_features_in_"):
        assert getattr(other, name) == getattr(one, name)
        assert type(getattr(other, name)) is int
    if isinstance(one, USPEC):
        assert other.sigma_ == one.sigma_
        assert other.discretize_ == one.discretize_
        assert other.candidates_ == one.candidates_
        assert list(other.candidates_ or ()) == list(one.candidates_ or ())  # the largest agreement first
    assert repr(other) == repr(one)
    assert other.get_params() == one.get_params()
    np.testing.assert_array_equal(other.get_feature_names_out(), one.get_feature_names_out())


def refused(path, match):
    """Check that a file is refused, by one kind of error that begins with its path."""
    with pytest.raises(ModelFileError, match=match) as info:
        load(path)
    assert str(info.value).startswith(f"{path}: ")
    assert len(str(info.value)) < len(str(path)) + 400
    assert str(info.value).isprintable()


def packed(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def parts(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["ultraspec"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write(path, header, arrays):
    header.pop("sha256", None)
    header["sha256"] = container._checksum(header, arrays)
    save_file(arrays, path, {"ultraspec": json.dumps(header)})


def rewrite(path, header=None, parameters=None, facts=None, arrays=None):
    """Change parts of a file by functions, and give it the right checksum."""
    found, tensors = parts(path)
    places = {"header": found, "parameters": found["parameters"], "facts": found["facts"], "arrays": tensors}
    changes = {"header": header, "parameters": parameters, "facts": facts, "arrays": arrays}
    for name, change in changes.items():
        if change is not None:
            change(places[name])
    write(path, found, tensors)
