// The page: what is open, the way to it in the address, and what each key does.

const TABS = { failure: "What failed", graphs: "Graphs", regions: "Regions", numbers: "Numbers" };

class Shell {
  constructor() {
    this.at = { test: null, tab: null, run: 0, graph: 0, stage: null, node: null };
    this.side = new Side({ open: (place) => this.openTest(place) });
    this.main = make("main", { id: "main", tabindex: "-1" });
    this.help = helpDialog();
    this.theme = button("", () => this.switchTheme(), { class: "icon" });
    this.list = button("Tests", () => this.toggleSide(), {
      class: "icon",
      "aria-controls": "side",
    });
    document.body.append(
      this.top(),
      make("div", { class: "frame" }, this.side.element, this.main),
      this.help,
    );
    this.prefersDark = matchMedia("(prefers-color-scheme: dark)");
    this.prefersDark.addEventListener("change", () => this.setTheme());
    this.setTheme();
    this.setSide(!narrow.matches && remembered.get("side") !== "hidden");
    narrow.addEventListener("change", () => this.setSide(!narrow.matches));
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.fromAddress());
    if (location.hash.length > 1) this.fromAddress();
    else if (INDEX.tests.length && BAD.has(INDEX.tests[0].outcome))
      this.openTest(0, { focus: false });
    else this.openOverview();
  }

  top() {
    const counts = Object.entries(INDEX.counts).map(([outcome, count]) =>
      make(
        "span",
        { class: `total ${outcome}` },
        make("span", { class: "sign", "aria-hidden": "true" }, MARKS[outcome]),
        `${count} `,
        make("span", { class: "word" }, outcome),
      ),
    );
    return make(
      "header",
      { class: "top" },
      make(
        "a",
        {
          class: "skip",
          href: "#main",
          onclick: (event) => (event.preventDefault(), this.main.focus()),
        },
        "Skip the list of tests",
      ),
      this.list,
      make(
        "h1",
        {},
        button("fxregion", () => this.openOverview(), {
          class: "brand",
          title: "Overview of the suite",
        }),
      ),
      make("span", { class: "totals" }, counts),
      make("span", { class: "dim about" }, `torch ${INDEX.torch} · ${INDEX.device}`),
      button("Keys", () => this.showHelp(), {
        class: "icon keys",
        "aria-keyshortcuts": "?",
        title: "Keys and signs ( ? )",
      }),
      this.theme,
    );
  }

  // --- what is open

  openOverview() {
    this.at = { ...this.at, test: null };
    this.side.mark(-1);
    this.view = new Overview({ open: (place) => this.openTest(place) });
    this.main.replaceChildren(this.view.element);
    this.remember(true);
  }

  openTest(
    place,
    { tab = null, run = 0, graph = 0, stage = null, node = null, focus = true } = {},
  ) {
    const record = openTest(place);
    const tabs = this.tabsOf(record);
    const kept = this.at.test !== null && this.at.tab !== "failure" ? this.at.tab : null;
    const wanted = BAD.has(record.outcome) && this.at.test !== place ? null : kept;
    this.at = {
      test: place,
      tab: [tab, wanted, tabs[0]].find((each) => tabs.includes(each)),
      run: Math.min(run, Math.max(0, record.runs.length - 1)),
      graph,
      stage,
      node,
    };
    this.side.mark(place);
    if (narrow.matches) this.setSide(false);
    this.show({ push: true, focus });
  }

  tabsOf(record) {
    const tabs = [];
    if (record.text || record.difference) tabs.push("failure");
    if (record.runs.length) tabs.push("graphs", "regions", "numbers");
    return tabs;
  }

  // Builds what is open anew.
  show({ push = false, focus = false } = {}) {
    const test = INDEX.tests[this.at.test];
    const record = openTest(this.at.test);
    const tabs = this.tabsOf(record);
    const panel = make("div", {
      class: "panel",
      role: "tabpanel",
      id: "panel",
      "aria-label": TABS[this.at.tab] || "Test",
      tabindex: "-1",
    });
    this.main.replaceChildren(this.head(test, record), this.tabBar(tabs), panel);
    this.view = this.viewOf(record);
    panel.append(
      this.view
        ? this.view.element
        : make("p", { class: "page-body" }, "This test ran nothing through the fxregion fixture."),
    );
    this.afterwards(focus);
    this.remember(push);
  }

  afterwards(focus) {
    const { node } = this.at;
    if (this.view instanceof GraphsView && node)
      this.view.go(this.view.stages[node.stage], node.at, { focus });
    else if (this.view instanceof GraphsView && !this.view.matches.length) this.view.begin();
    if (focus && !node) this.main.focus({ preventScroll: true });
  }

  head(test, record) {
    const runs =
      record.runs.length > 1
        ? choice(
            "Run",
            record.runs.map((run, at) => [at, run.name ?? `run ${at + 1}`]),
            this.at.run,
            (run) => this.change({ run, graph: 0 }),
          )
        : null;
    const graphs = record.runs[this.at.run]?.graphs ?? [];
    const pieces =
      graphs.length > 1
        ? choice(
            "Graph",
            graphs.map((_, at) => [at, `graph ${at}`]),
            this.at.graph,
            (graph) => this.change({ graph }),
          )
        : null;
    return make(
      "div",
      { class: "test-head" },
      make(
        "h2",
        {},
        make("span", { class: `mark ${test.outcome}`, title: test.outcome }, MARKS[test.outcome]),
        test.title,
        make("span", { class: "hidden" }, ` ${test.outcome}`),
      ),
      make("span", { class: "dim" }, test.title === test.file ? "" : test.file),
      runs,
      pieces,
    );
  }

  tabBar(tabs) {
    return make(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "What is shown of the test" },
      tabs.map((tab, at) =>
        button(
          tab === "failure" && !BAD.has(INDEX.tests[this.at.test].outcome) ? "Why" : TABS[tab],
          () => this.change({ tab }),
          {
            role: "tab",
            "aria-selected": String(tab === this.at.tab),
            "aria-controls": "panel",
            tabindex: tab === this.at.tab ? "0" : "-1",
            title: `( ${at + 1} )`,
            onkeydown: (event) => {
              const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
              if (!by) return;
              event.stopPropagation();
              this.change({ tab: tabs[(at + by + tabs.length) % tabs.length] });
              this.main.querySelector('[role="tab"][aria-selected="true"]').focus();
            },
          },
        ),
      ),
    );
  }

  viewOf(record) {
    const run = record.runs[this.at.run];
    if (this.at.tab === "failure") return new FailureView({ record });
    if (!run) return null;
    const data = run.graphs[this.at.graph];
    if (this.at.tab === "numbers") return new NumbersView({ run });
    if (!data) return null;
    const stages = data.stages.map((each) => new Stage(each));
    this.markChanges(record, stages);
    if (this.at.tab === "regions")
      return new RegionsView({
        run,
        stages,
        select: (stage, at) =>
          this.change(
            {
              tab: "graphs",
              stage: this.stageFor(stages, stage.name),
              node: { stage: stage.name, at },
            },
            true,
          ),
      });
    const named = Object.fromEntries(stages.map((stage) => [stage.name, stage]));
    const pair = named.forward && named.backward;
    const fallback = pair
      ? narrow.matches
        ? "forward"
        : "pair"
      : named.forward
        ? "forward"
        : stages[0].name;
    const chosen =
      this.at.stage === "pair" && pair && !narrow.matches
        ? "pair"
        : named[this.at.stage]
          ? this.at.stage
          : fallback;
    return new GraphsView({
      stages: named,
      chosen,
      choose: (stage, at = null) =>
        this.change({ stage, node: at === null ? null : { stage, at } }, true),
      find: this.side.operatorAsked,
    });
  }

  // Beside each other where there is room for both.
  stageFor(stages, name) {
    return !narrow.matches &&
      ["forward", "backward"].includes(name) &&
      stages.some((each) => each.name === "backward")
      ? "pair"
      : name;
  }

  // Which nodes differ from the snapshot; where a test has several runs it is not known of which.
  markChanges(record, stages) {
    if (!record.difference || record.runs.length !== 1) return;
    const several = record.runs[0].graphs.length > 1;
    for (const stage of stages) {
      const label = several ? `graph ${this.at.graph}: ${stage.name}` : stage.name;
      const found = record.difference.changes.filter((change) => change.stage === label);
      const nodes = new Map(stage.nodes.map((node) => [node.name, node]));
      for (const change of found) nodes.get(change.subject)?.changed.push(change);
    }
  }

  change(changes, focus = false) {
    this.at = { ...this.at, node: null, ...changes };
    this.show({ focus });
  }

  // --- the address

  remember(push) {
    const { test, tab, run, graph, stage } = this.at;
    const parts = {};
    if (test !== null) {
      parts.test = INDEX.tests[test].nodeid;
      if (tab) parts.tab = tab;
      if (run) parts.run = run;
      if (graph) parts.graph = graph;
      if (stage && tab === "graphs") parts.stage = stage;
    }
    const text = addressOf(parts);
    if (text === location.hash || (text === "#" && !location.hash)) return;
    history[push ? "pushState" : "replaceState"](null, "", text);
  }

  fromAddress() {
    const address = new URLSearchParams(location.hash.slice(1));
    const place = INDEX.tests.findIndex((test) => test.nodeid === address.get("test"));
    if (place < 0) {
      this.openOverview();
      return;
    }
    this.openTest(place, {
      tab: address.get("tab"),
      run: Number(address.get("run") || 0),
      graph: Number(address.get("graph") || 0),
      stage: address.get("stage"),
      focus: false,
    });
  }

  // --- looks

  // The system's colours, until others are chosen.
  setTheme() {
    const chosen = remembered.get("theme") || this.chosenTheme;
    const theme = chosen || (this.prefersDark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    this.theme.textContent = other === "dark" ? "Dark" : "Light";
    this.theme.setAttribute("aria-label", `Switch to ${other} colours`);
    for (const pane of this.view?.panes || []) pane.drawMap();
  }

  switchTheme() {
    this.chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remembered.set("theme", this.chosenTheme);
    this.setTheme();
  }

  setSide(shown) {
    this.side.element.hidden = !shown;
    this.list.setAttribute("aria-expanded", String(shown));
  }

  toggleSide() {
    const shown = this.side.element.hidden;
    this.setSide(shown);
    if (!narrow.matches) remembered.set("side", shown ? "shown" : "hidden");
    if (shown) this.side.search.focus();
  }

  showHelp() {
    if (!this.help.open) this.help.showModal();
  }

  // --- keys

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open || typing(event.target))
      return;
    const view = this.view;
    const graphs = view instanceof GraphsView ? view : null;
    const keys = {
      "/": () => {
        this.setSide(true);
        this.side.search.focus();
        this.side.search.select();
      },
      "?": () => this.showHelp(),
      "]": () => this.side.step(1),
      "[": () => this.side.step(-1),
      o: () => this.openOverview(),
      b: () => this.toggleSide(),
      t: () => this.switchTheme(),
      j: () => this.firstList()?.focus(),
      ArrowDown: () => this.firstList()?.focus(),
      f: () => graphs && (graphs.search.focus(), graphs.search.select()),
      n: () => view?.step?.(1, { focus: true }),
      N: () => view?.step?.(-1, { focus: true }),
      p: () => graphs?.follow("producer"),
      u: () => graphs?.follow("consumer"),
      x: () => graphs?.follow("peer"),
      ArrowLeft: () => graphs?.panes[0].list.element.focus(),
      ArrowRight: () => graphs?.panes.at(-1).list.element.focus(),
      Escape: () => narrow.matches && this.setSide(false),
    };
    if (/^[1-4]$/.test(event.key) && this.at.test !== null) {
      const tab = this.tabsOf(openTest(this.at.test))[Number(event.key) - 1];
      if (tab) this.change({ tab }, true);
    } else if (event.key in keys) keys[event.key]();
    else return;
    event.preventDefault();
  }

  firstList() {
    return this.view?.panes?.[0].list.element || this.view?.list?.element;
  }
}

new Shell();
