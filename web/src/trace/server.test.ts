import { afterEach, expect, test, vi } from "vitest";
import vectors from "../../vectors/traces.json";
import { ApiError, events, fetchSetup, write, type Piece } from "./server";

const SETUP = {
  model: "tiny",
  vocab_size: 4,
  context: null,
  chat: true,
  backend: "native",
  threads: 2,
  processor: "some",
  drafters: ["suffix"],
  verifier: "auto",
  num_draft: "auto",
  costs: { target_seconds: [0.01, 0.02], draft_seconds: { head: [0.001] }, first_draft_seconds: { head: 0.0004 } },
};
const WISH = { prompt: "hello", chat: false, temperature: 1, num_draft: 2, verifier: "rejection", max_tokens: 9 };
const round = vectors.runs[0]?.rounds[0];

function answers(...parts: string[]): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder();
  return new ReadableStream({
    start(stream) {
      for (const part of parts) stream.enqueue(bytes.encode(part));
      stream.close();
    },
  });
}

function replying(...replies: Response[]): { asked: [string, RequestInit][] } {
  const asked: [string, RequestInit][] = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push([url, init]);
    return replies.shift();
  });
  return { asked };
}

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) found.push(one);
  return found;
}

afterEach(() => vi.unstubAllGlobals());

test("events arrive whole, however they are cut", async () => {
  const whole = 'data: {"a":"é"}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n';
  for (let cut = 0; cut <= whole.length; cut++) {
    expect(await all(events(answers(whole.slice(0, cut), whole.slice(cut))))).toEqual([{ a: "é" }, { b: 2 }]);
  }
  await expect(all(events(answers('data: {"a":1}\n\n')))).rejects.toThrow("broke off");
});

test("the setup, and a key on the way there", async () => {
  const { asked } = replying(Response.json(SETUP), Response.json({ error: { message: "a valid API key is needed" } }, { status: 401 }));
  expect(await fetchSetup("secret")).toEqual(SETUP);
  expect(asked[0]?.[0]).toBe("v1/forerun/setup");
  expect(asked[0]?.[1].headers).toMatchObject({ authorization: "Bearer secret" });
  await expect(fetchSetup("")).rejects.toMatchObject({ status: 401, message: "a valid API key is needed" });
  expect(asked[1]?.[1].headers).not.toHaveProperty("authorization");
});

test.each([true, false])("a text is asked for and read, chat %s", async (chat) => {
  const choice = chat ? { delta: { content: "hi" } } : { text: "hi" };
  const event = { choices: [{ ...choice, trace: [round], words: { "3": " you" } }] };
  const { asked } = replying(new Response(answers(`data: ${JSON.stringify(event)}\n\ndata: [DONE]\n\n`)));
  const found: Piece[] = await all(write({ ...WISH, chat, seed: 7 }, "", new AbortController().signal));
  const { schema: _, ...plain } = round as { schema: number };
  expect(found).toEqual([{ text: "hi", rounds: [plain], words: { "3": " you" } }]);
  expect(asked[0]?.[0]).toBe(chat ? "v1/chat/completions" : "v1/completions");
  const body = JSON.parse(String(asked[0]?.[1].body)) as Record<string, unknown>;
  expect(body).toMatchObject({ stream: true, trace: "full", seed: 7, num_draft: 2, verifier: "rejection" });
  expect(body["messages"] ?? body["prompt"]).toEqual(chat ? [{ role: "user", content: "hello" }] : "hello");
  expect(body).not.toHaveProperty("chat");
});

test("an error in the middle is one", async () => {
  replying(new Response(answers('data: {"error":{"message":"no memory"}}\n\n')));
  await expect(all(write(WISH, "", new AbortController().signal))).rejects.toEqual(new ApiError(500, "no memory"));
});
