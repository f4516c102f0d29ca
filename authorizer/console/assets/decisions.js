// Decisions by the rule that made them: in all, and for each second while this is looked at.

import { html, useRef } from "./htm-preact.js";
import { useAgain } from "./again.js";
import { Trouble } from "./trouble.js";

const RULES = {
  "allowed SuperUser": "allowed: super user",
  "allowed MatchingAcl": "allowed by an ACL",
  "allowed DefaultAllow": "allowed: no ACL found, and that allows",
  "denied MatchingAcl": "denied by an ACL",
  "denied DefaultDeny": "denied: no ACL found",
  "not_ready ": "not answered: not ready",
};
// The newest rate is over this time or longer.
const RECENT_S = 10;

function total(sample) {
  return sample.rules.reduce((sum, each) => sum + each.count, 0);
}

// The samples since it is looked at: the first one, and those of the last seconds. A total that went back was
// counted by a process that is gone.
function kept(samples, sample) {
  if (samples.length && total(sample) < total(samples.at(-1))) return [sample];
  const [first, ...others] = [...samples, sample];
  const isOld = (each, at) => at + 1 < others.length && sample.at_s - others[at + 1].at_s >= RECENT_S;
  return [first, ...others.filter((each, at) => !isOld(each, at))];
}

function perSecond(from, to, at) {
  const took = to.at_s - from.at_s;
  return took > 0 ? ((to.rules[at].count - from.rules[at].count) / took).toFixed(1) : "…";
}

export function Decisions() {
  const [sample, error] = useAgain("console/v1/decisions");
  const samples = useRef([]);
  if (sample && samples.current.at(-1) !== sample) samples.current = kept(samples.current, sample);
  if (!sample && error) return html`<${Trouble} error=${error} />`;
  if (!sample) return html`<p class="notice">Loading…</p>`;
  const [first, recent = first] = samples.current;
  const looked = Math.round(sample.at_s - first.at_s);
  return html`<h2 id="decisions">Decisions</h2>
    <table class="figures" aria-labelledby="decisions">
      <thead><tr><th scope="col">By rule</th><th scope="col">a second, now</th><th scope="col">a second, in ${looked} s</th><th scope="col">since the start</th></tr></thead>
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
    <p class="notice">What this page asks is decided, too, and counted.</p>`;
}
