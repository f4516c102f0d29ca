// Dates: the time zone in which they are shown, and the periods that can be chosen.

const DAY_MS = 86_400_000;
const UTC = "UTC";
const BROWSER_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

// The zones by their name in the URL.
export const ZONES = { utc: UTC, local: BROWSER_ZONE };

let zone = UTC;

// The zone of every shown and entered date, by its name in the URL.
export function setZone(name) {
  zone = ZONES[name] ?? UTC;
}

function partsOf(ms) {
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit",
    hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "shortOffset",
  });
  return Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, value]));
}

function zoneText(parts) {
  return zone === UTC ? UTC : parts.timeZoneName;
}

export function time(ms) {
  if (!(ms > 0)) return "unknown time";
  const parts = partsOf(ms);
  return `${day(ms)} ${parts.hour}:${parts.minute}:${parts.second} ${zoneText(parts)}`;
}

export function clock(ms) {
  const parts = partsOf(ms);
  return `${parts.hour}:${parts.minute}:${parts.second} ${zoneText(parts)}`;
}

export function day(ms) {
  const { year, month, day: number } = partsOf(ms);
  return `${year}-${month}-${number}`;
}

// The value of a date input.
export function inputValue(ms) {
  const { hour, minute } = partsOf(ms);
  return `${day(ms)}T${hour}:${minute}`;
}

// The time that a date input's value names in the shown zone. The browser's zone is the only other one, so
// its rules for a changed clock hold.
export function fromInput(value) {
  return new Date(zone === UTC ? `${value}Z` : value).getTime();
}

function midnight(year, month, number) {
  return zone === UTC ? Date.UTC(year, month, number) : new Date(year, month, number).getTime();
}

// The times from and until, of a period's name and the node's time; `until` null: now.
export const PERIODS = {
  today: ["today", (now, year, month, number) => [midnight(year, month, number), null]],
  yesterday: ["since yesterday", (now, year, month, number) => [midnight(year, month, number - 1), null]],
  week: ["7 days", (now) => [now - 7 * DAY_MS, null]],
  month: ["30 days", (now) => [now - 30 * DAY_MS, null]],
  quarter: ["this quarter", (now, year, month) => [midnight(year, month - (month % 3), 1), null]],
  last: [
    "the last quarter",
    (now, year, month) => [midnight(year, month - (month % 3) - 3, 1), midnight(year, month - (month % 3), 1) - 1],
  ],
};

export function periodOf(name, now) {
  const [year, month, number] = day(now).split("-").map(Number);
  return PERIODS[name][1](now, year, month - 1, number);
}
