"""The playground: files that were built beforehand (`web/`), served from memory to everybody.

The page asks for nothing beyond its own origin, and its headers keep it so. What the server has for
it stands in the page itself, in place of `data-server="none"`: "open", or "key" where the API wants
one; the page must not ask to find out. A checkout in which nothing was built has a page that says
with which command it is.

What this module does not know: the engine, and who may use it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SITE = Path(__file__).parent / "site"
"""Where `web/` is built to, and what wheels hold."""

COMMAND = "make page"

Server = Literal["none", "open", "key"]
"""What the page finds behind it: recordings alone, an API, or one that wants a key."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_PACKED = (".html", ".js", ".css", ".json", ".svg", ".txt")  # what gets smaller by gzip

HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_FOR_EVER = "public, max-age=31536000, immutable"  # names under assets/ hold a digest of the file

_NOT_BUILT = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>forerun: the page is not built</title></head>
<body>
<h1>The playground is not built yet</h1>
<p>Run <code>{COMMAND}</code> in the checkout of forerun, and start the server again.</p>
<h1 lang="zh">演示页尚未构建</h1>
<p lang="zh">请在 forerun 的代码目录中运行 <code>{COMMAND}</code>，然后重新启动服务器。</p>
</body>
</html>
"""


@dataclass(frozen=True, kw_only=True)
class File:
    """One file as it is sent."""

    body: bytes
    packed: bytes | None  # the same, gzipped
    type: str
    tag: str
    cache: str = "no-cache"
    status: int = 200

    @classmethod
    def of(cls, name: str, body: bytes, *, cache: str = "no-cache", status: int = 200) -> File:
        ending = Path(name).suffix
        return cls(
            body=body,
            packed=gzip.compress(body, mtime=0) if ending in _PACKED else None,
            type=_TYPES.get(ending, "application/octet-stream"),
            tag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
            cache=cache,
            status=status,
        )

    def response(self, headers: Headers) -> Response:
        """For a request with these headers."""
        packed = self.packed if "gzip" in headers.get("accept-encoding", "") else None
        told = {**HEADERS, "cache-control": self.cache, "etag": self.tag}
        if self.packed is not None:
            told["vary"] = "accept-encoding"
        if self.status == 200 and self.tag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=told)
        if packed is not None:
            told["content-encoding"] = "gzip"
        body = self.body if packed is None else packed
        return Response(body, self.status, headers=told, media_type=self.type)


def files(server: Server, site: Path = SITE) -> Mapping[str, File]:
    """What is served, by path; "/" always."""
    if not (site / "index.html").is_file():
        return {"/": File.of("index.html", _NOT_BUILT.encode(), cache="no-store", status=404)}
    return dict(_files(server, site))


def _files(server: Server, site: Path) -> Iterator[tuple[str, File]]:
    for path in sorted(path for path in site.rglob("*") if path.is_file()):
        name = path.relative_to(site).as_posix()
        body = path.read_bytes()
        if name == "index.html":
            page = body.replace(b'data-server="none"', f'data-server="{server}"'.encode())
            yield "/", File.of(name, page)
        else:
            yield (
                f"/{name}",
                File.of(name, body, cache=_FOR_EVER if name.startswith("assets/") else "no-cache"),
            )


def routes(found: Mapping[str, File]) -> list[Route]:
    """GET and HEAD of each."""

    def route(path: str, file: File) -> Route:
        async def get(http: Request) -> Response:
            return file.response(http.headers)

        return Route(path, get, methods=["GET"], include_in_schema=False)

    return [route(path, file) for path, file in found.items()]
