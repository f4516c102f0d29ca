// The report's state, and the changes since the state that it is compared with.

import { html } from "./htm-preact.js";
import { Changes } from "./time_bar.js";
import { urlOffset } from "./view.js";
import { time as timeOf } from "./dates.js";
import { count, stateText } from "./words.js";

function stateSummary({ endOffset, timestamp, aclCount }) {
  const when = timestamp === null ? "" : `, ${timeOf(timestamp)}`;
  return `${timestamp === null && !endOffset ? "not of a log" : stateText(endOffset)}${when}, ${count(aclCount, "ACL")}`;
}

export function TimeBar({ view, go, time }) {
  if (!time) return null;
  const { facts } = time;
  const isCompared = facts.since !== null && view.since === urlOffset(facts.since.endOffset);
  return html`<section class="time" aria-label="Time">
    <p class="shown-state">This file: ${stateSummary(facts)}</p>
    ${facts.since === null
      ? html`<p class="notice">This report is not compared with an earlier state: use aclog report --since OFFSET|TIME.</p>`
      : html`<div class="since">
            ${isCompared
              ? html`<button onClick=${() => go({ since: null })}>stop comparing</button>`
              : html`<button onClick=${() => go({ since: urlOffset(facts.since.endOffset) })}>what changed</button>`}
            <span class="notice">since ${stateSummary(facts.since)}</span>
          </div>
          ${isCompared
            ? html`<details><summary>What changed</summary><${Changes} view=${view} go=${go} offset=${time.end_offset} /></details>`
            : null}`}
  </section>`;
}
