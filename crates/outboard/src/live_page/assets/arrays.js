// A card for each array: its state, the sync that is running, its members, and what can be done.

import { confirm } from "./actions.js";
import { LiveTable } from "./tables.js";
import { bytes, count, duration, element, exportName, setFacts, setText, share, throughput } from "./text.js";

/** Where the cards are. */
export const arrays = { parent: null };
const cards = new Map();

/** Shows the arrays. */
export function fillArrays(list, hasActions) {
  const keys = new Set(list.map(keyOf));
  for (const [key, card] of cards) {
    if (keys.has(key)) continue;
    card.node.remove();
    cards.delete(key);
  }
  for (const array of list) {
    const key = keyOf(array);
    if (!cards.has(key)) {
      cards.set(key, new ArrayCard(array));
      arrays.parent.append(cards.get(key).node);
    }
    cards.get(key).update(array, hasActions);
  }
}

const keyOf = (array) => `${array.export}\n${array.uuid}`;
const words = (state) => state.replaceAll("_", " ");

function health(array) {
  const states = [
    array.taken_over && `taken over: ${array.taken_over.why}`,
    array.working < array.parts && `degraded: ${array.working} of ${array.parts} in sync`,
    array.resync_pending && "resync pending",
    array.read_only && "read-only",
    array.clean ? "clean" : "active",
  ];
  return states.filter(Boolean).join(", ");
}

class ArrayCard {
  constructor(array) {
    this.node = element("div", { className: "card" });
    this.array = array;
    this.facts = element("dl");
    this.sync = element("p");
    this.progress = element("progress", { max: 1000 });
    this.syncText = element("span");
    this.sync.append(this.progress, " ", this.syncText);
    this.buttons = element("p", { className: "tools" });
    const title = `Array ${array.name}`;
    this.node.append(element("h3", {}, title), this.facts, this.sync, this.buttons);
    this.members = new LiveTable(this.node, {
      title: `Members of ${array.name}`,
      key: (member) => `${member.part}\n${member.name}`,
      columns: [
        { title: "Member", text: (member) => member.name || "–" },
        { title: "Slot", text: (member) => (member.part === null ? "–" : String(member.part)) },
        { title: "State", make: () => element("span"), update: setState, isText: true },
        { title: "Rebuilt", text: (member) => (member.rebuilt_to === undefined ? "–" : bytes(member.rebuilt_to)) },
        { title: "Corrected reads", text: (member) => count(member.corrected) },
        { title: "Why", text: (member) => member.why ?? "–", isText: true },
        { title: "Action", make: (member) => this.failButton(member), update: (button, member) => this.showFail(button, member) },
      ],
    });
    this.scrub = this.button("Scrub", () => this.confirmScrub());
    this.add = this.button("Add a disk", () => this.confirmAdd());
    this.stop = this.button("Stop the scrub", () => this.confirmStop());
  }

  button(name, act) {
    const made = element("button", { type: "button", ariaLabel: `${name}: ${this.array.name}` }, name);
    made.addEventListener("click", act);
    this.buttons.append(made);
    return made;
  }

  update(array, hasActions) {
    this.array = array;
    this.hasActions = hasActions;
    const { bitmap, scrubbed, sync } = array;
    setFacts(this.facts, [
      ["Export", exportName(array.export ?? "")],
      ["Level", array.layout ? `${array.level}, ${array.layout}` : array.level],
      ["Size", bytes(array.size)],
      ["State", health(array)],
      ["Bitmap", bitmap && `${count(bitmap.dirty)} of ${count(bitmap.chunks)} chunks dirty`],
      ["Last scrub", scrubbed && `${count(scrubbed.mismatches)} sectors differed${scrubbed.repaired ? ", repaired" : ""}`],
    ]);
    this.sync.hidden = !sync;
    if (sync) {
      const done = Math.floor((Math.min(sync.done, sync.of) * 1000) / Math.max(sync.of, 1));
      this.progress.value = done;
      this.progress.ariaLabel = `${sync.kind} of ${array.name}`;
      const left = sync.seconds_left === undefined ? "" : `, ${duration(sync.seconds_left)} left`;
      setText(this.syncText, `${sync.kind}: ${share(done)}, ${throughput(sync.speed)}${left}`);
    }
    const isScrub = sync && ["check", "repair"].includes(sync.kind);
    this.buttons.hidden = !hasActions;
    this.scrub.hidden = Boolean(sync);
    this.stop.hidden = !isScrub;
    this.members.update(array.members);
  }

  failButton(member) {
    const made = element("button", { type: "button", ariaLabel: `Fail ${member.name}` }, "Fail");
    made.addEventListener("click", () =>
      confirm({
        title: `Fail ${member.name}?`,
        text: `${this.array.name} continues without it. It is used again only after it was removed and added, and rebuilt.`,
        verb: "Fail",
        body: () => ({ fail: { ...this.named(), member: member.name } }),
      }),
    );
    return made;
  }

  showFail(button, member) {
    button.hidden = !this.hasActions || ["failed", "missing", "stale"].includes(member.state);
  }

  named() {
    return { export: this.array.export, uuid: this.array.uuid };
  }

  confirmScrub() {
    confirm({
      title: `Scrub ${this.array.name}?`,
      text: "All copies are read and compared; that takes throughput from clients.",
      verb: "Scrub",
      hasRepair: true,
      body: ({ repair }) => ({ scrub: { ...this.named(), repair } }),
    });
  }

  confirmStop() {
    confirm({
      title: `Stop the scrub of ${this.array.name}?`,
      text: "What was compared so far is reported.",
      verb: "Stop",
      body: () => ({ stop_scrub: this.named() }),
    });
  }

  confirmAdd() {
    confirm({
      title: `Add a disk to ${this.array.name}?`,
      text: "All that is on the disk is lost. A disk that has a filesystem or is a member of an array is refused: `outboard array add --force` takes it.",
      verb: "Add",
      needsDisk: true,
      body: ({ disk }) => ({ add: { ...this.named(), disk } }),
    });
  }
}

function setState(node, member) {
  const name = `state-${member.state}`;
  if (node.className !== name) node.className = name;
  setText(node, words(member.state));
}
