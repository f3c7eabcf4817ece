// Where the attention of the chosen node goes: at each level, to the siblings of the
// node itself or of the node above it.
let chosen = -1;
let marked = []; // [element, class] to be undone
let levels = []; // of the chosen node: { node, siblings, weights, sum }
const panel = document.getElementById("panel");
const pick = Object.fromEntries(
  ["layer", "head", "measure", "scale"].map((id) => [id, document.getElementById(id)]),
);

// Weights: for every node, in their order, its row over its siblings that have leaves.
const members = children.map((list) => list.filter((i) => leaves[i] > 0));
const rowStart = new Int32Array(count);
for (let i = 0, at = 0; i < count; i++) {
  rowStart[i] = at;
  if (parent[i] >= 0 && leaves[i] > 0) at += members[parent[i]].length - 1;
}
const decoded = new Map();
function decode(layer, head) {
  const key = `${layer} ${head}`;
  if (!decoded.has(key)) {
    const half = new Uint16Array(bytes(data.weights.layers[layer][head]));
    decoded.set(key, Float32Array.from(half, (h) => {
      const [power, digits] = [(h >> 10) & 31, h & 1023];
      return power ? 2 ** (power - 15) * (1 + digits / 1024) : 2 ** -24 * digits;
    }));
  }
  return decoded.get(key);
}
function weightsOf(i, width) {
  const layer = Number(pick.layer.value);
  const heads = data.weights.layers[layer].length;
  const wanted = pick.head.value === "mean" ? [...Array(heads).keys()] : [Number(pick.head.value)];
  const sum = new Float32Array(width);
  for (const head of wanted) {
    const values = decode(layer, head);
    for (let k = 0; k < width; k++) sum[k] += values[rowStart[i] + k] / wanted.length;
  }
  return sum;
}

function levelsOf(i) {
  const found = [];
  for (let node = i; node >= 0 && parent[node] >= 0; node = parent[node]) {
    const siblings = members[parent[node]].filter((c) => c !== node);
    if (!siblings.length || !leaves[node]) continue;
    const weights = weightsOf(node, siblings.length);
    found.push({ node, siblings, weights, sum: weights.reduce((a, b) => a + b, 0) });
  }
  return found;
}

function mark(element, name) {
  element.classList.add(name);
  marked.push([element, name]);
}
const valueOf = (node, weight) => (pick.measure.value === "leaf" ? weight / leaves[node] : weight);
const alphaOf = (share) => (share > 0 ? 0.04 + 0.96 * Math.sqrt(share) : 0);
const strengthOf = () =>
  Number(getComputedStyle(document.documentElement).getPropertyValue("--strength"));
let strength = strengthOf();
function shadeElement(element, share) {
  element.style.setProperty("--alpha", (alphaOf(share) * strength).toFixed(3));
  mark(element, "lit");
}
// The elements that show a node: its own, or those of the nodes below it.
function* shown(i) {
  if (elements.has(i)) yield* elements.get(i);
  else for (const child of children[i]) yield* shown(child);
}

function shade() {
  for (const [element, name] of marked) element.classList.remove(name);
  marked = [];
  strength = strengthOf();
  if (chosen < 0) return;
  for (const element of shown(chosen)) mark(element, "chosen");
  levels = data.weights ? levelsOf(chosen) : [];
  const value = ({ siblings, weights }) => siblings.map((c, k) => valueOf(c, weights[k]));
  const highest = Math.max(0, ...levels.map((level) => largest(value(level))));
  for (const level of levels) {
    const values = value(level);
    level.top = pick.scale.value === "all" ? highest : largest(values);
    level.share = new Map(level.siblings.map((c, k) => [c, level.top ? values[k] / level.top : 0]));
    for (const [c, share] of level.share) {
      for (const element of shown(c)) shadeElement(element, share);
    }
  }
  shadeRows();
}
const largest = (values) => values.reduce((a, b) => Math.max(a, b), 0);

function shadeRows() {
  for (const level of levels) {
    for (const [c, share] of level.share ?? []) {
      if (rows.has(c)) shadeElement(rows.get(c), share);
    }
  }
}

function choose(i, from = "") {
  rows.get(chosen)?.setAttribute("aria-selected", "false");
  chosen = i;
  if (from !== "tree") reveal(i);
  rows.get(i)?.setAttribute("aria-selected", "true");
  shade();
  drawPanel();
  if (from !== "reading") {
    const [element] = shown(i);
    element?.scrollIntoView({ block: "nearest" });
  }
}

function button(i, length) {
  const made = make("button", "", describe(i, length));
  made.type = "button";
  made.addEventListener("click", () => choose(i, "panel"));
  return made;
}

function drawPanel() {
  panel.replaceChildren();
  if (data.output) drawOutput();
  if (chosen < 0) {
    const does = data.weights
      ? "Click a word, a picture or a row of the tree to see where its attention goes."
      : "Click a word, a picture or a row of the tree to see where it stands.";
    panel.append(make("h2", "", "Attention"), make("p", "hint", does));
    if (!data.weights) panel.append(make("p", "hint", "No model was given, so there is no attention to show."));
    drawDropped();
    return;
  }
  panel.append(make("h2", "", "Chosen"));
  const crumbs = make("ol", "crumbs");
  for (let a = chosen; a >= 0; a = parent[a]) {
    const item = make("li");
    const name = make("button", "", typeName(a));
    name.title = describe(a);
    name.addEventListener("click", () => choose(a, "panel"));
    if (a === chosen) name.setAttribute("aria-current", "true");
    item.append(name);
    crumbs.prepend(item);
  }
  panel.append(crumbs, make("p", "subject", describe(chosen, 140)));
  if (data.weights) drawLevels();
  panel.append(make("h2", "", "In the signal"), table([
    ["type", typeName(chosen)],
    ["number", within[chosen].toLocaleString("en")],
    ["children", children[chosen].length.toLocaleString("en")],
    ["leaves below", leaves[chosen].toLocaleString("en")],
  ]));
}

function table(lines) {
  const made = make("table", "plain");
  for (const line of lines) {
    const row = made.insertRow();
    for (const text of line) row.insertCell().textContent = text;
  }
  return made;
}

function drawLevels() {
  const given = levels.reduce((sum, level) => sum + level.sum, 0);
  const own = Math.max(0, 1 - given);
  panel.append(make("h2", "", "Its attention"));
  const shares = make("div", "shares");
  const part = (share, title, alpha) => {
    const piece = make("i", alpha === null ? "own" : "");
    piece.style.width = `${100 * share}%`;
    piece.title = `${title}: ${percent(share)}`;
    if (alpha !== null) piece.style.setProperty("--alpha", alpha);
    shares.append(piece);
  };
  const inside = isLeaf(chosen) ? "on itself" : "inside itself";
  part(own, inside, null);
  levels.forEach((level, k) => part(level.sum, typeName(parent[level.node]), 0.9 / (1 + 0.45 * k)));
  const ends = make("div", "ends");
  ends.append(make("span", "", `${inside} ${percent(own)}`), make("span", "", `on others ${percent(given)}`));
  panel.append(shares, ends);
  panel.append(make("h2", "", pick.measure.value === "leaf" ? "Shade: weight per leaf" : "Shade: weight of the block"));
  const legend = make("div", "legend");
  const stops = [0, 0.05, 0.15, 0.3, 0.5, 0.75, 1].map((share) =>
    `rgba(var(--heat), ${(alphaOf(share) * strength).toFixed(3)}) ${100 * share}%`);
  legend.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const scale = make("div", "ends");
  const top = pick.scale.value === "all" ? percent(levels[0]?.top ?? 0) : "largest of its level";
  scale.append(make("span", "", "0"), make("span", "", top));
  panel.append(legend, scale);
  if (data.weights.averaged) {
    panel.append(make("p", "hint", `The ${data.weights.heads} heads are averaged, to keep this page small.`));
  }
  for (const level of levels) panel.append(levelCard(level));
}

function levelCard({ node, siblings, weights, sum }) {
  const card = make("section", "level");
  const title = make("h3");
  const same = `In the same ${roleName(parent[node]) || typeName(parent[node])}`;
  title.append(make("span", "", same), make("span", "num", percent(sum)));
  title.title = describe(parent[node], 140);
  card.append(title);
  const order = [...siblings.keys()].sort((a, b) => weights[b] - weights[a]);
  const top = weights[order[0]] || 1;
  for (const k of order.slice(0, 6)) {
    const bar = make("div", "bar");
    const track = make("span", "track");
    const fill = make("i");
    fill.style.width = `${(100 * weights[k]) / top}%`;
    track.append(fill);
    bar.append(button(siblings[k], 40), track, make("span", "num", percent(weights[k])));
    card.append(bar);
  }
  const rest = order.slice(6).reduce((total, k) => total + weights[k], 0);
  if (order.length > 6) {
    card.append(make("div", "ends", `${many(order.length - 6, "other")}: ${percent(rest)}`));
  }
  return card;
}

function drawOutput() {
  const { names, values, probabilities } = data.output;
  panel.append(make("h2", "", probabilities ? "Predicted class" : "Output of the model"));
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 8);
  for (const k of order) {
    const bar = make("div", "bar");
    const track = make("span", "track");
    const fill = make("i");
    if (probabilities) fill.style.width = `${100 * values[k]}%`;
    track.append(fill);
    const name = make("span", k === order[0] ? "subject" : "", names[k]);
    bar.append(name, track, make("span", "num", probabilities ? percent(values[k]) : values[k].toPrecision(4)));
    panel.append(bar);
  }
}

function drawDropped() {
  if (!data.dropped.length) return;
  panel.append(make("h2", "", "Left out of the document"));
  panel.append(table(data.dropped.map(([reason, number]) => [reason, number.toLocaleString("en")])));
}
