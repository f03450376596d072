"""Settings of the documentation site: ``make docs`` builds it into ``_build/html``, without a network."""

from __future__ import annotations

import sys
from pathlib import Path

from ultraspec import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "ultraspec"
author = "The ultraspec developers"
copyright = "the ultraspec developers"
version = release = __version__

extensions = [
    "commands",  # _ext/commands.py: the command line's options, from the command line itself
    "myst_parser",
    "numpydoc",
    "reproduction",  # _ext/reproduction.py: page.html, from the runs of `ultraspec reproduce`
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
html_extra_path = ["reproduction/runs.jsonl"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

smartquotes = False  # "kmeans" is to be copied
default_role = "py:obj"  # docstrings write `name`: a link where there is such a thing, else plain code
add_module_names = False
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name the types
autosummary_generate = False
numpydoc_show_class_members = False  # the pages name what they show

html_theme = "furo"
html_title = f"ultraspec {__version__}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00598c", "color-brand-content": "#00598c"},
    "dark_css_variables": {"color-brand-primary": "#8fd0fb", "color-brand-content": "#8fd0fb"},
}

copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
