"""The routes, each with all that its answer may be."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from forerun.engine import Engine
from forerun.errors import ForerunError
from forerun.openai.chat import ChatEndpoint
from forerun.openai.completions import CompletionEndpoint
from forerun.openai.endpoint import VERSION
from forerun.openai.errors import ApiError, refusal
from forerun.openai.requests import (
    ChatRequest,
    CompletionRequest,
    Sampling,
)
from forerun.openai.responses import (
    Chat,
    Completions,
    Health,
    ModelCard,
    ModelList,
    Setup,
)
from forerun.server.backend import Backend, EngineBackend
from forerun.server.bodies import read
from forerun.server.config import ServerConfig
from forerun.server.failures import Failures
from forerun.server.hosts import Hosts
from forerun.server.limits import BodyLimit
from forerun.server.logs import AccessLog, Count
from forerun.server.metrics import CONTENT_TYPE
from forerun.server.page import File, files, routes
from forerun.server.readers import Readers
from forerun.server.replies import error_response
from forerun.server.schema import ANSWERED, ANYWHERE, complete, documented, errors, streams
from forerun.server.security import Keys
from forerun.server.service import Service
from forerun.server.tokens import add_tokens

log = logging.getLogger("forerun.server")

S = TypeVar("S", bound=Sampling)


def create_app(engine: Engine, config: ServerConfig) -> FastAPI:
    """An app that serves `engine`. It starts the engine's thread, and closes it in the end.

    OptionError for a model without a tokenizer.
    """
    return serving(EngineBackend(engine, config.models[0]), config)


def serving(backend: Backend, config: ServerConfig) -> FastAPI:
    """An app whose answers come from `backend`, which it starts and closes."""
    service = Service(backend, config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        backend.start()
        yield
        app.state.draining = True
        await backend.close()

    app = _app(lifespan=lifespan)
    _add_answers(app, service)
    add_tokens(app, service)
    _add_state(app, service)
    complete(app.openapi())
    _finish(app, config, files("key" if config.api_keys else "open"), service.metrics.answered)
    return app


def create_page(config: ServerConfig) -> FastAPI:
    """The page and its recordings, without an engine."""
    app = _app(openapi_url=None)
    _finish(app, config, files("none"), lambda path, status: None)
    return app


def _app(**options: Any) -> FastAPI:
    app = FastAPI(
        title="forerun",
        version=VERSION,
        description="An OpenAI-compatible server with lossless speculative decoding.",
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        **options,
    )
    app.state.draining = False

    @app.get("/health", responses={503: {"model": Health, "description": "Going down"},
                                   **errors(400, 405, 408, 413, 429, 500)})  # fmt: skip
    async def health(response: Response) -> Health:
        """Whether the server takes requests. Needs no key."""
        response.status_code = 503 if app.state.draining else 200
        return Health(status="draining" if app.state.draining else "ok")

    return app


def _finish(app: FastAPI, config: ServerConfig, page: Mapping[str, File], count: Count) -> None:
    """The page, and what lies around all routes."""
    paths = {"/openapi.json", *page, *(route.path for route in app.routes)}  # type: ignore[attr-defined]
    app.routes.extend(routes(page))
    _add_handlers(app)
    app.add_middleware(Readers, seconds=config.body_timeout)
    app.add_middleware(Failures)
    app.add_middleware(
        BodyLimit, most=config.max_body, together=config.max_bodies, seconds=config.body_timeout
    )
    app.add_middleware(
        Keys, keys=config.api_keys, metrics=config.metrics_keys, open={"/health", *page}
    )
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=config.cors_origins, allow_methods=["GET", "POST"],
            allow_headers=["*"], expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    app.add_middleware(Hosts, hosts=config.hosts)
    app.add_middleware(AccessLog, count=count, texts=config.log_prompts, paths=paths)


def _add_answers(app: FastAPI, service: Service) -> None:
    config = service.config

    @app.post(
        "/v1/completions",
        response_model=None,
        responses=streams(Completions) | errors(*ANSWERED),
        openapi_extra=documented(CompletionRequest),
    )
    async def completions(http: Request) -> Response:
        """Continue a text, token ids, or several of either."""
        body = await taken(http, CompletionRequest)
        endpoint = CompletionEndpoint(body, service.tokenizer, service.facts.eos)
        return await service.answer(http, endpoint, "cmpl")

    @app.post(
        "/v1/chat/completions",
        response_model=None,
        responses=streams(Chat) | errors(*ANSWERED),
        openapi_extra=documented(ChatRequest),
    )
    async def chat(http: Request) -> Response:
        """Answer a conversation. A stream's events are `ChatChunk`s."""
        body = await taken(http, ChatRequest)
        endpoint = ChatEndpoint(body, service.tokenizer, config.default_max_tokens)
        return await service.answer(http, endpoint, "chatcmpl")

    async def taken(http: Request, model: type[S]) -> S:
        """The body, noted for the log. ApiError for what is not supported."""
        body = await read(http, model)
        if body.unknown:
            http.scope["state"]["unknown"] = [name[:40] for name in body.unknown[:16]]
        if config.log_prompts:
            http.scope["state"]["request"] = body.model_dump(exclude_unset=True)
        body.check_supported()
        return body


def _add_state(app: FastAPI, service: Service) -> None:
    config, facts = service.config, service.facts

    def card(name: str) -> ModelCard:
        return ModelCard(
            id=name, object="model", created=service.created, owned_by="forerun",
            max_model_len=facts.context,
        )  # fmt: skip

    @app.get("/v1/models", responses=errors(*ANYWHERE))
    async def models() -> ModelList:
        """The names the model answers to."""
        return ModelList(object="list", data=[card(name) for name in config.models])

    @app.get("/v1/models/{model:path}", responses=errors(404, *ANYWHERE))
    async def model(model: str) -> ModelCard:
        return card(service.named(model))

    @app.get("/v1/forerun/setup", responses=errors(*ANYWHERE))
    async def of_this_server() -> Setup:
        """What the server runs, and what passes cost here: for pages that show it."""
        return facts.setup

    @app.get("/metrics", response_class=Response, responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **errors(*ANYWHERE),
    })  # fmt: skip
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(http: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(ForerunError)
    async def refused(http: Request, error: ForerunError) -> Response:
        return error_response(refusal(error))

    @app.exception_handler(HTTPException)
    async def of_http(http: Request, error: HTTPException) -> Response:
        """No such path, another method, a body that is no JSON."""
        path = http.url.path[:200]
        said = {
            404: f"there is nothing at {path}",
            405: f"{http.method} is not for {path}",
            400: "the body cannot be read: send JSON, with content-type: application/json",
        }
        api = ApiError(error.status_code, said.get(error.status_code, str(error.detail)))
        api.headers.update(error.headers or {})
        return error_response(api)
