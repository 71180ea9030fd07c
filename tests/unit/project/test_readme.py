"""Scripts, files, options, headings and dependencies that the README and the other pages name exist."""

import re
import tomllib
from pathlib import Path

import pytest

from penumbra.config.options import OPTIONS, PREFIX, RETIRED
from penumbra.config.settings import CONFIG_OPTION

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "rules/**/README.md")
    for path in ROOT.glob(pattern)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
OTHER_NAMES = {"penumbra_proxy"}
"""Names that begin like an option and are none."""


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def prose(page):
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return the headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_pages_are_found():
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/options.md"} <= {
        str(page) for page in PAGES
    }


def test_the_readme_is_short():
    assert README.count("\n") <= 150


def test_every_dependency_has_its_reason():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    names = {re.match(r"[\w-]+", entry)[0] for entry in project["dependencies"]}
    table = README.partition("## Dependencies")[2].partition("\n## ")[0]
    rows = {name for row in re.findall(r"^\| ([\w, -]+)", table, re.MULTILINE) for name in row.split(", ")}
    assert {name for name in names if name not in {row.strip() for row in rows}} == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.resolve().relative_to(ROOT)), target


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_files_that_are_named_are_there(page):
    named = re.findall(r"`((?:addon|docs|rules|scripts|tests)/[^\s`]*)`", prose(page))
    for name in named:
        if not re.search(r"[<*{…]", name):
            assert (ROOT / name).exists(), name
    for script in re.findall(r"\bscripts/(\w+)", text(page)):
        assert (ROOT / "scripts" / script).exists(), script


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_options_that_are_named_are_there(page):
    retired = {f"{PREFIX}{name}" for name in RETIRED}
    options = {option.full_name for option in OPTIONS} | {CONFIG_OPTION} | OTHER_NAMES | retired
    assert set(re.findall(r"\bpenumbra_[a-z_]+", text(page))) - options == set()


def test_the_architecture_names_modules_that_are_there():
    page = prose("docs/architecture.md")
    modules = {
        name
        for name in re.findall(r"`((?:\w+/)*(?:\w+\.py|\w+/))`", page)
        if name.partition("/")[0] not in ("addon", "rules", "tests")
    }
    assert len(modules) > 30
    assert {name for name in modules if not (ROOT / "addon/penumbra" / name).exists()} == set()


def test_the_architecture_names_every_folder_of_the_package():
    tree = text("docs/architecture.md").partition("addon/penumbra/\n")[2].partition("\nrules/")[0]
    named = set(re.findall(r"^  (\w+)/ ", tree, re.MULTILINE))
    assert named == {path.parent.name for path in (ROOT / "addon/penumbra").glob("*/__init__.py")}


def test_the_architecture_names_the_layers_that_are_checked():
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    (shown,) = (part for part in text("docs/architecture.md").split("```") if part.startswith("\ncli > "))
    assert " ".join(shown.split()) == " > ".join(layers).replace("penumbra.", "")
