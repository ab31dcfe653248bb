"""How Sphinx builds these pages: `make docs`. Nothing here, nor in _ext, compiles a kernel or solves anything."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

os.environ["POSABLE_PLUGINS"] = "never"  # the pages list what Posable itself has
import posable

project = "Posable"
author = "The Posable authors"
copyright = "The Posable authors"
version = release = posable.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "plain_docstrings", "registers", "gallery"]
exclude_patterns = ["_build", "pictures"]
# tables that other pages include have no title, and are no pages
parts = [path for path in Path(__file__).parent.glob("results/*.md") if not path.read_text("utf8").startswith("# ")]
exclude_patterns += [f"results/{path.name}" for path in parts]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = "Posable"
html_static_path = ["_static"]
html_css_files = ["posable.css"]
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f8b", "color-brand-content": "#1f6f8b"},
    "dark_css_variables": {"color-brand-primary": "#6cc5dd", "color-brand-content": "#6cc5dd"},
    "sidebar_hide_name": False,
    "navigation_with_keys": True,
}
pygments_style, pygments_dark_style = "friendly", "github-dark"

# one version whatever Sphinx's default is; MATHJAX names a copy on this machine, where there is no network
mathjax_path = os.environ.get("MATHJAX", "https://cdn.jsdelivr.net/npm/mathjax@3/es5/tex-mml-chtml.js")
