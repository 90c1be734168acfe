"""Configuration of the documentation; `make docs` builds it, offline and with warnings as errors."""

import inspect
import logging
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

import pmgp

sys.path.insert(0, str(Path(__file__).parent))
import comparison
import gallery
import inventories
import layers
import peers
import what_works

# Sphinx shows the messages of every logger; PyTensor has many on import.
logging.getLogger("pytensor").setLevel(logging.WARNING)

HERE = Path(__file__).parent
ROOT = HERE.parent

# A script, style sheet, font or picture that a browser fetches by itself; links that a reader follows are none.
REMOTE = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//[^\s>]*|"""
    r"""<link(?=[^>]*stylesheet)[^>]*\shref=["']?(?:https?:)?//[^\s>]*"""
)

project = "pmgp"
author = "The pmgp developers"
project_copyright = "The pmgp developers"
version = release = pmgp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx.ext.intersphinx",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "_generated", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
nitpicky = False

# Prose.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Pages whose code cells are executed: a cell that fails is a failed build. Not cached, because a cache would not notice
# a change of the package. The notebooks bring their outputs along; `make check-notebooks` says whether they are true.
nb_execution_mode = "force"
nb_execution_excludepatterns = ["case_studies/*.ipynb"]
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
# What PyMC says about its progress; results are on stdout and in the cells' values.
nb_output_stderr = "remove"

# The API reference: one page an object, from the docstrings.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"pmgp {release}"
html_static_path = ["_static"]
html_css_files = ["pmgp.css"]
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"


def copy_case_studies() -> None:
    """Bring the notebooks with their stored outputs from case_studies/ and its folders into the source tree."""
    target = HERE / "case_studies"
    notebooks = sorted([*(ROOT / "case_studies").glob("*.ipynb"), *(ROOT / "case_studies").glob("*/*.ipynb")])
    for stale in set(target.glob("*.ipynb")) - {target / path.name for path in notebooks}:
        stale.unlink()
    for path in notebooks:
        copy = target / path.name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


def write_parts() -> None:
    """Make what pages include and would drift if it were written by hand: gallery, comparison, tables, the layers."""
    (HERE / "_generated").mkdir(exist_ok=True)
    layers.draw(HERE / "_generated" / "layers.svg")
    for page, names in (("gallery", gallery.STUDIES), ("first_studies", gallery.FIRST)):
        cards = gallery.cards(HERE / "_static" / "gallery", names)
        (HERE / "_generated" / f"{page}.md").write_text(cards, encoding="utf-8")
    (HERE / "_generated" / "comparison.md").write_text(comparison.table(), encoding="utf-8")
    (HERE / "_generated" / "peers.md").write_text(f"{peers.summary()}\n{peers.table()}", encoding="utf-8")
    for name in ("likelihoods", "covariances", "features"):
        (HERE / "_generated" / f"{name}.md").write_text(what_works.markdown(name), encoding="utf-8")


copy_case_studies()
write_parts()
# Read from files that are written here: nothing is fetched.
intersphinx_mapping = inventories.write(HERE / "_generated")


class LinkedLiterals(SphinxTransform):
    """Link code in a text that is one of the names, such as `pm.sample`."""

    default_priority = 400

    def apply(self, **kwargs):
        """Put a reference around each literal that is a known name and is not in a heading or in a link."""
        for literal in list(self.document.findall(nodes.literal)):
            name = inventories.whole(literal.astext())
            inside = isinstance(literal.parent, nodes.title | nodes.reference | pending_xref)
            if name not in inventories.NAMES or inside:
                continue
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=False)
            link["py:module"] = link["py:class"] = None
            literal.replace_self(link)
            link += literal


def show_constructor(app, what, name, obj, options, signature, return_annotation):
    """Show what __init__ takes where PyMC's base classes define __new__(*args, **kwargs)."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare)), return_annotation


def refuse_remote_resources(app, exception):
    """Fail where a page would load a script, a style or a picture from elsewhere: it has to be complete by itself."""
    if exception is not None or app.builder.format != "html":
        return
    for page in sorted(Path(app.outdir).rglob("*.html")):
        found = REMOTE.search(page.read_text(encoding="utf-8"))
        if found is not None:
            raise ExtensionError(f"{page.relative_to(app.outdir)} loads {found[0]}; ship it with the pages instead")


def setup(app):
    app.add_transform(LinkedLiterals)
    app.connect("build-finished", refuse_remote_resources)
    app.connect("autodoc-process-signature", show_constructor)
