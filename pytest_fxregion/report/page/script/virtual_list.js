// A list of any length of which only what can be seen is in the document.
//
// Rows may differ in height.  The element is a listbox: it has the focus, its active row is named
// by aria-activedescendant, so that a row may leave the document and come back.

let listsMade = 0;

class VirtualList {
  // heightOf(row) in pixels; render(row) an element; act(row) on Enter or a click.
  constructor({
    label,
    heightOf,
    render,
    act = () => {},
    activated = () => {},
    scrolled = () => {},
  }) {
    this.id = `list-${listsMade++}`;
    this.heightOf = heightOf;
    this.render = render;
    this.act = act;
    this.activated = activated;
    this.scrolled = scrolled;
    this.rows = [];
    this.tops = [0];
    this.shown = new Map();
    this.active = -1;
    this.sizer = make("div", { class: "sizer", role: "presentation" });
    this.element = make(
      "div",
      { class: "list", role: "listbox", tabindex: "0", "aria-label": label },
      this.sizer,
    );
    this.element.addEventListener("scroll", () => {
      this.update();
      this.scrolled();
    });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => {
      const at = this.rowAt(event.target);
      if (at < 0) return;
      this.activate(at, { scroll: false });
      this.act(this.rows[at], event);
    });
    this.element.addEventListener("focus", () => {
      if (this.active < 0 && this.rows.length) this.activate(this.first(), { scroll: false });
    });
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  set(rows, { keep = false } = {}) {
    this.rows = rows;
    if (!keep) {
      this.active = -1;
      this.element.removeAttribute("aria-activedescendant");
      this.element.scrollTop = 0;
    }
    this.measure();
  }

  // The height of rows has changed, or their contents.
  measure() {
    this.tops = new Array(this.rows.length + 1);
    this.tops[0] = 0;
    for (let at = 0; at < this.rows.length; at++)
      this.tops[at + 1] = this.tops[at] + this.heightOf(this.rows[at]);
    this.sizer.style.height = `${this.tops[this.rows.length]}px`;
    for (const element of this.shown.values()) element.remove();
    this.shown.clear();
    this.update();
  }

  resized() {
    this.update();
    this.scrolled();
  }

  // The place of the row that is `y` pixels from the top.
  placeAt(y) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  update() {
    const top = this.element.scrollTop;
    const height = this.element.clientHeight;
    if (!height) return;
    const margin = 200;
    const first = this.placeAt(Math.max(0, top - margin));
    const last = Math.min(this.rows.length - 1, this.placeAt(top + height + margin));
    for (const [at, element] of this.shown) {
      if (at < first || at > last) {
        element.remove();
        this.shown.delete(at);
      }
    }
    for (let at = first; at <= last; at++) {
      if (this.shown.has(at)) continue;
      const element = this.render(this.rows[at], at);
      element.classList.add("row");
      element.id = `${this.id}-${at}`;
      element.dataset.at = at;
      element.setAttribute("role", "option");
      element.setAttribute("aria-selected", String(at === this.active));
      element.setAttribute("aria-setsize", this.rows.length);
      element.setAttribute("aria-posinset", at + 1);
      element.style.transform = `translateY(${this.tops[at]}px)`;
      element.style.height = `${this.tops[at + 1] - this.tops[at]}px`;
      this.shown.set(at, element);
      this.sizer.append(element);
    }
  }

  first() {
    return this.placeAt(this.element.scrollTop);
  }

  rowAt(target) {
    const row = target.closest(".row");
    return row && this.sizer.contains(row) ? Number(row.dataset.at) : -1;
  }

  // Where a row is in the viewport of the list; outside of it if it cannot be seen.
  middleOf(at) {
    return (this.tops[at] + this.tops[at + 1]) / 2 - this.element.scrollTop;
  }

  activate(at, { scroll = true } = {}) {
    if (at < 0 || at >= this.rows.length) return;
    const before = this.shown.get(this.active);
    if (before) before.setAttribute("aria-selected", "false");
    this.active = at;
    if (scroll) this.reveal(at);
    const now = this.shown.get(at);
    if (now) now.setAttribute("aria-selected", "true");
    this.element.setAttribute("aria-activedescendant", `${this.id}-${at}`);
    this.activated(this.rows[at], at);
  }

  reveal(at) {
    const top = this.element.scrollTop;
    const height = this.element.clientHeight;
    const margin = Math.min(60, height / 4);
    if (this.tops[at] < top + margin) this.element.scrollTop = this.tops[at] - margin;
    else if (this.tops[at + 1] > top + height - margin)
      this.element.scrollTop = this.tops[at + 1] - height + margin;
    this.update();
  }

  // A far row is put in the middle.
  center(at) {
    const height = this.element.clientHeight;
    const middle = this.middleOf(at);
    if (middle < 20 || middle > height - 20) {
      this.element.scrollTop = (this.tops[at] + this.tops[at + 1] - height) / 2;
      this.update();
    }
    this.activate(at, { scroll: false });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / 30));
    const last = this.rows.length - 1;
    const steps = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -last,
      End: last,
    };
    if (event.key in steps && this.rows.length) {
      const from = this.active < 0 ? this.first() - Math.sign(steps[event.key]) : this.active;
      this.activate(Math.max(0, Math.min(last, from + steps[event.key])));
    } else if (event.key === "Enter" && this.active >= 0) {
      this.act(this.rows[this.active], event);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
