"""The recipes for pgvector, as docs/export.md has them, in a PostgreSQL of our own."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "export.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## pgvector\n")[2].partition("\n## ")[0]
PYTHON = re.findall(r"^```python\n(.*?)^```", SECTION, re.S | re.M)
SQL = re.findall(r"^```sql\n(.*?)^```", SECTION, re.S | re.M)


def programs():
    """The folder of a PostgreSQL that has the extension."""
    found = [Path(path) for path in [shutil.which("pg_config")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_config"), reverse=True)  # not all are on Debian's path
    for pg_config in found:
        asked = [pg_config, "--sharedir", "--bindir"]
        shared, folder = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
        if (Path(shared) / "extension" / "vector.control").exists() and (Path(folder) / "initdb").exists():
            return Path(folder)
    return pytest.skip("no PostgreSQL with the extension vector" if found else "no PostgreSQL")


@pytest.fixture(scope="module")
def psql():
    """A function that runs SQL in a new database, reached by a socket in a folder of its own and by nothing else."""
    binaries = programs()
    owner = {}
    if os.geteuid() == 0:  # whom PostgreSQL refuses
        try:
            postgres = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        owner = {"user": postgres.pw_uid, "group": postgres.pw_gid, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:  # pytest's is too long for the name of a socket
        if owner:
            os.chown(folder, owner["user"], owner["group"])

        def run(program, *arguments):
            command = [binaries / program, *arguments]
            # Not through pipes, which the server would inherit and keep open.
            with Path(folder, "output").open("w") as output:
                done = subprocess.run(command, cwd=folder, stdout=output, stderr=output, **owner)
            assert done.returncode == 0, Path(folder, "output").read_text()

        run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-F -p 5432 -c listen_addresses= -c unix_socket_directories={folder}"
        run("pg_ctl", "start", "-w", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options)

        where = ["-h", folder, "-p", "5432", "-U", "postgres", "-d", "postgres"]  # the port only names the socket

        def ask(sql, settings="", **variables):
            named = [f"--set={name}={value}" for name, value in {"ON_ERROR_STOP": 1, **variables}.items()]
            command = [binaries / "psql", "-X", "-q", "-A", "-t", *where, *named]
            environment = {**os.environ, "PGOPTIONS": settings}
            done = subprocess.run(command, input=sql, capture_output=True, text=True, env=environment)
            assert done.returncode == 0, done.stderr
            return done.stdout.split()

        try:
            yield ask
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", f"{folder}/data")


def test_recipes_find_the_learned_neighbors(psql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the Python block writes its files, and \copy reads them
    here = {}
    with redirect_stdout(StringIO()):
        exec(compile("\n".join(PYTHON), "<documentation>", "exec"), here)
    variables = {name: here[name] for name in ("asked", "transformed", "unit", "changed", "extended")}
    documents, query = here["documents"], here["query"]
    orders = {name: here[name].distance(query, documents).argsort() for name in ("metric", "cosine")}
    cosine = documents @ query / np.linalg.norm(documents, axis=1)
    candidates = set(cosine.argsort()[::-1][:100].tolist())

    asked = 0
    for block in SQL:
        if ":'" not in block:
            psql(block)
            continue
        asked += 1
        order = orders["cosine" if ":'unit'" in block else "metric"]
        expected = [number for number in order.tolist() if "candidates" not in block or number in candidates][:10]
        exactly = psql(block, "-c enable_indexscan=off", **variables)
        assert [int(number) for number in exactly] == expected, block
        by_index = psql(block, "-c enable_seqscan=off", **variables)
        assert len({int(number) for number in by_index} & set(expected)) >= 8, block  # a graph may miss some
        if "number" not in block:
            plan = psql(block.replace("select", "explain select"), "-c enable_seqscan=off", **variables)
            assert "_embedding_idx" in " ".join(plan)
    assert asked == 5
