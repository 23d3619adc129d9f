// The compiled regions: the drawing, and for each what it is and the kernels that Inductor made.

const KEYWORDS = new Set(
  "and as assert break class continue def del elif else except False finally for from if import in is lambda None not or pass return True try while with".split(
    " ",
  ),
);
const TOKENS =
  /(#[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(@?[A-Za-z_]\w*)/g;

// Enough of Python to read it by: comments, strings, keywords, decorators.
const highlighted = (text) => {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    const [token, comment, string, word] = found;
    const kind = comment
      ? "comment"
      : string
        ? "string"
        : KEYWORDS.has(word) || word?.startsWith("@")
          ? "keyword"
          : null;
    if (!kind) continue;
    parts.push(text.slice(end, found.index), make("span", { class: kind }, token));
    end = found.index + token.length;
  }
  return [...parts, text.slice(end)];
};

// "model.py:3", "model.py:5" in, "model.py:3, 5" out.
const linesOf = (sources) => {
  const files = new Map();
  for (const source of sources) {
    const [, file, line] = /^(.*):(\d+)$/.exec(source) || [null, source, ""];
    files.set(file, [...(files.get(file) || []), line]);
  }
  return [...files]
    .map(([file, lines]) => `${file}:${lines.sort((a, b) => a - b).join(", ")}`)
    .join("; ");
};

class RegionsView {
  constructor({ run, stages, select }) {
    const compiled = stages.filter((stage) => stage.data.drawing);
    const sides = ["forward", "backward"]
      .map((name) => compiled.find((stage) => stage.name === name))
      .filter(Boolean);
    const pair = (sides.length ? sides : compiled).map((stage) => ({ stage }));
    this.run = run;
    this.select = select;
    const regions = compiled.flatMap((stage) =>
      stage.bands.map((band, at) => ({ stage, band, at })).filter(({ band }) => band.piece),
    );
    const drawing = pair.length
      ? make(
          "div",
          {
            class: "drawing-box",
            tabindex: "0",
            role: "region",
            "aria-label": "Drawing of the regions",
          },
          drawingOf(pair, select),
        )
      : null;
    const notes = run.notes.length
      ? make(
          "section",
          { "aria-label": "Notes" },
          make("h3", {}, "Notes"),
          make(
            "ul",
            { class: "notes" },
            run.notes.map((note) => make("li", {}, quoted(note))),
          ),
        )
      : null;
    this.element = make(
      "div",
      { class: "regions page-body" },
      notes,
      make(
        "section",
        { "aria-label": "Drawing" },
        make("h3", {}, "Regions and what lies between them"),
        drawing,
        make(
          "p",
          { class: "dim legend" },
          "Boxes with a thin border are nodes in no region, condensed. Dashed lines are values saved for the backward. A box leads to its nodes in the graph.",
        ),
      ),
      make(
        "section",
        { "aria-label": "Compiled regions" },
        make(
          "h3",
          {},
          regions.length ? plural(regions.length, "compiled region") : "No region was compiled",
        ),
        make(
          "div",
          { class: "cards" },
          regions.map((region) => this.card(region)),
        ),
      ),
    );
  }

  card({ stage, band, at }) {
    const nodes = stage.nodes.filter((node) => node.band === at);
    const program = stage.data.programs[band.piece] || { kernels: [], operators: [] };
    const facts = [
      ["region", band.region],
      ["kind", band.kind],
      ["nodes", String(nodes.length)],
      band.configs ? ["configs", band.configs] : null,
      band.shared_with ? ["compiled with", `${band.shared_with}: they are equal`] : null,
      band.sources.length ? ["from", linesOf(band.sources)] : null,
      stage.data.saved_bytes[band.piece]
        ? ["saves", `${bytes(stage.data.saved_bytes[band.piece])} for the backward`]
        : null,
      stage.data.recomputed_bytes[band.piece]
        ? ["recomputed", `${bytes(stage.data.recomputed_bytes[band.piece])} in the backward`]
        : null,
      program.operators.length ? ["calls", program.operators.join(", ")] : null,
    ].filter(Boolean);
    return make(
      "article",
      { class: `card colour-${band.colour % 8}` },
      make(
        "header",
        {},
        make("h4", {}, make("span", { class: "dim" }, `${stage.name} · `), band.piece),
        button("Show in graph", () => this.select(stage, nodes[0].at), {
          "aria-label": `Show ${band.piece} of ${stage.name} in the graph`,
        }),
      ),
      make(
        "dl",
        {},
        facts.map(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]).flat(),
      ),
      program.kernels.map((name) => this.kernel(name)),
      program.kernels.length ? null : make("p", { class: "dim" }, "No kernel of its own."),
    );
  }

  kernel(name) {
    const kernel = this.run.kernels.find((each) => each.name === name);
    const codes = this.run.machine_code.filter((code) => code.kernel === name);
    const spills = codes.some((code) => code.spills);
    const registers = codes.map((code) => code.registers);
    const said = codes.length
      ? `${Math.min(...registers) === Math.max(...registers) ? registers[0] : `${Math.min(...registers)}–${Math.max(...registers)}`} registers${spills ? ", spills" : ", no spills"}`
      : kernel?.language === "triton"
        ? "not compiled to machine code"
        : "";
    const details = make(
      "details",
      { class: "kernel" },
      make(
        "summary",
        {},
        make("code", {}, name),
        make("span", { class: "dim" }, ` ${kernel ? kernel.language : ""}`),
        said ? make("span", { class: spills ? "bad" : "dim" }, ` · ${said}`) : null,
      ),
    );
    // Sources are long: they are put in when somebody looks.
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("pre")) return;
      if (codes.length) details.append(this.machineCode(codes));
      else if (kernel?.language === "triton")
        details.append(
          make(
            "p",
            { class: "dim" },
            "Registers and spills: run with --fxregion-compile-kernels, which needs no GPU.",
          ),
        );
      if (kernel)
        details.append(
          make(
            "pre",
            { tabindex: "0", role: "region", "aria-label": `Source of ${name}` },
            highlighted(kernel.source),
          ),
        );
    });
    return details;
  }

  machineCode(codes) {
    const columns = ["configuration", "registers", "spills", "shared memory"];
    return make(
      "div",
      { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Machine code" },
      make(
        "table",
        {},
        make("caption", {}, `Compiled for ${codes[0].architecture}`),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            columns.map((text) => make("th", { scope: "col" }, text)),
          ),
        ),
        make(
          "tbody",
          {},
          codes.map((code) =>
            make(
              "tr",
              {},
              make("th", { scope: "row" }, code.configuration),
              make("td", {}, String(code.registers)),
              make(
                "td",
                { class: code.spills ? "bad" : "" },
                code.spills ? bytes(code.spills) : "none",
              ),
              make("td", {}, bytes(code.shared_memory)),
            ),
          ),
        ),
      ),
    );
  }
}
