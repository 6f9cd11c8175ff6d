"""How Sphinx builds these pages; CI builds them with warnings as errors."""

from importlib.metadata import version as installed

project = "Reprise"
author = "the Reprise developers"
copyright = "2026, the Reprise developers"
version = release = installed("jupyter-reprise")
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Reprise"
nitpicky = True
