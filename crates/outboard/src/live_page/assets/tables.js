// Tables that are updated every second: rows are kept by their keys, and only texts that differ are written.

import { element, setText } from "./text.js";

// Rows that are shown until all are requested: more take the browser longer than the reader.
const SHOWN_MAX = 100;

/**
 * A table below `parent`. `columns` are `{ title, text?: (item) => string, make?: (item) => Element, update?: (element, item) => void,
 * isText?: boolean }`; the first one is the header of its row.
 */
export class LiveTable {
  constructor(parent, { title, columns, key, filter }) {
    Object.assign(this, { columns, key, rows: new Map(), items: [], total: 0, isComplete: false });
    this.body = element("tbody");
    const heads = columns.map((column) => element("th", { scope: "col", className: column.isText ? "text" : "" }, column.title));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.body);
    this.region = element("div", { className: "wide tall card", tabIndex: 0, role: "region", ariaLabel: title }, table);
    this.more = element("button", { type: "button", hidden: true });
    this.more.addEventListener("click", () => {
      this.isComplete = !this.isComplete;
      this.draw();
    });
    this.tools = element("p", { className: "tools" });
    if (filter) {
      this.filter = element("input", { type: "search", ariaLabel: `Filter: ${title}`, placeholder: "filter" });
      this.filter.addEventListener("input", () => this.draw());
      this.tools.append(this.filter);
    }
    this.note = element("span", { className: "soft" });
    this.tools.append(this.note, this.more);
    parent.append(this.tools, this.region);
  }

  /** Shows `items`; `total` is their number if not all are listed. */
  update(items, total = items.length) {
    Object.assign(this, { items, total });
    this.draw();
  }

  draw() {
    const wanted = this.filter?.value.trim().toLowerCase() ?? "";
    const searched = (item) => this.columns.some((column) => column.text?.(item).toLowerCase().includes(wanted));
    const found = wanted === "" ? this.items : this.items.filter(searched);
    const shown = this.isComplete ? found : found.slice(0, SHOWN_MAX);
    const keys = new Set(shown.map(this.key));
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.rows.delete(key);
    }
    shown.forEach((item, index) => {
      const key = this.key(item);
      const row = this.rows.get(key) ?? this.add(key, item);
      if (this.body.children[index] !== row) this.body.insertBefore(row, this.body.children[index] ?? null);
      this.columns.forEach((column, at) => {
        const cell = row.children[at];
        if (column.text && !column.make) setText(cell, column.text(item));
        else column.update?.(cell.firstChild, item);
      });
    });
    this.region.hidden = shown.length === 0;
    const all = found.length === this.total ? `${this.total}` : `${found.length} of ${this.total}`;
    const isShort = this.total > 0 && !this.filter && shown.length === this.total;
    this.tools.hidden = isShort;
    setText(this.note, this.total === 0 ? "none" : shown.length < found.length ? `${shown.length} of ${this.total}` : all);
    this.more.hidden = found.length <= SHOWN_MAX;
    setText(this.more, this.isComplete ? `Show the first ${SHOWN_MAX}` : `Show all ${found.length}`);
  }

  add(key, item) {
    const cells = this.columns.map((column, index) => {
      const cell = index === 0 ? element("th", { scope: "row" }) : element("td");
      if (column.isText) cell.className = "text";
      if (column.make) cell.append(column.make(item));
      return cell;
    });
    const row = element("tr", {}, ...cells);
    this.rows.set(key, row);
    return row;
  }
}
