// The track of time: every moment at which an ACL changed, and what changed there.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./htm-preact.js";
import { useAnswer } from "./asked.js";
import { Trouble } from "./trouble.js";
import { offsetOf, urlOffset } from "./view.js";
import { aclText, count, offsetText, stateAndTime, stateText, time as timeOf, visible } from "./words.js";

const DAY_MS = 86_400_000;
const BARS = 240;
// Holes that are listed.
const HOLES = 50;

// How much changed in each of some equal parts of the moments.
function bars(moments) {
  const parts = Math.min(BARS, moments.length);
  const found = Array.from({ length: parts }, () => 0);
  moments.forEach((each, at) => {
    found[Math.floor((at * parts) / moments.length)] += each.added + each.removed;
  });
  return found;
}

// Where nothing is known between two moments: where, and the end offsets of the states around it.
function holesOf(moments) {
  return moments.flatMap((each, at) => (each.unknown_from === null ? [] : [{ at, from: each.unknown_from, to: each.end_offset }]));
}

function holeText(from, to) {
  return `between ${stateText(from)} and ${stateText(to)} nothing is known`;
}

const WHY = "records are missing there: they were compacted away, or Spark has not read them as they were written";

// Hatched, as close to one another as the bars are at most.
function Holes({ holes, moments }) {
  const places = new Set(holes.map(({ at }) => Math.floor((at * BARS) / moments.length)));
  return [...places].map(
    (place) => html`<span class="hole" aria-hidden="true" title=${WHY} style=${{ left: `${(place / BARS) * 100}%` }}></span>`,
  );
}

// The same for who cannot see it; `beginning` says why nothing is known before the first moment.
function HolesInWords({ holes, beginning }) {
  const number = holes.length + (beginning ? 1 : 0);
  if (!number) return null;
  return html`<details class="holes">
    <summary>${count(number, "hole")} in what is known</summary>
    <ul>
      ${beginning ? html`<li>${beginning}</li>` : null}
      ${holes.slice(-HOLES).map(({ from, to }) => html`<li>${holeText(from, to)}: ${WHY}</li>`)}
    </ul>
    ${holes.length > HOLES ? html`<p>Of those in between the last ${HOLES}.</p>` : null}
  </details>`;
}

// Which state is looked at, of the moment that it is at or after; `next` is the one that follows.
function thenText(at, moment, next) {
  if (at + 1 === moment.end_offset) return stateAndTime(moment);
  if (next && next.unknown_from === null && next.first_record !== null && next.first_record <= at) {
    return `${offsetText(at)} is inside a batch, of the offsets ${next.first_record} to ${next.end_offset - 1}. Before it`;
  }
  return `${offsetText(at)}, last changed at ${stateAndTime(moment)}`;
}

function Track({ moments }) {
  const heights = bars(moments);
  const most = Math.log1p(Math.max(1, ...heights));
  return html`<svg class="track" viewBox=${`0 0 ${heights.length} 10`} preserveAspectRatio="none" aria-hidden="true">
    ${heights.map((each, at) => {
      const height = each ? 1 + (9 * Math.log1p(each)) / most : 0;
      return html`<rect x=${at + 0.1} width="0.8" y=${10 - height} height=${height} />`;
    })}
  </svg>`;
}

function Progress({ looked, every }) {
  return html`<p class="progress" role="status" aria-live="polite">
    <progress max=${every} value=${looked} aria-hidden="true"></progress>
    Going back through the log: ${looked.toLocaleString("en")} of ${count(every, "record")}
  </p>`;
}

export function Changes({ view, offset }) {
  const question = { after: offsetOf(view.since) ?? -1, until: offsetOf(view.at), count: 100 };
  const { answer, error } = useAnswer("console/v1/changes", question, [JSON.stringify(question), offset]);
  if (!answer) return error ? html`<${Trouble} error=${error} />` : html`<p class="notice">Working it out…</p>`;
  return html`${error ? html`<${Trouble} error=${error} />` : null}<p>${count(answer.total, "change")}${answer.total > answer.changes.length ? `, the last ${answer.changes.length}` : ""}</p>
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
  const moments = time?.past?.moments ?? [];
  const at = offsetOf(view.at);
  const track = useMemo(() => html`<${Track} moments=${moments} />`, [time?.past]);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(view.since !== undefined), [view.since]);
  let here = moments.length - 1;
  if (at !== null) here = Math.max(0, moments.findLastIndex((each) => each.end_offset <= at + 1));
  const step = (to) => {
    if (to < 0 || to >= moments.length) return;
    go({ at: to === moments.length - 1 ? null : urlOffset(moments[to].end_offset) }, { replace: true });
  };
  // Before the page is painted: a key is about what it shows.
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
    return html`<p class="notice">You see your own answers as they are now: the past takes Describe on the cluster.</p>`;
  }
  if (!time.past && time.pastError) return html`<${Trouble} error=${time.pastError} />`;
  if (!time.past) return html`<p class="notice">Going back through the log…</p>`;
  const moment = moments[here];
  const holes = holesOf(moments);
  const { first_end_offset: first, origin, left_out: leftOut, is_whole: isWhole } = time.past;
  const why = leftOut ? `${count(leftOut, "earlier moment")} are not listed` : visible(origin);
  const beginning = isWhole && !leftOut ? null : `nothing is known of what was before ${stateText(first)}: ${why}`;
  const yesterday = moments.findLast((each) => each.timestamp < Date.now() - DAY_MS) ?? moments[0];
  return html`<section class="time" aria-label="Time">
    ${time.past.progress ? html`<${Progress} looked=${time.past.progress[0]} every=${time.past.progress[1]} />` : null}
    <div class="scale">
      <button aria-label="One change back" disabled=${here <= 0} onClick=${() => step(here - 1)}>◀</button>
      <div class="rail">
        ${beginning ? html`<span class="unknown" aria-hidden="true" title=${beginning}></span>` : null}
        <div class="known">
          ${track}
          <${Holes} holes=${holes} moments=${moments} />
          <input type="range" min="0" max=${moments.length - 1} value=${here} aria-label="Moment"
            aria-valuetext=${stateAndTime(moment)}
            onInput=${(event) => step(Number(event.target.value))} />
        </div>
      </div>
      <button aria-label="One change on" disabled=${here >= moments.length - 1} onClick=${() => step(here + 1)}>▶</button>
      <button class="now" disabled=${at === null} onClick=${() => go({ at: null })}>now</button>
    </div>
    <p class="moment" aria-live="polite">
      ${at === null ? `Now: ${stateAndTime(time)}` : `Then: ${thenText(at, moment, moments[here + 1])}`}, ${count(moment.acls, "ACL")}${moment.unknown_from === null ? null : html`; <b>${holeText(moment.unknown_from, moment.end_offset)}</b>`}
    </p>
    ${time.past.refusal ? html`<p class="error" role="status">Spark's history is not shown: ${visible(time.past.refusal)}</p>` : null}
    <${HolesInWords} holes=${holes} beginning=${time.past.progress ? null : beginning} />
    <div class="since">
      ${view.since === undefined
        ? html`<button onClick=${() => go({ since: urlOffset(yesterday.end_offset) })}>since yesterday</button>
            <button disabled=${here <= 0} onClick=${() => go({ since: urlOffset(moments[Math.max(0, here - 1)].end_offset) })}>the last change</button>`
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
