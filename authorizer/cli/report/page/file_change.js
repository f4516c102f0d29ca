// Nothing can be changed from a file: the console's views have nothing to offer there.

export const NO_CHANGE = { add: [], remove: [] };

export function ChangePanel() {
  return null;
}

export function whyNot() {
  return "This is a file.";
}

export function isGoing() {
  return false;
}

export function withRemoval(change) {
  return change;
}

export const without = withRemoval;
export const contentOf = withRemoval;
