"""What a shell is told when somebody presses the tabulator key."""

import numpy as np
import pytest
from typer.testing import CliRunner

from boostmetric.cli import app


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wine.csv").write_text("id,kind,width,weight\na,b,1,2\n")
    (tmp_path / "more.csv").write_text("sku,width\na,1\n")
    np.savez(tmp_path / "wine.npz", X=np.eye(2), kind=np.arange(2))


def completed(line):
    """What completes the last word of a line."""
    words = line.split(" ")
    environment = {
        "_BOOSTMETRIC_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(app, [], prog_name="boostmetric", env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("boostmetric fit wine.csv --label k", ["kind"]),
        ("boostmetric fit wine.csv --ignore id,w", ["id,width", "id,weight"]),
        ("boostmetric fit wine.csv --columns w", ["width", "weight"]),
        ("boostmetric transform m.st wine.csv more.csv --id s", ["sku"]),
        ("boostmetric fit wine.npz --vector ", ["X", "kind"]),
        ("boostmetric report m.st wine.csv --text k", ["kind"]),
        ("boostmetric fit nothing.csv --label k", []),
        ("boostmetric fit --label k", []),
    ],
)
def test_columns_of_the_files_typed_before(line, names):
    assert completed(line) == names


def test_standard_input_is_not_read(monkeypatch):
    monkeypatch.setattr("boostmetric.tables.formats.standard_input", lambda: pytest.fail("a completion waits for it"))
    assert completed("boostmetric fit - wine.csv --label k") == ["kind"]


def test_commands_and_options():
    assert completed("boostmetric ev") == ["evaluate"]
    assert completed("boostmetric fit wine.csv --lab") == ["--label"]
    assert completed("boostmetric fit wine.csv --loss log") == ["logistic"]


def test_bash_completes_files_where_nothing_else_is_known():
    assert completed("boostmetric fit wi") == []  # and then bash lists files:
    # --show-completion prints the same, for the shell that runs the tests: there may be none.
    script = CliRunner().invoke(app, env={"_BOOSTMETRIC_COMPLETE": "source_bash"}, prog_name="boostmetric").stdout
    assert "complete -o default" in script
