/** Where things stand in a picture of columns, one a word: pixels from probabilities. */

export interface Columns {
  /** Left edge of a column, and of the slots to the right of the last one. */
  x(column: number): number;
  /** Middle of a column. */
  middle(column: number): number;
  /** Width of every column. */
  readonly width: number;
  /** Height on the page of a probability. */
  y(probability: number): number;
  /** Pixels from probability 0 to 1. */
  readonly scale: number;
  /** Where the columns stand. */
  readonly base: number;
  readonly left: number;
  readonly right: number;
  readonly ticks: readonly number[];
}

export interface Room {
  readonly width: number;
  readonly height: number;
  /** Columns, and free slots beside them. */
  readonly slots: number;
  /** The highest probability to be drawn. */
  readonly top: number;
}

const ABOVE = 22;
const BELOW = 30;
const LEFT = 38;
const RIGHT = 6;

export function columns({ width, height, slots, top }: Room): Columns {
  const base = height - BELOW;
  const scale = (base - ABOVE) / top;
  const slot = (width - LEFT - RIGHT) / slots;
  const wide = Math.min(Math.max(slot - 44, slot * 0.46), 130);
  const x = (column: number): number => LEFT + slot * column + (slot - wide) / 2;
  const step = top > 0.6 ? 0.25 : 0.1;
  return {
    x,
    middle: (column) => x(column) + wide / 2,
    width: wide,
    y: (probability) => base - scale * probability,
    scale,
    base,
    left: LEFT,
    right: width - RIGHT,
    ticks: Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step),
  };
}
