// One stage's listing with a map of the whole of it.

const ROLES = ["same", "producer", "consumer"];

class Pane {
  constructor(stage, view) {
    this.stage = stage;
    this.view = view;
    this.wide = true;
    this.stretches = [];
    this.list = new VirtualList({
      label: `${stage.name} graph`,
      heightOf: (row) => (row.kind === "node" && !this.wide ? 40 : row.kind === "source" ? 21 : 23),
      render: (row) => this.dressed(row),
      act: (row, event) => this.act(row, event),
      activated: (row) => view.activated(this, row),
      scrolled: () => view.drawSoon(),
    });
    this.map = make("canvas", { class: "map", "aria-hidden": "true" });
    this.map.addEventListener("click", (event) => {
      const part = event.offsetY / this.map.clientHeight;
      this.list.element.scrollTop =
        part * this.list.tops[this.list.rows.length] - this.list.element.clientHeight / 2;
    });
    const calls = stage.nodes.filter((node) => node.op === "call").length;
    this.title = make("span", { class: "dim" }, plural(calls, "operation"));
    this.element = make(
      "section",
      { class: "pane", "aria-label": `${stage.name} graph` },
      make("header", {}, make("h3", {}, stage.name), this.title),
      make("div", { class: "scroller" }, this.list.element, this.map),
    );
    const list = this.list.element;
    list.addEventListener("mouseover", (event) => {
      const value = event.target.closest(".value, .node");
      view.pointed(this, value ? this.stage.nodes[Number(value.dataset.node)] : null);
    });
    list.addEventListener("mouseleave", () => view.pointed(this, null));
    new ResizeObserver(() => this.resized()).observe(list);
  }

  resized() {
    const wide = this.list.element.clientWidth >= 400;
    if (wide !== this.wide) {
      this.wide = wide;
      this.element.classList.toggle("tall", !wide);
      this.list.measure();
    }
    this.drawMap();
    this.view.drawLinks();
  }

  fill(keep, sources, options) {
    this.list.set(this.stage.rows({ keep, sources }), options);
    this.stretches = this.bandedRows();
    this.drawMap();
  }

  // Rows next to each other that are in one band.
  bandedRows() {
    const found = [];
    this.list.rows.forEach((row, at) => {
      const band = row.kind === "node" ? row.node.band : row.band;
      if (band === undefined || band < 0) return;
      const before = found.at(-1);
      if (before && before.band === band && before.last === at) before.last = at + 1;
      else found.push({ first: at, last: at + 1, band });
    });
    return found;
  }

  dressed(row) {
    const element =
      row.kind === "node" ? nodeRow(this.stage, row.node) : headingRow(this.stage, row);
    if (row.kind === "node") this.dress(element, row.node.at);
    return element;
  }

  // The roles that a row has now: what it is to the value that is pointed at, and a match.
  dress(element, at) {
    const role = this.view.roles.get(this.stage)?.get(at);
    for (const each of ROLES) element.classList.toggle(each, each === role);
    element.classList.toggle("match", this.view.isMatch(this.stage, at));
  }

  redress() {
    for (const [place, element] of this.list.shown) {
      const row = this.list.rows[place];
      if (row.kind === "node") this.dress(element, row.node.at);
    }
    this.drawMap();
  }

  act(row, event) {
    const group = row.kind === "band" ? row.band : row.kind === "inputs" ? INPUTS : null;
    if (group !== null) {
      const { folded } = this.stage;
      if (!folded.delete(group)) folded.add(group);
      this.view.refill(this);
      return;
    }
    const value = event.target.closest?.(".value");
    if (value) this.view.go(this.stage, Number(value.dataset.node));
  }

  // The whole graph on a few pixels: its regions, and what lights up.
  drawMap() {
    const { element, tops, rows } = this.list;
    const height = element.clientHeight;
    if (!height) return;
    const scale = window.devicePixelRatio || 1;
    this.map.width = 12 * scale;
    this.map.height = height * scale;
    const paint = this.map.getContext("2d");
    paint.scale(scale, scale);
    const styles = getComputedStyle(document.documentElement);
    const part = height / Math.max(tops[rows.length] || 1, height);
    const mark = (first, last, colour, x, width, least) => {
      paint.fillStyle = styles.getPropertyValue(colour);
      paint.fillRect(
        x,
        tops[first] * part,
        width,
        Math.max((tops[last] - tops[first]) * part, least),
      );
    };
    for (const { first, last, band } of this.stretches)
      mark(first, last, `--colour-${this.stage.bands[band].colour % 8}`, 0, 5, 1);
    const { roles, matched } = this.view;
    const lit = (at, colour, least) => {
      const row = this.stage.rowOf[at];
      if (row >= 0) mark(row, row + 1, colour, 6, 6, least);
    };
    for (const at of matched.get(this.stage) || []) lit(at, "--match", 2);
    for (const [at, role] of roles.get(this.stage) || []) lit(at, `--${role}`, 3);
    if (part === 1) return;
    paint.strokeStyle = styles.getPropertyValue("--dim");
    paint.strokeRect(0.5, element.scrollTop * part + 0.5, 11, height * part - 1);
  }
}
