"""Options from a TOML file: ``boostmetric --config FILE COMMAND``."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer


def read_config(path: Path, commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Read options of commands, one table for each, as the defaults of their parameters by name."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refusal(f"{path} is not TOML: {error}.") from None
    except OSError as error:
        raise _refusal(f"{path}: {error.strerror}.") from None
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if name not in commands or not isinstance(table, dict):
            raise _refusal(
                f"{path} has {name!r} at its top, where only tables of options belong, named like a command: "
                f"{', '.join(f'[{command}]' for command in commands)}."
            )
        known = _parameters(commands[name])
        found[name] = {}
        for key, value in table.items():
            parameter = known.get(key.replace("_", "-"))
            if parameter is None:
                like = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
                hint = f"Is {like[0]!r} meant?" if like else f"There are: {', '.join(known)}."
                raise _refusal(f"{path}, [{name}]: there is no option {key!r}. {hint}")
            several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
            found[name][parameter.name] = [value] if several and not isinstance(value, list) else value
    return found


def _parameters(command: Any) -> dict[str, Any]:
    """Parameters of a command by the names of its options without dashes, and of its arguments."""
    return {name.lstrip("-").replace("_", "-"): parameter for parameter in command.params for name in parameter.opts}


def _refusal(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--config")
