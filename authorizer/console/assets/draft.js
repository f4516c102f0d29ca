// Input that is not sent yet: stored in this tab, for this node's address, so that a reload keeps it.

import { useLayoutEffect, useMemo, useState } from "./htm-preact.js";

function stored(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

// As useState, for an object; and whether it is stored. `keptOf` selects the stored fields.
export function useDraft(name, initial, keptOf = (value) => value) {
  const key = `aclog-${name} ${location.pathname}`;
  const [value, setValue] = useState(() => ({ ...initial, ...stored(key) }));
  const [isStored, setStored] = useState(true);
  const text = useMemo(() => JSON.stringify(keptOf(value)), [value]);
  // Before the page is painted, so that what is shown is stored.
  useLayoutEffect(() => {
    try {
      // First, because a text beyond the browser's limit must not leave the one before it.
      sessionStorage.removeItem(key);
      if (text !== JSON.stringify(keptOf(initial))) sessionStorage.setItem(key, text);
      setStored(true);
    } catch {
      setStored(false);
    }
  }, [text]);
  return [value, setValue, isStored];
}
