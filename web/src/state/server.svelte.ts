/**
 * The server behind the page, as chapters see it: whether there is one, and what it runs.
 *
 *     server.setup?.costs?.target_seconds        measured on that machine; undefined until it is known
 */

import { fetchSetup, type Behind, type Setup } from "../trace/server";

export class Server {
  readonly behind: Behind;
  /** Typed by the reader; kept while the page is open. */
  key: string = $state("");
  setup: Setup | undefined = $state.raw(undefined);

  constructor(behind: Behind) {
    this.behind = behind;
  }

  /** Learn what it runs. ApiError where it refuses. */
  async ask(): Promise<void> {
    this.setup = await fetchSetup(this.key);
  }
}

/** The server writes into the page what there is; a page that is only files says "none". */
function found(): Behind {
  const said = typeof document === "undefined" ? undefined : document.documentElement.dataset["server"];
  return said === "open" || said === "key" ? said : "none";
}

export const server = new Server(found());
if (server.behind === "open") server.ask().catch(() => undefined); // the chapter that needs it asks again
