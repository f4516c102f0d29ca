// The answer to a query: the last one stays while the next is loading. A request that fails for a temporary
// reason is retried, and meanwhile the last answer to the same query stays.

import { useEffect, useLayoutEffect, useState } from "./htm-preact.js";
import { TOKEN_SET, UNREACHABLE, ask } from "./api.js";
import { UNAUTHENTICATED, failureOf, isRetried } from "./error_message.js";

const RETRY_INTERVAL_MS = 2000;

export function useAnswer(path, query, dependsOn, send = ask) {
  const key = JSON.stringify([path, query]);
  const [result, setResult] = useState({ key: null, answer: null, error: null, busy: true });
  // Before the page is painted, so that the request starts early.
  useLayoutEffect(() => {
    if (query === null) return undefined;
    const abort = new AbortController();
    let timer = null;
    let isRejected = false;
    setResult((last) => ({ ...last, busy: true }));
    const failed = (error) => {
      if (abort.signal.aborted) return;
      isRejected = error.status === UNAUTHENTICATED;
      const willRetry = isRetried(error);
      setResult((last) => {
        const answer = (willRetry || isRejected) && last.key === key ? last.answer : null;
        // The head of the page already shows that the node is not reachable.
        const isShown = answer !== null && error.status === UNREACHABLE;
        return { key, answer, error: isShown ? null : failureOf(error, last.error, RETRY_INTERVAL_MS, answer !== null), busy: false };
      });
      if (willRetry) timer = setTimeout(load, RETRY_INTERVAL_MS);
    };
    const load = () =>
      send(path, query, abort.signal).then(
        (answer) => setResult({ key, answer, error: null, busy: false }),
        failed,
      );
    const loadAgain = () => (isRejected ? load() : undefined);
    addEventListener(TOKEN_SET, loadAgain);
    load();
    return () => {
      removeEventListener(TOKEN_SET, loadAgain);
      abort.abort();
      clearTimeout(timer);
    };
  }, dependsOn);
  return result;
}

const POLL_INTERVAL_MS = 2000;
// A node that hangs counts as away.
const TIMEOUT_MS = 10_000;

// Polls a path while its view is open: the answer, the error of the last request, and a function to poll now.
// After an error the last answer stays; the error has the time of the first failure. An error 401 ends the polling.
export function usePoll(path, { isEnabled = true } = {}) {
  const [result, setResult] = useState({ answer: null, error: null });
  const [pollCount, setPollCount] = useState(0);
  useEffect(() => {
    if (!isEnabled) return undefined;
    let timer = null;
    const abort = new AbortController();
    const poll = async () => {
      try {
        const answer = await ask(path, {}, AbortSignal.any([abort.signal, AbortSignal.timeout(TIMEOUT_MS)]));
        setResult((last) => {
          const isSame = !last.error && JSON.stringify(last.answer) === JSON.stringify(answer);
          return isSame ? last : { answer, error: null };
        });
      } catch (error) {
        if (abort.signal.aborted) return;
        setResult(({ answer, error: last }) => ({ answer, error: failureOf(error, last, POLL_INTERVAL_MS, answer !== null) }));
        if (error.status === UNAUTHENTICATED) return;
      }
      if (!abort.signal.aborted) timer = setTimeout(poll, POLL_INTERVAL_MS);
    };
    poll();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, isEnabled, pollCount]);
  return [result.answer, result.error, () => setPollCount(pollCount + 1)];
}
