// The signal: arrays over the nodes, which are numbered so that the descendants of a
// node follow it at once.
const data = JSON.parse(document.getElementById("data").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const kind = new Uint16Array(bytes(data.kind));
const within = new Int32Array(bytes(data.within));
const parent = new Int32Array(bytes(data.parent));
const role = new Int8Array(bytes(data.role));
const leaves = new Int32Array(bytes(data.leaves));
const spans = new Int32Array(bytes(data.spans));
const count = parent.length;
const depth = new Int32Array(count);
const end = new Int32Array(count); // one after the last descendant
const textOf = new Int32Array(count).fill(-1);
const children = Array.from({ length: count }, () => []);
let numTexts = 0;
for (let i = 0; i < count; i++) {
  if (parent[i] >= 0) {
    depth[i] = depth[parent[i]] + 1;
    children[parent[i]].push(i);
    textOf[i] = textOf[parent[i]];
  }
  if (data.types[kind[i]].text) textOf[i] = numTexts++;
}
for (let i = count - 1; i >= 0; i--) {
  end[i] = Math.max(end[i], i + 1);
  if (parent[i] >= 0) end[parent[i]] = Math.max(end[parent[i]], end[i]);
}
const typeName = (i) => data.types[kind[i]].name;
const isLeaf = (i) => data.types[kind[i]].leaf;
const roleName = (i) => (role[i] < 0 ? "" : data.types[kind[i]].roles[role[i]] ?? "");
const hasSpan = (i) => textOf[i] >= 0 && spans[2 * i] >= 0;
const textBetween = (i, from, to) => data.texts[textOf[i]].slice(from, to);
const pictureOf = new Map(data.pictures.map((picture) => [picture.node, picture]));
const cellOf = new Map();
for (const picture of data.pictures) {
  picture.cells = new Int32Array(bytes(picture.cells));
  picture.pixels = new Uint8Array(bytes(picture.pixels));
  picture.cells.forEach((node, place) => cellOf.set(node, [picture, place]));
}

// What a node is called: its name, its text, or its type and number. Numbers count from
// 0, as the rows of the signal's tensors do.
function describe(i, length = 60) {
  let text = data.labels[i] ?? "";
  if (cellOf.has(i)) {
    const [picture, place] = cellOf.get(i);
    return `row ${Math.floor(place / picture.cols)}, column ${place % picture.cols}`;
  }
  if (hasSpan(i) && (isLeaf(i) || !text)) {
    const [from, to] = [spans[2 * i], spans[2 * i + 1]];
    text = textBetween(i, from, Math.min(to, from + 4 * length));
  }
  text = text.replace(/\s+/g, " ").trim();
  if (text.length > length) text = text.slice(0, length - 1) + "…";
  return text || `${roleName(i) || typeName(i)} ${within[i]}`;
}

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
const percent = (share) =>
  share >= 0.0995 ? `${(100 * share).toFixed(1)} %`
    : share >= 0.00095 ? `${(100 * share).toFixed(2)} %`
      : share > 0 ? `${(100 * share).toPrecision(1)} %` : "0 %";
const many = (number, one, more = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
