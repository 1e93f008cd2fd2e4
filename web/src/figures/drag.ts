/** What keys and pointers make of a probability that can be moved. */

/** The probability a key asks for; undefined for keys that mean nothing here. */
export function byKey(event: KeyboardEvent, value: number): number | undefined {
  const step = event.shiftKey ? 0.1 : 0.01;
  const steps: Readonly<Record<string, number>> = {
    ArrowUp: value + step,
    ArrowRight: value + step,
    ArrowDown: value - step,
    ArrowLeft: value - step,
    PageUp: value + 0.1,
    PageDown: value - 0.1,
    Home: 0,
    End: 1,
  };
  return steps[event.key];
}

/** Between 0 and 1, in hundredths. */
export function hundredths(value: number): number {
  return Math.round(100 * Math.min(1, Math.max(0, value))) / 100;
}

/** A law as the address keeps it: four digits, and a sum of 1 all the same. */
export function tidy(law: readonly number[]): number[] {
  const found = law.map((m) => Number(m.toFixed(4)));
  const largest = found.indexOf(Math.max(...found));
  const sum = found.reduce((s, m) => s + m, 0);
  return found.map((m, x) => (x === largest ? Number((m + 1 - sum).toFixed(4)) : m));
}
