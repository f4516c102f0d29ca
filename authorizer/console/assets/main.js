// The console: one view at a time, with the time bar below it.

import { html, render, useEffect, useMemo, useState } from "./htm-preact.js";
import { AclsView } from "./acls_view.js";
import { useAnswer, usePoll } from "./use_answer.js";
import { AskView } from "./ask_view.js";
import { NO_CHANGE, storedOf } from "./change.js";
import { Copy } from "./copy.js";
import { loadDrafts, useDraft } from "./draft.js";
import { ChangesView } from "./changes_view.js";
import { CompareView } from "./compare_view.js";
import { FindingsView } from "./findings_view.js";
import { MatrixView } from "./matrix_view.js";
import { LABEL, NodeView } from "./node_view.js";
import { Palette } from "./palette.js";
import { PrintProvider, usePrint } from "./print.js";
import { ErrorMessage, PollError } from "./error_message.js";
import { TimeBar } from "./time_bar.js";
import { checkedView, offsetOf, useView } from "./view.js";
import { ZONES, setZone } from "./dates.js";
import { datedOffset, stateAndTime, title, visible } from "./words.js";

const VIEWS = {
  matrix: ["Matrix", MatrixView],
  ask: ["Ask", AskView],
  compare: ["Compare", CompareView],
  changes: ["Changes", ChangesView],
  acls: ["ACLs", AclsView],
  findings: ["Findings", FindingsView],
  node: [LABEL, NodeView],
};

const LABELS = Object.fromEntries(Object.entries(VIEWS).map(([name, [label]]) => [name, label]));

// How often the page polls the progress of the log scan.
const PROGRESS_MS = 1000;

// The node's status and its known past states; the states are loaded again after each change.
function useTime() {
  const [now, error, refresh] = usePoll("console/v1/now");
  // During the scan each poll returns more states.
  const [pollCount, setPollCount] = useState(0);
  const past = useAnswer("console/v1/moments", now?.sees_all ? {} : null, [now?.end_offset, now?.sees_all, pollCount]);
  useEffect(() => {
    if (!past.answer?.progress) return undefined;
    const timer = setTimeout(() => setPollCount(pollCount + 1), PROGRESS_MS);
    return () => clearTimeout(timer);
  }, [past.answer]);
  const received = useMemo(() => performance.now(), [past.answer]);
  // The node's clock: the browser's may be wrong, but it knows how much time has passed.
  const nodeTime = () => past.answer.now + performance.now() - received;
  const time = now && { ...now, past: past.answer, pastError: past.error, nodeTime };
  return [time, error, refresh];
}

// The console's title, or a report's.
const TITLE = document.title;

function titleOf(view, time) {
  const parts = [LABELS[view.view] ?? LABELS.matrix];
  if (view.view === "ask" && (view.name || view.principal)) {
    parts.unshift(`${view.principal ?? "who may"} ${title(view.operation ?? "READ")} ${view.name ?? ""}${view.prefix ? "*" : ""}`);
  }
  if (view.at) parts.push(`at ${view.at}`);
  if (time?.cluster) parts.push(time.cluster);
  return visible((time?.facts ? [TITLE, ...parts] : [...parts, TITLE]).join(" · "));
}

// Invalid parameters of the URL.
function Problems({ problems, go }) {
  return Object.entries(problems).map(
    ([name, problem]) => html`<p class="error" role="alert">
      <bdi>${visible(problem)}</bdi> <button onClick=${() => go({ [name]: null })}>Remove ${name} from the URL</button>
    </p>`,
  );
}

function Console() {
  const [urlView, go] = useView();
  const [time, error, refresh] = useTime();
  const [view, problems] = checkedView(urlView, time);
  setZone(view.zone);
  const [change, setChange, isChangeStored] = useDraft("change", NO_CHANGE, storedOf);
  // The number of the open palette: the close event of one that is gone does not close the next.
  const [palette, setPalette] = useState({ last: 0, open: null });
  const openPalette = () => setPalette(({ last }) => ({ last: last + 1, open: last + 1 }));
  const closePalette = (number) => setPalette((now) => (now.open === number ? { ...now, open: null } : now));
  const [printing, print, printError] = usePrint();
  useEffect(() => {
    const pressed = (event) => {
      // The browser's command would print the loaded lines only.
      if (event.key === "p" && (event.ctrlKey || event.metaKey) && time) {
        event.preventDefault();
        if (printing === null) print();
      }
      const isControlK = event.key === "k" && (event.ctrlKey || event.metaKey);
      const isSlash = event.key === "/" && !event.target.closest("input, select, textarea");
      if ((!isControlK && !isSlash) || event.target.closest("dialog")) return;
      event.preventDefault();
      openPalette();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  const documentTitle = titleOf(view, time);
  useEffect(() => {
    document.title = documentTitle;
  }, [documentTitle]);
  const [, View] = VIEWS[view.view] ?? VIEWS.matrix;
  return html`
    <header>
      <h1>aclog</h1>
      <nav aria-label="Views">
        ${Object.entries(VIEWS).map(
          ([name, [label]]) => html`<button aria-current=${view.view === name ? "page" : null}
            onClick=${() => go({ view: name })}>${label}</button>`,
        )}
      </nav>
      <button class="go-to" aria-keyshortcuts="/ Control+K" onClick=${openPalette}>Go to… <kbd>/</kbd></button>
      <${Copy} text=${location.href} what="link to this view" label="Copy link" />
      <button class="print" disabled=${!time || printing !== null} onClick=${print}>Print</button>
      <label class="zone">Times in <select value=${view.zone ?? "utc"}
        onChange=${(event) => go({ zone: event.target.value === "utc" ? null : event.target.value })}>
        ${Object.entries(ZONES).map(([name, zone]) => html`<option value=${name}>${zone}${name === "local" ? " (browser)" : ""}</option>`)}
      </select></label>
      <p class="status">
        ${time ? html`${time.caller ? html`<bdi>${visible(time.caller)}</bdi> · ` : null}${stateAndTime(time)}${view.at ? html` · <b>showing ${datedOffset(offsetOf(view.at), time.past)}</b>` : null}` : null}
      </p>
    </header>
    <main class=${time && error ? "stale" : ""}>
      <p class="printed">${documentTitle}${time ? `, ${stateAndTime(time)}` : ""}<br /><bdi>${visible(location.href)}</bdi></p>
      <${PollError} error=${error} onToken=${refresh} />
      ${isChangeStored ? null : html`<p class="notice" role="status">The change of the ACLs is too large for this browser's storage: a reload loses it.</p>`}
      <${Problems} problems=${problems} go=${go} />
      ${time
        ? html`${printing ? html`<p class="notice" role="status">Loading all lines to print…</p>` : null}
            ${printError ? html`<${ErrorMessage} error=${printError} />` : null}
            <${PrintProvider} value=${printing}><${View} ...${{ view, go, time, refresh, change, setChange }} /><//>`
        : error ? null : html`<p class="notice">Loading…</p>`}
    </main>
    ${palette.open ? html`<${Palette} key=${palette.open} views=${LABELS} time=${time} go=${go}
      close=${() => closePalette(palette.open)} />` : null}
    <footer>${time ? html`<${TimeBar} view=${view} go=${go} time=${time} />` : null}</footer>
  `;
}

function show() {
  const root = document.getElementById("console");
  root.replaceChildren();
  render(html`<${Console} />`, root);
}

// A browser that cannot read its drafts shows the page without them.
loadDrafts().catch(() => null).then(show);
