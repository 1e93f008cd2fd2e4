/**
 * The API of the server that this page came from: what it runs, and texts it writes, round by round.
 * It asks nothing of any other. A key is kept as long as the page is open, and nowhere else.
 */

import { readCosts, type Costs } from "./recording";
import { either, flag, list, map, object, one, text, whole, type Read } from "./read";
import { readRound, type Round } from "./trace";

/** What stands behind the page: recordings alone, an API, or one that wants a key. */
export type Behind = "none" | "open" | "key";

/** What a server runs: GET /v1/forerun/setup. */
export interface Setup {
  readonly model: string;
  readonly vocab_size: number;
  readonly context: number | null;
  readonly chat: boolean;
  readonly backend: string;
  readonly threads: number | null;
  readonly processor: string;
  readonly drafters: readonly string[];
  readonly verifier: string;
  readonly num_draft: number | "auto";
  readonly costs: Costs | null;
}

const nothing: Read<null> = (value, at) => {
  if (value !== null) throw new TypeError(`${at} must be null`);
  return null;
};

export const readSetup: Read<Setup> = object(
  {
    model: text,
    vocab_size: whole,
    context: either(whole, nothing),
    chat: flag,
    backend: text,
    threads: either(whole, nothing),
    processor: text,
    drafters: list(text),
    verifier: text,
    num_draft: either(whole, one("auto")),
    costs: either(readCosts, nothing),
  },
  {},
);

export interface Wish {
  readonly prompt: string;
  readonly chat: boolean;
  readonly temperature: number;
  readonly num_draft: number;
  readonly verifier: string;
  readonly max_tokens: number;
  readonly seed?: number;
}

/** What an event of a stream adds. */
export interface Piece {
  readonly text: string;
  readonly rounds: readonly Round[];
  readonly words: Readonly<Record<string, string>>;
}

/** The server refused, or failed. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

function headers(key: string): Record<string, string> {
  return { "content-type": "application/json", ...(key === "" ? {} : { authorization: `Bearer ${key}` }) };
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  throw new ApiError(response.status, message(await response.json().catch(() => null)) ?? response.statusText);
}

function message(body: unknown): string | undefined {
  const found = (body as { error?: { message?: unknown } } | null)?.error?.message;
  return typeof found === "string" ? found : undefined;
}

export async function fetchSetup(key: string): Promise<Setup> {
  const response = await checked(await fetch("v1/forerun/setup", { headers: headers(key) }));
  return readSetup(await response.json(), "setup");
}

/** Has the model write; ends with the text. ApiError where the server says no, also in the middle. */
export async function* write(wish: Wish, key: string, signal: AbortSignal): AsyncGenerator<Piece> {
  const { prompt, chat, ...rest } = wish;
  const asked = chat ? { messages: [{ role: "user", content: prompt }] } : { prompt };
  const body = JSON.stringify({ ...asked, ...rest, stream: true, trace: "full" });
  const path = chat ? "v1/chat/completions" : "v1/completions";
  const response = await checked(await fetch(path, { method: "POST", headers: headers(key), body, signal }));
  if (response.body === null) throw new ApiError(response.status, "the answer has no body");
  for await (const event of events(response.body)) {
    const error = message(event);
    if (error !== undefined) throw new ApiError(500, error);
    yield piece(event);
  }
}

/** The JSON of each server-sent event; an end without "[DONE]" is an error. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new ApiError(500, "the stream broke off");
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const data = part.replace(/^data: /, "");
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

const rounds = list(readRound);
const words = map(text);

function piece(event: unknown): Piece {
  const choice = (event as { choices?: Record<string, unknown>[] }).choices?.[0] ?? {};
  const delta = choice["delta"] as { content?: unknown } | undefined;
  const written = choice["text"] ?? delta?.content ?? "";
  return {
    text: typeof written === "string" ? written : "",
    rounds: choice["trace"] === undefined ? [] : rounds(choice["trace"], "trace"),
    words: choice["words"] === undefined ? {} : words(choice["words"], "words"),
  };
}
