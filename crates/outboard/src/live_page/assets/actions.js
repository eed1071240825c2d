// Actions: each is confirmed in a dialog and sent with the token, which is kept while the page is open and nowhere else.

const find = (id) => document.getElementById(id);
let pending = null;

/**
 * Opens the dialog for an action: `{ title, text, verb, needsDisk?, hasRepair?, body: ({ disk, repair }) => object }`.
 */
export function confirm(action) {
  pending = action;
  find("dialog-title").textContent = action.title;
  find("dialog-text").textContent = action.text;
  find("confirm").textContent = action.verb;
  find("dialog-error").textContent = "";
  find("dialog-disk").hidden = !action.needsDisk;
  find("dialog-repair").hidden = !action.hasRepair;
  find("disk").value = "";
  find("repair").checked = false;
  find("confirm").disabled = false;
  find("dialog").showModal();
}

async function send(action) {
  const input = { disk: find("disk").value.trim(), repair: find("repair").checked };
  const response = await fetch("/api/action", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Outboard-Token": find("token").value.trim() },
    body: JSON.stringify(action.body(input)),
  });
  if (!response.ok) throw new Error((await response.json()).error);
}

/** Connects the buttons of the dialog. */
export function start() {
  find("cancel").addEventListener("click", () => find("dialog").close());
  find("dialog").addEventListener("close", () => {
    pending = null;
  });
  find("dialog").querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = find("confirm");
    if (!pending || button.disabled) return;
    button.disabled = true;
    find("dialog-error").textContent = "";
    // The dialog may be another action's by the time this one ends.
    const action = pending;
    try {
      await send(action);
      if (pending === action) find("dialog").close();
    } catch (error) {
      if (pending === action) find("dialog-error").textContent = error.message;
    } finally {
      if (pending === action) button.disabled = false;
    }
  });
}
