import { expect, test } from "vitest";
import { chapters } from "../chapters/index";
import type { Lang, Shape } from "./words";

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

test("every chapter is titled in both languages, and titles itself alike", () => {
  const files = import.meta.glob<Partial<Record<Lang, { title: string }>>>("../chapters/*/{en,zh}.ts", { eager: true });
  const own: Record<string, Partial<Record<Lang, string>>> = {};
  for (const [path, { en, zh }] of Object.entries(files)) {
    const id = path.split("/").at(-2)?.slice(3) ?? "";
    own[id] = { ...own[id], ...(en && { en: en.title }), ...(zh && { zh: zh.title }) };
  }
  expect(Object.fromEntries(chapters.map(({ id, title }) => [id, title]))).toEqual(own);
  for (const { title } of chapters) {
    expect(title.en).toMatch(/[a-z]/);
    expect(title.zh).toMatch(/\p{Script=Han}/u);
  }
  expect(chapters).toHaveLength(10);
});
