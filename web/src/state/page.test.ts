import { describe, expect, test } from "vitest";
import { Page } from "./page.svelte";

function at(address: string, stored: string | null = null, languages: readonly string[] = []): Page {
  return new Page({ url: new URL(address, "http://localhost/"), stored, languages });
}

describe("language", () => {
  test("the address goes before the stored choice, and that before the browser", () => {
    expect(at("?lang=zh", "en", ["en"]).lang).toBe("zh");
    expect(at("", "zh", ["en"]).lang).toBe("zh");
    expect(at("", null, ["fr-FR", "zh-TW", "en"]).lang).toBe("zh");
    expect(at("", null, ["fr"]).lang).toBe("en");
    expect(at("?lang=fr", "xx", ["zh"]).lang).toBe("zh");
  });

  test("it is written once it was chosen, or when the whole address is asked for", () => {
    const page = at("", null, ["zh"]);
    expect(page.search()).toBe("");
    expect(page.search(true)).toBe("?lang=zh");
    page.lang = "en";
    expect(page.search()).toBe("?lang=en");
  });
});

describe("values", () => {
  test("what was written is read again", () => {
    const page = at("");
    page.seed = 12;
    page.p = [0.35, 0.65];
    page.chapter = "residual";
    page.param("gamma", 4).value = 6;
    page.param("wrong", false).value = true;
    const again = at(page.search());
    expect(page.search()).toBe("?seed=12&p=0.35,0.65&gamma=6&wrong=1#residual");
    expect(again.seed).toBe(12);
    expect(again.p).toEqual([0.35, 0.65]);
    expect(again.q).toEqual([0.2, 0.8]);
    expect(again.chapter).toBe("residual");
    expect(again.param("gamma", 4).value).toBe(6);
    expect(again.param("wrong", false).value).toBe(true);
    expect(again.search()).toBe(page.search());
  });

  test("what is no such value is ignored", () => {
    const page = at("?seed=-1&p=0.9,0.9&q=0.5&gamma=x&wrong=yes&tokens=1,2");
    expect([page.seed, page.p, page.q]).toEqual([7, [0.6, 0.4], [0.2, 0.8]]);
    expect(page.param("gamma", 4).value).toBe(4);
    expect(page.param("wrong", false).value).toBe(false);
    expect(page.param("tokens", [1, 2, 3]).value).toEqual([1, 2, 3]);
    expect(at("?gamma=99").param("gamma", 4, (n) => n < 9).value).toBe(4);
  });

  test("a value nobody asks for is kept, and one is the same whoever asks", () => {
    const page = at("?later=3");
    expect(page.search()).toBe("?later=3");
    expect(page.param("later", 1)).toBe(page.param("later", 1));
    expect(page.search()).toBe("?later=3");
    page.param("later", 1).value = 1;
    expect(page.search()).toBe("");
  });
});

test("no two chapters register the same name", () => {
  const sources = import.meta.glob<string>(["../**/*.svelte", "../**/*.ts", "!../**/*.test.ts", "!./page.svelte.ts"], { query: "?raw", import: "default", eager: true });
  const names = Object.values(sources).flatMap((source) => [...source.matchAll(/= page\.param(?:<[^(]*>)?\("(\w+)"/g)].map((match) => match[1]));
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});
