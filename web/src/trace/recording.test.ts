import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import vectors from "../../vectors/traces.json";
import { reason } from "../chapters/09-live/verdict";
import { openFile, readRecording, word, writeRecording } from "./recording";

const FOLDER = fileURLToPath(new URL("../../public/recordings/", import.meta.url));
const files = readdirSync(FOLDER).map((name) => ({ name, content: readFileSync(FOLDER + name, "utf8") }));

test.each(files)("$name is read, written and read again", ({ content }) => {
  const found = openFile(content);
  expect(found.rounds.length).toBeGreaterThan(5);
  expect(openFile(writeRecording(found))).toEqual(found);
  const text = found.rounds.flatMap(({ tokens }) => tokens.map((token) => word(found.words, token))).join("");
  expect(text.startsWith(found.text)).toBe(true);
});

test.each(files)("$name: verdicts follow from coins", ({ content }) => {
  const found = openFile(content);
  const seen = new Set(found.rounds.flatMap((round) => round.drafted.map((_, node) => reason(round, node))));
  const allowed: Record<string, string[]> = {
    rejection: ["coin", "unjudged"],
    block: ["coin", "keptAnyway"],
    coupled: ["chosen", "notChosen", "unjudged"],
  };
  for (const why of seen) expect(allowed[found.verifier]).toContain(why);
});

test("lines of a trace are opened; ids stand for words that nothing tells", () => {
  const rounds = vectors.runs[0]?.rounds ?? [];
  const other = { ...rounds[0], request: 1 };
  const found = openFile([...rounds, other].map((round) => JSON.stringify(round)).join("\n") + "\n");
  expect(found.rounds).toHaveLength(rounds.length);
  expect(found.verifier).toBe("rejection");
  expect(word(found.words, 3)).toBe("#3");
  expect(openFile(JSON.stringify(rounds[0])).rounds).toHaveLength(1);
});

test("what is no run is refused, saying why", () => {
  expect(() => openFile("")).toThrow("the file is empty");
  expect(() => openFile("hello")).toThrow("line 1 is no JSON");
  expect(() => openFile("{}")).toThrow("recording lacks recording");
  expect(() => openFile("[1]")).toThrow("recording must be an object");
  expect(() => readRecording({ recording: 2 })).toThrow("recording lacks model");
});
