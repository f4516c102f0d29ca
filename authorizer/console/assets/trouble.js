// Errors: a refusal, or that the node does not answer just now and is asked again.

import { html } from "./htm-preact.js";
import { UNREACHABLE } from "./api.js";
import { clock, visible } from "./words.js";

// What another try may get an answer to: no answer at all, or one of a proxy or a node that cannot answer just now.
const RETRIED = [UNREACHABLE, 502, 503, 504];

export function isRetried(error) {
  return RETRIED.includes(error.status);
}

// An error, with the time since which every try has failed.
export function failing({ status, message }, last) {
  return { status, message, since: last?.since ?? Date.now() };
}

export function Trouble({ error }) {
  if (!isRetried(error)) return html`<p class="error" role="alert"><bdi>${visible(error.message)}</bdi></p>`;
  const what = error.status === UNREACHABLE ? "The node is not reachable" : visible(error.message);
  return html`<p class="error" role="alert">${what} (since ${clock(error.since)}), retrying…</p>`;
}
