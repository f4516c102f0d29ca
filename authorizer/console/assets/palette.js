// The command palette: principals, names, dates and views, found as you type.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { ask } from "./api.js";
import { day, fromInput } from "./dates.js";
import { useAnswer } from "./use_answer.js";
import { urlOffset } from "./view.js";
import { nameOf, title, visible } from "./words.js";

const PAUSE_MS = 150;
const COUNT = 5;
const ENTRIES_MAXIMUM = 12;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

// What the view's other parameters must not keep.
const ONE_REQUEST = { view: "ask", prefix: null, anyone: null, host: null, first: null };

function ofType(resource) {
  return { type: resource.type, name: resource.text, prefix: resource.is_name ? null : "yes" };
}

// May this principal READ this name? For two words.
function pairs(words) {
  const [first, second] = words;
  if (!second) return [];
  const combine = (who, what) =>
    who.principals.flatMap((principal) =>
      what.names.slice(0, 3).map((resource) => ({
        text: `May ${principal} Read ${title(resource.type)} ${nameOf(resource)}?`,
        kind: "decision",
        go: { ...ONE_REQUEST, principal, operation: "READ", ...ofType(resource) },
      })),
    );
  return [...combine(first, second), ...combine(second, first)];
}

function singles({ principals, teams, names }) {
  const who = principals.map((principal) => ({
    text: principal,
    kind: "principal: what may it do?",
    go: { view: "matrix", who: principal, under: null, containing: null, teams: null, column: null },
  }));
  const groups = teams.map((team) => ({
    text: team,
    kind: "team: what may its principals do?",
    go: { view: "matrix", team, teams: "yes", who: null, under: null, containing: null, column: null },
  }));
  const what = names.map((resource) => ({
    text: nameOf(resource),
    kind: `${title(resource.type)}: who may read it?`,
    go: { ...ONE_REQUEST, anyone: "yes", principal: null, operation: "READ", ...ofType(resource) },
  }));
  return [...who, ...groups, ...what];
}

// Entries that need no answer of the node.
function fixed(text, views) {
  const wanted = text.toLowerCase();
  const found = Object.entries(views)
    .filter(([, label]) => wanted && label.toLowerCase().startsWith(wanted))
    .map(([view, label]) => ({ text: label, kind: "view", go: { view } }));
  if (DATE.test(text) && fromInput(`${text}T23:59:59`) > 0) found.push({ text, kind: "state at the end of this day", date: text });
  return found;
}

// No name contains the text: its request can be made all the same.
function unknown(text) {
  const principal = text.includes(":") ? text : `User:${text}`;
  return { text: principal, kind: "no ACL names it: ask about it", go: { ...ONE_REQUEST, principal, operation: "READ" } };
}

function entriesOf(text, words, views) {
  const found = [...fixed(text, views), ...pairs(words), ...words.flatMap(singles)].slice(0, ENTRIES_MAXIMUM);
  return found.length || !text || text.includes(" ") ? found : [unknown(text)];
}

export function Palette({ views, time, go, close }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [settled, setSettled] = useState("");
  const [selected, setSelected] = useState(0);
  const [problem, setProblem] = useState(null);
  // Before the next key: it belongs to the input.
  useLayoutEffect(() => dialog.current.showModal(), []);
  // One request for each pause in typing.
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const query = settled && time?.sees_all && !DATE.test(settled) ? { text: settled, count: COUNT } : null;
  const { answer } = useAnswer("console/v1/names", query, [settled]);
  const isSettled = settled === text.trim();
  const words = query && isSettled && answer ? answer.words : [];
  const entries = isSettled && !(query && !answer) ? entriesOf(settled, words, views) : fixed(text.trim(), views);
  const at = Math.min(selected, entries.length - 1);
  const choose = async (entry) => {
    if (entry.date) {
      const ms = fromInput(`${entry.date}T23:59:59`);
      try {
        const { at_time: state } = await ask("console/v1/moments", { time: ms });
        // The first known state, if that is later.
        if (state.end_offset && state.timestamp > ms) return setProblem(`No state of ${day(ms)} is known.`);
        go({ at: urlOffset(state.end_offset) });
      } catch (error) {
        return setProblem(error.message);
      }
    } else go(entry.go);
    dialog.current?.close();
    // Removes the input, which else has the focus, and so the next key, until the next frame.
    return close();
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && entries.length) {
      event.preventDefault();
      setSelected((at + step + entries.length) % entries.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (entries[at]) choose(entries[at]);
    }
  };
  return html`<dialog class="palette" ref=${dialog} aria-label="Go to" onClose=${close}>
    <input role="combobox" aria-expanded=${entries.length > 0} aria-controls="palette-entries" aria-autocomplete="list"
      aria-activedescendant=${entries.length ? `palette-${at}` : null} aria-label="Principal, name, date or view"
      placeholder="alice orders, a date, a view" autocomplete="off" spellcheck=${false} value=${text}
      onInput=${(event) => {
        setText(event.target.value);
        setSelected(0);
        setProblem(null);
      }} onKeyDown=${onKeyDown} />
    <ul id="palette-entries" role="listbox" aria-label="Found">
      ${entries.map(
        (each, number) => html`<li id=${`palette-${number}`} role="option" aria-selected=${number === at}
          onClick=${() => choose(each)}><bdi>${visible(each.text)}</bdi> <small>${each.kind}</small></li>`,
      )}
    </ul>
    ${problem ? html`<p class="error" role="alert">${visible(problem)}</p>` : null}
    ${time?.sees_all ? null : html`<p class="notice">Only views are found: names require Describe on the cluster.</p>`}
  </dialog>`;
}
