"""``python -m benchmarks [--data-dir DIR] [--device D] [names ...]``: run, print tables, write results."""

import argparse
import json
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from benchmarks import (
    LeftOutError,
    ablation,
    adapters,
    billion,
    clicks,
    cluster,
    cold_start,
    dimension,
    embeddings,
    gpu,
    growth,
    iteration,
    judge,
    large,
    learners,
    lmnn,
    many_points,
    mining,
    parts,
    peers,
    pydml,
    ranking,
    release,
    roofline,
    rounds,
    same_interface,
    scaling,
    stream,
    tenants,
    variants,
)
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.environment import machine
from boostmetric.storage.files import replacing

BENCHMARKS = {
    "iteration": iteration.run,
    "cold_start": cold_start.run,
    "peers": peers.run,
    "stream": stream.run,
    "roofline": roofline.run,
    "scaling": scaling.run,
    "billion": billion.run,
    "mining": mining.run,
    "parts": parts.run,
    "dimension": dimension.run,
    "learners": learners.run,
    "lmnn": lmnn.run,
    "many_points": many_points.run,
    "metric_learn": same_interface.run,
    "ablation": ablation.run,
    "adapters": adapters.run,
    "clicks": clicks.run,
    "pydml": pydml.run,
    "variants": variants.run,
    "embeddings": embeddings.run,
    "ranking": ranking.run,
    "growth": growth.run,
    "gpu": gpu.run,
    "cluster": cluster.run,
    "rounds": rounds.run,
    "large": large.run,
    "judge": judge.run,
    "tenants": tenants.run,
    "release": release.run,
}
# Those that run on the device given, with results for each.
_ON_A_DEVICE = ("growth",)
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which to run: {', '.join(BENCHMARKS)}; all by default"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of data sets as .npz files")
    parser.add_argument("--device", default="cpu", help=f"device for {', '.join(_ON_A_DEVICE)}, such as cuda")
    arguments = parser.parse_args()
    for name in arguments.names or BENCHMARKS:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
        print(f"\n{name}: {BENCHMARKS[name].__doc__}")
        try:
            on_device = {"device": arguments.device} if name in _ON_A_DEVICE else {}
            rows = BENCHMARKS[name](arguments.data_dir, **on_device)
        except (MissingDataError, LeftOutError) as missing:
            print(f"Left out. {missing}")
            continue
        print_table(rows)
        record = {"benchmark": name, "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
        result = "_".join([name, *on_device.values()])
        with replacing(RESULTS / f"{result}.json") as temporary:
            temporary.write_text(json.dumps({**record, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def print_table(rows: list[dict[str, object]]) -> None:
    for keys, alike in groupby(rows, key=tuple):
        cells = [keys, *([format_cell(value) for value in row.values()] for row in alike)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(keys))]
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def format_cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
