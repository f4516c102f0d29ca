// An answer that follows its question: the last one stays while the next is on its way. What cannot be
// answered just now is asked again.

import { useLayoutEffect, useState } from "./htm-preact.js";
import { ask } from "./api.js";

const UNAVAILABLE = 503;
const AGAIN_MS = 2000;

export function useAnswer(path, question, dependsOn, how = ask) {
  const [found, setFound] = useState({ answer: null, error: null, busy: true });
  // Before the page is painted: what is asked for comes meanwhile.
  useLayoutEffect(() => {
    if (question === null) return undefined;
    const leaving = new AbortController();
    let timer = null;
    setFound((last) => ({ ...last, busy: true }));
    const look = () => how(path, question, leaving.signal).then(
      (answer) => setFound({ answer, error: null, busy: false }),
      (error) => {
        if (leaving.signal.aborted) return;
        setFound({ answer: null, error, busy: false });
        if (error.status === UNAVAILABLE) timer = setTimeout(look, AGAIN_MS);
      },
    );
    look();
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, dependsOn);
  return found;
}
