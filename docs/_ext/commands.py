"""The directive ``ultraspec-commands``: every command and option, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

COMMON = "Options"  # the panel of options that name none


class Commands(SphinxDirective):
    """A section for each command, with its usage, description, arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Make the sections."""
        import typer

        from ultraspec.cli._app import app

        group = typer.main.get_command(app)
        sections: list[nodes.Node] = []
        for name, command in group.commands.items():
            lines = "\n".join(describe(name, command, typer.Context(command, info_name=f"ultraspec {name}")))
            section = nodes.section(ids=[f"ultraspec-{name}"], names=[f"ultraspec {name}"])
            section += nodes.title("", f"ultraspec {name}")
            section += self.parse_text_to_nodes(lines)
            sections.append(section)
        return sections


def describe(name: str, command: Any, context: Any) -> Iterator[str]:
    """Describe a command in reStructuredText."""
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (".. code-block:: text", "", f"   ultraspec {name} {usage}", "")
    yield from (*map(str.strip, (command.help or "").splitlines()), "", f".. program:: ultraspec {name}", "")
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.name != "help":
            panels.setdefault(panel_of(parameter), []).append(parameter)
    for panel, parameters in panels.items():
        yield from (f".. rubric:: {panel}", "")
        for parameter in parameters:
            metavar = value_of(parameter, context)
            signature = ", ".join(f"{flag} {metavar}".rstrip() for flag in flags_of(parameter))
            needed = " Required." if parameter.required and parameter.param_type_name == "option" else ""
            yield from (f".. option:: {signature}", "", f"   {escape(parameter.help)}{needed}".rstrip(), "")


def escape(text: str) -> str:
    """Turn the markup of a help text into reStructuredText; FILE:COLUMN is not an address."""
    return re.sub(r"(?<=\w):(?=\w)", r"\\:", text.replace("\\[", "["))


def panel_of(parameter: Any) -> str:
    """Return the heading under which the help shows a parameter."""
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or COMMON


def flags_of(parameter: Any) -> list[str]:
    """Return the names of an option, the short ones first."""
    if parameter.param_type_name == "argument":
        return [parameter.metavar]
    return [*sorted(parameter.opts, key=len), *parameter.secondary_opts]


def value_of(parameter: Any, context: Any) -> str:
    """Return the placeholder for the value of an option, empty for a flag."""
    if parameter.param_type_name == "argument" or parameter.is_flag:
        return ""
    return parameter.metavar or parameter.make_metavar(context)


def setup(app: Any) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("ultraspec-commands", Commands)
    return {"version": "1", "parallel_read_safe": True}
