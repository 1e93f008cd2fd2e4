"""`forerun models`: the named models, and fetching one."""

from __future__ import annotations

import json as json_
from typing import Annotated

import typer

from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import size_text
from forerun.models import store

app = typer.Typer(
    name="models",
    help="List the models known by name, or fetch one.",
    no_args_is_help=False,
    invoke_without_command=True,
)

_NO_COLOR = typer.Option("--no-color", metavar="", help="No colours or styles.")


@app.callback()
def models(
    context: typer.Context,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on standard output.")
    ] = False,
    no_color: Annotated[bool, _NO_COLOR] = False,
) -> None:
    """List the models known by name: what is here, where it came from, its licence and size.

    A model is fetched on first use, or by `forerun models pull NAME`. The folder is the user's
    cache, or FORERUN_CACHE. Any GGUF file, model folder or hub id works with -m too.
    """
    if context.invoked_subcommand is not None:
        return
    here = {model.name: model for model in store.installed(cache_folder())}
    if json:
        listed = [
            {
                "name": model.name,
                "source": model.source,
                "licence": model.licence,
                "bytes": model.bytes,
                "path": str(here[model.name].path) if model.name in here else None,
            }
            for model in store.known()
        ]
        typer.echo(json_.dumps({"models": listed}, ensure_ascii=False))
        return
    rows = [
        (
            model.name,
            model.source,
            model.licence,
            size_text(model.bytes),
            str(here[model.name].path)
            if model.name in here
            else f"not here; forerun models pull {model.name}",
        )
        for model in store.known()
    ]
    Screen(no_color=no_color).table(("NAME", "FROM", "LICENCE", "SIZE", "PATH"), rows)


@app.command()
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that `models` lists.")],
    no_color: Annotated[bool, _NO_COLOR] = False,
) -> None:
    """Fetch a named model into the cache, unless it is there, and print its path."""
    screen = Screen(no_color=no_color)
    with screen.working(f"looking for {name}") as fetched:
        path = store.pull(name, cache=cache_folder(), progress=fetched)
    screen.line(str(path))
