// HTTP client of the page. A bearer token is stored for this tab only.

const TOKEN = "aclog-token";

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Event after a new token: rejected requests are sent again.
export const TOKEN_SET = "aclog-token-set";

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
  dispatchEvent(new Event(TOKEN_SET));
}

// Status of a request without an answer.
export const UNREACHABLE = 0;

async function request(path, options) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { ...options.headers, authorization: `Bearer ${token}` } : options.headers;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
    if (response.ok) return await response.json();
  } catch (error) {
    if (options.signal?.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new RequestError(UNREACHABLE, "The node cannot be reached.");
  }
  const problem = await response.json().catch(() => ({}));
  throw new RequestError(response.status, problem.detail || problem.title || `HTTP ${response.status}`);
}

export function ask(path, query = {}, signal) {
  const parameters = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(parameters).toString();
  return request(search ? `${path}?${search}` : path, { signal });
}

// Sends a body: for a change, or parameters that are too long for a URL.
export function send(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}
