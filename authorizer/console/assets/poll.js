// Polls a path while its view is open. After an error the last answer stays; the error has the time of the
// first failure.

import { useEffect, useState } from "./htm-preact.js";
import { ask } from "./api.js";
import { failureOf } from "./error_message.js";

const POLL_INTERVAL_MS = 2000;
// A node that hangs counts as away.
const TIMEOUT_MS = 10_000;

// The answer, the error of the last request, and a function to poll now. An error 401 ends the polling.
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
        if (error.status === 401) return;
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
