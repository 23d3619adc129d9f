// All tests: the list at the side with its search and filters, and the overview that opens first.

class Side {
  constructor({ open }) {
    this.open = open;
    this.query = "";
    this.list = new VirtualList({
      label: "Tests",
      heightOf: () => 46,
      render: (test) => this.row(test),
      act: (test) => open(test.place),
    });
    this.current = -1;
    this.search = make("input", {
      type: "search",
      placeholder: "Search tests  ( / )",
      "aria-label": "Search tests: words of their names, status:, device:, op:, region:",
      oninput: () => this.apply(this.search.value),
      onkeydown: (event) => {
        if (event.key === "ArrowDown" || event.key === "Enter") {
          event.preventDefault();
          this.list.element.focus();
          if (event.key === "Enter" && this.list.rows.length) open(this.list.rows[0].place);
        } else if (event.key === "Escape") {
          this.search.value = "";
          this.apply("");
        }
      },
    });
    this.count = make("p", { class: "count dim", role: "status" });
    this.filters = make("div", { class: "filters" });
    this.element = make(
      "nav",
      { class: "side", "aria-label": "Tests", id: "side" },
      make("div", { class: "side-head" }, this.search, this.filters, this.count),
      this.list.element,
    );
    this.controls();
    this.apply("");
  }

  controls() {
    const outcomes = Object.entries(INDEX.counts);
    this.status = outcomes.map(([outcome]) =>
      button("", () => this.toggle("status", outcome), {
        class: `pill ${outcome}`,
        "aria-pressed": "false",
        "data-value": outcome,
      }),
    );
    this.status.forEach((element, at) => {
      const [outcome, count] = outcomes[at];
      element.append(
        make("span", { "aria-hidden": "true", class: `mark ${outcome}` }, MARKS[outcome]),
        `${count} ${outcome}`,
      );
    });
    const all = (pick) => [...new Set(INDEX.tests.flatMap(pick))].sort();
    const select = (key, values, text) => {
      const element = make(
        "select",
        {
          "aria-label": `Only tests with this ${text}`,
          "data-key": key,
          onchange: () => this.term(key, element.value),
        },
        make("option", { value: "" }, `any ${text}`),
        values.map((value) => make("option", { value }, value)),
      );
      return element;
    };
    const devices = all((test) => test.devices);
    const regions = all((test) => test.regions.map(unquoted));
    const operators = all((test) => test.operators);
    this.operator = make("input", {
      type: "search",
      placeholder: "any op",
      "aria-label": "Only tests with this operator",
      list: "operators",
      "data-key": "op",
      oninput: () => this.term("op", this.operator.value.trim()),
    });
    this.selects = [select("region", regions, "region")];
    if (devices.length > 1) this.selects.push(select("device", devices, "device"));
    this.filters.append(
      make(
        "div",
        { class: "pills", role: "group", "aria-label": "Only tests of this status" },
        this.status,
      ),
      make("div", { class: "fields" }, this.operator, this.selects),
      make(
        "datalist",
        { id: "operators" },
        operators.map((value) => make("option", { value })),
      ),
    );
  }

  toggle(key, value) {
    this.term(key, termOf(this.query, key) === value ? "" : value);
  }

  term(key, value) {
    this.search.value = withTerm(this.query, key, value);
    this.apply(this.search.value);
  }

  apply(query) {
    this.query = query;
    const status = termOf(query, "status");
    for (const element of this.status)
      element.setAttribute("aria-pressed", String(element.dataset.value === status));
    for (const element of this.selects) element.value = termOf(query, element.dataset.key);
    if (document.activeElement !== this.operator) this.operator.value = termOf(query, "op");
    const found = INDEX.tests.filter(matcher(query));
    this.list.set(found);
    this.count.textContent =
      found.length === INDEX.tests.length
        ? plural(found.length, "test")
        : `${found.length} of ${plural(INDEX.tests.length, "test")}`;
    this.mark(this.current);
  }

  get operatorAsked() {
    return termOf(this.query, "op");
  }

  mark(place) {
    this.current = place;
    const at = this.list.rows.findIndex((test) => test.place === place);
    if (at >= 0) this.list.activate(at);
    for (const element of this.list.shown.values())
      element.classList.toggle(
        "current",
        this.list.rows[Number(element.dataset.at)].place === place,
      );
  }

  step(by) {
    const rows = this.list.rows;
    if (!rows.length) return;
    const at = rows.findIndex((test) => test.place === this.current);
    const next = at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by));
    this.open(rows[next].place);
  }

  row(test) {
    const element = make(
      "div",
      { class: "test", title: test.nodeid },
      make("span", { class: `mark ${test.outcome}`, "aria-hidden": "true" }, MARKS[test.outcome]),
      make(
        "span",
        { class: "names" },
        make("span", { class: "title" }, test.title),
        make("span", { class: "file dim" }, make("bdi", {}, test.file)),
        make("span", { class: "hidden" }, `, ${test.outcome}`),
      ),
    );
    element.classList.toggle("current", test.place === this.current);
    return element;
  }
}

// The page that opens where nothing failed, and is always a key away.
class Overview {
  constructor({ open }) {
    const failed = INDEX.tests.filter((test) => BAD.has(test.outcome));
    const rows = INDEX.tests.flatMap((test) =>
      test.runs.length
        ? test.runs.map((figures) => ({ test, figures }))
        : [{ test, figures: null }],
    );
    this.list = new VirtualList({
      label: "Figures of every run",
      heightOf: () => (this.stacked ? 62 : 26),
      render: (row) => this.row(row),
      act: (row) => open(row.test.place),
    });
    this.element = make(
      "div",
      { class: "overview" },
      make(
        "h2",
        {},
        failed.length
          ? `${plural(failed.length, "test")} failed`
          : INDEX.tests.length
            ? "Nothing failed"
            : "No test of fxregion ran",
      ),
      failed.length
        ? make(
            "ul",
            { class: "failures" },
            failed.map((test) =>
              make(
                "li",
                {},
                wayTo(test.title, () => open(test.place), addressOf({ test: test.nodeid })),
                make("span", { class: "dim" }, test.file),
                make("p", {}, quoted(test.headline)),
              ),
            ),
          )
        : null,
      make(
        "section",
        { class: "figures", "aria-label": "Figures" },
        make(
          "div",
          { class: "figure-head", "aria-hidden": "true" },
          ["", "test", "regions", "nodes", "saved", "grad sums", "error/allowed"].map((text) =>
            make("span", {}, text),
          ),
        ),
        this.list.element,
      ),
    );
    new ResizeObserver(() => {
      const stacked = this.list.element.clientWidth < 620;
      if (stacked !== this.stacked) {
        this.stacked = stacked;
        this.element.classList.toggle("stacked", stacked);
        this.list.measure();
      }
    }).observe(this.list.element);
    this.list.set(rows);
  }

  row({ test, figures }) {
    const name = figures?.name ? `${test.title} (${figures.name})` : test.title;
    const cell = (text, label) => make("span", { class: "cell", "data-label": label }, text);
    const part = figures?.worst_of_allowed;
    return make(
      "div",
      { class: "figure", title: test.nodeid },
      make("span", { class: `mark ${test.outcome}`, "aria-hidden": "true" }, MARKS[test.outcome]),
      make(
        "span",
        { class: "title" },
        name,
        make("span", { class: "dim" }, `  ${test.file}`),
        make("span", { class: "hidden" }, `, ${test.outcome}`),
      ),
      figures
        ? [
            cell(
              `${figures.regions_forward}/${figures.regions_backward}${figures.graphs > 1 ? ` in ${figures.graphs}` : ""}`,
              "regions",
            ),
            cell(String(figures.nodes), "nodes"),
            cell(bytes(figures.saved_bytes), "saved"),
            cell(String(figures.gradient_accumulations), "sums"),
            cell(
              part === null || part === undefined ? "not checked" : partOf(part),
              "error/allowed",
            ),
          ]
        : [make("span", { class: "cell none dim" }, test.headline || test.outcome)],
    );
  }
}
