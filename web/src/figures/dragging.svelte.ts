import { byKey, hundredths } from "./drag";

/** What is dragged: its value, in hundredths of 0 to 1, and how many pixels lie between those. */
interface Dragged {
  value: number;
  set: (value: number) => void;
  scale: number;
}

/** How a mark in a picture is moved along an axis, by pointer and by keys: spread `on` over it. */
export class Dragging {
  #from = $state.raw<{ at: number; value: number } | null>(null);
  readonly #now: () => Dragged;
  readonly #at: (event: PointerEvent) => number;

  /** `x` grows to the right, `y` upwards. `now` is asked at each event. */
  constructor(axis: "x" | "y", now: () => Dragged) {
    this.#now = now;
    this.#at = axis === "x" ? (event) => event.clientX : (event) => -event.clientY;
  }

  get held(): boolean {
    return this.#from !== null;
  }

  readonly on = {
    onpointerdown: (event: PointerEvent & { currentTarget: SVGGElement }): void => {
      event.preventDefault();
      event.currentTarget.setPointerCapture(event.pointerId);
      event.currentTarget.focus();
      this.#from = { at: this.#at(event), value: this.#now().value };
    },
    onpointermove: (event: PointerEvent): void => {
      if (this.#from === null) return;
      const { set, scale } = this.#now();
      set(hundredths(this.#from.value + (this.#at(event) - this.#from.at) / scale));
    },
    onpointerup: (): void => {
      this.#from = null;
    },
    onpointercancel: (): void => {
      this.#from = null;
    },
    onkeydown: (event: KeyboardEvent): void => {
      const { value, set } = this.#now();
      const to = byKey(event, value);
      if (to === undefined) return;
      event.preventDefault();
      set(hundredths(to));
    },
  };
}
