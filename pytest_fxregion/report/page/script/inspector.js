// What is known of one value: written out in full, with ways to what it is made from and used by.

const MOST_WAYS = 40;

class Inspector {
  // go(stage, place) is called to follow a value.
  constructor(go) {
    this.go = go;
    this.element = make("section", { class: "inspector", "aria-label": "Value", tabindex: "-1" });
    this.show(null);
  }

  show(stage, node) {
    if (!node) {
      this.element.replaceChildren(
        make(
          "p",
          { class: "dim" },
          "Point at a value, or move to it with the arrow keys: what it is made from and what uses it light up.",
        ),
      );
      return;
    }
    const producers = [...new Set(node.inputs)];
    this.element.replaceChildren(
      make(
        "div",
        { class: "what" },
        make(
          "h3",
          {},
          make("span", { class: "dim" }, `${stage.name} · `),
          node.op === "output" ? "return" : node.label,
        ),
        make("code", { class: "full" }, this.fullText(stage, node)),
        node.source ? make("div", { class: "dim" }, node.source) : null,
        make("div", { class: "tags" }, this.tagElements(stage, node)),
      ),
      this.ways(stage, "made from", "producer", producers),
      this.ways(stage, "used by", "consumer", node.users),
      ...this.across(node),
    );
  }

  fullText(stage, node) {
    if (node.op === "placeholder") return node.type;
    const args = argumentElements(stage, node).map((part) =>
      typeof part === "string" ? part : part.textContent,
    );
    const plain = node.op === "output" || node.target.includes("·");
    const text = plain
      ? args.join("")
      : `${node.target}${node.op === "call" ? `(${args.join("")})` : ""}`;
    return node.type ? `${node.type} = ${text}` : text;
  }

  tagElements(stage, node) {
    const band = stage.bands[node.band];
    const said = node.tags.map(([key, value]) => (value ? `${key}: ${value}` : key));
    if (band && band.piece) said.unshift(`in ${band.piece} (${band.kind})`);
    said.unshift(...node.changed.map(changeText));
    return said.map((text) => make("span", { class: "chip tag" }, text));
  }

  ways(stage, title, role, places) {
    const shown = places.slice(0, MOST_WAYS);
    return make(
      "div",
      { class: `ways ${role}` },
      make("h4", {}, `${title} ${places.length}`),
      make(
        "div",
        {},
        shown.map((at) => {
          const other = stage.nodes[at];
          return button(other.op === "output" ? "return" : other.label, () => this.go(stage, at), {
            title: other.type,
          });
        }),
        places.length > MOST_WAYS
          ? make("span", { class: "dim" }, `and ${places.length - MOST_WAYS} more`)
          : null,
      ),
    );
  }

  across(node) {
    if (!node.peer) return [];
    const { stage, at } = node.peer;
    const way = button(`${stage.name} · ${stage.nodes[at].label}`, () => this.go(stage, at));
    const title = stage.name === "backward" ? "saved for" : "saved by";
    return [make("div", { class: "ways across" }, make("h4", {}, title), make("div", {}, way))];
  }
}
