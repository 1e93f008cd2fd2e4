/**
 * Readers of JSON that nobody has checked: each takes a value and where it stands, and gives it typed
 * or throws a TypeError that says what was found where.
 */

export type Read<T> = (value: unknown, at: string) => T;
type Fields = Readonly<Record<string, Read<unknown>>>;
type Of<F extends Fields> = { readonly [K in keyof F]: ReturnType<F[K]> };

function wrong(wanted: string, value: unknown, at: string): never {
  const shown = JSON.stringify(value) ?? String(value);
  throw new TypeError(`${at} must be ${wanted}, not ${shown.length > 40 ? `${shown.slice(0, 40)}…` : shown}`);
}

export const number: Read<number> = (value, at) =>
  typeof value === "number" && Number.isFinite(value) ? value : wrong("a number", value, at);

export const whole: Read<number> = (value, at) => (Number.isSafeInteger(value) ? (value as number) : wrong("a whole number", value, at));

export const text: Read<string> = (value, at) => (typeof value === "string" ? value : wrong("a text", value, at));

export const flag: Read<boolean> = (value, at) => (typeof value === "boolean" ? value : wrong("true or false", value, at));

export function one<const T extends string | number>(...known: readonly T[]): Read<T> {
  return (value, at) => ((known as readonly unknown[]).includes(value) ? (value as T) : wrong(`one of ${known.join(", ")}`, value, at));
}

export function either<A, B>(a: Read<A>, b: Read<B>): Read<A | B> {
  return (value, at) => {
    try {
      return a(value, at);
    } catch {
      return b(value, at);
    }
  };
}

export function list<T>(item: Read<T>): Read<readonly T[]> {
  return (value, at) => (Array.isArray(value) ? value.map((x, i) => item(x, `${at}[${i}]`)) : wrong("a list", value, at));
}

export function pair<A, B>(a: Read<A>, b: Read<B>): Read<readonly [A, B]> {
  return (value, at) =>
    Array.isArray(value) && value.length === 2 ? [a(value[0], `${at}[0]`), b(value[1], `${at}[1]`)] : wrong("a pair", value, at);
}

export function map<T>(item: Read<T>): Read<Readonly<Record<string, T>>> {
  return (value, at) => Object.fromEntries(entries(value, at).map(([key, x]) => [key, item(x, `${at}.${key}`)]));
}

/** All of `fields`, none but those of `fields` and `optional`. */
export function object<F extends Fields, O extends Fields>(fields: F, optional: O): Read<Of<F> & Partial<Of<O>>> {
  return (value, at) => {
    const found = Object.fromEntries(entries(value, at));
    const known: Fields = { ...fields, ...optional };
    const stranger = Object.keys(found).find((key) => !Object.hasOwn(known, key));
    if (stranger !== undefined) throw new TypeError(`${at} has an unknown field: ${stranger}`);
    const missing = Object.keys(fields).find((key) => !Object.hasOwn(found, key));
    if (missing !== undefined) throw new TypeError(`${at} lacks ${missing}`);
    const typed = Object.entries(found).map(([key, x]) => [key, known[key]?.(x, `${at}.${key}`)]);
    return Object.fromEntries(typed) as Of<F> & Partial<Of<O>>;
  };
}

function entries(value: unknown, at: string): [string, unknown][] {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : wrong("an object", value, at);
}
