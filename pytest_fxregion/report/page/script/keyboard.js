// Keys, and the dialog that lists them.

const HELP = [
  [
    "Anywhere",
    [
      ["/", "search tests"],
      ["[ and ]", "previous, next test"],
      ["1 to 4", "what is shown of the test"],
      ["o", "overview of the suite"],
      ["b", "hide or show the list of tests"],
      ["t", "dark or light"],
      ["?", "this help"],
      ["Esc", "close, or clear a search"],
    ],
  ],
  [
    "In a list",
    [
      ["↑ ↓ or k j", "previous, next row"],
      ["PgUp PgDn Home End", "further"],
      ["Enter", "open a test, fold a region, unfold equal lines"],
    ],
  ],
  [
    "In a graph",
    [
      ["f", "find; Enter for the next match"],
      ["n and N", "next, previous match or change"],
      ["p", "to the first value that it is made from"],
      ["u", "to the first that uses it"],
      ["x", "across: from a saved value to where it comes in, and back"],
      ["← →", "to the other stage’s list"],
    ],
  ],
];

const LEGEND = [
  [
    ["ac", "AC 0 ↻", ""],
    "activation checkpointing: number of the checkpointed call, and policy; ↻ is recompute, ! is must",
  ],
  [["saved", "saved 64 B", ""], "kept from the forward for the backward"],
  [
    ["recomputed", "recomputed", ""],
    "an operation of the forward that the backward runs again; “again” where there is little room",
  ],
  [["sum", "gradient sum", ""], "autograd adds two gradients of one value; Σ"],
  [["changed", "changed", ""], "differs from the stored snapshot; Δ"],
];

const helpDialog = () => {
  const close = button("Close", () => dialog.close(), { "aria-keyshortcuts": "Escape" });
  const dialog = make(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    make("header", {}, make("h2", { id: "help-title" }, "Keys and signs"), close),
    make(
      "div",
      { class: "columns" },
      HELP.map(([title, keys]) =>
        make(
          "section",
          {},
          make("h3", {}, title),
          make(
            "dl",
            {},
            keys
              .map(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)])
              .flat(),
          ),
        ),
      ),
      make(
        "section",
        {},
        make("h3", {}, "Signs"),
        make(
          "dl",
          {},
          LEGEND.map(([chip, text]) => [
            make("dt", {}, make("span", { class: `chip ${chip[0]}` }, chip[1])),
            make("dd", {}, text),
          ]).flat(),
        ),
        make("h3", {}, "Search"),
        make(
          "p",
          {},
          "Words of a test’s name; ",
          make("code", {}, "status:failed"),
          ", ",
          make("code", {}, "op:mm"),
          ", ",
          make("code", {}, "region:mlp"),
          ", ",
          make("code", {}, "device:cpu"),
          ".",
        ),
      ),
    ),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
};

const typing = (target) => target.matches("input, textarea, select") || target.isContentEditable;
