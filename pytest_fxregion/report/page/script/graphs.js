// The listings of a graph's stages: one, or forward and backward side by side with what is saved.

const KINDS = {
  all: ["all nodes", () => true],
  regions: ["in regions", (node) => node.band >= 0],
  saved: ["saved", (node) => node.chips.some((chip) => chip[0] === "saved")],
  ac: ["checkpointed", (node) => node.chips.some((chip) => chip[0] === "ac")],
  recomputed: ["recomputed", (node) => node.chips.some((chip) => chip[0] === "recomputed")],
  sum: ["gradient sums", (node) => node.chips.some((chip) => chip[0] === "sum")],
  changed: ["changed", (node) => node.changed.length > 0],
};

class GraphsView {
  // `stages` by name; `chosen` is "pair" or a stage's name; `choose` is called to change that.
  constructor({ stages, chosen, choose, find }) {
    this.stages = stages;
    this.roles = new Map();
    this.pinned = null;
    this.matches = [];
    this.matched = new Map();
    this.match = -1;
    this.kind = "all";
    this.sources = remembered.get("sources") !== "off";
    const names = chosen === "pair" ? ["forward", "backward"] : [chosen];
    this.links =
      stages.forward && stages.backward ? Stage.join(stages.forward, stages.backward) : [];
    this.inspector = new Inspector((stage, at) => this.go(stage, at));
    this.panes = names.map((name) => new Pane(stages[name], this));
    this.choose = choose;
    this.wires = draw("svg", { class: "wires", "aria-hidden": "true" });
    this.count = make("span", { class: "count", role: "status" });
    this.search = make("input", {
      type: "search",
      value: find,
      placeholder: "Find in graph",
      "aria-label": "Find in graph: name, operator, type, source line or tag",
      oninput: () => this.find(),
      onkeydown: (event) => {
        if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
        if (event.key === "Escape") this.panes[0].list.element.focus();
      },
    });
    const body = make("div", { class: "panes" }, this.panes[0].element);
    if (this.panes.length === 2) body.append(this.wires, this.panes[1].element);
    body.classList.toggle("pair", this.panes.length === 2);
    this.element = make(
      "div",
      { class: "graphs" },
      this.toolbar(chosen),
      body,
      this.inspector.element,
    );
    this.refill();
    if (find) this.find();
  }

  toolbar(chosen) {
    const stages = this.stages;
    const pair = stages.forward && stages.backward;
    const choices = Object.keys(stages).map((name) => [name, name]);
    const select = make(
      "select",
      {
        "aria-label": "Which nodes are listed",
        onchange: () => {
          this.kind = select.value;
          this.refill();
        },
      },
      Object.entries(KINDS)
        .filter(([, [, keep]]) => this.panes.some((pane) => pane.stage.nodes.some(keep)))
        .map(([value, [text]]) => make("option", { value }, text)),
    );
    const sources = make("input", {
      type: "checkbox",
      onchange: () => {
        this.sources = sources.checked;
        remembered.set("sources", this.sources ? "on" : "off");
        this.refill();
      },
    });
    sources.checked = this.sources;
    return make(
      "div",
      { class: "toolbar" },
      choice(
        "Stage",
        pair && !narrow.matches ? [["pair", "forward + backward"], ...choices] : choices,
        chosen,
        this.choose,
      ),
      make("span", { class: "find" }, this.search, this.count),
      select,
      make("label", { class: "check" }, sources, "source lines"),
    );
  }

  refill(only = null) {
    const keep = KINDS[this.kind][1];
    for (const pane of this.panes)
      if (!only || only === pane) pane.fill(keep, this.sources, { keep: only !== null });
    this.drawLinks();
  }

  paneOf(stage) {
    return this.panes.find((pane) => pane.stage === stage);
  }

  isMatch(stage, at) {
    return this.matched.get(stage)?.has(at) ?? false;
  }

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.matches = [];
    this.matched = new Map(this.panes.map((pane) => [pane.stage, new Set()]));
    if (words.length) {
      for (const { stage } of this.panes)
        for (const node of stage.nodes)
          if (stage.matches(node, words)) {
            this.matches.push([stage, node.at]);
            this.matched.get(stage).add(node.at);
          }
    }
    this.match = -1;
    this.count.textContent = words.length
      ? plural(this.matches.length, "match").replace("matchs", "matches")
      : "";
    for (const pane of this.panes) pane.redress();
    if (this.matches.length) this.step(1, { focus: false });
  }

  step(by, { focus = false } = {}) {
    if (!this.matches.length) return;
    this.match = (this.match + by + this.matches.length) % this.matches.length;
    const [stage, at] = this.matches[this.match];
    this.count.textContent = `${this.match + 1} of ${this.matches.length}`;
    this.go(stage, at, { focus });
  }

  // Shows a node, in another stage or a folded region if need be.
  go(stage, at, { focus = true } = {}) {
    const pane = this.paneOf(stage);
    if (!pane) {
      this.choose(stage.name, at);
      return;
    }
    if (stage.folded.delete(stage.groupOf(stage.nodes[at]))) this.refill(pane);
    if (stage.rowOf[at] < 0) {
      this.kind = "all";
      this.element.querySelector("select").value = "all";
      this.refill();
    }
    pane.list.center(stage.rowOf[at]);
    if (focus) pane.list.element.focus({ preventScroll: true });
  }

  activated(pane, row) {
    this.pinned = row.kind === "node" ? [pane.stage, row.node] : null;
    this.light(...(this.pinned || []));
  }

  pointed(pane, node) {
    if (node) this.light(pane.stage, node);
    else this.light(...(this.pinned || []));
  }

  light(stage, node) {
    if (this.lit === node) return;
    this.lit = node;
    this.roles = new Map();
    if (node) {
      this.mark(stage, node);
      if (node.peer) this.mark(node.peer.stage, node.peer.stage.nodes[node.peer.at]);
    }
    this.inspector.show(stage, node);
    for (const pane of this.panes) pane.redress();
    this.drawLinks();
  }

  mark(stage, node) {
    const roles = new Map();
    for (const at of node.users) roles.set(at, "consumer");
    for (const at of node.inputs) roles.set(at, "producer");
    roles.set(node.at, "same");
    this.roles.set(stage, roles);
  }

  // Scrolling asks for this more often than there are frames.
  drawSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawLinks();
      for (const pane of this.panes) pane.drawMap();
    });
  }

  // Lines from what is saved to where it comes in, of those that can be seen, and the lit one.
  drawLinks() {
    if (this.panes?.length !== 2 || !this.wires.isConnected) return;
    const box = this.wires.getBoundingClientRect();
    const sides = this.panes.map(({ stage, list }) => ({
      stage,
      list,
      top: list.element.getBoundingClientRect().top - box.top,
      height: list.element.clientHeight,
    }));
    const lines = [];
    for (const link of this.links) {
      const places = [link.from, link.to];
      const lit = sides.some(
        ({ stage }, side) => this.lit && stage.nodes[places[side]] === this.lit,
      );
      const rows = sides.map(({ stage }, side) => stage.rowOf[places[side]]);
      if (rows.some((row) => row < 0)) continue;
      const middles = sides.map(({ list }, side) => list.middleOf(rows[side]));
      const seen = sides.every(({ height }, side) => middles[side] > 0 && middles[side] < height);
      if (!lit && !seen) continue;
      const [a, b] = sides.map(
        ({ top, height }, side) => top + Math.max(3, Math.min(height - 3, middles[side])),
      );
      const d = `M0,${a} C${box.width * 0.6},${a} ${box.width * 0.4},${b} ${box.width},${b}`;
      lines.push(draw("path", { d, class: lit ? "lit" : "", fill: "none" }));
    }
    this.wires.replaceChildren(...lines);
  }

  // The first operation is looked at until another is.
  begin() {
    const [{ stage, list }] = this.panes;
    const node =
      stage.nodes.find((each) => each.op === "call" && stage.rowOf[each.at] >= 0) || stage.nodes[0];
    if (node) list.activate(stage.rowOf[node.at], { scroll: false });
  }

  // To the first producer or consumer of the value that is marked, or across.
  follow(role) {
    if (!this.pinned) return;
    const [stage, node] = this.pinned;
    if (role === "peer") {
      if (node.peer) this.go(node.peer.stage, node.peer.at);
      return;
    }
    const [at] = role === "producer" ? node.inputs : node.users;
    if (at !== undefined) this.go(stage, at);
  }
}
