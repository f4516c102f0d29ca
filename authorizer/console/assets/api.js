// What the page asks the node. A token, where the listener takes one, is kept for this tab alone.

const TOKEN = "aclog-token";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// What is announced when there is another token: what was refused without it is asked again.
export const TOKEN_GIVEN = "aclog-token-given";

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
  dispatchEvent(new Event(TOKEN_GIVEN));
}

// The status of what got no answer.
export const UNREACHABLE = 0;

async function answered(path, options) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { ...options.headers, authorization: `Bearer ${token}` } : options.headers;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
    if (answer.ok) return await answer.json();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refusal(UNREACHABLE, "The node cannot be reached.");
  }
  const problem = await answer.json().catch(() => ({}));
  throw new Refusal(answer.status, problem.detail || problem.title || `HTTP ${answer.status}`);
}

export function ask(path, question = {}, signal) {
  const given = Object.entries(question).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return answered(query ? `${path}?${query}` : path, { signal });
}

// What goes into a body: too long for an address, or a change.
export function send(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return answered(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}
