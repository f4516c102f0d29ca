// The time bar: every known state, and the changes between them.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./htm-preact.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { offsetOf, urlOffset } from "./view.js";
import { ask } from "./api.js";
import { ChangeLines } from "./changes_view.js";
import { PERIODS, day, fromInput, inputValue, periodOf } from "./dates.js";
import { count, datedOffset, offsetText, stateAndTime, stateText, timeAt, visible } from "./words.js";

const BARS = 240;
const TICKS = 6;
// Maximum number of changes listed below the bar.
const LISTED_MAXIMUM = 100;
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

function gapText(from, to, past) {
  return `between ${datedOffset(from - 1, past)} and ${datedOffset(to - 1, past)} the states are unknown`;
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
function GapList({ gaps, beginning, past }) {
  const number = gaps.length + (beginning ? 1 : 0);
  if (!number) return null;
  return html`<details class="gaps">
    <summary>${count(number, "gap")} in the known history</summary>
    <ul>
      ${beginning ? html`<li>${beginning}</li>` : null}
      ${gaps.slice(-GAPS_MAXIMUM).map(({ from, to }) => html`<li>${gapText(from, to, past)}: ${GAP_REASON}</li>`)}
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

// Days along the bar. The bar has equal steps for each state, so days are not evenly spaced.
function Axis({ states }) {
  const days = states.map((each) => (each.timestamp > 0 ? day(each.timestamp) : ""));
  const ticks = [];
  for (let number = 0; number <= TICKS; number += 1) {
    const at = Math.round((number * (states.length - 1)) / TICKS);
    if (days[at] && days[at] !== ticks.at(-1)?.text) {
      ticks.push({ text: days[at], left: states.length > 1 ? at / (states.length - 1) : 0 });
    }
  }
  return html`<ol class="axis" aria-label="Days along the bar">
    ${ticks.map(({ text, left }, number) => html`<li class=${number && number < ticks.length - 1 ? "extra" : ""} style=${{ left: `${left * 100}%`, transform: `translateX(-${left * 100}%)` }}>${text}</li>`)}
  </ol>`;
}

// The last state up to a time. The page lists the newest states only; the node knows earlier ones.
async function stateAt(ms, past) {
  const known = past.moments.findLast((each) => each.timestamp > 0 && each.timestamp <= ms);
  if (known) return known;
  const { at_time: earlier } = await ask("console/v1/moments", { time: Math.floor(ms) });
  return earlier;
}

// Chooses the shown period: by name, by dates, or by an offset.
function Period({ view, go, time, previous }) {
  const [problem, setProblem] = useState(null);
  const since = offsetOf(view.since);
  const at = offsetOf(view.at);
  const show = async (from, until) => {
    try {
      const changes = {};
      if (from !== undefined) changes.since = urlOffset((await stateAt(from, time.past)).end_offset);
      if (until !== undefined) changes.at = until === null ? null : urlOffset((await stateAt(until, time.past)).end_offset);
      setProblem(null);
      go(changes);
    } catch (error) {
      setProblem(error);
    }
  };
  const entered = (apply) => (event) => {
    const ms = fromInput(event.target.value);
    if (!Number.isNaN(ms)) apply(ms);
  };
  const dateOf = (offset) => {
    const ms = offset === null ? 0 : timeAt(offset, time.past);
    return ms > 0 ? inputValue(ms) : "";
  };
  return html`<div class="since">
    ${view.since === undefined
      ? html`<button disabled=${previous === undefined} onClick=${() => go({ since: urlOffset(previous.end_offset) })}>the last change</button>`
      : html`<button onClick=${() => go({ since: null })}>stop comparing</button>`}
    <label>compare <select aria-label="Period" value="" onChange=${(event) => {
      const name = event.target.value;
      event.target.value = "";
      show(...periodOf(name, time.nodeTime()));
    }}>
      <option value="">choose a period</option>
      ${Object.entries(PERIODS).map(([name, [label]]) => html`<option value=${name}>${label}</option>`)}
    </select></label>
    <label>from <input type="datetime-local" value=${dateOf(since)} onChange=${entered((ms) => show(ms))} /></label>
    <label>to <input type="datetime-local" value=${dateOf(at)} onChange=${entered((ms) => show(undefined, ms))} /></label>
    <label>since offset <input type="number" min="0" value=${view.since ?? ""} placeholder=${since === -1 ? "start" : ""}
      onChange=${(event) => go({ since: event.target.value })} /></label>
    ${since === null ? null : html`<span class="period">Compared: ${datedOffset(since, time.past)} to ${at === null ? "now" : datedOffset(at, time.past)}</span>`}
    ${problem ? html`<${ErrorMessage} error=${problem} />` : null}
  </div>`;
}

function Progress({ scanned, total }) {
  return html`<p class="progress" role="status" aria-live="polite">
    <progress max=${total} value=${scanned} aria-hidden="true"></progress>
    Scanning the log: ${scanned.toLocaleString("en")} of ${count(total, "record")}
  </p>`;
}

// The newest changes of the compared period; the view Changes has all of them.
export function Changes({ view, go, offset }) {
  const query = { after: offsetOf(view.since) ?? -1, until: offsetOf(view.at), count: LISTED_MAXIMUM };
  const { answer, error } = useAnswer("console/v1/changes", query, [JSON.stringify(query), offset]);
  if (!answer) return error ? html`<${ErrorMessage} error=${error} />` : html`<p class="notice">Computing…</p>`;
  const { total, changes } = answer;
  return html`${error ? html`<${ErrorMessage} error=${error} />` : null}
    <p>${count(total, "change")}${total > changes.length ? `, the last ${changes.length}` : ""}${" "}
      <button onClick=${() => go({ view: "changes", first: null })}>list, filter and export all</button></p>
    <${ChangeLines} changes=${changes} />`;
}

// Whether the window has room for one line of the bar only.
function useCompact() {
  const query = useMemo(() => matchMedia("(max-width: 700px), (max-height: 560px)"), []);
  const [isCompact, setCompact] = useState(query.matches);
  useEffect(() => {
    const changed = () => setCompact(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isCompact;
}

export function TimeBar({ view, go, time }) {
  const isCompact = useCompact();
  const [isBarOpen, setBarOpen] = useState(false);
  const states = time?.past?.moments ?? [];
  const at = offsetOf(view.at);
  const track = useMemo(() => html`<${Track} states=${states} />`, [time?.past]);
  const [isOpen, setOpen] = useState(false);
  // Beside other views the list would cover what they show.
  useEffect(() => setOpen(view.since !== undefined && view.view === "matrix"), [view.since, view.view]);
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
  const isLine = isCompact && !isBarOpen;
  const shown = html`<p class="shown-state" aria-live="polite">
      ${at === null ? `Now: ${stateAndTime(time)}` : `Shown: ${shownText(at, state, states[here + 1])}`}, ${count(state.acls, "ACL")}${state.unknown_from === null ? null : html`; <b>${gapText(state.unknown_from, state.end_offset, time.past)}</b>`}
    </p>`;
  return html`<section class=${`time ${isLine ? "line" : ""}`} aria-label="Time">
    ${time.past.progress ? html`<${Progress} scanned=${time.past.progress[0]} total=${time.past.progress[1]} />` : null}
    <div class="scale">
      <button aria-label="Previous change" disabled=${here <= 0} onClick=${() => step(here - 1)}>◀</button>
      ${isLine ? shown : html`<div class="rail">
        ${beginning ? html`<span class="unknown" aria-hidden="true" title=${beginning}></span>` : null}
        <div class="known">
          ${track}
          <${Gaps} gaps=${gaps} states=${states} />
          <input type="range" min="0" max=${states.length - 1} value=${here} aria-label="State"
            aria-valuetext=${stateAndTime(state)}
            onInput=${(event) => step(Number(event.target.value))} />
          <${Axis} states=${states} />
        </div>
      </div>`}
      <button aria-label="Next change" disabled=${here >= states.length - 1} onClick=${() => step(here + 1)}>▶</button>
      <button class="now" disabled=${at === null} onClick=${() => go({ at: null })}>now</button>
      ${isCompact ? html`<button aria-expanded=${isBarOpen} onClick=${() => setBarOpen(!isBarOpen)}>${isBarOpen ? "less" : "more"}</button>` : null}
    </div>
    ${isLine ? null : html`${shown}
    ${time.past.refusal ? html`<p class="error" role="status">Spark's history is not shown: ${visible(time.past.refusal)}</p>` : null}
    <${GapList} gaps=${gaps} beginning=${time.past.progress ? null : beginning} past=${time.past} />
    <${Period} view=${view} go=${go} time=${time} previous=${states[here - 1]} />
    ${view.view === "changes"
      ? null
      : html`<details open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
          <summary>What changed</summary>
          ${isOpen ? html`<${Changes} view=${view} go=${go} offset=${time.end_offset} />` : null}
        </details>`}`}
  </section>`;
}
