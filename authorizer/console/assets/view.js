// The view's parameters in the URL's fragment, so that a link shows the same view.

import { useEffect, useState } from "./htm-preact.js";
import { ZONES } from "./dates.js";
import { ANY, OPERATIONS, TYPES } from "./words.js";

const DEFAULTS = { view: "matrix", type: "TOPIC" };

const SHARED = ["view", "at", "since", "zone"];
const FILTERS = ["who", "team", "containing", "only_type", "only_operation", "everyone", "first"];
// The parameters of each view; a link has no others.
const PARAMETERS = {
  matrix: ["type", "under", "containing", "who", "teams", "team", "name_teams", "name_team", "changed", "column", "operation"],
  ask: ["principal", "anyone", "operation", "type", "name", "prefix", "host", "operations", "who", "team", "sort", "first"],
  compare: ["with", "changes", "everything", "cluster", "effect", "temporary_first", ...FILTERS],
  changes: ["order", "effect", "temporary", ...FILTERS],
  acls: ["text", "lint", "first"],
  findings: ["rule", "severity", "accepted", ...FILTERS],
  node: [],
};

// The parameters of views that were left, so that they are the same when the view is shown again.
const leftViews = {};

function viewNameOf(parameters) {
  return parameters.view in PARAMETERS ? parameters.view : DEFAULTS.view;
}

// Without parameters of other views, which older links may have.
function withoutOthers(parameters) {
  const known = [...SHARED, ...PARAMETERS[viewNameOf(parameters)]];
  return Object.fromEntries(Object.entries(parameters).filter(([name]) => known.includes(name)));
}

function read() {
  return { ...DEFAULTS, ...withoutOthers(Object.fromEntries(new URLSearchParams(location.hash.slice(1)))) };
}

// The parameters after a step to another view: its former ones, and those that all views share.
function enter(view, current) {
  leftViews[viewNameOf(current)] = current;
  const shared = Object.fromEntries(SHARED.map((name) => [name, current[name]]));
  return { ...leftViews[view], ...shared };
}

// A non-negative integer; null if the text is none.
export function numberOf(text) {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : null;
}

// Name of the state before the first record. Other states are named by the offset of their last record.
const START = "start";

// The offset that `at` or `since` names; -1: before the first record; null: the current state.
export function offsetOf(text) {
  return text === START ? -1 : numberOf(text);
}

// The URL's name of the state that ends at `endOffset`.
export function urlOffset(endOffset) {
  return endOffset ? String(endOffset - 1) : START;
}

const FALLBACK = { at: "The current state is shown.", since: "No state is compared." };

// Why `at` or `since` is invalid; null if it is valid.
function offsetProblem(name, text, time) {
  const offset = offsetOf(text);
  if (offset === null) {
    return `${name}=${text} in the URL is not an offset (0 or more) or ${START}. ${FALLBACK[name]}`;
  }
  // The log of a report may have grown.
  if (time && !time.facts && offset >= time.end_offset) {
    const end = time.end_offset ? `the last record here has offset ${time.end_offset - 1}` : "the log is empty";
    return `${name}=${text} in the URL is beyond the end of the log: ${end}. ${FALLBACK[name]}`;
  }
  return null;
}

// The view without invalid parameters, and their problems by name.
export function checkedView(view, time) {
  const problems = {};
  for (const name of ["at", "since"]) {
    const problem = view[name] === undefined ? null : offsetProblem(name, view[name], time);
    if (problem !== null) problems[name] = problem;
  }
  for (const [name, known] of [["type", TYPES], ["operation", [...OPERATIONS, ANY]], ["zone", Object.keys(ZONES)]]) {
    if (view[name] !== undefined && !known.includes(view[name])) {
      problems[name] = `${name}=${view[name]} in the URL is not one of ${known.join(", ")}.`;
    }
  }
  const valid = Object.entries(view).filter(([name]) => !(name in problems));
  return [{ ...DEFAULTS, ...Object.fromEntries(valid) }, problems];
}

// The view, and a function that changes it; null and empty values leave the URL. `replace` adds no history entry.
export function useView() {
  const [view, setView] = useState(read);
  useEffect(() => {
    const changed = () => setView(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const go = (changes, { replace = false } = {}) => {
    const current = read();
    const isSameView = (changes.view ?? current.view) === current.view;
    const next = { ...(isSameView ? current : enter(changes.view, current)), ...changes };
    const known = withoutOthers(next);
    const lost = Object.keys(changes).find((name) => ![null, undefined, ""].includes(changes[name]) && !(name in known));
    if (lost) throw new Error(`${lost} is not a parameter of the view ${next.view}`);
    const present = Object.entries(known).filter(
      ([name, value]) => value !== null && value !== undefined && value !== "" && DEFAULTS[name] !== value,
    );
    const hash = `#${new URLSearchParams(present.map(([name, value]) => [name, String(value)]))}`;
    if (replace) history.replaceState(null, "", hash);
    else if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
    setView(read());
  };
  return [view, go];
}
