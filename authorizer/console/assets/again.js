// What is asked again and again while it is looked at: the last answer stays where the next one fails.
// The error says since when it fails.

import { useEffect, useState } from "./htm-preact.js";
import { ask } from "./api.js";
import { failing } from "./trouble.js";

const LOOK_MS = 2000;

// The answer, the error of the last try, and how to ask at once. One that takes a token ends it.
export function useAgain(path, { isWanted = true } = {}) {
  const [found, setFound] = useState({ answer: null, error: null });
  const [asked, askAgain] = useState(0);
  useEffect(() => {
    if (!isWanted) return undefined;
    let timer = null;
    const leaving = new AbortController();
    const look = async () => {
      try {
        const answer = await ask(path, {}, leaving.signal);
        setFound((last) => {
          const isSame = !last.error && JSON.stringify(last.answer) === JSON.stringify(answer);
          return isSame ? last : { answer, error: null };
        });
      } catch (error) {
        if (leaving.signal.aborted) return;
        setFound((last) => ({ answer: last.answer, error: failing(error, last.error) }));
        if (error.status === 401) return;
      }
      if (!leaving.signal.aborted) timer = setTimeout(look, LOOK_MS);
    };
    look();
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, [path, isWanted, asked]);
  return [found.answer, found.error, () => askAgain(asked + 1)];
}
