// Classes of requests whose decision changes, each with a witness and the deciding ACLs.

import { html } from "./htm-preact.js";
import { Exports, usePrintedList } from "./export.js";
import { Pager } from "./pager.js";
import { count, decisionText, title, visible } from "./words.js";

const KINDS = { granted: "granted", revoked: "revoked" };

// The view that checks a witness.
export function viewOfRequest({ principal, operation, type, name, host }) {
  return { view: "ask", principal, operation, type, name, host, prefix: null, anyone: null };
}

export function DecisionChange({ flip, labels, kinds = KINDS, buttons }) {
  const { direction, witness } = flip;
  return html`<li class=${direction === "granted" ? "allowed" : "denied"}>
    <b><span aria-hidden="true">${direction === "granted" ? "+" : "−"}</span> ${kinds[direction]}</b>
    <span class="plain"> <bdi>${visible(flip.who)}</bdi>: <bdi>${visible(flip.what)}</bdi></span>
    <div class="plain">
      for example <bdi>${visible(witness.principal)} ${title(witness.operation)} ${visible(witness.name)} from ${visible(witness.host)}</bdi>
      ${buttons?.(witness)}
    </div>
    <div class="why">${labels[0]}: <bdi>${decisionText(flip.before)}</bdi></div>
    <div class="why">${labels[1]}: <bdi>${decisionText(flip.after)}</bdi></div>
  </li>`;
}

// `labels` name the two sides, `kinds` the two directions; `buttons` check a witness.
// Number of changes on a page.
export const PAGE = 200;

function rowOf({ direction, who, what, witness, before, after, releases }) {
  const { principal, operation, type, name, host } = witness;
  return {
    change: direction, who, what, principal, operation, resourceType: type, resourceName: name, host,
    before: decisionText(before), after: decisionText(after), releases,
  };
}

// `paged`: the request of the list and a function to its pages.
export function DecisionChangeList({ answer: page, labels, kinds = KINDS, buttons, paged }) {
  const answer = usePrintedList(page, { ...paged, list: "flips" });
  const { total, granted, revoked, flips, first, left_out: leftOut } = answer;
  return html`<p class="flipped-classes" aria-live="polite">
      <b>${total ? count(total, "class", "classes") : "No class"}</b> of requests changed${total
        ? `: ${granted} ${kinds.granted}, ${revoked} ${kinds.revoked}`
        : ""}${leftOut ? `; ${leftOut.toLocaleString("en")} more are not in this file` : ""}
    </p>
    <div class="counts">
      <${Exports} ...${paged} list="flips" name="decision-changes" rowOf=${rowOf} />
      <${Pager} first=${first} size=${PAGE} total=${total} onFirst=${paged.onFirst} />
    </div>
    <ul class="flips">
      ${flips.map((flip) => html`<${DecisionChange} key=${`${flip.direction}\n${flip.who}\n${flip.what}`} ...${{ flip, labels, kinds, buttons }} />`)}
    </ul>`;
}
