// The tree: rows are made when their parent is opened, and no more than WINDOW children
// of a node at once.
const tree = document.getElementById("tree");
const WINDOW = 200;
const rows = new Map(); // node -> row

function makeRow(i) {
  const row = make("div", "row");
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", depth[i] + 1);
  row.setAttribute("aria-selected", String(i === chosen));
  if (children[i].length) row.setAttribute("aria-expanded", "false");
  row.tabIndex = -1;
  row.dataset.i = i;
  row.style.paddingLeft = `${0.3 + 0.85 * Math.min(depth[i], 18)}rem`;
  const shown = describe(i);
  const type = roleName(i) && typeName(i) !== roleName(i)
    ? `${typeName(i)} · ${roleName(i)}` : typeName(i);
  row.append(make("span", "twist"), make("span", "type", type));
  const nameless = shown === `${roleName(i) || typeName(i)} ${within[i]}`;
  row.append(make("span", "label", nameless ? String(within[i]) : shown));
  if (!isLeaf(i)) row.append(make("span", "count", leaves[i].toLocaleString("en")));
  row.title = isLeaf(i) ? shown : `${shown} (${many(leaves[i], "leaf", "leaves")})`;
  rows.set(i, row);
  return row;
}

function makeMore(i, from, to, before) {
  const number = to - from;
  const text = `… ${number.toLocaleString("en")} ${before ? "before" : "more"}`;
  const row = make("div", "row more");
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", depth[i] + 2);
  row.tabIndex = -1;
  row.style.paddingLeft = `${1.3 + 0.85 * Math.min(depth[i] + 1, 18)}rem`;
  row.textContent = text;
  row.dataset.of = i;
  row.dataset.at = before ? Math.max(0, from + number - WINDOW / 2) : from + WINDOW / 2;
  return row;
}

// Open a node so that its child of this place is among the rows.
function unfold(i, place = 0) {
  const row = rows.get(i);
  if (!row || !children[i].length) return;
  fold(i);
  row.setAttribute("aria-expanded", "true");
  const total = children[i].length;
  const from = total <= WINDOW ? 0
    : Math.max(0, Math.min(place - WINDOW / 2, total - WINDOW));
  const to = Math.min(total, from + WINDOW);
  const made = children[i].slice(from, to).map(makeRow);
  if (from > 0) made.unshift(makeMore(i, 0, from, true));
  if (to < total) made.push(makeMore(i, to, total, false));
  row.after(...made);
  shadeRows();
}

function fold(i) {
  const row = rows.get(i);
  if (row.getAttribute("aria-expanded") !== "true") return;
  row.setAttribute("aria-expanded", "false");
  const level = depth[i] + 1;
  while (row.nextSibling && Number(row.nextSibling.getAttribute("aria-level")) > level) {
    rows.delete(Number(row.nextSibling.dataset.i));
    row.nextSibling.remove();
  }
}

function reveal(i) {
  const path = [];
  for (let a = i; a >= 0; a = parent[a]) path.unshift(a);
  for (let k = 1; k < path.length; k++) {
    if (!rows.has(path[k])) unfold(path[k - 1], children[path[k - 1]].indexOf(path[k]));
  }
  rows.get(i)?.scrollIntoView({ block: "nearest" });
}

function focusRow(row) {
  if (!row) return;
  tree.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  row.tabIndex = 0;
  row.focus();
}

function pressRow(row) {
  if (row.dataset.of === undefined) return choose(Number(row.dataset.i), "tree");
  const [i, at] = [Number(row.dataset.of), Number(row.dataset.at)];
  unfold(i, at);
  return focusRow(rows.get(children[i][Math.min(at, children[i].length - 1)]));
}

tree.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  if (event.target.classList.contains("twist") && row.hasAttribute("aria-expanded")) {
    const i = Number(row.dataset.i);
    if (row.getAttribute("aria-expanded") === "true") fold(i);
    else unfold(i);
    focusRow(row);
    return;
  }
  focusRow(row);
  pressRow(row);
});

tree.addEventListener("keydown", (event) => {
  const row = event.target.closest(".row");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const i = Number(row.dataset.i);
  const expanded = row.getAttribute("aria-expanded");
  const act = {
    ArrowDown: () => focusRow(row.nextSibling),
    ArrowUp: () => focusRow(row.previousSibling),
    Home: () => focusRow(tree.firstChild),
    End: () => focusRow(tree.lastChild),
    ArrowRight: () => (expanded === "false" ? unfold(i)
      : expanded === "true" && focusRow(row.nextSibling)),
    ArrowLeft: () => (expanded === "true" ? fold(i) : focusRow(rows.get(parent[i] ?? -1)
      ?? rows.get(Number(row.dataset.of)))),
    Enter: () => pressRow(row),
    " ": () => pressRow(row),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

function drawTree() {
  const root = makeRow(0);
  root.tabIndex = 0;
  tree.append(root);
  // Open what fits on a screen.
  let shown = 1;
  for (let i = 0; i < count && shown + children[i].length <= 40; i++) {
    if (!rows.has(i) || !children[i].length || isLeaf(children[i][0])) continue;
    unfold(i);
    shown += children[i].length;
  }
}
