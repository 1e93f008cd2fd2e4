/**
 * What the reader has chosen, all of it in the page's address: language, seed, the two-word laws p
 * and q that chapters 2 to 4 share, the chapter in view, and whatever a chapter registers.
 *
 *     const gamma = page.param("gamma", 4, (n) => Number.isInteger(n) && n >= 1 && n <= 8);
 *     gamma.value = 5;                                  // ?gamma=5; defaults are not written
 *
 * A value in the address that is no such value is ignored. It knows neither chapters nor words.
 */

import { untrack } from "svelte";
import { LANGS, type Lang } from "../i18n/words";

export type Value = number | string | boolean | number[];
type Wide<T extends Value> = T extends number ? number : T extends boolean ? boolean : T extends string ? string : T;

/** One value of the address; `value` is reactive. */
export class Param<T extends Value> {
  readonly name: string;
  readonly initial: T;
  value: T;

  constructor(name: string, initial: T, value: T) {
    this.name = name;
    this.initial = initial;
    this.value = $state(value);
  }

  /** As the address writes it; null where it is the default. */
  get written(): string | null {
    const text = write(this.value);
    return text === write(this.initial) ? null : text;
  }
}

/** Where the page starts from; a browser's by default. */
export interface Surroundings {
  readonly url: URL;
  readonly stored: string | null;
  readonly languages: readonly string[];
}

const LANG_KEY = "forerun.lang";

export class Page {
  chapter: string = $state("");
  #lang: Lang = $state("en");
  #chosen: boolean = $state(false);
  #registered: number = $state(0);
  readonly #start: URLSearchParams;
  readonly #params = new Map<string, Param<Value>>();
  readonly #seed: Param<number>;
  readonly #p: Param<number[]>;
  readonly #q: Param<number[]>;

  constructor(around: Surroundings) {
    this.#start = around.url.searchParams;
    const asked = this.#start.get("lang");
    this.#chosen = isLang(asked);
    this.#lang = isLang(asked) ? asked : isLang(around.stored) ? around.stored : preferred(around.languages);
    this.chapter = decodeURIComponent(around.url.hash.slice(1));
    this.#seed = this.param("seed", 7, (n) => Number.isSafeInteger(n) && n >= 0);
    this.#p = this.param("p", [0.6, 0.4], isLaw);
    this.#q = this.param("q", [0.2, 0.8], isLaw);
  }

  get lang(): Lang {
    return this.#lang;
  }

  /** Chosen by the reader, so it goes into the address and is remembered. */
  set lang(lang: Lang) {
    this.#lang = lang;
    this.#chosen = true;
    try {
      globalThis.localStorage?.setItem(LANG_KEY, lang);
    } catch {
      // storage can be switched off; the address still has it
    }
  }

  get seed(): number {
    return this.#seed.value;
  }

  set seed(seed: number) {
    this.#seed.value = seed;
  }

  /** The target's law over two words; sums to one. */
  get p(): number[] {
    return this.#p.value;
  }

  set p(p: number[]) {
    this.#p.value = p;
  }

  /** The draft's law over the same words. */
  get q(): number[] {
    return this.#q.value;
  }

  set q(q: number[]) {
    this.#q.value = q;
  }

  /** A value that lives in the address under `name`; the same one whenever it is asked for again. */
  param<T extends Value>(name: string, initial: T, valid: (value: Wide<T>) => boolean = () => true): Param<Wide<T>> {
    const known = this.#params.get(name);
    if (known !== undefined) return known as unknown as Param<Wide<T>>;
    const read = parse(this.#start.get(name), initial) as Wide<T> | undefined;
    const start = (read !== undefined && valid(read) ? read : initial) as Wide<T>;
    const made = new Param<Wide<T>>(name, initial as Wide<T>, start);
    this.#params.set(name, made as unknown as Param<Value>);
    untrack(() => this.#registered++);
    return made;
  }

  /** The address of what is seen now, from "?" on; `full` writes the language even where nobody chose it. */
  search(full = false): string {
    void this.#registered; // parameters that register later belong to it too
    const search = new URLSearchParams();
    if (this.#chosen || full) search.set("lang", this.#lang);
    for (const param of this.#params.values()) {
      const text = param.written;
      if (text !== null) search.set(param.name, text);
    }
    // values of chapters that are not there (yet) are kept
    for (const [name, text] of this.#start) {
      if (name !== "lang" && !this.#params.has(name)) search.set(name, text);
    }
    const query = search.toString().replaceAll("%2C", ",");
    return (query === "" ? "" : `?${query}`) + (this.chapter === "" ? "" : `#${this.chapter}`);
  }
}

function isLang(text: string | null): text is Lang {
  return LANGS.includes(text as Lang);
}

function preferred(languages: readonly string[]): Lang {
  for (const tag of languages) {
    const lang = tag.toLowerCase().split("-")[0] ?? "";
    if (isLang(lang)) return lang;
  }
  return "en";
}

/** Two probabilities that sum to one. */
export function isLaw(law: readonly number[]): boolean {
  const sum = law.reduce((a, b) => a + b, 0);
  return law.every((x) => x >= 0 && x <= 1) && Math.abs(sum - 1) < 1e-3;
}

function write(value: Value): string {
  if (Array.isArray(value)) return value.map(write).join(",");
  if (typeof value === "number") return String(Number(value.toFixed(4)));
  if (typeof value === "boolean") return value ? "1" : "0";
  return value;
}

function parse(text: string | null, like: Value): Value | undefined {
  if (text === null) return undefined;
  if (typeof like === "string") return text;
  if (typeof like === "boolean") return text === "1" ? true : text === "0" ? false : undefined;
  if (typeof like === "number") return parseNumber(text);
  const numbers = text.split(",").map(parseNumber);
  if (numbers.length !== like.length) return undefined;
  return numbers.every((x) => x !== undefined) ? (numbers as number[]) : undefined;
}

function parseNumber(text: string): number | undefined {
  const x = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(x) ? x : undefined;
}

function surroundings(): Surroundings {
  if (typeof location === "undefined") return { url: new URL("http://localhost/"), stored: null, languages: [] };
  let stored: string | null = null;
  try {
    stored = localStorage.getItem(LANG_KEY);
  } catch {
    // storage can be switched off
  }
  return { url: new URL(location.href), stored, languages: navigator.languages };
}

/** The state of this page. */
export const page = new Page(surroundings());
