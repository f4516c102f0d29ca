// Errors of requests: final ones, temporary ones that are retried, and a missing token.

import { html, useRef } from "./htm-preact.js";
import { UNREACHABLE, useToken } from "./api.js";
import { clock } from "./dates.js";
import { visible } from "./words.js";

// Status of a request without a valid token.
export const UNAUTHENTICATED = 401;

// Temporary errors: no answer, or one of a proxy or a node that is not ready.
const TEMPORARY = [UNREACHABLE, 502, 503, 504];

export function isRetried(error) {
  return TEMPORARY.includes(error.status);
}

// An error, with the times of the first failure and of the next try, and whether the last answer is still shown.
export function failureOf({ status, message }, last, pause, hasAnswer) {
  return { status, message, since: last?.since ?? Date.now(), next: Date.now() + pause, hasAnswer };
}

export function ErrorMessage({ error }) {
  if (!isRetried(error)) return html`<p class="error" role="alert"><bdi>${visible(error.message)}</bdi></p>`;
  const what = error.status === UNREACHABLE ? "The node is not reachable" : visible(error.message);
  // The next try is outside of the alert, which a screen reader reads again when it changes.
  return html`<p class="error" role="alert">${what} (since ${clock(error.since)}), retrying…${error.hasAnswer ? " The last answer is shown." : ""}</p>
    <p class="notice">Next try at ${clock(error.next)}.</p>`;
}

// Form for a bearer token, if the listener requires one.
function SignIn({ message, onToken }) {
  const field = useRef(null);
  const submitted = (event) => {
    event.preventDefault();
    useToken(field.current.value.trim());
    onToken();
  };
  return html`<form class="sign-in" onSubmit=${submitted}>
    <p role="alert">${message}</p>
    <label>Token <input type="password" ref=${field} autocomplete="off" /></label>
    <button>Use token</button>
  </form>`;
}

// The error of a polled request: a missing token is asked for. `onToken`: called once it is set.
export function PollError({ error, onToken }) {
  if (!error) return null;
  if (error.status === UNAUTHENTICATED) return html`<${SignIn} message=${error.message} onToken=${onToken} />`;
  return html`<${ErrorMessage} error=${error} />`;
}
