// An answer that follows its question: the last one stays while the next is on its way. What cannot be
// answered just now is asked again, and meanwhile the last answer to the same question stays.

import { useLayoutEffect, useState } from "./htm-preact.js";
import { TOKEN_GIVEN, UNREACHABLE, ask } from "./api.js";
import { failing, isRetried } from "./trouble.js";

const UNAUTHENTICATED = 401;
const AGAIN_MS = 2000;

export function useAnswer(path, question, dependsOn, how = ask) {
  const key = JSON.stringify([path, question]);
  const [found, setFound] = useState({ key: null, answer: null, error: null, busy: true });
  // Before the page is painted: what is asked for comes meanwhile.
  useLayoutEffect(() => {
    if (question === null) return undefined;
    const leaving = new AbortController();
    let timer = null;
    let refused = false;
    setFound((last) => ({ ...last, busy: true }));
    const failed = (error) => {
      if (leaving.signal.aborted) return;
      refused = error.status === UNAUTHENTICATED;
      const isAgain = isRetried(error);
      setFound((last) => {
        const answer = (isAgain || refused) && last.key === key ? last.answer : null;
        // That nothing is reachable stands at the head of the page.
        const isSaid = answer !== null && error.status === UNREACHABLE;
        return { key, answer, error: isSaid ? null : failing(error, last.error), busy: false };
      });
      if (isAgain) timer = setTimeout(look, AGAIN_MS);
    };
    const look = () =>
      how(path, question, leaving.signal).then(
        (answer) => setFound({ key, answer, error: null, busy: false }),
        failed,
      );
    const lookAgain = () => (refused ? look() : undefined);
    addEventListener(TOKEN_GIVEN, lookAgain);
    look();
    return () => {
      removeEventListener(TOKEN_GIVEN, lookAgain);
      leaving.abort();
      clearTimeout(timer);
    };
  }, dependsOn);
  return found;
}
