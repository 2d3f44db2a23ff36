"""How the pages become a site: `python -m sphinx -W --keep-going -b html docs build/docs`."""

project = "toolgauge"
project_copyright = "the toolgauge authors"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
nitpicky = True  # a link that leads nowhere is a warning, and -W makes it an error

html_theme = "furo"
html_title = "toolgauge"
html_copy_source = False
html_show_sphinx = False
