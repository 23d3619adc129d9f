// What was checked of the numbers: each result's error, and how the errors of its elements spread.

const HISTOGRAM = { bar: 9, height: 44 };

class NumbersView {
  constructor({ run }) {
    const { numbers } = run;
    const spread = numbers.some((each) => each.histogram);
    this.element = make(
      "div",
      { class: "numbers page-body" },
      make(
        "section",
        { "aria-label": "Numbers" },
        make("h3", {}, "Regional against eager"),
        numbers.length
          ? this.table(numbers)
          : make(
              "p",
              { class: "dim" },
              "The numbers were not checked: the test calls neither check() nor check_numerics().",
            ),
        spread
          ? make(
              "p",
              { class: "dim legend" },
              "Bars count elements by the size of their error, from none (0) to ever larger ones: each bar is twice the one before, in roundings of the largest value. ",
              make("span", { class: "key regional" }),
              "regional ",
              make("span", { class: "key eager" }),
              "eager, against float64.",
            )
          : null,
      ),
      this.list("Sums of gradients, in eager", run.sums),
      this.list("What was done where", run.execution),
    );
  }

  list(title, lines) {
    if (!lines.length) return null;
    return make(
      "section",
      {},
      make("h3", {}, title),
      make(
        "ul",
        { class: "plain" },
        lines.map((line) => make("li", {}, line)),
      ),
    );
  }

  // A table; where it is narrow, each row is laid out as a block, so that roles are given.
  table(numbers) {
    const columns = [
      "result",
      "error",
      "eager’s error",
      "allowed",
      "error/allowed",
      "ulps",
      "cosine",
      "worst at",
      "against",
      "errors of all elements",
    ];
    return make(
      "table",
      { class: "results", role: "table" },
      make(
        "thead",
        { role: "rowgroup" },
        make(
          "tr",
          { role: "row" },
          columns.map((text) => make("th", { scope: "col", role: "columnheader" }, text)),
        ),
      ),
      make(
        "tbody",
        { role: "rowgroup" },
        numbers.map((each) => this.result(each, columns)),
      ),
    );
  }

  result(each, columns) {
    const facts = [
      number(each.error),
      each.against === "float64" ? number(each.eager_error) : "",
      number(each.allowed),
      partOf(each.of_allowed),
      number(each.ulps, 1),
      each.cosine === 1 ? "1" : `1 − ${number(1 - each.cosine, 1)}`,
      each.where.length ? `[${each.where.join(", ")}]` : "",
      each.against,
    ];
    return make(
      "tr",
      { role: "row", class: each.problem ? "wrong" : "" },
      make(
        "th",
        { scope: "row", role: "rowheader" },
        make(
          "span",
          {
            class: `mark ${each.problem ? "failed" : "passed"}`,
            title: each.problem ? "off" : "as eager",
          },
          each.problem ? "✕" : "✓",
        ),
        each.name,
        each.problem ? make("p", { class: "bad" }, each.problem) : null,
      ),
      facts.map((text, at) =>
        make(
          "td",
          { role: "cell", "data-label": columns[at + 1], class: text ? "" : "empty" },
          text,
        ),
      ),
      make("td", { role: "cell" }, each.histogram ? this.histogram(each) : null),
    );
  }

  histogram({ histogram, allowed, name }) {
    const { regional, eager, lowest, highest, unit } = histogram;
    const most = Math.max(...regional, ...(eager || []));
    const width = regional.length * HISTOGRAM.bar;
    const height = (count) =>
      count ? Math.max(1.5, (Math.log2(1 + count) / Math.log2(1 + most)) * HISTOGRAM.height) : 0;
    const bars = (counts, kind, x, size) =>
      counts.map((count, at) =>
        draw("rect", {
          class: kind,
          x: at * HISTOGRAM.bar + x,
          y: HISTOGRAM.height - height(count),
          width: size,
          height: height(count),
        }),
      );
    const limit = unit && allowed > 0 ? Math.log2(allowed / unit) - lowest + 2 : null;
    const total = regional.reduce((a, b) => a + b, 0);
    const text = `Errors of ${plural(total, "element")} of ${name}: ${regional[0]} without any`;
    return draw(
      "svg",
      {
        class: "histogram",
        viewBox: `-2 -2 ${width + 4} ${HISTOGRAM.height + 16}`,
        role: "img",
        "aria-label": text,
      },
      draw("title", {}, text),
      eager ? bars(eager, "eager", 0.5, HISTOGRAM.bar / 2 - 0.5) : [],
      bars(
        regional,
        "regional",
        eager ? HISTOGRAM.bar / 2 : 0.5,
        eager ? HISTOGRAM.bar / 2 - 0.5 : HISTOGRAM.bar - 1,
      ),
      draw("line", { class: "axis", x1: 0, x2: width, y1: HISTOGRAM.height, y2: HISTOGRAM.height }),
      limit !== null && limit <= regional.length
        ? draw(
            "line",
            {
              class: "limit",
              x1: limit * HISTOGRAM.bar,
              x2: limit * HISTOGRAM.bar,
              y1: -2,
              y2: HISTOGRAM.height,
            },
            draw("title", {}, "allowed"),
          )
        : null,
      draw("text", { x: 0, y: HISTOGRAM.height + 11 }, "0"),
      draw(
        "text",
        { x: (1 - lowest + 1) * HISTOGRAM.bar, y: HISTOGRAM.height + 11, "text-anchor": "middle" },
        "1",
      ),
      draw("text", { x: width, y: HISTOGRAM.height + 11, "text-anchor": "end" }, `2^${highest}`),
    );
  }
}
