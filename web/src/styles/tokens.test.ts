/** WCAG 2.2: text 4.5 : 1, borders of controls 3 : 1, in both schemes, on every ground they stand on. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync(new URL("tokens.css", import.meta.url), "utf8");
const pairs = new Map([...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((m) => [m[1], [m[2], m[3]]]));
const softness = new Map([...css.matchAll(/--([\w]+)-soft: color-mix\(in oklab, var\(--\1\) (\d+)%/g)].map((m) => [m[1], Number(m[2]) / 100]));

type Rgb = readonly [number, number, number];

function linear(hex: string): Rgb {
  const channel = (at: number): number => {
    const c = parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

const M1 = [0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376, 0.6299787005];
const M2 = [0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099, 0.0259040371, 0.7827717662, -0.808675766];
const W2 = [1, 0.3963377774, 0.2158037573, 1, -0.1055613458, -0.0638541728, 1, -0.0894841775, -1.291485548];
const W1 = [4.0767416621, -3.3077115913, 0.2309699292, -1.2684380046, 2.6097574011, -0.3413193965, -0.0041960863, -0.7034186147, 1.707614701];

function times(m: readonly number[], [x, y, z]: Rgb): Rgb {
  const row = (i: number): number => (m[i] ?? 0) * x + (m[i + 1] ?? 0) * y + (m[i + 2] ?? 0) * z;
  return [row(0), row(3), row(6)];
}
const map = ([x, y, z]: Rgb, f: (x: number) => number): Rgb => [f(x), f(y), f(z)];

function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const lab = (rgb: Rgb): Rgb => times(M2, map(times(M1, rgb), Math.cbrt));
  const [x, y] = [lab(a), lab(b)];
  const mixed: Rgb = [0, 1, 2].map((i) => share * (x[i] ?? 0) + (1 - share) * (y[i] ?? 0)) as unknown as Rgb;
  return times(W1, map(times(W2, mixed), (v) => v ** 3));
}

function contrast(a: Rgb, b: Rgb): number {
  const [x, y] = [a, b].map(([r, g, bl]) => 0.2126 * r + 0.7152 * g + 0.0722 * bl).sort((m, n) => n - m);
  return ((x ?? 0) + 0.05) / ((y ?? 0) + 0.05);
}

const NAMES = ["target", "draft", "accept", "reject", "bonus", "residual"];

test.each([0, 1])("scheme %i", (scheme) => {
  const colour = (name: string): Rgb => linear(pairs.get(name)?.[scheme] ?? "");
  const grounds = [colour("paper"), colour("panel")];
  const softGrounds = NAMES.map((name) => mix(colour(name), colour("paper"), softness.get(name) ?? NaN));
  for (const ground of grounds) {
    for (const name of [...NAMES, "ink", "soft"]) expect(contrast(colour(name), ground), name).toBeGreaterThan(4.5);
    for (const name of ["edge", "focus"]) expect(contrast(colour(name), ground), name).toBeGreaterThan(3);
  }
  for (const ground of softGrounds) expect(contrast(colour("ink"), ground)).toBeGreaterThan(7);
  NAMES.forEach((name, i) => {
    expect(contrast(colour(name), softGrounds[i] ?? [0, 0, 0]), `${name} on its soft sister`).toBeGreaterThan(3);
  });
});
