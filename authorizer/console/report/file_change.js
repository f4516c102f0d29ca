// A report cannot change ACLs: these replace the console's functions.

export const NO_CHANGE = { add: [], remove: [] };

export function storedOf(change) {
  return change;
}

export function ChangePanel() {
  return null;
}

export function refusalOf() {
  return "This is a file.";
}

export function isRemoved() {
  return false;
}

export function withRemoval(change) {
  return change;
}

export const withRemovals = withRemoval;
export const without = withRemoval;
export const contentOf = withRemoval;
