"""Model files: `save` writes a fitted estimator to one small file, `load` reads it, in this or another process.

A file holds what `predict`, `transform` and `cut` need, and nothing that grows with the rows. It is a safetensors file:
plain arrays, and a JSON header in their metadata. There is no pickle and no code in it, so a file from a stranger can
do no harm; one that is damaged, altered or of something else gives a `ModelFileError`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ultraspec.persistence.checks import SCALARS, check_contents, member_name
from ultraspec.persistence.container import Arrays, Flaw, Header, decode, encode, is_model_file
from ultraspec.storage.atomic import check_target, write_whole

if TYPE_CHECKING:
    from ultraspec.spectral.model import Model
    from ultraspec.usenc import USENC
    from ultraspec.uspec import USPEC

__all__ = ["ModelFileError", "ModelFileNotFoundError", "load", "save"]


class ModelFileError(ValueError):
    """A file that cannot be read as a model; the message begins with its path and says why."""


class ModelFileNotFoundError(ModelFileError, FileNotFoundError):
    """There is no such model file."""


def save(model: USPEC | USENC, path: str | os.PathLike[str], *, overwrite: bool | None = None) -> None:
    """Write a fitted model to a file.

    The file is a few MB whatever the number of rows was. It is written under another name and renamed when it is
    complete, so that no half-written file is ever left, and an old one stays until the new one is there.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted estimator.
    path : str or path
        Where to write it. Any name will do; ``.safetensors`` is the usual ending.
    overwrite : bool or None, default=None
        Whether an existing file may be replaced, else FileExistsError is raised. None: a model file of ultraspec may,
        a file of another kind (such as the data) may not.

    See Also
    --------
    load : Reads the file.

    Notes
    -----
    `labels_`, `base_labels_`, `confidence_` and `fit_profile_` are not kept, nor are callbacks, the choices of
    ``set_output``, and the folder of `checkpoint`. A `random_state` that is a generator becomes None; what `cut`
    needs of it is kept.

    Saving one model twice gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import ultraspec
    >>> X, y = ultraspec.datasets.generate("cc", 5_000, random_state=0)
    >>> model = ultraspec.USPEC(3, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "circles.safetensors"
    ...     ultraspec.save(model, path)
    ...     again = ultraspec.load(path)
    >>> (again.predict(X) == model.labels_).all()
    np.True_
    >>> (again.cut(5, X).labels_ == model.cut(5).labels_).all()
    np.True_
    """
    from sklearn.utils.validation import check_is_fitted

    kinds = _kinds()
    if type(model) not in kinds.values():
        raise TypeError(
            f"save takes a fitted USPEC or USENC, got {type(model).__name__}. Of a pipeline, save the last step, and "
            "the other steps by their own means."
        )
    check_is_fitted(model)
    _need_safetensors()
    target = check_target(Path(path), "model file", overwrite=overwrite, is_ours=is_model_file)
    header, arrays = _describe(model)
    try:
        check_contents({"format": None, "version": None, "library": None, **header}, arrays, kinds)
        data = encode(header, arrays)
    except Flaw as flaw:
        raise ValueError(f"This model cannot be saved: {flaw}") from flaw
    write_whole(target, lambda file: file.write(data), overwrite=overwrite is not False)


def load(path: str | os.PathLike[str]) -> USPEC | USENC:
    """Read a model from a file that `save` wrote, with this or an older release.

    The model predicts and transforms as the saved one did: bit for bit, given the same NumPy, SciPy and numba. The file
    depends on no release of scikit-learn. Nothing in it is run and everything is checked, so it may come from anywhere.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    USPEC or USENC
        A fitted estimator. It has no `labels_` (nor `base_labels_`, `confidence_`): ``predict(X)`` gives them, and
        ``cut(n_clusters, X)`` cuts the rows that were fitted into another number of clusters.

    Raises
    ------
    ModelFileError
        If it is not a model file, or is damaged, altered, or of a later release.
    ModelFileNotFoundError
        If there is no file at all: a ModelFileError that is a FileNotFoundError, too.

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import ultraspec
    >>> X, y = ultraspec.datasets.generate("tb", 2_000, random_state=0)
    >>> model = ultraspec.USENC(2, n_estimators=5, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ultraspec.save(model, Path(folder) / "bananas.safetensors")
    ...     again = ultraspec.load(Path(folder) / "bananas.safetensors")
    >>> again
    USENC(n_clusters=2, n_estimators=5, random_state=0)
    >>> (again.predict(X) == model.labels_).all()
    np.True_
    """
    _need_safetensors()
    kinds = _kinds()
    try:
        header, arrays = decode(Path(path).expanduser())
        check_contents(header, arrays, kinds)
    except FileNotFoundError as error:
        raise ModelFileNotFoundError(f"{os.fspath(path)}: there is no such file.") from error
    except Flaw as flaw:
        raise ModelFileError(f"{os.fspath(path)}: {flaw}") from flaw
    return _build(header, arrays, kinds)


def _kinds() -> dict[str, type]:
    from ultraspec.usenc import USENC
    from ultraspec.uspec import USPEC

    return {"USENC": USENC, "USPEC": USPEC}


def _need_safetensors() -> None:
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise ImportError("save and load need safetensors: pip install 'ultraspec[models]'") from error


def _describe(model: Any) -> tuple[Header, Arrays]:
    """Header and arrays of a fitted estimator."""
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    if "checkpoint" in parameters:
        parameters["checkpoint"] = None  # a folder of this machine
    names, seed = getattr(model, "feature_names_in_", None), model._labels_seed
    facts = {
        "n_rows": int(model._n_rows),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_iter": int(model.n_iter_),
        "labels_seed": {"entropy": seed.entropy, "spawn_key": [int(n) for n in seed.spawn_key]},
        "metric": model._space.metric,
        "scale": float(model._space.scale),
    }
    arrays = {"offset": model._space.offset}
    if (scaling := vars(model).get("scaling_")) is not None:
        arrays |= {"scaling.mean": scaling.mean, "scaling.deviation": scaling.deviation}
    if (fingerprint := vars(model).get("_fingerprint")) is not None:
        arrays["fingerprint"] = fingerprint
    if hasattr(model, "_models"):
        facts["members"], facts["base_label_type"] = [], model._label_type.name
        for number, member in enumerate(model._models):
            facts["members"].append(_add_model(member_name(number), member, arrays))
        arrays |= {f"consensus.{name}": array for name, array in model._consensus.arrays().items()}
        if model._majority is not None:
            arrays["consensus.majority"] = model._majority
    else:
        facts["model"] = _add_model("", model._model, arrays)
    return {"estimator": type(model).__name__, "parameters": parameters, "facts": facts}, arrays


def _add_model(prefix: str, model: Model, arrays: Arrays) -> Header:
    """Add a model's arrays under names with a prefix, and return its scalars."""
    found = model.arrays()
    scalars = {name: found.pop(name).item() for name in SCALARS}
    arrays |= {prefix + name: array for name, array in found.items()}
    return scalars


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; generators have no such form."""
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_plain(item) for item in value]
    return value


def _build(header: Header, arrays: Arrays, kinds: dict[str, type]) -> Any:
    """The estimator that a checked header and its arrays describe."""
    from ultraspec.rows.scaled import Scaling
    from ultraspec.spectral.partition import partition_from_arrays
    from ultraspec.spectral.preprocess import Preprocessor

    facts = header["facts"]
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in header["parameters"].items()}
    model: Any = kinds[header["estimator"]](**parameters)
    model.n_features_in_ = facts["n_features"]
    if facts["feature_names"] is not None:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    model._space = Preprocessor(facts["metric"], arrays["offset"], facts["scale"])
    means, deviations = arrays.get("scaling.mean"), arrays.get("scaling.deviation")
    model.scaling_ = None if means is None or deviations is None else Scaling(means, deviations)
    seed = facts["labels_seed"]
    model._labels_seed = np.random.SeedSequence(seed["entropy"], spawn_key=tuple(seed["spawn_key"]))
    model._n_rows, model._fingerprint = facts["n_rows"], arrays.get("fingerprint")
    if "members" in facts:
        model._joint, model._label_type = None, np.dtype(facts["base_label_type"])
        model._majority = arrays.get("consensus.majority")
        model._models = [_take_model(member_name(i), s, arrays) for i, s in enumerate(facts["members"])]
        model._keep(partition_from_arrays(_named("consensus.", arrays)), facts["n_iter"])
    else:
        model._edges = None
        model._keep(_take_model("", facts["model"], arrays), facts["n_iter"])
    return model


def _take_model(prefix: str, scalars: Header, arrays: Arrays) -> Model:
    from ultraspec.spectral.model import Model

    return Model.from_arrays({**_named(prefix, arrays), **{name: np.asarray(value) for name, value in scalars.items()}})


def _named(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
