"""The pages tell of what is there: tree, links, diagram, runbook, decisions."""

import re
import subprocess
from pathlib import Path

import pytest

from apiserver import metrics
from gpu.objects import claims

ROOT = Path(__file__).parent.parent
PAGES = tuple(sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))))
PRODUCT = ("gpu", "apiserver", "policies", "openapi", "devcluster", "bench", "soak")
COMING = re.compile(r" \[(?:\d|later)\]$")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MAKE = re.compile(r"(?:^|`)make((?: [a-z-]+)+)", re.MULTILINE)
STEP = re.compile(r"^ {4}(\w+) --> (\w+)$", re.MULTILINE)
DECISION_LINES = 16


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def drawn() -> tuple[set[str], set[str]]:
    """Files the tree of docs/architecture.md says are there, and those it says are coming."""
    there, coming = set(), set()
    folder = ""
    section = page("architecture.md").split("## 6. The tree")[1].split("## 7.")[0]
    for line in section.splitlines():
        if found := re.match(r"^([a-z0-9_./-]+/)(\s|$)", line):
            folder = found[1]
        elif found := re.match(r"^  ([A-Za-z_.]+\.py)(\s|$)", line):
            (coming if COMING.search(line) else there).add(folder + found[1])
    return there, coming


def committed_modules() -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nobody can say what is committed")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
        + [f"{package}/*.py" for package in PRODUCT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    return {name for name in names if not name.endswith("__init__.py")}


def test_the_tree_shows_every_module_and_marks_those_that_are_coming():
    there, coming = drawn()
    committed = committed_modules()
    assert (committed - there, there - committed, coming & committed) == (set(), set(), set())


@pytest.mark.parametrize("path", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_every_link_leads_somewhere(path):
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_make_target_a_page_names_is_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {
        word
        for path in PAGES
        for line in MAKE.findall(path.read_text(encoding="utf-8"))
        for word in line.split()
    }
    assert named - targets == set()


def test_the_diagram_of_a_claim_shows_every_step_and_no_other():
    shown = set(STEP.findall(page("binding.md")))
    legal = {
        (source.value, step.value)
        for source, steps in claims.TRANSITIONS.items()
        for step in steps
        if step is not source
    }
    assert shown == legal


def test_the_runbook_knows_every_metric_of_ours():
    named = {family.name for family in metrics.create().registry.collect()}
    ours = {name for name in named if not name.startswith(("process_", "python_"))}
    text = page("runbook.md")
    assert sorted(name for name in ours if f"`{name}" not in text) == []


def test_decisions_are_numbered_without_a_gap_and_stay_short():
    paths = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(path.name.split("-")[0]) for path in paths]
    long = [
        path.name
        for path in paths
        if len(path.read_text(encoding="utf-8").splitlines()) > DECISION_LINES
    ]
    assert (numbers, long) == (list(range(1, len(paths) + 1)), [])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.name)
        for p in sorted((ROOT / "changelog.d").iterdir())
        if p.name != "README.md"
    ],
)
def test_a_changelog_fragment_says_what_kind_of_change_it_is(path):
    assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md", path.name)
