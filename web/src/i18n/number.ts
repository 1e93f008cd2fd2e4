/**
 * Numbers as the page writes them. English and Chinese share the point and the comma.
 * Minus is U+2212, as wide as a digit; set `font-variant-numeric: tabular-nums` where they change.
 */

const cache = new Map<string, Intl.NumberFormat>();

function format(x: number, options: Intl.NumberFormatOptions): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : x > 0 ? "∞" : "−∞";
  const key = JSON.stringify(options);
  let made = cache.get(key);
  if (made === undefined) cache.set(key, (made = new Intl.NumberFormat("en-US", options)));
  const text = made.format(x).replace("-", "−");
  return /[1-9]/.test(text) ? text : text.replace("−", "");
}

/** 0.25 with 2 digits after the point. */
export function fixed(x: number, digits = 2): string {
  return format(x, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** At most so many digits after the point: 0.5, not 0.50. */
export function short(x: number, digits = 3): string {
  return format(x, { maximumFractionDigits: digits });
}

/** 100,000 */
export function integer(x: number): string {
  return format(Math.round(x), { maximumFractionDigits: 0 });
}

/** 0.253 as 25%, with more digits 25.3%. */
export function percent(x: number, digits = 0): string {
  return Number.isFinite(x) ? `${fixed(100 * x, digits)}%` : fixed(x);
}

/** A p-value: 0.31, 0.004, "< 0.0001". */
export function pValue(x: number): string {
  if (x < 1e-4) return "< 0.0001";
  return x < 0.01 ? fixed(x, 4) : fixed(x, 2);
}
