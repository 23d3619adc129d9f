// The tests: what is known of all, the data of one once it is opened, and which of them are meant.

const INDEX = JSON.parse(document.getElementById("index").textContent);
const BAD = new Set(["failed", "error"]);
const MARKS = { failed: "✕", error: "!", passed: "✓", skipped: "–", xfailed: "×", xpassed: "?" };

INDEX.tests.forEach((test, place) => {
  test.place = place;
  const [file, ...rest] = test.nodeid.split("::");
  test.file = file;
  test.title = rest.join("::") || file;
  test.text = test.nodeid.toLowerCase();
});

const opened = new Map();
const openTest = (place) => {
  if (!opened.has(place))
    opened.set(place, JSON.parse(document.getElementById(`test-${place}`).textContent));
  return opened.get(place);
};

const shortOp = (name) => name.replace(/^torch\.ops\./, "");

// Words are parts of a test's id; status:, device:, op: and region: ask for what their names say.
const KEYS = {
  status: (test, value) => test.outcome.startsWith(value),
  device: (test, value) => test.devices.some((device) => device.toLowerCase().includes(value)),
  op: (test, value) => test.operators.some((name) => name.toLowerCase().includes(value)),
  region: (test, value) => test.regions.some((label) => unquoted(label).toLowerCase() === value),
};

// The part of the page's address that opens what it names.
const addressOf = (parts) => `#${new URLSearchParams(parts)}`;

const unquoted = (label) => label.replace(/^(['"])(.*)\1$/, "$2");

const matcher = (query) => {
  const terms = (query.match(/\w+:"[^"]*"|\S+/g) || []).map((word) => {
    const found = /^(\w+):"?([^"]*)"?$/.exec(word);
    if (found && found[1] in KEYS) {
      const [, key, value] = found;
      return (test) => !value || KEYS[key](test, value.toLowerCase());
    }
    const text = word.toLowerCase();
    return (test) => test.text.includes(text);
  });
  return (test) => terms.every((term) => term(test));
};

// Replaces the term of a key in a query; no value takes it out.
const withTerm = (query, key, value) => {
  const rest = query.replace(new RegExp(`\\s*\\b${key}:("[^"]*"|\\S*)`, "g"), "").trim();
  const text = /\s/.test(value) ? `"${value}"` : value;
  return value ? `${rest} ${key}:${text}`.trim() : rest;
};

const termOf = (query, key) => {
  const found = new RegExp(`\\b${key}:("[^"]*"|\\S+)`).exec(query);
  return found ? found[1].replace(/^"|"$/g, "") : "";
};
