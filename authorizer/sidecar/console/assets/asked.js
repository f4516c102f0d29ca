// An answer that follows its question: the last one stays while the next is on its way.

import { useLayoutEffect, useState } from "./htm-preact.js";
import { ask } from "./api.js";

export function useAnswer(path, question, dependsOn, how = ask) {
  const [found, setFound] = useState({ answer: null, error: null, busy: true });
  // Before the page is painted: what is asked for comes meanwhile.
  useLayoutEffect(() => {
    if (question === null) return undefined;
    const leaving = new AbortController();
    setFound((last) => ({ ...last, busy: true }));
    how(path, question, leaving.signal).then(
      (answer) => setFound({ answer, error: null, busy: false }),
      (error) => {
        if (error.name !== "AbortError") setFound({ answer: null, error, busy: false });
      },
    );
    return () => leaving.abort();
  }, dependsOn);
  return found;
}
