// What is looked at stands in the URL, behind the #, so that it can be pasted into a ticket.

import { useEffect, useState } from "./htm-preact.js";
import { OPERATIONS, TYPES } from "./words.js";

const DEFAULTS = { view: "matrix", type: "TOPIC" };

function read() {
  return { ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
}

// A whole number from 0 on; null where there is none.
export function numberOf(text) {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : null;
}

// In the URL, the state before the log's first record. Any other state is named by the offset of its last record.
const START = "start";

// What `at` and `since` name: the offset of a state's last record; -1 before the first one; null for now.
export function offsetOf(text) {
  return text === START ? -1 : numberOf(text);
}

// The same for the URL, of a state that ends at `endOffset`: one more than the offset of its last record.
export function urlOffset(endOffset) {
  return endOffset ? String(endOffset - 1) : START;
}

const NAMED = { at: "Shown is now.", since: "Nothing is compared." };

// Why `at` or `since` names no state; null if it may.
function offsetProblem(name, text, time) {
  const offset = offsetOf(text);
  if (offset === null) {
    return `${name}=${text} in the URL is no offset: a whole number from 0 on, or ${START}. ${NAMED[name]}`;
  }
  // Of a file's log more may have come since.
  if (time && !time.facts && offset >= time.end_offset) {
    const end = time.end_offset ? `the last record here has offset ${time.end_offset - 1}` : "the log is empty";
    return `${name}=${text} in the URL is beyond the end of the log: ${end}. ${NAMED[name]}`;
  }
  return null;
}

// The view without what the URL says wrong, and what that is, by its name.
export function checkedView(view, time) {
  const problems = {};
  for (const name of ["at", "since"]) {
    const problem = view[name] === undefined ? null : offsetProblem(name, view[name], time);
    if (problem !== null) problems[name] = problem;
  }
  for (const [name, known] of [["type", TYPES], ["operation", OPERATIONS]]) {
    if (view[name] !== undefined && !known.includes(view[name])) {
      problems[name] = `${name}=${view[name]} in the URL is none of ${known.join(", ")}.`;
    }
  }
  const kept = Object.entries(view).filter(([name]) => !(name in problems));
  return [{ ...DEFAULTS, ...Object.fromEntries(kept) }, problems];
}

// The view, and how to change it: what is null or empty leaves the URL. `replace` for what has no way back.
export function useView() {
  const [view, setView] = useState(read);
  useEffect(() => {
    const changed = () => setView(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const go = (changes, { replace = false } = {}) => {
    const next = { ...read(), ...changes };
    const kept = Object.entries(next).filter(
      ([name, value]) => value !== null && value !== undefined && value !== "" && DEFAULTS[name] !== value,
    );
    const hash = `#${new URLSearchParams(kept.map(([name, value]) => [name, String(value)]))}`;
    if (replace) history.replaceState(null, "", hash);
    else if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
    setView(read());
  };
  return [view, go];
}
