// What is looked at stands in the URL, behind the #, so that it can be pasted into a ticket.

import { useEffect, useState } from "./htm-preact.js";

const DEFAULTS = { view: "matrix", type: "TOPIC" };

function read() {
  return { ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
}

export function numberOf(text) {
  return text === undefined || text === "" ? null : Number(text);
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
