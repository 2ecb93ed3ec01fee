"""What holds the layout together: contracts, lone imports, sizes, names, the top level."""

import graphlib
import random
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter import configuration
from importlinter.application import use_cases

ROOT = Path(__file__).parent.parent
TOP_FOLDERS = {
    "apiserver",
    "bench",
    "changelog.d",
    "charts",
    "devcluster",
    "docs",
    "examples",
    "gpu",
    "openapi",
    "policies",
    "soak",
    "tests",
}
TOP_FILES = {
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
}
PRODUCT = ("gpu", "apiserver", "policies", "openapi")
DEVELOPMENT = ("devcluster", "bench", "soak")
MOST_LINES = 400
SAMPLE = 20
NOT_A_NAME = {"util", "utils", "helper", "helpers", "common", "misc"}

# Written in two halves, or this file would name what no file may name.
REGISTRIES = tuple(
    ".".join(halves)
    for halves in (
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("registry.npmjs", "org"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("repo", "maven.apache.org"),
    )
)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:" + "wor" + r"k|root)/\w")

# Third-party packages are loaded once, ours anew in each fork: a module must not lean on what
# another one of ours imported before it. Each argument is one fork's modules.
LONE_IMPORTS = """
import gc, importlib, os, sys, traceback
for name in ("aiohttp.web", "cryptography.hazmat.primitives.serialization", "cryptography.x509",
             "importlib.metadata", "jsonschema", "kubernetes.aio.config", "msgspec",
             "prometheus_client.parser", "rich.table", "structlog", "typer", "uvloop", "yaml"):
    importlib.import_module(name)
gc.disable()  # a collection in a child would copy the parent's pages
failed = 0
for names in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            for name in names.split():
                importlib.import_module(name)
        except BaseException:
            sys.stderr.write(f"--- {name}\\n{traceback.format_exc()}")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed != 0)
"""


def files() -> tuple[Path, ...]:
    """Everything that is or would be committed, relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nobody can say what is committed")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    named = (Path(name) for name in listed.split("\0") if name)
    return tuple(sorted(path for path in named if (ROOT / path).is_file()))


def modules(package: str) -> tuple[str, ...]:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return tuple(found)


def test_every_layer_contract_is_kept(capsys):
    configuration.configure()
    kept = use_cases.lint_imports(str(ROOT / ".importlinter"), cache_dir=None, no_logo=True)
    assert kept, capsys.readouterr().out


def test_no_module_imports_itself_through_others():
    graph = grimp.build_graph(*PRODUCT, *DEVELOPMENT, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    ordered = tuple(graphlib.TopologicalSorter(imports).static_order())  # CycleError names a cycle
    assert set(ordered) == graph.modules


@pytest.mark.long
@pytest.mark.timeout(120)
def test_each_module_imports_alone_and_without_a_warning(seed, full):
    """Alone is sampled unless `--full`; all of a package together is not."""
    product = [name for package in PRODUCT for name in modules(package)]
    alone = product if full else random.Random(seed).sample(product, SAMPLE)
    together = [" ".join(modules(package)) for package in (*PRODUCT, *DEVELOPMENT)]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", LONE_IMPORTS, *alone, *together],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_no_module_is_longer_than_a_person_reads():
    long = {
        str(path): count
        for path in files()
        if path.suffix == ".py"
        and (count := len((ROOT / path).read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_no_module_is_named_after_nothing():
    assert [str(path) for path in files() if path.stem.lower() in NOT_A_NAME] == []


def test_every_package_says_what_belongs_in_it():
    silent = [
        str(path)
        for path in files()
        if path.name == "__init__.py"
        and not (ROOT / path).read_text(encoding="utf-8").startswith('"""')
    ]
    assert silent == []


def test_no_file_names_a_package_registry_or_a_path_of_one_machine():
    found = []
    for path in files():
        text = (ROOT / path).read_bytes().decode("utf-8", errors="replace")
        found += [f"{path}: {host}" for host in REGISTRIES if host in text]
        found += [f"{path}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


def test_the_top_level_is_what_was_designed():
    paths = files()
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    loose = {path.parts[0] for path in paths if len(path.parts) == 1}
    assert (
        {name for name in folders if not name.startswith(".")},
        {name for name in loose if not name.startswith(".")},
    ) == (TOP_FOLDERS, TOP_FILES)
