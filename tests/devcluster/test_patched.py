"""A module with one constant changed, with a small program in place of Go."""

from pathlib import Path

import pytest

from devcluster import errors, patched, toolchain

# Stands for `go -C=FOLDER`: says where a module lies, and notes what else it was told.
FAKE_GO = """\
#!/bin/sh
case "$2 $3" in
  "list -m") echo "$FAKE_GO_MODULE";;
  *) echo "$2 $3 $4" >>"$FAKE_GO_CALLS"; [ "$FAKE_GO" = fail ] && echo "no such host" >&2 && exit 1;;
esac
exit 0
"""
PATCH = patched.Patch(
    module="example.com/lib", file="util/util.go", was='"there"', becomes='"here"'
)


class Shop:
    """A module of ours that needs another one, which lies read-only where Go keeps it."""

    def __init__(self, root: Path):
        self.folder = root / "ours"
        self.folder.mkdir()
        (self.folder / "go.mod").write_text("require example.com/lib v1.0.0\n")
        (self.folder / "go.sum").write_text("sum\n")
        self.source = root / "lib@v1.0.0" / "util" / "util.go"
        self.source.parent.mkdir(parents=True)
        self.calls = root / "calls"
        command = root / "go"
        command.write_text(FAKE_GO)
        command.chmod(0o755)
        self.go = toolchain.Go(command, (1, 26))

    def says(self, text: str) -> None:
        self.source.write_text(text)
        self.source.chmod(0o444)
        self.source.parent.chmod(0o555)

    def flags(self):
        return patched.flags(self.go, self.folder, PATCH)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setenv("FAKE_GO_CALLS", str(made.calls))
    monkeypatch.setenv("FAKE_GO_MODULE", str(made.source.parents[1]))
    return made


async def test_the_build_reads_a_changed_copy_and_nothing_else_is_touched(shop: Shop):
    shop.says('const place = "there"\n')
    async with shop.flags() as (flag,):
        modfile = Path(flag.removeprefix("-modfile="))
        given = [modfile.with_name(name).read_text() for name in ("go.mod", "go.sum")]
        download, edit = shop.calls.read_text().splitlines()
        replaced = edit.removeprefix("mod edit -replace=example.com/lib=")
        assert download == "mod download example.com/lib"
        assert (Path(replaced) / "util" / "util.go").read_text() == 'const place = "here"\n'
        assert given == ["require example.com/lib v1.0.0\n", "sum\n"]
    assert not modfile.parent.exists()
    assert shop.source.read_text() == 'const place = "there"\n'
    assert sorted(path.name for path in shop.folder.iterdir()) == ["go.mod", "go.sum"]


@pytest.mark.parametrize("text", ['const place = "elsewhere"\n', '"there", "there"\n'])
async def test_a_patch_that_does_not_fit_is_refused(shop: Shop, text: str):
    shop.says(text)
    with pytest.raises(errors.BuildError) as caught:
        async with shop.flags():
            pass
    assert str(caught.value) == (
        'example.com/lib does not say `"there"` once in util/util.go: mend the patch.'
    )


async def test_a_module_that_cannot_be_had_is_one_message(shop: Shop, monkeypatch):
    monkeypatch.setenv("FAKE_GO", "fail")
    with pytest.raises(errors.BuildError, match=r"^ours cannot be made ready .* no such host$"):
        async with shop.flags():
            pass
