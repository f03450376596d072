"""Model files: `save` writes a fitted estimator to one small file, `load` reads it, in this or another process.

A file holds what `predict`, `transform` and `cut` need, and nothing that grows with the rows. It is a safetensors file:
plain arrays, and a JSON header in their metadata. It contains no pickle and no code, so a file from a stranger can do
no harm. One that is damaged, altered or of another kind raises a `ModelFileError`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._estimator import Fitted, fitted, restore_fitted
from ultraspec.ensemble.predict import EnsembleModel
from ultraspec.persistence.checks import check_contents, member_name
from ultraspec.persistence.container import Arrays, Header, decode, encode, is_model_file
from ultraspec.rows import Scaling
from ultraspec.spectral.choice import rank
from ultraspec.spectral.layers import Layer
from ultraspec.spectral.model import Model
from ultraspec.spectral.model_checks import SCALARS, InvalidModel
from ultraspec.spectral.partition import partition_from_arrays
from ultraspec.spectral.preprocess import Preprocessor
from ultraspec.spectral.sums import GraphSums
from ultraspec.storage.atomic import check_target, write_atomically
from ultraspec.usenc import USENC
from ultraspec.uspec import USPEC

__all__ = ["ModelFileError", "ModelFileNotFoundError", "load", "save"]

KINDS: dict[str, type] = {"USENC": USENC, "USPEC": USPEC}


class ModelFileError(ValueError):
    """A file that cannot be read as a model; the message begins with its path and says why."""


class ModelFileNotFoundError(ModelFileError, FileNotFoundError):
    """A model file that does not exist."""


def save(model: USPEC | USENC, path: str | os.PathLike[str], *, overwrite: bool | None = None) -> None:
    """Write a fitted model to a file.

    The file is a few MB, whatever the number of rows was. It is written under another name and renamed when it is
    complete: there is never a half-written file, and an old file stays until the new one is complete.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted estimator.
    path : str or path
        Where to write it. Any name is allowed; ``.safetensors`` is the usual ending.
    overwrite : bool or None, default=None
        Whether an existing file may be replaced; if not, FileExistsError is raised. None replaces model files of
        ultraspec, but no other files (such as the data).

    See Also
    --------
    load : Reads the file.

    Notes
    -----
    The file does not store `labels_`, `base_labels_`, `confidence_`, `fit_profile_`, callbacks, the settings of
    ``set_output`` and the folder of `checkpoint`. A `random_state` that is a generator becomes None; what `cut` needs
    of it is stored.

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
    if type(model) not in KINDS.values():
        raise TypeError(
            f"save takes a fitted USPEC or USENC, got {type(model).__name__}. Of a pipeline, save the last step, and "
            "the other steps by their own means."
        )
    state = fitted(model)
    _require_safetensors()
    target = check_target(Path(path), "model file", overwrite=overwrite, is_ours=is_model_file)
    header, arrays = _describe(model, state)
    try:
        check_contents({"format": None, "version": None, "library": None, **header}, arrays, KINDS)
        data = encode(header, arrays)
    except InvalidModel as error:
        raise ValueError(f"This model cannot be saved: {error}") from error
    write_atomically(target, lambda file: file.write(data), overwrite=overwrite is not False)


def load(path: str | os.PathLike[str]) -> USPEC | USENC:
    """Read a model from a file that `save` wrote, with this or an older release.

    The model predicts and transforms as the saved one did: bit for bit, given the same NumPy, SciPy and numba. The file
    does not depend on the version of scikit-learn. Nothing in it is executed and everything is checked, so it is safe
    to load files from strangers.

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
        If it is not a model file, or is damaged, altered, or written by a later release.
    ModelFileNotFoundError
        If the file does not exist. It is a FileNotFoundError, too.

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
    _require_safetensors()
    try:
        header, arrays = decode(Path(path).expanduser())
        check_contents(header, arrays, KINDS)
    except FileNotFoundError as error:
        raise ModelFileNotFoundError(f"{os.fspath(path)}: there is no such file.") from error
    except InvalidModel as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error
    return _build(header, arrays)


def _require_safetensors() -> None:
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise ImportError("save and load need safetensors: pip install 'ultraspec[models]'") from error


def _describe(model: Any, state: Fitted) -> tuple[Header, Arrays]:
    """Return header and arrays of a fitted estimator."""
    parameters = {name: _to_json(value) for name, value in model.get_params(deep=False).items()}
    parameters["checkpoint"] = None  # a folder of this machine
    names = getattr(model, "feature_names_in_", None)
    seed = state.labels_seed
    facts: Header = {
        "n_rows": int(state.n_rows),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_iter": int(state.n_iter),
        "labels_seed": {"entropy": seed.entropy, "spawn_key": [int(n) for n in seed.spawn_key]},
        "metric": state.preprocessor.metric,
        "scale": float(state.preprocessor.scale),
        "agreements": state.agreements,
        "layers": None if state.layers is None else [list(layer) for layer in state.layers],
    }
    arrays: Arrays = state.preprocessor.arrays()
    del arrays["scale"]  # among the facts
    if model.scaling_ is not None:
        arrays |= {"scaling.mean": model.scaling_.mean, "scaling.deviation": model.scaling_.deviation}
    if state.fingerprint is not None:
        arrays["fingerprint"] = state.fingerprint
    if state.outlier_quantiles is not None:
        arrays["outlier_quantiles"] = state.outlier_quantiles
    if state.sums is not None:
        arrays |= state.sums.arrays()
    if isinstance(state.model, EnsembleModel):
        facts["base_label_type"] = state.model.label_type.name
        facts["members"] = [
            _add_model(member_name(number), member, arrays) for number, member in enumerate(state.members)
        ]
        arrays |= {f"consensus.{name}": array for name, array in state.partition.arrays().items()}
        if state.model.majority is not None:
            arrays["consensus.majority"] = state.model.majority
    else:
        facts["model"] = _add_model("", state.members[0], arrays)
    return {"estimator": type(model).__name__, "parameters": parameters, "facts": facts}, arrays


def _add_model(prefix: str, model: Model, arrays: Arrays) -> Header:
    """Add the arrays of a model under names with a prefix; return its scalars."""
    model_arrays = model.arrays()
    scalars = {name: model_arrays.pop(name).item() for name in SCALARS}
    arrays |= {prefix + name: array for name, array in model_arrays.items()}
    return scalars


def _to_json(value: Any) -> Any:
    """Convert a parameter to what JSON can hold; a random generator becomes None."""
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_to_json(item) for item in value]
    return value


def _build(header: Header, arrays: Arrays) -> Any:
    """Build the estimator that a checked header and its arrays describe."""
    facts = header["facts"]
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in header["parameters"].items()}
    model: Any
    if "members" in facts:
        members = [_take_model(member_name(i), scalars, arrays) for i, scalars in enumerate(facts["members"])]
        partition = partition_from_arrays(_with_prefix("consensus.", arrays))
        majority = arrays.get("consensus.majority")
        model = EnsembleModel(members, partition, majority, np.dtype(facts["base_label_type"]))
    else:
        model = _take_model("", facts["model"], arrays)
    preprocessor = Preprocessor.from_arrays(facts["metric"], {**arrays, "scale": np.asarray(facts["scale"])})
    seed = np.random.SeedSequence(facts["labels_seed"]["entropy"], spawn_key=tuple(facts["labels_seed"]["spawn_key"]))
    agreements = facts.get("agreements")
    state = Fitted(
        model,
        preprocessor,
        facts["n_rows"],
        facts["n_iter"],
        seed,
        arrays.get("fingerprint"),
        agreements=None if agreements is None else rank(agreements),
        layers=None if facts["layers"] is None else [Layer(*layer) for layer in facts["layers"]],
        outlier_quantiles=arrays.get("outlier_quantiles"),
        sums=GraphSums.from_arrays(arrays),
    )
    scaling = None
    if "scaling.mean" in arrays:
        scaling = Scaling(arrays["scaling.mean"], arrays["scaling.deviation"])
    estimator = KINDS[header["estimator"]](**parameters)
    restore_fitted(estimator, state, facts["n_features"], facts["feature_names"], scaling)
    return estimator


def _take_model(prefix: str, scalars: Header, arrays: Arrays) -> Model:
    parts = _with_prefix(prefix, arrays) | {name: np.asarray(value) for name, value in scalars.items()}
    return Model.from_arrays(parts)


def _with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with a prefix, under names without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
