import { expect, test } from "vitest";
import { chapters } from "../chapters/index";
import type { Shape } from "./words";

const en = { title: "a", n: (n: number) => `${n}`, list: ["x", "y"], deep: { word: "w" } };
type Words = Shape<typeof en>;

test("a dictionary of another shape does not compile", () => {
  const good: Words = { title: "b", n: (n) => `${n}!`, list: ["z"], deep: { word: "v" } };
  // @ts-expect-error a key is missing
  const missing: Words = { title: "b", n: (n) => `${n}`, list: [] };
  // @ts-expect-error a function became text
  const kind: Words = { ...good, n: "b" };
  expect([good, missing, kind]).toHaveLength(3);
});

test("every chapter has a title in both languages, and an id of its own", () => {
  expect(new Set(chapters.map((chapter) => chapter.id)).size).toBe(10);
  for (const { words } of chapters) {
    expect(words.en.title).toMatch(/[a-z]/);
    expect(words.zh.title).toMatch(/\p{Script=Han}/u);
  }
});
