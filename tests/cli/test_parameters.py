"""Options that are generated from the estimators, and the conversion of what users write."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cli_tools import Shell
from ultraspec import USENC, USPEC
from ultraspec.cli import _app, _parameters
from ultraspec.cli._options import parse_integer
from ultraspec.cli._parameters import parameters_of, read_parameters
from ultraspec.cli.fit import make_estimator

# A value for each parameter, as it is written on the command line and as it reaches the estimator.
RUN = ("checkpoint", "random_state", "n_jobs")
VALUES = {
    "n_clusters": ("4", 4),
    "n_estimators": ("7", 7),
    "base_clusters": ("5,9", (5, 9)),
    "base_max_iter": ("6", 6),
    "checkpoint": ("folder", "folder"),
    "n_representatives": ("3e2", 300),
    "n_neighbors": ("4", 4),
    "selection": ("random", "random"),
    "candidate_factor": ("5", 5),
    "neighbors": ("exact", "exact"),
    "neighborhood_factor": ("8", 8),
    "metric": ("cosine", "cosine"),
    "missing": ("drop", "drop"),
    "n_init": ("2", 2),
    "max_iter": ("50", 50),
    "regularization": ("0.5", 0.5),
    "n_components": ("12", 12),
    "affinity": ("paper", "paper"),
    "discretize": ("border", "border"),
    "n_graphs": ("4", 4),
    "graph_rows": ("9_999", 9999),
    "consensus": ("transfer_cut", "transfer_cut"),
    "random_state": ("11", 11),
    "n_jobs": ("-1", -1),
}


@pytest.fixture
def shell(capsys, tmp_path):
    return Shell(capsys, tmp_path)


@pytest.mark.parametrize("kind", [USPEC, USENC])
class TestSource:
    def test_it_tells_what_the_class_tells(self, kind):
        signature = inspect.signature(kind).parameters
        found = read_parameters(inspect.getsource(inspect.getmodule(kind)), kind.__name__)
        assert list(found) == list(signature)
        for name, parameter in found.items():
            assert parameter.default == signature[name].default, name
            assert re.fullmatch(r"[A-Z1].*\.", parameter.summary), name
            assert parameter.type in inspect.getdoc(kind)

    def test_every_value_reaches_its_parameter(self, kind):
        specs = parameters_of(kind.__name__)
        values = {name: parameter.parse(VALUES[name][0]) for name, parameter in specs.items()}
        model = make_estimator(values, ensemble=kind is USENC)
        assert {name: getattr(model, name) for name in specs} == {name: VALUES[name][1] for name in specs}
        assert {"verbose", *specs} == set(model.get_params())

    def test_values_are_written_as_they_are_read(self, kind):
        for name, parameter in parameters_of(kind.__name__).items():
            option, text = parameter.write(VALUES[name][1])
            assert option in parameter.flags
            assert parameter.parse(text) == VALUES[name][1]

    def test_none_is_written_where_it_is_not_the_default(self, kind):
        parameter = parameters_of(kind.__name__)["n_components"]
        assert parameter.metavar == "N|auto|none"
        assert parameter.write(None) == ["--n-components", "none"]
        for text, value in (("None", None), ("auto", "auto"), ("7", 7)):
            values = {"n_clusters": 3, "n_components": parameter.parse(text)}
            assert make_estimator(values, ensemble=kind is USENC).n_components == value
        with pytest.raises(typer.BadParameter, match=r"an integer such as .*, or 'auto', or 'none', got 'all'"):
            parameter.parse("all")
        assert not parameters_of(kind.__name__)["n_jobs"].takes_none
        values = {"n_clusters": 3, "checkpoint": "none"}  # a folder
        assert make_estimator(values, ensemble=kind is USENC).checkpoint == "none"

    def test_parameters_that_are_not_given_have_their_defaults(self, kind):
        model = make_estimator({"n_clusters": 8, "random_state": None, "n_jobs": None}, ensemble=kind is USENC)
        assert model.get_params() == kind(random_state=model.random_state).get_params()
        assert isinstance(model.random_state, int)


class TestHelp:
    def test_a_parameter_that_is_added_to_an_estimator_is_an_option(self, shell, monkeypatch):
        def added(estimator):
            source = inspect.getsource(inspect.getmodule({"USPEC": USPEC, "USENC": USENC}[estimator]))
            name = f"n_{estimator.lower()}_rounds"
            source = source.replace(
                "        n_jobs: int | None", f"        {name}: int = 7,\n        n_jobs: int | None", 1
            )
            entry = f'{name} : int or "many", default=7\n        Number of rounds. More is better.\n'
            entry += "    be_quick : bool, default=False\n        Leave the `n_init` runs out.\n    n_jobs : "
            source = source.replace("        verbose: int", "        be_quick: bool = False,\n        verbose: int", 1)
            return read_parameters(source.replace("n_jobs : ", entry, 1), estimator)

        monkeypatch.setattr(_parameters, "parameters_of", added)
        try:
            importlib.reload(_app)
            panels = read_panels(shell.fine("fit", "--help"))
            assert "Number of rounds. [default: 7]" in panels["Clustering"]
            assert "--n-uspec-rounds N|many" in panels["Clustering"]
            assert "--n-usenc-rounds N|many" in panels["Ensemble"]
            assert "Leave the --n-init runs out. [default: False]" in panels["Clustering"]
            assert "--be-quick --no-be-quick" in panels["Clustering"]
        finally:
            monkeypatch.undo()
            importlib.reload(_app)
        assert "rounds" not in shell.fine("fit", "--help")

    def test_every_parameter_is_explained_with_its_default(self, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        panels = read_panels(shell.fine("fit", "--help"))
        defaults = {**USENC().get_params(), **USPEC().get_params()}
        for name, parameter in {**parameters_of("USENC"), **parameters_of("USPEC")}.items():
            panel = "Clustering" if name in USPEC().get_params() else "Ensemble"
            shown = panels[{"missing": "Input"}.get(name, "Run" if name in RUN else panel)]
            assert parameter.flags[-1] in shown
            assert parameter.help in shown
            if defaults[name] is not None and name != "n_clusters":
                assert f"{parameter.help} [default: {_parameters.format_value(defaults[name])}]" in shown

    @pytest.mark.parametrize("command", [info.callback.__name__ for info in _app.app.registered_commands])
    def test_every_option_has_a_sentence(self, command):
        group = typer.main.get_command(_app.app)
        for parameter in group.commands[command].params:
            assert re.search(r"\.( \\\[default: .*\])?$|exit\.$", parameter.help), (command, parameter.name)


def read_panels(text):
    """Return the text of each panel of a help page, without borders and line ends."""
    parts = re.split(r"╭─ (\w+) ─+╮", text)
    bodies = [" ".join(re.sub("[│╰╯─]", " ", part).split()) for part in parts[2::2]]
    return dict(zip(parts[1::2], bodies, strict=True))


class TestIntegers:
    @given(st.integers(-(10**12), 10**12))
    def test_all_their_forms(self, number):
        for text in (str(number), f"{number:_}", f"{number:,}", f"{number}e0", f"{number}.0", f"{number}e3"):
            assert parse_integer(text) == number * (1000 if text.endswith("e3") else 1)

    @pytest.mark.parametrize(("text", "number"), [("1e6", 10**6), ("1.5e3", 1500), ("2E+2", 200), ("0.5e1", 5)])
    def test_powers_of_ten(self, text, number):
        assert parse_integer(text) == number

    @pytest.mark.parametrize("text", ["", "x", "1.5", "1e-3", "inf", "nan", "1e400", "0x10", "1e6e", "٣"])
    def test_others_raise(self, text):
        with pytest.raises(typer.BadParameter, match="it must be an integer"):
            parse_integer(text)
