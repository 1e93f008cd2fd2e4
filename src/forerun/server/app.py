"""The routes, each with all that its answer may be."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from forerun.engine import Engine
from forerun.errors import ForerunError
from forerun.server.answers import in_thread
from forerun.server.bodies import documented, read
from forerun.server.chat import ChatEndpoint, conversation
from forerun.server.completions import CompletionEndpoint
from forerun.server.config import ServerConfig
from forerun.server.endpoint import VERSION
from forerun.server.errors import ApiError, ErrorBody, refusal
from forerun.server.failures import Failures
from forerun.server.hosts import Hosts
from forerun.server.limits import BodyLimit
from forerun.server.logs import AccessLog, Count
from forerun.server.metrics import CONTENT_TYPE
from forerun.server.page import File, files, routes
from forerun.server.readers import Readers
from forerun.server.replies import error_response, json_response
from forerun.server.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    Sampling,
    TokenizeRequest,
)
from forerun.server.responses import (
    Chat,
    ChatChunk,
    Completions,
    Health,
    ModelCard,
    ModelList,
    Setup,
    Text,
    Tokens,
)
from forerun.server.security import Keys
from forerun.server.service import Service
from forerun.server.setup import setup

log = logging.getLogger("forerun.server")

S = TypeVar("S", bound=Sampling)

_WHY = {
    400: "The request cannot be used, and why",
    401: "No valid API key",
    404: "No such model",
    405: "The path takes another method",
    408: "The request took too long to arrive, or to answer",
    413: "The body is too large",
    429: "Too much waits; Retry-After says when to come again",
    500: "The server failed",
    503: "The server is going down",
}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route documents its errors."""
    return {s: {"model": ErrorBody, "description": _WHY[s]} for s in statuses}


def _streams(model: type) -> dict[int | str, dict[str, Any]]:
    """How a route documents that it may stream."""
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {200: {"model": model, "content": content, "description": "An answer, or a stream"}}


ANYWHERE = (400, 401, 405, 408, 413, 429, 500)
ASKED = (404, *ANYWHERE)
ANSWERED = (*ASKED, 503)


def create_app(engine: Engine, config: ServerConfig) -> FastAPI:
    """An app that serves `engine`. It starts the engine's thread, and closes it in the end.

    OptionError for a model without a tokenizer.
    """
    service = Service(engine, config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        app.state.draining = True
        await in_thread(engine.close)

    app = _app(lifespan=lifespan)
    _add_answers(app, service)
    _add_tokens(app, service)
    _add_state(app, service)
    _complete(app.openapi())
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
                                   **_errors(400, 405, 408, 413, 429, 500)})  # fmt: skip
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
    config, target = service.config, service.engine.target

    @app.post(
        "/v1/completions",
        response_model=None,
        responses=_streams(Completions) | _errors(*ANSWERED),
        openapi_extra=documented(CompletionRequest),
    )
    async def completions(http: Request) -> Response:
        """Continue a text, token ids, or several of either."""
        body = await taken(http, CompletionRequest)
        endpoint = CompletionEndpoint(body, service.tokenizer, target.eos)
        return await service.answer(http, endpoint, "cmpl")

    @app.post(
        "/v1/chat/completions",
        response_model=None,
        responses=_streams(Chat) | _errors(*ANSWERED),
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


def _add_tokens(app: FastAPI, service: Service) -> None:
    tokenizer, target = service.tokenizer, service.engine.target

    @app.post(
        "/tokenize",
        response_model=Tokens,
        responses=_errors(*ASKED),
        openapi_extra=documented(TokenizeRequest),
    )
    async def tokenize(http: Request) -> Response:
        """The ids that a text or a conversation becomes."""
        body = await read(http, TokenizeRequest)
        service.named(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise ApiError(400, "give either prompt or messages", param="prompt")
        talk = None if body.messages is None else conversation(body.messages)
        letters = sum(len(one.get("content", "")) for one in talk or ()) + len(body.prompt or "")
        service.check_tokens("prompt" if talk is None else "messages", letters, "letters")

        def encode() -> list[int]:
            if talk is not None:
                return tokenizer.encode_chat(talk)
            start = [tokenizer.bos] if body.add_special_tokens and tokenizer.adds_bos else []
            return [i for i in (*start, *tokenizer.encode(body.prompt or "")) if i is not None]

        def reply() -> str:
            ids = encode()
            names = [tokenizer.token_text(i) for i in ids] if body.return_token_strs else None
            return Tokens(
                count=len(ids), max_model_len=target.context, tokens=ids, token_strs=names
            ).to_json()

        return json_response(await in_thread(reply))

    @app.post(
        "/detokenize",
        response_model=Text,
        responses=_errors(*ASKED),
        openapi_extra=documented(DetokenizeRequest),
    )
    async def detokenize(http: Request) -> Response:
        """The text of ids; special tokens have none."""
        body = await read(http, DetokenizeRequest)
        service.named(body.model)
        service.check_tokens("tokens", len(body.tokens), "ids")

        def reply() -> str:
            return Text(prompt=tokenizer.decode(body.tokens)).to_json()

        return json_response(await in_thread(reply))


def _add_state(app: FastAPI, service: Service) -> None:
    config, target = service.config, service.engine.target

    def card(name: str) -> ModelCard:
        return ModelCard(
            id=name, object="model", created=service.created, owned_by="forerun",
            max_model_len=target.context,
        )  # fmt: skip

    @app.get("/v1/models", responses=_errors(*ANYWHERE))
    async def models() -> ModelList:
        """The names the model answers to."""
        return ModelList(object="list", data=[card(name) for name in config.models])

    @app.get("/v1/models/{model:path}", responses=_errors(404, *ANYWHERE))
    async def model(model: str) -> ModelCard:
        return card(service.named(model))

    told = setup(service)

    @app.get("/v1/forerun/setup", responses=_errors(*ANYWHERE))
    async def of_this_server() -> Setup:
        """What the server runs, and what passes cost here: for pages that show it."""
        return told

    @app.get("/metrics", response_class=Response, responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_errors(*ANYWHERE),
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


def _complete(schema: dict[str, Any]) -> None:
    """What routes read and stream themselves, which FastAPI does not see; without 422, which is 400
    here."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    read = (CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest)
    _, found = models_json_schema(
        [*((model, "validation") for model in read), (ChatChunk, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schema["components"]["schemas"].update(found["$defs"])
