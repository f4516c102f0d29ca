// A button that copies a text.

import { html, useEffect, useState } from "./htm-preact.js";
import { visible } from "./words.js";

const SHOWN_MS = 2000;

async function copy(text) {
  // Browsers offer the clipboard only over TLS and on this machine.
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!isCopied) throw new Error("The browser does not allow it.");
  return undefined;
}

// `what`: the text in words, for the button's name; `label`: its visible text.
export function Copy({ text, what, label = "copy" }) {
  const [result, setResult] = useState(null);
  useEffect(() => {
    if (!result) return undefined;
    const timer = setTimeout(() => setResult(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  // A terminal acts on invisible characters that are pasted into it.
  if (text !== visible(text)) return html`<small class="copy">not copied: it has invisible characters</small>`;
  const clicked = () => copy(text).then(() => setResult("copied"), () => setResult("not copied"));
  return html`<button type="button" class="copy" aria-label=${`Copy ${what}`} onClick=${clicked}>${result ?? label}</button>
    <span class="hidden" role="status">${result}</span>`;
}
