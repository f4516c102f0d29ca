// The track of time: every moment at which an ACL changed, and what changed there.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./htm-preact.js";
import { useAnswer } from "./asked.js";
import { numberOf } from "./view.js";
import { aclText, count, time as timeOf, visible } from "./words.js";

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

// Where nothing is known between two moments: before which one, and since which offset.
function holesOf(moments) {
  return moments.flatMap((each, at) => (each.unknown_from === null ? [] : [{ at, from: each.unknown_from, to: each.offset }]));
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
      ${holes.slice(-HOLES).map(({ from, to }) => html`<li>after offset ${from}, before offset ${to}: ${WHY}</li>`)}
    </ul>
    ${holes.length > HOLES ? html`<p>Of those in between the last ${HOLES}.</p>` : null}
  </details>`;
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
  const question = { after: numberOf(view.since) ?? 0, upto: numberOf(view.at), count: 100 };
  const { answer, error } = useAnswer("console/v1/changes", question, [JSON.stringify(question), offset]);
  if (error) return html`<p class="error" role="alert">${error.message}</p>`;
  if (!answer) return html`<p class="notice">Working it out…</p>`;
  return html`<p>${count(answer.total, "change")}${answer.total > answer.changes.length ? `, the last ${answer.changes.length}` : ""}</p>
    <ol class="changes">
      ${answer.changes.map(
        (each) => html`<li class=${each.kind}>
          <span class="mark">${{ added: "+", removed: "−", replaced: "±", many: "…" }[each.kind]}</span>
          <bdi>${each.acl ? aclText(each.acl) : `${each.added} added, ${each.removed} removed`}</bdi>
          <small>offset ${each.acl?.offset ?? each.offset - 1}, ${timeOf(each.timestamp)}</small>
        </li>`,
      )}
    </ol>`;
}

export function TimeBar({ view, go, time }) {
  const moments = time?.past?.moments ?? [];
  const at = numberOf(view.at);
  const track = useMemo(() => html`<${Track} moments=${moments} />`, [time?.past]);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(view.since !== undefined), [view.since]);
  let here = moments.length - 1;
  if (at !== null) here = Math.max(0, moments.findLastIndex((each) => each.offset <= at));
  const step = (to) => {
    if (to < 0 || to >= moments.length) return;
    go({ at: to === moments.length - 1 ? null : moments[to].offset }, { replace: true });
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
  if (time.pastError) return html`<p class="error" role="alert">${time.pastError.message}</p>`;
  if (!time.past) return html`<p class="notice">Going back through the log…</p>`;
  const moment = moments[here];
  const holes = holesOf(moments);
  const { first, origin, left_out: leftOut, is_whole: isWhole } = time.past;
  const why = leftOut ? `${count(leftOut, "earlier moment")} are not listed` : visible(origin);
  const beginning = isWhole && !leftOut ? null : `nothing is known of what was before offset ${first}: ${why}`;
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
            aria-valuetext=${`offset ${moment.offset}, ${timeOf(moment.timestamp)}`}
            onInput=${(event) => step(Number(event.target.value))} />
        </div>
      </div>
      <button aria-label="One change on" disabled=${here >= moments.length - 1} onClick=${() => step(here + 1)}>▶</button>
      <button class="now" disabled=${at === null} onClick=${() => go({ at: null })}>now</button>
    </div>
    <p class="moment" aria-live="polite">
      ${at === null ? "Now" : "Then"}: offset ${at ?? time.offset}, ${timeOf(moment.timestamp)}, ${count(moment.acls, "ACL")}${moment.unknown_from === null ? null : html`; <b>between offset ${moment.unknown_from} and ${moment.offset} nothing is known</b>`}
    </p>
    ${time.past.refusal ? html`<p class="error" role="status">Spark's history is not shown: ${visible(time.past.refusal)}</p>` : null}
    <${HolesInWords} holes=${holes} beginning=${time.past.progress ? null : beginning} />
    <div class="since">
      ${view.since === undefined
        ? html`<button onClick=${() => go({ since: yesterday.offset })}>since yesterday</button>
            <button disabled=${here <= 0} onClick=${() => go({ since: moments[Math.max(0, here - 1)].offset })}>the last change</button>`
        : html`<button onClick=${() => go({ since: null })}>stop comparing</button>`}
      <label>since offset <input type="number" min="0" value=${view.since ?? ""}
        onChange=${(event) => go({ since: event.target.value })} /></label>
    </div>
    <details open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
      <summary>What changed</summary>
      ${isOpen ? html`<${Changes} view=${view} offset=${time.offset} />` : null}
    </details>
  </section>`;
}
