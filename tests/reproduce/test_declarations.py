"""The declared experiments against the paper's tables, and the selection of them by name."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.helpers.common import ROOT
from tests.helpers.reproduce_records import record
from ultraspec import USENC, USPEC, datasets
from ultraspec.reproduce import declarations, paper_results, store
from ultraspec.reproduce.declarations import DATASETS, METHODS, PAPER_SETS, TABLES, Run, plan
from ultraspec.reproduce.experiment import Experiment, choose, choose_tables
from ultraspec.reproduce.worker import find_estimator

COMPARISONS = [table for table in TABLES.values() if table.metric]
CURVES = [table for table in TABLES.values() if not table.metric]


@pytest.mark.parametrize("table", COMPARISONS, ids=lambda table: table.name)
def test_comparisons_are_complete(table):
    raw = paper_results._paper()["scores"][table.metric]
    assert set(table.datasets) == set(raw) == set(PAPER_SETS)
    ours = {method for method in table.methods if not method.endswith("(lib)")}
    other = "ensemble" if table.family == "spectral" else "spectral"
    rest = {method for t in COMPARISONS if t.family == other for method in t.methods}
    assert {method for methods in raw.values() for method in methods} <= ours | rest
    assert {"U-SPEC (lib)", "U-SENC (lib)"} <= set(table.methods)
    for dataset in table.datasets:
        for method in ours:
            assert paper_results.is_listed(dataset, method)


@pytest.mark.parametrize("table", CURVES, ids=lambda table: table.name)
def test_curves_are_complete(table):
    raw = paper_results._paper()["curves"][table.name]
    assert set(table.datasets) == set(raw)
    labels = [setting.label for setting in table.settings]
    for figures in raw.values():
        assert set(figures) == set(paper_results.METRICS)
        for methods in figures.values():
            assert set(methods) <= set(table.methods)
            for points in methods.values():
                assert [point[0] for point in points] == [x for x in labels if x in {point[0] for point in points}]


def test_every_table_of_the_experiments_is_declared():
    assert list(TABLES) == [f"table{number}" for number in range(4, 17)]
    assert [d.title for d in DATASETS if d.generated] == ["TB-1M", "SF-2M", "CC-5M", "CG-10M", "Flower-20M"]
    assert [d.name for d in DATASETS] == list(datasets.NAMES)


def test_our_methods_run_with_the_papers_settings_and_with_the_librarys_defaults():
    known = {method.title: method for method in METHODS}
    for name in ("U-SPEC", "U-SENC"):
        assert known[name].with_setting({}) == {"regularization": 0.0}
        assert known[f"{name} (lib)"].with_setting({}) == {}
        assert known[f"{name} (lib)"].variant_of == name


@pytest.mark.parametrize("kind", [USPEC, USENC])
def test_our_methods_are_those_of_the_paper(kind):
    """With the defaults of the library when the runs were made, the graph was regularised."""
    known = {method.title: method for method in METHODS}
    title = {USPEC: "U-SPEC", USENC: "U-SENC"}[kind]
    for name, regularization in ((title, 0.0), (f"{title} (lib)", 1e-3)):
        method = known[name]
        model = find_estimator(method.estimator)(n_clusters=3, **method.fixed, **method.parameters)
        assert type(model) is kind
        assert model.get_params() == kind.paper(3, regularization=regularization).get_params()


def test_the_stored_runs_are_those_that_are_planned():
    """Runs that were made before declarations changed are found again: none is repeated."""
    stored = {
        Run(r["dataset"], r["scale"], r["method"], json.dumps(r["parameters"], sort_keys=True), r["seed"])
        for r in store.read(ROOT / "docs" / "reproduction" / "runs.jsonl")
    }
    assert set(plan(TABLES.values(), DATASETS, METHODS, runs=1)) <= stored
    assert stored <= set(plan(TABLES.values(), DATASETS, METHODS, runs=20))


def test_fixed_parameters_reach_the_estimator_but_do_not_name_the_run(tmp_path):
    chosen = [method for method in METHODS if method.title == "U-SPEC (lib)"]
    (run,) = (r for r in plan([TABLES["table4"]], DATASETS[:1], chosen, runs=1))
    assert run.parameters == "{}"
    experiment = Experiment([TABLES["table4"]], DATASETS[:1], chosen, 1, 0.01, tmp_path, 1)
    experiment._prepared[run.dataset] = SimpleNamespace(stem="x")
    assert experiment.task(run).parameters == {"regularization": 1e-3}


def test_attributes_of_estimators_are_found():
    assert find_estimator("ultraspec:USPEC.paper")(3).discretize == "kmeans"
    for name in ("ultraspec:USPEC.magic", "ultraspec:magic.paper", "ultraspec:USPEC.paper.magic"):
        with pytest.raises(ValueError, match="ultraspec has no estimator"):
            find_estimator(name)


def test_tables_share_runs_and_default_points():
    runs = plan(TABLES.values(), DATASETS, METHODS, runs=1)
    assert len(runs) == len(set(runs))
    everything = set(runs)
    assert set(plan([TABLES["table4"]], DATASETS, METHODS, runs=1)) <= everything
    assert Run("MNIST", 1.0, "U-SPEC", '{"n_representatives": 200, "regularization": 0.0}', 0) in everything
    assert Run("MNIST", 1.0, "LSC-K", '{"n_neighbors": 3, "selection": "kmeans"}', 0) in everything
    assert Run("MNIST", 1.0, "LWGP", '{"n_estimators": 30}', 0) in everything
    assert Run("MNIST", 1.0, "U-SENC", '{"neighbors": "exact", "regularization": 0.0}', 0) in everything
    # Nyström has no K: Table 11 draws its one figure as a line
    nystrom = {r.parameters for r in plan([TABLES["table11"]], DATASETS, METHODS, runs=1) if r.method == "Nystrom"}
    assert nystrom == {"{}"}


def test_all_estimators_take_their_parameters():

    for run in plan(TABLES.values(), DATASETS[3:4], METHODS, runs=1):
        method = next(m for m in METHODS if m.title == run.method)
        find_estimator(method.estimator)(n_clusters=3, random_state=0, n_jobs=1, **json.loads(run.parameters))


def test_declared_names_are_found_in_any_spelling():

    assert [m.title for m in choose(METHODS, ["usenc (LIB)", "nyström"], "method")] == ["Nystrom", "U-SENC (lib)"]
    assert [d.title for d in choose(DATASETS, ["cc-5m"], "data set")] == ["CC-5M"]
    assert [t.name for t in choose_tables(["all"])] == list(TABLES)
    assert [t.number for t in choose_tables(["10,4-5,", "Table7-table8"])] == ["4", "5", "7", "8", "10"]
    assert declarations.RUNS == 20


def test_runs_on_rows_of_an_earlier_generator_are_repeated(tmp_path):
    experiment = Experiment([TABLES["table4"]], DATASETS, METHODS, 1, 1.0, tmp_path, 1)
    assert experiment.is_current(record("SF-2M"))
    old = record("SF-2M", data="sf")
    assert not experiment.is_current(old)
    assert experiment.is_shown(old)
    oldest = record("SF-2M")
    del oldest["data"]  # as stores were written at first
    assert not experiment.is_current(oldest)
    assert experiment.is_current({**oldest, "dataset": "TB-1M"})
