"""The project around the code: storeys, metadata, workflows."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.helpers.common import ROOT, python

PACKAGE = ROOT / "src" / "ultraspec"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def imports(path):
    """Yield the modules of ours that a module imports, those for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("ultraspec."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ultraspec":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name):
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_private_modules_are_imported_within_their_package_only():
    seen = []
    for path in MODULES:
        own = ("ultraspec", *path.relative_to(PACKAGE).parts)
        for name in imports(path):
            parts = name.split(".")
            if parts[1].startswith("_"):
                continue  # private to all of ultraspec
            for depth in range(2, len(parts)):
                private = parts[depth].startswith("_") and is_module(".".join(parts[: depth + 1]))
                if private and tuple(parts[:depth]) != own[:depth]:
                    seen.append(f"{'/'.join(own)} imports {name}")
    assert not seen, "\n".join(["", *seen])


def test_the_package_is_easy_to_survey():
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 25, sorted(entries)


def test_uspec_loads_nothing_of_the_ensemble():
    code = """
    import json, sys
    import ultraspec.uspec
    print(json.dumps([name for name in sys.modules if name.startswith("ultraspec.ensemble")]))
    """
    assert python(code) == []


def test_the_picture_of_the_storeys_shows_the_layers_in_their_order():
    layers = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    layers = [[name.strip() for name in re.split("[|:]", layer)] for layer in layers]
    picture = re.search(r"```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    lines = {
        name: min(number for number, line in enumerate(picture.splitlines()) if re.search(rf"\b{name}\b", line))
        for layer in layers
        for name in layer
        if name != "__main__"
    }
    highest = [min(lines[name] for name in layer) for layer in layers if layer != ["__main__"]]
    assert highest == sorted(highest)


def test_every_supported_python_is_tested():
    classifiers = PYPROJECT["project"]["classifiers"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert re.findall(r"3\.\d+", re.search(r"python: \[(.*)\]", workflow)[1]) == versions
    assert PYPROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_workflows_and_forms_are_valid_yaml():
    yaml = pytest.importorskip("yaml")
    paths = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / ".readthedocs.yaml"]
    assert len(paths) >= 10
    for path in paths:
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_have_few_permissions_and_pinned_actions(path):
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    writes = re.findall(r"(\S+): write", text)
    assert writes == (["id-token"] if path.stem == "publish" else [])
    for action in re.findall(r"uses: (\S+)", text):
        assert re.search(r"@(v\d+|release/v1)$", action) or action.startswith("./"), action


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", ".github/pull_request_template.md"):
        named = set(re.findall(r"`make ([\w-]+)", (ROOT / name).read_text(encoding="utf-8")))
        assert named <= targets, name
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert set(re.findall(r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8"))) <= targets, workflow


def test_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|html|js))?)`", text))
    names = {name for name in names if "/my" not in name and "/test_my" not in name}
    assert len(names) > 15
    assert [name for name in sorted(names) if not ((ROOT / name).exists() or (PACKAGE / name).exists())] == []


def test_registries_that_contributing_names_exist():
    from ultraspec import figures
    from ultraspec.baselines import __all__ as baselines
    from ultraspec.reproduce.declarations import METHODS, Method
    from ultraspec.rows import FORMATS, FileRows, Rows
    from ultraspec.spectral.candidates import CANDIDATES, TREES

    assert all(callable(each) for each in CANDIDATES.values())
    assert set(TREES) < set(CANDIDATES)
    assert all(isinstance(each, Method) for each in METHODS)
    assert issubclass(FileRows, Rows)
    assert FORMATS
    assert figures.FigureData
    assert figures.PARTS
    assert "EAC" in baselines
