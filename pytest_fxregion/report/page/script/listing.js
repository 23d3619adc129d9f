// A stage's columns as nodes, and as rows of a listing.

class Stage {
  constructor(data) {
    this.data = data;
    this.name = data.name;
    this.bands = data.bands;
    const { nodes, types, chips, tags, sources } = data;
    this.nodes = nodes.name.map((name, at) => ({
      at,
      name,
      label: name.slice(name.lastIndexOf("/") + 1),
      op: nodes.op[at],
      target: nodes.target[at],
      args: nodes.args[at],
      inputs: nodes.inputs[at],
      users: [],
      type: types[nodes.type[at]],
      chips: chips[nodes.chips[at]],
      tags: tags[nodes.tags[at]],
      source: sources[nodes.source[at]],
      band: nodes.band[at],
      graph: nodes.graph[at],
      changed: [],
      peer: null, // the same value in the other stage: {stage, at}
    }));
    for (const node of this.nodes)
      for (const input of new Set(node.inputs)) this.nodes[input].users.push(node.at);
    this.folded = new Set(); // bands, and INPUTS
    this.inputs = this.nodes.filter((node) => this.groupOf(node) === INPUTS);
    if (this.inputs.length > MANY_INPUTS) this.folded.add(INPUTS);
    this.rowOf = [];
  }

  // What a node is folded away with: a band's number, INPUTS, or null.
  groupOf(node) {
    if (node.op === "placeholder" && node.graph === 0) return INPUTS;
    return node.band >= 0 && this.name !== "joint" ? node.band : null;
  }

  matches(node, words) {
    const text = `${node.name} ${node.target} ${node.type} ${node.source} ${node.chips.map((c) => c[1]).join(" ")}`;
    return words.every((word) => text.toLowerCase().includes(word));
  }

  // What stands in the list: nodes, with headings where source, region or graph change.
  rows({ keep, sources }) {
    const rows = [];
    this.rowOf = new Array(this.nodes.length).fill(-1);
    let source = "";
    let group = null;
    let graph = 0;
    this.nodes.forEach((node, at) => {
      if (node.graph !== graph) {
        graph = node.graph;
        source = "";
        group = null;
        rows.push({ kind: "graph", text: this.data.graphs[graph] });
      }
      if (!keep(node)) return;
      if (this.groupOf(node) !== group) {
        group = this.groupOf(node);
        if (group !== null) {
          rows.push(
            group === INPUTS
              ? { kind: "inputs" }
              : { kind: "band", band: group, count: this.sizeOf(group) },
          );
          source = "";
        }
      }
      if (group !== null && this.folded.has(group)) {
        this.rowOf[at] = rows.length - 1;
        return;
      }
      if (sources && node.source && node.source !== source && node.op !== "placeholder") {
        source = node.source;
        rows.push({ kind: "source", text: source, band: node.band });
      }
      this.rowOf[at] = rows.length;
      rows.push({ kind: "node", node });
    });
    return rows;
  }

  sizeOf(band) {
    return this.nodes.reduce((count, node) => count + (node.band === band), 0);
  }

  // Joins the values that the forward saves with the inputs of the backward that they become.
  static join(forward, backward) {
    const inputs = new Map(backward.data.saved.map((entry) => [entry.name, entry.node]));
    const links = [];
    for (const { name, node, size } of forward.data.saved) {
      const other = inputs.get(name);
      if (other === undefined) continue;
      forward.nodes[node].peer = { stage: backward, at: other };
      backward.nodes[other].peer = { stage: forward, at: node };
      links.push({ name, from: node, to: other, size });
    }
    return links;
  }
}

const INPUTS = "inputs";
const MANY_INPUTS = 12;

const shortType = (type) => {
  const found = /^([^[]*\[[^\]]*\])/.exec(type);
  return found ? found[1] : type;
};

const POLICIES = {
  MUST_SAVE: "save!",
  PREFER_SAVE: "save",
  MUST_RECOMPUTE: "↻!",
  PREFER_RECOMPUTE: "↻",
};

const SHORT = { sum: "Σ", recomputed: "again", changed: "Δ" };

// A chip has a short text for where there is little room; the long one is always in its title.
const chipElement = ([kind, text, title]) => {
  const short =
    kind === "ac"
      ? text.replace(/[A-Z]+_\w+$/, (policy) => POLICIES[policy] || policy)
      : SHORT[kind] || text;
  const element = make("span", { class: `chip ${kind}`, title: `${text}: ${title}` });
  if (short === text) element.append(text);
  else
    element.append(make("span", { class: "long" }, text), make("span", { class: "short" }, short));
  return element;
};

const changeText = ({ kind, before, after }) => `${kind}: ${before || "none"} → ${after || "none"}`;

const operatorElement = (target) => {
  const parts = shortOp(target).split(".");
  if (!target.startsWith("torch.ops.")) return make("span", { class: "op" }, shortOp(target));
  const [space, name, overload] = parts;
  return make(
    "span",
    { class: "op" },
    make("span", { class: `dim ${space}` }, `${space}.`),
    name,
    make("span", { class: `dim ${overload}` }, overload ? `.${overload}` : ""),
  );
};

// The values among the arguments are elements of their own, to be pointed at and followed.
const argumentElements = (stage, node) => {
  const parts = node.args.split("·");
  if (parts.length !== node.inputs.length + 1) return [node.args];
  return parts.flatMap((part, at) =>
    at < node.inputs.length
      ? [
          part,
          make(
            "span",
            { class: "value", "data-node": node.inputs[at] },
            stage.nodes[node.inputs[at]].label,
          ),
        ]
      : [part],
  );
};

const expression = (stage, node) => {
  const args = argumentElements(stage, node);
  if (node.op === "placeholder") return [];
  if (node.op === "get_attr") return [operatorElement(node.target)];
  if (node.op === "output") return args;
  if (node.target === node.args || node.target.includes("·")) return args; // an operator's expression
  return [operatorElement(node.target), "(", ...args, ")"];
};

const nodeRow = (stage, node) => {
  const chips = node.chips.map(chipElement);
  if (node.changed.length)
    chips.unshift(chipElement(["changed", "changed", node.changed.map(changeText).join("; ")]));
  const code =
    node.op === "output"
      ? ["return ", ...expression(stage, node)]
      : [
          node.op === "placeholder" ? make("span", { class: "dim" }, "input ") : null,
          make("span", { class: "name" }, node.label),
          node.op === "placeholder" ? null : " = ",
          ...expression(stage, node),
        ];
  const row = make(
    "div",
    { class: "node" },
    bandElement(stage, node),
    make("span", { class: "code" }, code),
    make("span", { class: "type", title: node.type }, shortType(node.type)),
    make("span", { class: "chips" }, chips),
  );
  row.dataset.node = node.at;
  return row;
};

const bandElement = (stage, node) => {
  const band = stage.bands[node.band];
  const element = make("span", { class: "band" });
  if (band) {
    element.classList.add(`colour-${band.colour % 8}`);
    element.title = band.piece ? `${band.piece}, region ${band.region}` : `region ${band.region}`;
  }
  return element;
};

const headingRow = (stage, row) => {
  if (row.kind === "source") {
    const band =
      row.band >= 0 ? bandElement(stage, { band: row.band }) : make("span", { class: "band" });
    const [, where, code] = /^(?:.*\/)?(.*?): (.*)$/.exec(row.text) || [null, "", row.text];
    return make(
      "div",
      { class: "source", title: row.text },
      band,
      make("span", { class: "code" }, make("span", { class: "dim where" }, where), code),
    );
  }
  if (row.kind === "graph")
    return make("div", { class: "graph" }, make("span", { class: "code" }, row.text));
  if (row.kind === "inputs") {
    const folded = stage.folded.has(INPUTS);
    const saved = stage.inputs.filter((node) =>
      node.chips.some((chip) => chip[0] === "saved"),
    ).length;
    return make(
      "div",
      {
        class: "region",
        "aria-label": `${plural(stage.inputs.length, "input")}, ${folded ? "folded" : "open"}`,
      },
      make("span", { class: "band" }),
      make("span", { class: "twist" }, folded ? "▸" : "▾"),
      make("span", { class: "name" }, plural(stage.inputs.length, "input")),
      make("span", { class: "dim code" }, saved ? `${saved} of them saved` : ""),
    );
  }
  const band = stage.bands[row.band];
  const folded = stage.folded.has(row.band);
  return make(
    "div",
    {
      class: "region",
      "aria-label": `${band.piece}, region ${band.region}, ${band.kind}, ${plural(row.count, "node")}, ${folded ? "folded" : "open"}`,
    },
    bandElement(stage, { band: row.band }),
    make("span", { class: "twist" }, folded ? "▸" : "▾"),
    make("span", { class: "name" }, band.piece),
    make(
      "span",
      { class: "dim code" },
      `region ${band.region} · ${band.kind} · ${plural(row.count, "node")}`,
    ),
  );
};
