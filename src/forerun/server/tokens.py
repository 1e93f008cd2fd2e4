"""Texts and ids: `/tokenize`, `/detokenize`, `/tokenizer_info`, in vLLM's shapes."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from forerun.openai.chat import conversation
from forerun.openai.errors import ApiError
from forerun.openai.requests import DetokenizeRequest, TokenizeRequest
from forerun.openai.responses import Text, TokenizerInfo, Tokens
from forerun.server.answers import in_thread
from forerun.server.bodies import read
from forerun.server.replies import json_response
from forerun.server.schema import ANYWHERE, ASKED, documented, errors
from forerun.server.service import Service
from forerun.text.tokenizer import Tokenizer


def add_tokens(app: FastAPI, service: Service) -> None:
    tokenizer, context = service.tokenizer, service.facts.context
    names = {tokenizer.token_text(token) for token in tokenizer.special}
    info = _info(tokenizer)

    @app.post(
        "/tokenize",
        response_model=Tokens,
        responses=errors(*ASKED),
        openapi_extra=documented(TokenizeRequest),
    )
    async def tokenize(http: Request) -> Response:
        """The ids that a text or a conversation becomes. The name of a special token and nothing
        else is that token; within a text it is letters, as in a prompt."""
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
            text = body.prompt or ""
            ids = tokenizer.encode(text, special=text in names)
            if body.add_special_tokens and tokenizer.adds_bos and tokenizer.bos is not None:
                return [tokenizer.bos, *ids]
            return ids

        def reply() -> str:
            ids = encode()
            shown = [tokenizer.token_text(i) for i in ids] if body.return_token_strs else None
            return Tokens(
                count=len(ids), max_model_len=context, tokens=ids, token_strs=shown
            ).to_json()

        return json_response(await in_thread(reply))

    @app.post(
        "/detokenize",
        response_model=Text,
        responses=errors(*ASKED),
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

    @app.get("/tokenizer_info", responses=errors(*ANYWHERE))
    async def tokenizer_info() -> TokenizerInfo:
        """Names of special tokens, and the chat template: what a client needs beside /tokenize."""
        return info


def _info(tokenizer: Tokenizer) -> TokenizerInfo:
    roles = tokenizer.roles
    ends = [tokenizer.token_text(token) for token in sorted(tokenizer.eos)]
    bos = None if tokenizer.bos is None else tokenizer.token_text(tokenizer.bos)
    return TokenizerInfo(
        bos_token=roles.get("bos_token", bos),
        eos_token=roles.get("eos_token", ends[0] if ends else None),
        pad_token=roles.get("pad_token"),
        chat_template=tokenizer.chat_template,
    )
