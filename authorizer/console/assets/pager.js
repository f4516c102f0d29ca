// Buttons for the pages of a list.

import { html } from "./htm-preact.js";

export function Pager({ first, size, total, onFirst }) {
  return html`<span class="pager">
    <button disabled=${!first} aria-label="Previous page" onClick=${() => onFirst(Math.max(0, first - size) || null)}>◀</button>
    <span>${total ? (first + 1).toLocaleString("en") : 0}–${Math.min(total, first + size).toLocaleString("en")} of ${total.toLocaleString("en")}</span>
    <button disabled=${first + size >= total} aria-label="Next page" onClick=${() => onFirst(first + size)}>▶</button>
  </span>`;
}
