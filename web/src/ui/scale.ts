/**
 * A linear scale and its round ticks, for the axes of figures. (d3-scale does this too, and brings
 * colours, dates and formats along: an eighth of what the page may weigh.)
 */

export interface Scale {
  (value: number): number;
  /** About `count` round numbers within the domain: steps of 1, 2 or 5 times a power of ten. */
  ticks(count: number): number[];
}

export function linear([from, to]: readonly [number, number], [start, end]: readonly [number, number]): Scale {
  const slope = to === from ? 0 : (end - start) / (to - from);
  return Object.assign((value: number) => start + (value - from) * slope, {
    ticks(count: number): number[] {
      const step = roundStep((to - from) / count);
      const [first, last] = [Math.ceil(from / step - 1e-9), Math.floor(to / step + 1e-9)];
      // multiplied, not summed, so that 0.3 is 0.3
      return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
    },
  });
}

/** The number 1, 2 or 5 times a power of ten that is nearest to `raw`, by ratio. */
function roundStep(raw: number): number {
  if (!(raw > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const ratio = raw / power;
  return power * (ratio >= Math.sqrt(50) ? 10 : ratio >= Math.sqrt(10) ? 5 : ratio >= Math.SQRT2 ? 2 : 1);
}
