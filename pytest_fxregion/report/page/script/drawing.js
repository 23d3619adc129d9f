// The regions of a graph, and what lies between them, as a drawing.  Places come from the page's data.

const BOX = { width: 114, height: 30, across: 126, down: 50 };
const SMALLEST = 0.75; // of its own size, before it scrolls

const drawingOf = (pair, select) => {
  const widths = pair.map(
    ({ stage }) => Math.max(1, stage.data.drawing.right - stage.data.drawing.left) * BOX.across,
  );
  const layers = Math.max(1, ...pair.map(({ stage }) => stage.data.drawing.layers));
  const gap = pair.length === 2 ? 70 : 0;
  const size = { width: widths.reduce((a, b) => a + b) + gap + 16, height: layers * BOX.down + 34 };
  const svg = draw("svg", {
    class: "drawing",
    viewBox: `0 0 ${size.width} ${size.height}`,
    role: "group",
    "aria-label": "Regions and what lies between them",
  });
  svg.style.maxWidth = `${size.width}px`;
  svg.style.minWidth = `${Math.round(size.width * SMALLEST)}px`;
  const y = (layer) => 42 + layer * BOX.down;
  let left = 8;
  const sides = pair.map(({ stage }, side) => {
    const { drawing } = stage.data;
    const x = (place) => left + (place - drawing.left) * BOX.across;
    svg.append(draw("text", { x: left + widths[side] / 2, y: 14, class: "heading" }, stage.name));
    const placed = {
      stage,
      centers: drawing.boxes.map((box) => ({ x: x(box.x), y: y(box.layer) })),
      ways: drawing.edges.map((edge) =>
        edge.way.map(([place, layer]) => ({ x: x(place), y: y(layer) })),
      ),
    };
    left += widths[side] + gap;
    return placed;
  });
  for (const { stage, centers, ways } of sides)
    stage.data.drawing.edges.forEach((edge, at) =>
      svg.append(edgeElement(edge, centers, ways[at])),
    );
  if (sides.length === 2) svg.append(...savedEdges(...sides));
  for (const { stage, centers } of sides)
    stage.data.drawing.boxes.forEach((box, at) =>
      svg.append(boxElement(stage, box, centers[at], select)),
    );
  return svg;
};

// From the lower side of a box, through the points on its way, to the upper side of another.
const edgeElement = (edge, centers, way) => {
  const from = centers[edge.from];
  const to = centers[edge.to];
  const points = [
    { x: from.x, y: from.y + BOX.height / 2 },
    ...way,
    { x: to.x, y: to.y - BOX.height / 2 },
  ];
  let path = `M${points[0].x},${points[0].y}`;
  for (let at = 1; at < points.length; at++) {
    const [a, b] = [points[at - 1], points[at]];
    const middle = (a.y + b.y) / 2;
    path += ` C${a.x},${middle} ${b.x},${middle} ${b.x},${b.y}`;
  }
  return draw(
    "path",
    { class: "edge", d: path, "stroke-width": Math.min(3, 1 + Math.log2(edge.count) / 2) },
    draw("title", {}, plural(edge.count, "value")),
  );
};

// Values that the forward saves go across: one line for each pair of boxes.
const savedEdges = (left, right) => {
  const [forward, backward] = [left.stage, right.stage];
  const inputs = new Map(backward.data.saved.map((entry) => [entry.name, entry.node]));
  const lines = new Map();
  for (const { name, node } of forward.data.saved) {
    const from = forward.data.drawing.box[node];
    if (!inputs.has(name) || from < 0) continue;
    for (const user of backward.nodes[inputs.get(name)].users) {
      const to = backward.data.drawing.box[user];
      if (to < 0) continue;
      const key = `${from} ${to}`;
      lines.set(key, (lines.get(key) || new Set()).add(name));
    }
  }
  return [...lines].map(([key, names]) => {
    const [from, to] = key.split(" ");
    const a = left.centers[from];
    const b = right.centers[to];
    const [x1, x2] = [a.x + BOX.width / 2, b.x - BOX.width / 2];
    return draw(
      "path",
      { class: "edge saved", d: `M${x1},${a.y} C${x1 + 40},${a.y} ${x2 - 40},${b.y} ${x2},${b.y}` },
      draw("title", {}, `saved: ${[...names].join(", ")}`),
    );
  });
};

const boxElement = (stage, box, center, select) => {
  const band = stage.bands[box.band];
  const title = band ? band.piece.replace("inductor_", "") : plural(box.count, "node");
  const detail = band
    ? `${plural(box.count, "node")}${band.kind === "recompute" ? " again" : ""}`
    : "in no region";
  const open = () => select(stage, box.first);
  return draw(
    "g",
    {
      class: band ? `box colour-${band.colour % 8}` : "box between",
      role: "button",
      tabindex: "0",
      "aria-label": `${band ? `${band.piece}, region ${band.region}, ${band.kind}, ` : ""}${plural(box.count, "node")} in ${stage.name}: show in the graph`,
      onclick: open,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      },
    },
    draw("rect", {
      x: center.x - BOX.width / 2,
      y: center.y - BOX.height / 2,
      width: BOX.width,
      height: BOX.height,
      rx: 5,
    }),
    draw("text", { x: center.x, y: center.y - 1 }, title),
    draw("text", { x: center.x, y: center.y + 10, class: "detail" }, detail),
  );
};
