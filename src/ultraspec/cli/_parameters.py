"""Options for the parameters of the estimators and of `open_rows`, from their signatures and docstrings.

Both are read from the source files: importing the estimators takes longer than showing a help page.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from importlib import resources
from typing import Annotated, Any, TypeVar

import typer

from ultraspec.cli._options import (
    ENSEMBLE,
    INPUT,
    METHOD,
    PANELS,
    RUN,
    option,
    parse_integer,
    parse_integers,
    parse_number,
)

HIDDEN = ("verbose",)  # --quiet takes its place
REQUIRED = ("n_clusters",)
OPTIONS = {
    "n_clusters": "-k",
    "random_state": "--seed",
    "sample_weight": "--weight",
}  # shorter names, for messages and examples
SHORT = {"n_representatives": "-p", "n_estimators": "-m", "n_jobs": "-j"}
IN_PANEL = {"missing": INPUT, "checkpoint": RUN, "random_state": RUN, "n_jobs": RUN}
IF_NONE = {"random_state": "a new seed, which is printed", "n_jobs": "all cores"}
NONE = "none"  # how None is written, where it is not the default

HOMES = {"USPEC": "uspec.py", "USENC": "usenc.py", "open_rows": "_input.py"}

ENTRY = re.compile(r"^(\w+) : (.+?)(?:, default=(.+))?\n((?: {4}.*\n?)+)", re.MULTILINE)  # of a numpydoc section

T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """A parameter, as the docstring of an estimator or function describes it."""

    name: str  #: name in Python
    type: str = "str"  #: type
    default: Any = None  #: default value
    summary: str = ""  #: first sentence of the description

    @property
    def strings(self) -> list[str]:
        """Strings that the type line allows, "none" among them if None is a value other than the default."""
        strings = re.findall(r'"([^"]*)"', self.type)
        return [*strings, NONE] if self.takes_none else strings

    @property
    def takes_none(self) -> bool:
        """Whether None is a value that users may want, and not only the absence of one."""
        return "None" in self.kinds and self.default is not None

    @property
    def kinds(self) -> list[str]:
        """Names of types in the type line."""
        return re.findall(r"\w+", re.sub(r'"[^"]*"', "", self.type))

    @property
    def flags(self) -> list[str]:
        """Names of the option, the short ones first."""
        name = self.name.replace("_", "-")
        long = f"--{name}/--no-{name}" if "bool" in self.kinds else f"--{name}"
        return [*(names[self.name] for names in (SHORT, OPTIONS) if self.name in names), long]

    @property
    def metavar(self) -> str | None:
        """Placeholder of the value in the help."""
        if "tuple" in self.kinds:
            return "N,N"
        values = {"int": "N", "float": "X", "path": "PATH", "bool": None}
        value = next((values[kind] for kind in self.kinds if kind in values), "NAME")
        return "|".join([value, *self.strings]) if value == "N" else value

    @property
    def help(self) -> str:
        """First sentence of the description, with options for parameters, and the choices."""
        text = re.sub(r"`(\w+)`", lambda match: option_name(match[1]), self.summary)
        if self.strings and "int" not in self.kinds:
            *others, last = self.strings
            text = f"{text.removesuffix('.')}: {', '.join(others)} or {last}."
        return text

    @property
    def shown_default(self) -> str | None:
        """Default value as it is written on the command line; None for a parameter that must be given."""
        if self.name in REQUIRED:
            return None
        return IF_NONE.get(self.name) if self.default is None else format_value(self.default)

    def parse(self, text: str) -> Any:
        """Convert what the user writes to a value of the parameter's type; "none" stays, see `takes_none`."""
        if text.strip().lower() in self.strings:
            return text.strip().lower()
        if "tuple" in self.kinds:
            return parse_integers(text)
        if "int" in self.kinds:
            return parse_integer(text, self.strings)
        if "float" in self.kinds:
            return parse_number(text)
        if self.strings:
            raise typer.BadParameter(f"it must be one of {', '.join(map(repr, self.strings))}, got {text!r}.")
        return text

    def write(self, value: Any) -> list[str]:
        """Write the option with a value, as arguments of a command."""
        if "bool" in self.kinds:
            return [self.flags[-1].split("/")[0 if value else 1]]
        return [option_name(self.name), NONE if value is None else format_value(value)]

    def option(self, panel: str) -> Any:
        """Build the typer option."""
        more: dict[str, Any] = {}
        if "bool" not in self.kinds:
            more["parser"] = self.parse
        if self.strings:
            more["autocompletion"] = lambda: self.strings
        usage = " ".join([*self.flags, self.metavar or ""])
        return option(usage, panel, self.help, self.shown_default, **more)


def option_name(parameter: str) -> str:
    """Return the option that stands for a parameter.

    Examples
    --------
    >>> option_name("n_init"), option_name("n_clusters")
    ('--n-init', '-k')
    """
    return OPTIONS.get(parameter, "--" + parameter.replace("_", "-"))


def format_value(value: Any) -> str:
    """Write the value of a parameter as the command line reads it.

    Examples
    --------
    >>> format_value((20, 60)), format_value(0.001)
    ('20,60', '0.001')
    """
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def read_parameters(source: str, name: str) -> dict[str, Parameter]:
    """Read the parameters of a function or class with a numpydoc docstring from the source of its module, in order."""
    found: Any = next(node for node in ast.parse(source).body if getattr(node, "name", None) == name)
    entries = {entry[0]: entry[1:] for entry in ENTRY.findall(ast.get_docstring(found) or "")}
    if isinstance(found, ast.ClassDef):
        found = next(node for node in found.body if getattr(node, "name", None) == "__init__")
    parameters = {}
    for argument in (argument.arg for argument in (*found.args.args, *found.args.kwonlyargs)):
        if argument != "self":
            kind, default, description = entries.get(argument, ("str", "", ""))
            sentence = re.split(r"(?<=\.) ", " ".join(description.split()))[0]
            parameters[argument] = Parameter(argument, kind, ast.literal_eval(default or "None"), sentence)
    return parameters


@functools.cache
def parameters_of(name: str) -> dict[str, Parameter]:
    """Return the parameters of USPEC, USENC or `open_rows` that have options, without importing anything."""
    source = resources.files("ultraspec").joinpath(HOMES[name]).read_text(encoding="utf-8")
    parameters = read_parameters(source, name)
    return {name: parameter for name, parameter in parameters.items() if name not in HIDDEN}


def deferred(command: Callable[..., T]) -> Callable[..., Callable[[], T]]:
    """Return a function for typer that parses the options of a command and returns the work, to be done later.

    Where the command has a parameter that is a dataclass, typer sees an option for each of its fields. Where it takes
    ``**parameters``, typer sees an option for each parameter of the estimators.
    """
    fields: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            fields += inspect.signature(kind, eval_str=True).parameters.values()
        elif parameter.kind is parameter.VAR_KEYWORD:
            fields += _estimator_options()
            fields.sort(key=lambda field: PANELS.index(field.annotation.__metadata__[0].rich_help_panel))
        else:
            fields.append(parameter)

    @functools.wraps(command)
    def parse(**values: Any) -> Callable[[], T]:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in inspect.signature(group).parameters})
        return functools.partial(command, **values)

    options = [field.replace(kind=field.KEYWORD_ONLY) for field in fields]
    parse.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return parse


def _estimator_options() -> list[inspect.Parameter]:
    """Return an option for each parameter of the estimators."""
    fields = []
    shared = parameters_of("USPEC")
    for name, parameter in {**parameters_of("USENC"), **shared}.items():
        panel = IN_PANEL.get(name, METHOD if name in shared else ENSEMBLE)
        made = parameter.option(panel)
        annotation: Any = Annotated[bool | None, made] if "bool" in parameter.kinds else Annotated[Any, made]
        default = inspect.Parameter.empty if name in REQUIRED else None
        fields.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return fields


def stray_options(parameters: dict[str, Any], ensemble: bool) -> list[str]:
    """List the options that were given but belong to the other estimator."""
    known = parameters_of("USENC" if ensemble else "USPEC")
    return [option_name(name) for name, value in parameters.items() if value is not None and name not in known]


Seed = Annotated[Any, parameters_of("USPEC")["random_state"].option(RUN)]
Missing = Annotated[Any, parameters_of("USPEC")["missing"].option(INPUT)]
NJobs = Annotated[Any, parameters_of("USPEC")["n_jobs"].option(RUN)]
