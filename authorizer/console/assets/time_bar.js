// The time bar: every known state, and the changes between them.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./htm-preact.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { offsetOf, urlOffset } from "./view.js";
import { aclText, count, offsetText, stateAndTime, stateText, time as timeOf, visible } from "./words.js";

const DAY_MS = 86_400_000;
const BARS = 240;
// Maximum number of listed gaps.
const GAPS_MAXIMUM = 50;

// The number of changes in each of BARS equal groups of states.
function barHeights(states) {
  const parts = Math.min(BARS, states.length);
  const found = Array.from({ length: parts }, () => 0);
  states.forEach((each, at) => {
    found[Math.floor((at * parts) / states.length)] += each.added + each.removed;
  });
  return found;
}

// The gaps between states: index, and the end offsets on both sides.
function gapsOf(states) {
  return states.flatMap((each, at) => (each.unknown_from === null ? [] : [{ at, from: each.unknown_from, to: each.end_offset }]));
}

function gapText(from, to) {
  return `between ${stateText(from)} and ${stateText(to)} the states are unknown`;
}

const GAP_REASON = "records are missing: they were compacted away, or Spark read the topic too late";

// Hatched marks of the gaps, at most one per bar.
function Gaps({ gaps, states }) {
  const bars = new Set(gaps.map(({ at }) => Math.floor((at * BARS) / states.length)));
  return [...bars].map(
    (bar) => html`<span class="gap" aria-hidden="true" title=${GAP_REASON} style=${{ left: `${(bar / BARS) * 100}%` }}></span>`,
  );
}

// The gaps as text; `beginning` says why nothing is known before the first state.
function GapList({ gaps, beginning }) {
  const number = gaps.length + (beginning ? 1 : 0);
  if (!number) return null;
  return html`<details class="gaps">
    <summary>${count(number, "gap")} in the known history</summary>
    <ul>
      ${beginning ? html`<li>${beginning}</li>` : null}
      ${gaps.slice(-GAPS_MAXIMUM).map(({ from, to }) => html`<li>${gapText(from, to)}: ${GAP_REASON}</li>`)}
    </ul>
    ${gaps.length > GAPS_MAXIMUM ? html`<p>Only the last ${GAPS_MAXIMUM} gaps are listed.</p>` : null}
  </details>`;
}

// Text of the shown offset; `state` is the last state up to it, `next` the one after.
function shownText(at, state, next) {
  if (at + 1 === state.end_offset) return stateAndTime(state);
  if (next && next.unknown_from === null && next.first_record !== null && next.first_record <= at) {
    return `${offsetText(at)} is inside a batch with the offsets ${next.first_record} to ${next.end_offset - 1}. Before it`;
  }
  return `${offsetText(at)}, last changed at ${stateAndTime(state)}`;
}

function Track({ states }) {
  const heights = barHeights(states);
  const most = Math.log1p(Math.max(1, ...heights));
  return html`<svg class="track" viewBox=${`0 0 ${heights.length} 10`} preserveAspectRatio="none" aria-hidden="true">
    ${heights.map((each, at) => {
      const height = each ? 1 + (9 * Math.log1p(each)) / most : 0;
      return html`<rect x=${at + 0.1} width="0.8" y=${10 - height} height=${height} />`;
    })}
  </svg>`;
}

function Progress({ scanned, total }) {
  return html`<p class="progress" role="status" aria-live="polite">
    <progress max=${total} value=${scanned} aria-hidden="true"></progress>
    Scanning the log: ${scanned.toLocaleString("en")} of ${count(total, "record")}
  </p>`;
}

export function Changes({ view, offset }) {
  const query = { after: offsetOf(view.since) ?? -1, until: offsetOf(view.at), count: 100 };
  const { answer, error } = useAnswer("console/v1/changes", query, [JSON.stringify(query), offset]);
  if (!answer) return error ? html`<${ErrorMessage} error=${error} />` : html`<p class="notice">Computing…</p>`;
  return html`${error ? html`<${ErrorMessage} error=${error} />` : null}<p>${count(answer.total, "change")}${answer.total > answer.changes.length ? `, the last ${answer.changes.length}` : ""}</p>
    <ol class="changes">
      ${answer.changes.map(
        (each) => html`<li class=${each.kind}>
          <span class="mark">${{ added: "+", removed: "−", replaced: "±", many: "…" }[each.kind]}</span>
          <bdi>${each.acl ? aclText(each.acl) : `${each.added} added, ${each.removed} removed`}</bdi>
          <small>${each.offset === null ? `by ${stateText(each.end_offset)}` : `${each.kind} at offset ${each.offset}`}, ${timeOf(each.timestamp)}</small>
        </li>`,
      )}
    </ol>`;
}

export function TimeBar({ view, go, time }) {
  const states = time?.past?.moments ?? [];
  const at = offsetOf(view.at);
  const track = useMemo(() => html`<${Track} states=${states} />`, [time?.past]);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(view.since !== undefined), [view.since]);
  let here = states.length - 1;
  if (at !== null) here = Math.max(0, states.findLastIndex((each) => each.end_offset <= at + 1));
  const step = (to) => {
    if (to < 0 || to >= states.length) return;
    go({ at: to === states.length - 1 ? null : urlOffset(states[to].end_offset) }, { replace: true });
  };
  // Before the page is painted, so that a key acts on the shown state.
  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.target.closest("input, select, textarea, dialog") || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowLeft") step(here - 1);
      if (event.key === "ArrowRight") step(here + 1);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  if (!time) return null;
  if (!time.sees_all) {
    return html`<p class="notice">You see only your own current permissions: past states require Describe on the cluster.</p>`;
  }
  if (!time.past && time.pastError) return html`<${ErrorMessage} error=${time.pastError} />`;
  if (!time.past) return html`<p class="notice">Scanning the log…</p>`;
  const state = states[here];
  const gaps = gapsOf(states);
  const { first_end_offset: first, origin, left_out: leftOut, is_whole: isWhole } = time.past;
  const why = leftOut ? `${count(leftOut, "earlier state")} are not listed` : visible(origin);
  const beginning = isWhole && !leftOut ? null : `no state is known before ${stateText(first)}: ${why}`;
  const yesterday = states.findLast((each) => each.timestamp < Date.now() - DAY_MS) ?? states[0];
  return html`<section class="time" aria-label="Time">
    ${time.past.progress ? html`<${Progress} scanned=${time.past.progress[0]} total=${time.past.progress[1]} />` : null}
    <div class="scale">
      <button aria-label="Previous change" disabled=${here <= 0} onClick=${() => step(here - 1)}>◀</button>
      <div class="rail">
        ${beginning ? html`<span class="unknown" aria-hidden="true" title=${beginning}></span>` : null}
        <div class="known">
          ${track}
          <${Gaps} gaps=${gaps} states=${states} />
          <input type="range" min="0" max=${states.length - 1} value=${here} aria-label="State"
            aria-valuetext=${stateAndTime(state)}
            onInput=${(event) => step(Number(event.target.value))} />
        </div>
      </div>
      <button aria-label="Next change" disabled=${here >= states.length - 1} onClick=${() => step(here + 1)}>▶</button>
      <button class="now" disabled=${at === null} onClick=${() => go({ at: null })}>now</button>
    </div>
    <p class="shown-state" aria-live="polite">
      ${at === null ? `Now: ${stateAndTime(time)}` : `Shown: ${shownText(at, state, states[here + 1])}`}, ${count(state.acls, "ACL")}${state.unknown_from === null ? null : html`; <b>${gapText(state.unknown_from, state.end_offset)}</b>`}
    </p>
    ${time.past.refusal ? html`<p class="error" role="status">Spark's history is not shown: ${visible(time.past.refusal)}</p>` : null}
    <${GapList} gaps=${gaps} beginning=${time.past.progress ? null : beginning} />
    <div class="since">
      ${view.since === undefined
        ? html`<button onClick=${() => go({ since: urlOffset(yesterday.end_offset) })}>since yesterday</button>
            <button disabled=${here <= 0} onClick=${() => go({ since: urlOffset(states[Math.max(0, here - 1)].end_offset) })}>the last change</button>`
        : html`<button onClick=${() => go({ since: null })}>stop comparing</button>`}
      <label>since offset <input type="number" min="0" value=${view.since ?? ""} placeholder=${offsetOf(view.since) === -1 ? "start" : ""}
        onChange=${(event) => go({ since: event.target.value })} /></label>
    </div>
    <details open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
      <summary>What changed</summary>
      ${isOpen ? html`<${Changes} view=${view} offset=${time.end_offset} />` : null}
    </details>
  </section>`;
}
