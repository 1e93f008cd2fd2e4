/** Which curve of pass times chapters 1 and 8 use: measured here if there is one, else a recording. */

import { imagined, RECORDED, type Curve } from "../../core/costs";
import { machine } from "../../state/machine.svelte";
import { page } from "../../state/page.svelte";

const IDS = ["auto", "here", "smollm2", "qwen", "flat", "full"];
const chosen = page.param("curve", "auto", (id) => IDS.includes(id));

class Curves {
  /** Measured ones first, imagined ones last. */
  get all(): Curve[] {
    const real = machine.curve === null ? RECORDED : [machine.curve, ...RECORDED];
    const first = real[0] as Curve;
    return [...real, imagined("flat", first), imagined("full", first)];
  }

  get current(): Curve {
    return this.all.find((curve) => curve.id === chosen.value) ?? (this.all[0] as Curve);
  }

  get id(): string {
    return this.current.id;
  }

  set id(id: string) {
    chosen.value = id;
  }
}

export const curves = new Curves();
