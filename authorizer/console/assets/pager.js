// Buttons for the pages of a list.

import { html } from "./htm-preact.js";
import { PRINTED_MAXIMUM, PrintedPart, useIsPrinting } from "./print.js";

// `command`: prints all lines, where that is not a report.
export function Pager({ first: firstOfPage, size: sizeOfPage, total, onFirst, command }) {
  const isPrinting = useIsPrinting();
  const [first, size] = isPrinting ? [0, PRINTED_MAXIMUM] : [firstOfPage, sizeOfPage];
  const isPart = first > 0 || first + size < total;
  const lines = `lines ${(first + 1).toLocaleString("en")} to ${Math.min(total, first + size).toLocaleString("en")} of ${total.toLocaleString("en")}`;
  return html`${isPart ? html`<${PrintedPart} printed=${lines} command=${command} />` : null}<span class="pager">
    <button disabled=${!first} aria-label="Previous page" onClick=${() => onFirst(Math.max(0, first - size) || null)}>◀</button>
    <span>${total ? (first + 1).toLocaleString("en") : 0}–${Math.min(total, first + size).toLocaleString("en")} of ${total.toLocaleString("en")}</span>
    <button disabled=${first + size >= total} aria-label="Next page" onClick=${() => onFirst(first + size)}>▶</button>
  </span>`;
}
