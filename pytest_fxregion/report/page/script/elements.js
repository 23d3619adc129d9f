// Making elements, and remembering choices.  Text always goes in as text, never as markup.

const make = (tag, attributes = {}, ...children) => {
  const svg = attributes.xmlns !== undefined;
  const element = svg
    ? document.createElementNS(attributes.xmlns, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false || name === "xmlns") continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

const SVG = "http://www.w3.org/2000/svg";
const draw = (tag, attributes = {}, ...children) =>
  make(tag, { xmlns: SVG, ...attributes }, ...children);

const button = (text, onclick, attributes = {}) =>
  make("button", { type: "button", onclick, ...attributes }, text);

// A way to somewhere else in the page, in the midst of text.
const wayTo = (text, go, href = "#") =>
  make(
    "a",
    {
      class: "way",
      href,
      onclick: (event) => {
        event.preventDefault();
        go();
      },
    },
    text,
  );

// `choices` are [value, text] pairs; exactly one is pressed.
const choice = (label, choices, chosen, onchoose) =>
  make(
    "div",
    { class: "choice", role: "group", "aria-label": label },
    choices.map(([value, text]) =>
      button(text, () => onchoose(value), { "aria-pressed": String(value === chosen) }),
    ),
  );

// Text with names in backticks, as code.
const quoted = (line) =>
  line.split(/`([^`]+)`/).map((part, at) => (at % 2 ? make("code", {}, part) : part));

const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

const number = (value, digits = 2) => {
  if (typeof value !== "number") return String(value); // "nan", "inf"
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 0.01 && size < 1e5
    ? String(+value.toPrecision(digits + 1))
    : value.toExponential(digits - 1);
};

// How much of what is allowed an error is; more than 1 is too much.
const partOf = (part) => {
  if (typeof part !== "number") return String(part);
  if (part === 0) return "0";
  if (part < 0.005) return "<0.01";
  if (part > 1 && part < 1.01) return "1.01";
  return part < 1000 ? part.toFixed(2) : part.toExponential(1);
};

const bytes = (count) => {
  let size = count;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (size < 1024) return unit === "B" ? `${size} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} GiB`;
};

// Storage may be refused for a file that was opened from disk.
const remembered = {
  get(key) {
    try {
      return localStorage.getItem(`fxregion-${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(`fxregion-${key}`, value);
    } catch {
      // The choice holds until the page is closed.
    }
  },
};

// A button that copies text, and says so.
const copier = (text, what) => {
  const element = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", {}, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    element.textContent = "Copied";
    setTimeout(() => (element.textContent = "Copy"), 1500);
  });
  element.setAttribute("aria-label", `Copy ${what}`);
  return element;
};

const narrow = matchMedia("(max-width: 760px)");
