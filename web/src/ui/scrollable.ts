/** What scrolls sideways can be scrolled from the keyboard: it takes the focus while it overflows. */
export function scrollable(element: HTMLElement): () => void {
  const look = (): void => {
    if (element.scrollWidth > element.clientWidth + 1) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver(look);
  sizes.observe(element);
  for (const child of element.children) sizes.observe(child);
  return () => sizes.disconnect();
}
