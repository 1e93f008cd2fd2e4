"""`forerun certify --check`: a report's numbers, computed again from its samples."""

from __future__ import annotations

import json as json_
import tempfile
from pathlib import Path

import typer

from forerun.certify import check
from forerun.certify.references import references
from forerun.cli.screen import BAD, STRONG, Screen
from forerun.cli.session import cache_folder
from forerun.errors import OptionError


def recheck(screen: Screen, file: Path, *, json: bool) -> None:
    try:
        made = json_.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"--check {file}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise OptionError(f"--check {file} is no report: {error}") from None
    with tempfile.TemporaryDirectory(prefix="forerun-certify-") as folder:
        try:
            found = check.mismatches(
                made,
                lambda models, last: references(models, last, cache_folder(), Path(folder)),
            )
        except (LookupError, TypeError) as error:
            raise OptionError(f"--check {file} is no whole report: {error!r}") from error
    if json:
        screen.line(json_.dumps({"mismatches": found, "verdict": made["verdict"]}))
    else:
        for line in found:
            screen.line(line, BAD)
        said = "does not follow from its samples" if found else "follows from its samples"
        screen.line(f"{file}: {made['verdict']}, which {said}", BAD if found else STRONG)
    code = 2 if found else made["exit_code"]
    if code:
        raise typer.Exit(code)
