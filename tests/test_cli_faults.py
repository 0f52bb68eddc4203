"""What goes wrong outside the program: full disks, signals, outputs that cannot be written."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.cli import app
from boostmetric.cli.fit_run import Interrupt
from boostmetric.cli.model_output import claimed
from boostmetric.export import to_numpy, to_sentence_transformers
from boostmetric.storage import tensor_file
from boostmetric.storage.files import new_folder, replacing

METRIC = MahalanobisMetric(np.eye(3))
QUICK = ["--label", "y", "--init", "identity", "--solver", "stagewise", "--passes", "1", "--max-iter", "5"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def message(result):
    """As one line: typer's errors come in a box."""
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def wine(tmp_path):
    X, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", X=X, y=y)
    return tmp_path / "wine.npz"


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A folder on a disk that is full, as safetensors reports it."""
    folder, save_file = tmp_path / "full", tensor_file.save_file

    def save(tensors, path, metadata):
        if folder in Path(path).parents:
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        save_file(tensors, path, metadata)

    monkeypatch.setattr(tensor_file, "save_file", save)
    return folder


def test_a_full_disk_is_an_os_error_that_names_the_file(full):
    with pytest.raises(OSError, match="No space left on device") as caught:
        METRIC.save(full / "model.safetensors")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(full / "model.safetensors"))
    assert list(full.iterdir()) == []


@pytest.mark.parametrize("temporary_of", [replacing, new_folder])
def test_only_errors_of_writing_name_the_output(tmp_path, temporary_of):
    def write(error):
        with temporary_of(tmp_path / "output"):
            raise error

    with pytest.raises(OSError, match="output") as caught:
        write(OSError(errno.EDQUOT, "Disk quota exceeded"))  # of a file that is already open: it names none
    assert caught.value.errno == errno.EDQUOT
    with pytest.raises(FileNotFoundError, match="input"):
        write(FileNotFoundError(errno.ENOENT, "No such file", "input"))
    with pytest.raises(OSError, match="all is well with the disk"):
        write(OSError("all is well with the disk"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_an_index_of_faiss_is_not_written_in_part(tmp_path, monkeypatch):
    # faiss itself prints that it could not close the file, and goes on.
    to_faiss = pytest.importorskip("boostmetric.export").to_faiss
    pytest.importorskip("faiss")
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_RDWR), "/dev/full"))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(OSError, match="No space left on device"):
        to_faiss(METRIC, tmp_path / "metric.faiss")


def test_a_learned_model_is_saved_elsewhere_if_the_disk_is_full(wine, full, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run("fit", wine, *QUICK, "-o", full / "model.safetensors", code=1)
    assert f"{full}/model.safetensors cannot be written: No space left on device." in result.stderr
    (other,) = tmp_path.glob("boostmetric-*/model.safetensors")
    assert f"The learned model is in {other} instead" in result.stderr
    assert MahalanobisMetric.load(other).components.shape[1] == 13


def test_a_model_that_can_be_saved_nowhere_can_be_learned_again_from_the_checkpoint(wine, full, monkeypatch):
    def no_folder(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", no_folder)
    result = run("fit", wine, *QUICK, "-o", full / "model.safetensors", code=1)
    assert "It could not be written elsewhere either. Free some space, and run the same command" in result.stderr
    assert [path.name for path in full.iterdir()] == ["model.safetensors.checkpoint.npz"]


def test_a_fit_outlives_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    learner = BoostMetric.paper(max_iter=5, callbacks=[Checkpoint(tmp_path / "file" / "checkpoint.npz", every=5)])
    with pytest.warns(RuntimeWarning, match=r"No checkpoint: .*checkpoint\.npz cannot be written"):
        assert learner.fit(*load_wine(return_X_y=True)).n_iter_ == 5


@pytest.mark.skipif(os.name != "posix", reason="no umask")
def test_files_of_an_export_have_the_permissions_of_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        to_numpy(METRIC, tmp_path / "metric.npy")
        unit = MahalanobisMetric(np.eye(3), normalize=True)
        to_sentence_transformers(unit, tmp_path / "modules")
    finally:
        os.umask(before)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path


@pytest.mark.parametrize("command", ["fit", "export", "transform"])
def test_an_output_that_cannot_be_written_is_found_before_any_work(tmp_path, command):
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "deep" / "model.npz"
    arguments = {
        "fit": ["missing.npz", "--label", "y"],
        "export": ["missing.safetensors", "--to", "sentence-transformers"],
        "transform": ["missing.safetensors", "missing.npz"],
    }[command]
    said = message(run(command, *arguments, "-o", output, code=2))
    assert "cannot be written" in said
    assert "Not a directory. Give another name." in said


@pytest.mark.skipif(os.name != "posix", reason="no locks")
def test_two_fits_do_not_write_one_output(wine, tmp_path):
    output = tmp_path / "model.safetensors"
    with claimed(output):
        assert "Another fit is about to write" in message(run("fit", wine, *QUICK, "-o", output, "--force", code=2))
    assert not output.exists()
    run("fit", wine, *QUICK, "-o", output)
    assert not list(tmp_path.glob(".*"))  # no lock is left


class Terminate:
    def on_iteration(self, record):
        if record.number == 2:
            signal.raise_signal(signal.SIGTERM)
        return False


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_sigterm_keeps_the_best_so_far(capfd):
    with Interrupt(choosing=False) as interrupt:
        metric = BoostMetric.paper(max_iter=50, callbacks=[Terminate(), interrupt]).fit(*load_wine(return_X_y=True))
    assert interrupt.asked
    assert metric.n_iter_ == 2
    assert "Stopping after this iteration" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_sigterm_ends_other_commands_as_ctrl_c_does(wine, monkeypatch):
    monkeypatch.setattr(MahalanobisMetric, "load", lambda path: signal.raise_signal(signal.SIGTERM))
    result = run("evaluate", "model.safetensors", wine, "--label", "y", code=130)
    assert result.stderr == "Interrupted.\n"


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_ctrl_c_before_a_command_begins_shows_no_traceback():
    # While what a command needs is imported.
    program = """
import signal
import importlib.util
import boostmetric.__main__ as program
importlib.util.find_spec = lambda name: signal.raise_signal(signal.SIGINT)
program.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


FEW = "x,part,kind\n" + "".join(f"{i / 4},{i % 5 / 2},{'ab'[i % 2]}\n" for i in range(40))


@pytest.fixture
def few(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text(FEW)
    Path("one.csv").write_text("".join(FEW.splitlines(keepends=True)[:2]))
    Path("bare.csv").write_text("w0,14.23,1.71,a\nw1,13.2,1.78,b\n")
    Path("twice.csv").write_text("a,1,1\nb,2,3\n")
    Path("red.csv").write_text("red,3\nblue,4\n")
    np.save("X.npy", np.eye(2))
    Path("same.csv").write_text("x,kind\n" + "1,a\n1,b\n" * 10)
    Path("ids.csv").write_text("id,0,1\na,0.5,1\nb,1.5,2\n")
    MahalanobisMetric(np.eye(1)).save("model.st")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("fit one.csv --label kind --ignore part", 1, "one.csv: one row is too few to learn from"),
        ("fit one.csv --comparisons t.csv --ignore part,kind", 1, "one.csv: one row is too few to learn from"),
        (
            "evaluate model.st one.csv --label kind --ignore part",
            1,
            "column 'kind': 'a' is the only label (1 row). Give",
        ),
        ("mine one.csv --label kind --ignore part -o t.npz", 1, "column 'kind': 'a' is the only label (1 row). Give"),
        ("evaluate model.st few.csv --label kind --ignore part --reference few.csv", 2, "Leave --reference out"),
        (
            "watch model.st one.csv --ignore part,kind --reference few.csv",
            1,
            "1 new point and 40 of the reference are too few",
        ),
        ("fit few.csv --label kind -o x.pkl", 2, "Call it x.safetensors"),
        ("fit few.csv --label kind -o x.pkl --dry-run", 2, "Call it x.safetensors"),
        ("fit few.csv --label x --ignore kind", 1, "few.csv, column 'x': each of the 40 values occurs once"),
        ("fit few.csv --label kind --where kind=a", 1, "few.csv, column 'kind': 'a' is the only label (20 rows). Give"),
        ("fit same.csv --label kind", 1, "same.csv: all 20 rows have the same features"),
        ("fit https://example.org/few.csv --label kind", 1, "https://example.org/few.csv is an address. Download"),
        ("fit bare.csv --label a", 1, "the file seems to have no header"),
        ("fit twice.csv --label a", 1, "the same number stands for several columns: the file seems to have no header"),
        ("fit red.csv --label kind", 2, "It has 'red', '3'. If the first line is a row of data, add a line of names"),
        ("fit X.npy --label y.npy", 2, "X.npy: there is no file of labels 'y.npy'. Give the name of an .npy file"),
        ("fit X.npy --label y", 2, "X.npy: there is no column of labels 'y': an .npy file is one array. Give the"),
        (
            "fit X.npy --label X.npy --vector v",
            2,
            "no column of vectors 'v': an .npy file is one array. Leave the name",
        ),
        ("fit few.csv --label kind --neighbors x", 2, "'x'"),
        ("fit few.csv --label kind --loss x", 2, "Invalid value for '--loss': 'x' is not one of"),
        ("fit few.csv --label kind --where part>a", 2, "a number must follow >"),
        ("fit few.csv --label kind --where kind<1 --ignore part", 2, "has 'a', which is not a number"),
        ("fit few.csv --label kind --where part>9", 2, "no row satisfies part>9"),
        ("fit few.csv --label kind --where =1", 2, "is not of the form COLUMN=VALUE"),
        ("evaluate https://example.org/model.st few.csv --label kind", 2, "is an address. Download the file"),
        ("evaluate few.csv model.st --label kind", 2, "few.csv is not a model but a table. The model comes first"),
        ("evaluate model.st few.csv --label kind --ignore part --rank 2", 2, "it cannot be cut to 2 dimensions"),
        ("evaluate model.st few.csv --label kind --ignore part -k 99", 2, "-k=99 asks for more results"),
        ("evaluate few.csv.gz few.csv --label kind", 2, "few.csv.gz is not a model but a table. The model comes first"),
        ("evaluate model.st few.csv --label kind --against few.csv", 2, "--against: few.csv is not a model but"),
        ("fit few.csv --label kind --init few.csv", 2, "--init: few.csv is not a model but a table. "),
        ("evaluate model.st few.csv --label kind --ignore part --neighbors 99", 2, "--neighbors=99 asks for more"),
        ("evaluate model.st few.csv --label kind --ignore part --seed -1", 2, "greater than or equal to 0"),
        ("search model.st few.csv --queries few.csv --ignore part,kind -k 99", 2, "-k=99 is more than the 40 points"),
        ("fit few.csv --label king", 2, "there is no column of labels 'king'. It has"),
        ("fit few.csv --label kind --columns y", 2, "there is no column of features 'y'"),
        ("fit few.csv --label kind --where part=7", 2, "no row has '7' in column 'part'"),
        (
            "evaluate model.st few.csv --label kind --where kind=a --ignore part --reference-where kind=b",
            1,
            "few.csv, column 'kind': 'b' is the only label (20 rows). Give rows of at least two classes",
        ),
    ],
)
def test_messages_say_what_to_do(few, arguments, code, said):
    result = run(*arguments.split(), code=code)
    assert said in message(result)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("condition", "n"), [("part<1", 16), ("part<=1", 24), ("part>1", 16), ("part>=1.0", 24), ("part!=2.0", 32)]
)
def test_rows_are_chosen_by_order(few, condition, n):
    done = run("fit", "few.csv", "--label", "kind", "--where", condition, "--dry-run")
    assert f"few.csv: CSV, {n} points with 1 feature\n" in done.stdout


@pytest.mark.parametrize(("condition", "n"), [("price<2.5", 10), ("price>=2", 32), ("price!=2.5", 39)])
def test_rows_are_chosen_by_a_column_of_fractions(few, condition, n):
    np.savez("few.npz", X=np.arange(40.0)[:, None], y=np.arange(40) % 2, price=np.arange(40) / 4)
    done = run("fit", "few.npz", "--label", "y", "--where", condition, "--dry-run")
    assert f"few.npz: npz, {n} point{'s' if n > 1 else ''} with 1 feature\n" in done.stdout


def test_a_folder_of_output_that_cannot_be_written_is_found_before_learning(tmp_path, monkeypatch):
    def refused(dir):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    assert "cannot be used as a folder: Permission denied" in message(run("demo", "-o", tmp_path / "new", code=2))


def test_numbers_may_name_columns(few):
    done = run("transform", "model.st", "ids.csv", "--id", "id", "--columns", "1", "-o", "out.npz")
    assert "2 points" in done.stdout


def test_flags_take_no_value_in_help():
    shown = " ".join(run("evaluate", "--help").stdout.replace("│", " ").split())
    assert "--help Show this message and exit." in shown
    assert "--json Print one JSON object instead of text." in shown
    shown = " ".join(run("--help").stdout.replace("│", " ").split())
    assert "--help Show this message and exit." in shown
    assert "--version Print the version and exit." in shown
