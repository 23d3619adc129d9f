// Why a test failed: in words beside the two sides of its snapshot's text, or pytest's own text.

const BESIDE = 50; // pixels of a side that number and sign take
const CONTEXT = 3; // equal lines that are shown around a change

class FailureView {
  constructor({ record }) {
    const { difference, text, command } = record;
    this.open = new Set(); // runs of equal lines that were unfolded
    this.difference = difference;
    this.change = -1;
    const last = command
      ? make(
          "div",
          { class: "command" },
          make(
            "header",
            {},
            make("span", { class: "dim" }, command.what),
            copier(command.command, "the command"),
          ),
          make(
            "code",
            { tabindex: "0" },
            // Words of their own, as a line may otherwise end within `--fxregion`.
            command.command.split(/( )/).map((word) => (word === " " ? " " : make("span", {}, word))),
          ),
        )
      : null;
    if (!difference) {
      this.element = make(
        "div",
        { class: "failure page-body" },
        make(
          "pre",
          { class: "text", tabindex: "0", role: "region", "aria-label": "What pytest says" },
          text,
        ),
        last,
      );
      return;
    }
    this.list = new VirtualList({
      label: `Difference of ${difference.path}`,
      heightOf: (row) => this.heightOf(row),
      render: (row) => this.rowElement(row),
      act: (row) => this.unfold(row),
    });
    this.list.element.classList.add("sides");
    const isNew = !difference.blocks.length;
    const words = make(
      "section",
      { class: "words", "aria-label": "What changed" },
      make("h3", {}, isNew ? "No snapshot yet" : "What changed"),
      isNew
        ? make("p", {}, `${difference.path} does not exist; this is what it would hold.`)
        : make(
            "ul",
            {},
            difference.summary.map((line) => make("li", {}, this.linked(line))),
          ),
      last,
      make(
        "details",
        {},
        make("summary", {}, "What pytest says"),
        make("pre", { class: "text", tabindex: "0" }, text),
      ),
    );
    const steps = isNew
      ? null
      : make(
          "span",
          { class: "steps" },
          button("↑", () => this.step(-1), { "aria-label": "Previous change" }),
          button("↓", () => this.step(1), { "aria-label": "Next change" }),
        );
    this.element = make(
      "div",
      { class: "failure with-difference" },
      words,
      make(
        "section",
        { class: "pane", "aria-label": "Text difference" },
        make("header", {}, make("h3", {}, difference.path), steps),
        isNew
          ? null
          : make(
              "div",
              { class: "sides-head", "aria-hidden": "true" },
              make("span", {}, "stored"),
              make("span", {}, "compiled now"),
            ),
        make("div", { class: "scroller" }, this.list.element),
      ),
    );
    this.measured = 0;
    new ResizeObserver(() => this.fill()).observe(this.list.element);
  }

  // Names in the words are ways to the first line that changed with that name in it.
  linked(line) {
    return line.split(/(`[^`]+`)/).map((part) => {
      if (!part.startsWith("`")) return part;
      const name = part.slice(1, -1);
      return this.placeOf(name) === null
        ? make("code", {}, name)
        : wayTo(name, () => this.find(name));
    });
  }

  placeOf(name) {
    const word = new RegExp(`(^|\\W)${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(\\W|$)`);
    for (const block of this.difference.blocks)
      for (const pair of block.pairs)
        if (pair.some((line) => line !== null && word.test(line))) return pair;
    return null;
  }

  find(name) {
    const pair = this.placeOf(name);
    const at = this.list.rows.findIndex((row) => row.pair === pair);
    if (at >= 0) {
      this.list.center(at);
      this.list.element.focus({ preventScroll: true });
    }
  }

  step(by) {
    const changes = this.list.rows.map((row, at) => (row.begins ? at : -1)).filter((at) => at >= 0);
    if (!changes.length) return;
    this.change = (this.change + by + changes.length) % changes.length;
    this.list.center(changes[this.change]);
  }

  fill() {
    const width = this.list.element.clientWidth;
    if (!width || width === this.measured) return;
    const first = !this.measured;
    this.measured = width;
    this.split = width >= 560;
    this.element.classList.toggle("stacked", !this.split);
    const probe = make("span", { class: "probe" }, "0".repeat(100));
    this.list.element.append(probe);
    const character = probe.getBoundingClientRect().width / 100;
    probe.remove();
    const side = this.split ? width / 2 : width;
    this.columns = Math.max(8, Math.floor((side - BESIDE) / character));
    this.list.set(this.rows(), { keep: true });
    if (first) this.step(1);
  }

  // Rows: pairs of lines, either missing; runs of equal lines, folded but for their ends.
  rows() {
    const { lines, blocks } = this.difference;
    const rows = [];
    let at = 0;
    let shift = 0; // of the old text's line numbers against the new one's
    const equal = (end, last) => {
      const count = end - at;
      const head = at === 0 && blocks.length ? 0 : CONTEXT;
      const tail = last && blocks.length ? 0 : CONTEXT;
      const fold = blocks.length && count > head + tail + 2 && !this.open.has(at);
      for (let line = at; line < end; line++) {
        if (fold && line === at + head) {
          rows.push({ kind: "fold", at, count: count - head - tail, under: this.titleAt(line) });
          line = end - tail - 1;
          continue;
        }
        const text = lines[line];
        rows.push({ kind: "equal", pair: [text, text], numbers: [line + shift + 1, line + 1] });
      }
      at = end;
    };
    for (const block of blocks) {
      equal(block.at, false);
      shift = block.old - block.at;
      let [old, now] = [block.old, block.at];
      block.pairs.forEach((pair, place) => {
        const numbers = [pair[0] === null ? null : ++old, pair[1] === null ? null : ++now];
        if (this.split) rows.push({ kind: "changed", pair, numbers, begins: place === 0 });
        else {
          if (pair[0] !== null)
            rows.push({ kind: "changed", pair, side: 0, numbers, begins: place === 0 });
          if (pair[1] !== null)
            rows.push({
              kind: "changed",
              pair,
              side: 1,
              numbers,
              begins: place === 0 && pair[0] === null,
            });
        }
      });
      at = block.at + block.count;
      shift = block.old + block.pairs.filter((pair) => pair[0] !== null).length - at;
    }
    equal(lines.length, true);
    return rows;
  }

  titleAt(line) {
    const { lines } = this.difference;
    for (let at = line; at >= 0; at--)
      if (lines[at].startsWith("# ==== ")) return lines[at].slice(7, -5);
    return "";
  }

  unfold(row) {
    if (row.kind !== "fold") return;
    this.open.add(row.at);
    const top = this.list.element.scrollTop;
    this.list.set(this.rows(), { keep: true });
    this.list.element.scrollTop = top;
  }

  shown(line) {
    return line.replace(/^( {4})+/, (indent) => " ".repeat(indent.length / 4));
  }

  heightOf(row) {
    if (row.kind === "fold") return 24;
    const sides = this.split ? row.pair : [row.pair[row.side ?? 1]];
    const lines = sides.map((line) =>
      line === null ? 1 : breaks(this.shown(line), this.columns).length + 1,
    );
    return Math.max(...lines) * 17 + 1;
  }

  rowElement(row) {
    if (row.kind === "fold")
      return make(
        "div",
        { class: "fold" },
        `⋯ ${plural(row.count, "equal line")}${row.under ? ` in ${row.under}` : ""}`,
      );
    const [old, now] = row.pair;
    const sides = [];
    const parts = row.kind === "changed" ? apart(old, now, (line) => this.shown(line)) : null;
    for (const side of this.split ? [0, 1] : [row.side ?? 1]) {
      const line = row.pair[side];
      const kind =
        line === null ? "missing" : row.kind === "changed" ? ["gone", "come"][side] : "equal";
      sides.push(
        make(
          "span",
          { class: `half ${kind}` },
          make("span", { class: "line" }, line === null ? "" : String(row.numbers[side])),
          make("span", { class: "sign" }, { gone: "−", come: "+" }[kind] || ""),
          make(
            "span",
            { class: `text${line?.startsWith("# ==== ") ? " title" : ""}` },
            line === null
              ? ""
              : broken(parts?.[side] ?? this.shown(line), breaks(this.shown(line), this.columns)),
          ),
        ),
      );
    }
    return make("div", { class: "lines" }, sides);
  }
}

const HANGING = 4; // columns by which a broken line is indented where it goes on

// The places at which a line is broken to fit: after a space, else after a bracket, a point or the
// like, unless that wastes half of the room.
const breaks = (line, columns) => {
  const places = [];
  let from = 0;
  for (let room = columns; line.length - from > room; room = columns - HANGING) {
    const [half, end] = [from + room / 2, from + room];
    const after = (mark) => line.lastIndexOf(mark, mark === " " ? end : end - 1) + 1;
    const fits = [after(" "), Math.max(...[..."([.,"].map(after)), after("_"), end];
    from = fits.find((place) => place > half);
    places.push(from);
  }
  return places;
};

// A line, or parts of it that may be elements, with the breaks in it.
const broken = (parts, places) => {
  let at = 0;
  const text = (part) => {
    const [from, to] = [at, (at += part.length)];
    const cuts = [from, ...places.filter((place) => place > from && place < to), to];
    const lines = cuts.slice(1).map((cut, i) => part.slice(cuts[i] - from, cut - from));
    return (places.includes(from) ? "\n" : "") + lines.join("\n");
  };
  return [parts].flat().map((part) => {
    if (part.nodeType) part.textContent = text(part.textContent);
    return part.nodeType ? part : text(part);
  });
};

const MOST_WORDS = 200_000; // of one line times those of the other
const WORDS = /\w+|\s+|[^\w\s]/g;

// Two lines in, each with the words that the other does not have marked.
const apart = (old, now, shown) => {
  if (old === null || now === null)
    return [old === null ? "" : shown(old), now === null ? "" : shown(now)];
  const [a, b] = [shown(old).match(WORDS) || [], shown(now).match(WORDS) || []];
  if (a.length * b.length > MOST_WORDS)
    return [make("mark", {}, shown(old)), make("mark", {}, shown(now))];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i][j] =
        a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const sides = [[], []];
  const mark = (side, word) => {
    const last = sides[side].at(-1);
    if (last?.tagName === "MARK") last.append(word);
    else sides[side].push(make("mark", {}, word));
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      sides[0].push(a[i++]);
      sides[1].push(b[j++]);
    } else if (j >= b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1]))
      mark(0, a[i++]);
    else mark(1, b[j++]);
  }
  return sides;
};
