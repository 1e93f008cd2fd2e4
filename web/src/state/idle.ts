/** Until the browser has nothing else to do; not for ever where it never rests. */
export function idle(): Promise<unknown> {
  return new Promise((done) => {
    // Safari has no such thing yet
    if ("requestIdleCallback" in globalThis) requestIdleCallback(done, { timeout: 1000 });
    else setTimeout(done, 100);
  });
}
