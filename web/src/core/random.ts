/**
 * The page's only source of randomness: a counter function of (seed, stream, index), so that a page
 * is the same again from its URL, and a figure can step back and forth through what it drew.
 *
 * Philox4x32-10 (Salmon et al. 2011), the small sister of what the library uses. Uniforms have 53
 * random bits and lie strictly inside (0, 1): u = (k + ½)·2⁻⁵³, the topmost cut at 1 − 2⁻⁵³.
 * Exponentials are −log1p(−u).
 */

import { inverseCdf, type Law } from "./law";

export type Words = readonly [number, number, number, number];

/** Ten rounds of Philox on 4 × 32 bits of counter with 2 × 32 bits of key. */
export function philox(counter: Words, key: readonly [number, number]): Words {
  let [a, b, c, d] = counter;
  let [k, l] = key;
  for (let round = 0; round < 10; round++) {
    const highA = high(0xd251, 0x1f53, a);
    const highC = high(0xcd9e, 0x8d57, c);
    const lowA = Math.imul(0xd2511f53, a) >>> 0;
    a = (highC ^ b ^ k) >>> 0;
    b = Math.imul(0xcd9e8d57, c) >>> 0;
    c = (highA ^ d ^ l) >>> 0;
    d = lowA;
    k = (k + 0x9e3779b9) >>> 0;
    l = (l + 0xbb67ae85) >>> 0;
  }
  return [a, b, c, d];
}

/** The uniform number `index` of a seed's stream. */
export function uniformAt(seed: number, stream: string, index: number): number {
  return uniform(words(seed, hash(stream), index));
}

/** A stream's uniforms one after another; `index` says how many were taken. */
export class Random {
  readonly seed: number;
  index: number;
  readonly #stream: number;

  constructor(seed: number, stream: string, index = 0) {
    this.seed = seed;
    this.index = index;
    this.#stream = hash(stream);
  }

  uniform(): number {
    return uniform(words(this.seed, this.#stream, this.index++));
  }

  /** True with that probability: never at 0, always at 1. */
  accept(probability: number): boolean {
    return this.uniform() < probability;
  }

  draw(law: Law): number {
    return inverseCdf(law, this.uniform());
  }

  exponentials(count: number): number[] {
    return Array.from({ length: count }, () => exponential(this.uniform()));
  }
}

export function exponential(u: number): number {
  return -Math.log1p(-u);
}

function words(seed: number, stream: number, index: number): Words {
  const upper = (n: number) => Math.floor(n / 2 ** 32) >>> 0;
  return philox([index >>> 0, upper(index), stream, 0], [seed >>> 0, upper(seed)]);
}

function uniform([a, b]: Words): number {
  const k = (a >>> 5) * 2 ** 26 + (b >>> 6);
  return Math.min((k + 0.5) * 2 ** -53, 1 - 2 ** -53);
}

/** Upper 32 bits of the product of two 32-bit numbers, the first given as its halves. */
function high(aHigh: number, aLow: number, b: number): number {
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const low = (middle & 0xffff) + aLow * bHigh;
  return (aHigh * bHigh + Math.floor(middle / 65536) + Math.floor(low / 65536)) >>> 0;
}

/** FNV-1a: a number for a stream's name. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (const letter of text) h = Math.imul(h ^ (letter.codePointAt(0) ?? 0), 0x01000193);
  return h >>> 0;
}
