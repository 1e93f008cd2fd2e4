"""Who may ask: API keys, compared in constant time, before a body is read.

A key is its client's tenant: pages of the prefix cache and the drafters' memory are shared within
it alone. Tenants are digests, so that no key is kept where it is not needed. `/health` needs none,
nor does the page, which is the same for everybody.

`/metrics` has keys of its own: counters that move with each round tell one tenant how another's
drafts were accepted.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from forerun.openai.errors import ApiError
from forerun.server.replies import error_response

METRICS = "/metrics"


class Keys:
    """ASGI: 401 for a request without one of `keys`; none given: everybody may ask. Paths in `open`
    need none."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Sequence[str],
        metrics: Sequence[str] = (),
        open: Collection[str] = (),
    ) -> None:
        self._app, self._open = app, open
        self._digests = [_digest(key) for key in keys]
        self._metrics = [_digest(key) for key in metrics]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open:
            counts = scope["path"] == METRICS
            wanted = self._metrics if counts else self._digests
            if wanted or self._digests:
                tenant = self.tenant(Headers(scope=scope).get("authorization", ""), wanted)
                if tenant is None:
                    what = "a metrics key (--metrics-key)" if counts else "a valid API key"
                    error = ApiError(401, f"{what} is needed: Authorization: Bearer KEY")
                    error.headers["www-authenticate"] = "Bearer"
                    await error_response(error)(scope, receive, send)
                    return
                scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)

    def tenant(self, authorization: str, digests: Sequence[str] | None = None) -> str | None:
        """The client's, by its header; None without a valid key. Every key is compared."""
        kind, _, key = authorization.partition(" ")
        given = _digest(key.strip())
        found = None
        for digest in self._digests if digests is None else digests:
            if hmac.compare_digest(digest, given):
                found = digest
        return found if kind.lower() == "bearer" else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
