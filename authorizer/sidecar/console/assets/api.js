// What the page asks the node. A token, where the listener takes one, is kept for this tab alone.

const TOKEN = "aclog-token";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

async function answered(path, options) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { ...options.headers, authorization: `Bearer ${token}` } : options.headers;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer.json();
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
