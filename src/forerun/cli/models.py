"""`forerun models`: the named models, fetching one, and what its passes cost."""

from __future__ import annotations

import json as json_
from typing import Annotated

import typer

from forerun.cli.options import BACKEND, DEVICE, DTYPE, THREADS, Settings
from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import size_text, whole
from forerun.models import store
from forerun.models.cost import ROWS, target_seconds
from forerun.models.cost import backend as backend_of
from forerun.models.load import load_model

app = typer.Typer(
    name="models",
    help="List the models known by name, fetch one, or measure its passes.",
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


@app.command()
def cost(
    name: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="A model, as -m takes it elsewhere.")
    ],
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help=BACKEND)] = "auto",
    dtype: Annotated[str, typer.Option("--dtype", metavar="NAME", help=DTYPE)] = "float32",
    device: Annotated[str, typer.Option("--device", metavar="NAME", help=DEVICE)] = "cpu",
    threads: Annotated[
        int | None, typer.Option("-t", "--threads", parser=whole, metavar="N", help=THREADS)
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", metavar="", help="Measure again what is known.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on standard output.")
    ] = False,
    no_color: Annotated[bool, _NO_COLOR] = False,
) -> None:
    """Seconds of a pass over 1 to 64 new rows: by them --num-draft auto decides.

    Medians of interleaved repeats behind 128 cached tokens, of one request; beyond 16 rows, which
    only a batch has, up to those that take a quarter of a second. They are kept in the cache and
    measured again for another version, processor, file or number of threads.
    """
    screen = Screen(no_color=no_color)
    settings = Settings(model=name, backend=backend, dtype=dtype, device=device, threads=threads)
    settings.check()
    with screen.working(f"loading {name}") as fetched:
        loading = settings.loading()
        model = load_model(name, cache=cache_folder(), progress=fetched, **loading)
    with screen.working(f"measuring passes of {model.name}"):
        found = target_seconds(model, cache=cache_folder(), refresh=refresh)
    seconds = {n: s for n, s in enumerate(found, start=1) if n in ROWS}
    if json:
        told = {
            "seconds": {str(n): s for n, s in seconds.items()},
            "model": model.name,
            "backend": backend_of(model),
            "threads": loading["threads"],
        }
        typer.echo(json_.dumps(told, ensure_ascii=False))
        return
    rows = [(str(n), f"{1000 * s:.2f} ms", f"{s / seconds[1]:.2f}") for n, s in seconds.items()]
    screen.table(("ROWS", "PASS", "TO ONE ROW"), rows)
