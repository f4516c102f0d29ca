// Classes of questions that are answered otherwise, each with a question that shows it and what decides it.

import { html } from "./htm-preact.js";
import { count, decisionText, title, visible } from "./words.js";

// The view that asks a witness.
export function asking({ principal, operation, type, name, host }) {
  return { view: "ask", principal, operation, type, name, host, prefix: null, anyone: null };
}

function Flip({ flip, labels, kinds, buttons }) {
  const { direction, witness } = flip;
  return html`<li class=${direction === "granted" ? "allowed" : "denied"}>
    <b><span aria-hidden="true">${direction === "granted" ? "+" : "−"}</span> ${kinds[direction]}</b>
    <span class="plain"> <bdi>${visible(flip.who)}</bdi>: <bdi>${visible(flip.what)}</bdi></span>
    <div class="plain">
      such as <bdi>${visible(witness.principal)} ${title(witness.operation)} ${visible(witness.name)} from ${visible(witness.host)}</bdi>
      ${buttons(witness)}
    </div>
    <div class="why">${labels[0]}: <bdi>${decisionText(flip.before)}</bdi></div>
    <div class="why">${labels[1]}: <bdi>${decisionText(flip.after)}</bdi></div>
  </li>`;
}

// `labels` of the two sides, `kinds` of the two directions; `buttons` ask a witness.
export function FlipList({ answer, labels, kinds = { granted: "granted", revoked: "revoked" }, buttons }) {
  const { total, granted, revoked, flips } = answer;
  return html`<p class="flipped-classes" aria-live="polite">
      <b>${total ? count(total, "class", "classes") : "no question"}</b> answered otherwise${total
        ? `: ${granted} ${kinds.granted}, ${revoked} ${kinds.revoked}`
        : ""}${total > flips.length ? `; the first ${flips.length}` : ""}
    </p>
    <ul class="flips">
      ${flips.map((flip) => html`<${Flip} key=${`${flip.direction}\n${flip.who}\n${flip.what}`} ...${{ flip, labels, kinds, buttons }} />`)}
    </ul>`;
}
