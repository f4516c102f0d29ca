// Decisions by rule: in total, and per second while this view is open.

import { html, useRef } from "./htm-preact.js";
import { usePoll } from "./poll.js";
import { ErrorMessage } from "./error_message.js";

const RULES = {
  "allowed SuperUser": "allowed: super user",
  "allowed MatchingAcl": "allowed by an ACL",
  "allowed DefaultAllow": "allowed: no ACL found (allow.everyone)",
  "denied MatchingAcl": "denied by an ACL",
  "denied DefaultDeny": "denied: no ACL found",
  "not_ready ": "not answered: not ready",
};
// Minimum time span of the current rate.
const RATE_SPAN_S = 10;

function total(sample) {
  return sample.rules.reduce((sum, each) => sum + each.count, 0);
}

// The first sample, and those of the last seconds. A smaller total means that the counting process restarted.
function withSample(samples, sample) {
  if (samples.length && total(sample) < total(samples.at(-1))) return [sample];
  const [first, ...others] = [...samples, sample];
  const isOld = (each, at) => at + 1 < others.length && sample.at_s - others[at + 1].at_s >= RATE_SPAN_S;
  return [first, ...others.filter((each, at) => !isOld(each, at))];
}

function perSecond(from, to, at) {
  const took = to.at_s - from.at_s;
  return took > 0 ? ((to.rules[at].count - from.rules[at].count) / took).toFixed(1) : "…";
}

export function Decisions() {
  const [sample, error] = usePoll("console/v1/decisions");
  const samples = useRef([]);
  if (sample && samples.current.at(-1) !== sample) samples.current = withSample(samples.current, sample);
  if (!sample && error) return html`<${ErrorMessage} error=${error} />`;
  if (!sample) return html`<p class="notice">Loading…</p>`;
  const [first, recent = first] = samples.current;
  const seconds = Math.round(sample.at_s - first.at_s);
  return html`<h2 id="decisions">Decisions</h2>
    <table class="figures" aria-labelledby="decisions">
      <thead><tr><th scope="col">By rule</th><th scope="col">per second, now</th><th scope="col">per second, over ${seconds} s</th><th scope="col">since the start</th></tr></thead>
      <tbody>
        ${sample.rules.map(
          (each, at) => html`<tr>
            <th scope="row">${RULES[`${each.result} ${each.rule}`] ?? `${each.result} ${each.rule}`}</th>
            <td>${perSecond(recent, sample, at)}</td>
            <td>${perSecond(first, sample, at)}</td>
            <td>${each.count.toLocaleString("en")}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="notice">Requests of this page are also authorized and counted.</p>`;
}
