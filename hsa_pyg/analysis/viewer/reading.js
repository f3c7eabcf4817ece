// The content, to be read: a text as a text, pictures where they stand, other trees as
// boxes in boxes.
const elements = new Map(); // node -> elements that show it; pictures may have several
const reading = document.getElementById("reading");
const DEEPEST = 120; // browsers lay out elements recursively
const shownIn = new Map();
const shownElsewhere = new Set();
for (const [figure, picture] of data.shows) {
  shownIn.set(figure, [...(shownIn.get(figure) ?? []), picture]);
  if (parent[picture] !== figure) shownElsewhere.add(picture);
}
for (const figures of shownIn.values()) figures.sort((a, b) => a - b);

function register(i, element) {
  element.classList.add("n");
  element.dataset.i = i;
  if (elements.has(i)) elements.get(i).push(element);
  else elements.set(i, [element]);
  return element;
}

// What stands above the tokens of a text runs on, and so does what stands above a
// sentence. Nodes that hold documents, rather than a text each, are no boxes.
const holdsText = new Uint8Array(count);
const isRunning = new Uint8Array(count);
const inPicture = new Uint8Array(count);
for (let i = count - 1; i > 0; i--) {
  const above = parent[i];
  const sharesText = hasSpan(i) && textOf[i] === textOf[above];
  if (sharesText && (isLeaf(i) || (isRunning[i] && typeName(i) === "sentence"))) {
    isRunning[above] = 1;
  }
  const holds = data.types[kind[i]].text && !isRunning[i] && !isLeaf(i);
  if (holdsText[i] || holds) holdsText[above] = 1;
}
for (let i = 0; i < count; i++) {
  inPicture[i] = pictureOf.has(i) || (parent[i] >= 0 && inPicture[parent[i]]) ? 1 : 0;
}
const runsOn = (i) => isRunning[i] === 1;
const inFlow = (i) =>
  parent[i] >= 0 && runsOn(parent[i]) && hasSpan(i) && textOf[i] === textOf[parent[i]];

const CLASS_OF_ROLE = {
  list: "list", item: "item", table: "table", row: "tr", cell: "td", quote: "quote",
  figure: "figure",
};

function headingLevel(i) {
  let level = 1;
  for (let a = parent[parent[i]]; a >= 0; a = parent[a]) level += typeName(a) === "section";
  return Math.min(level, 3);
}

// An element for a node, or null if its children go into its parent's element.
function elementOf(i) {
  const name = roleName(i);
  if (pictureOf.has(i)) return null;
  if (inFlow(i)) return make("span");
  if (runsOn(i)) {
    const element = make("p", "prose");
    if (name === "heading") element.classList.add(`heading${headingLevel(i)}`);
    if (name === "code") element.classList.add("code");
    if (name === "caption" || name === "alt") element.classList.add("small");
    if (data.types[kind[i]].text && data.labels[i]) element.dataset.key = data.labels[i];
    return element;
  }
  if (isLeaf(i)) return make("span", "chip", describe(i, 40));
  if (textOf[i] >= 0 || holdsText[i]) {
    const isPage = data.types[kind[i]].text;
    const element = make("div", CLASS_OF_ROLE[name] ?? (isPage ? "page" : ""));
    element.classList.add("flow");
    if (isPage && data.labels[i]) element.append(make("p", "pagename", data.labels[i]));
    return element;
  }
  const element = make("div", "box");
  const label = make("span", "boxname", `${name || typeName(i)} `);
  if (data.labels[i]) label.append(make("b", "", describe(i)));
  element.append(label);
  return element;
}

function drawPicture(picture, host) {
  const frame = make("div", "picture");
  const small = Math.max(4, Math.min(picture.side || 16, Math.floor(480 / picture.cols)));
  const size = Math.max(small, Math.min(24, Math.floor(160 / picture.cols)));
  frame.style.gridTemplateColumns = `repeat(${picture.cols}, ${size}px)`;
  frame.style.gridAutoRows = `${size}px`;
  if (picture.side) frame.append(canvasOf(picture));
  picture.cells.forEach((node) => {
    const cell = make("span", "cell");
    if (node >= 0) register(node, cell);
    frame.append(cell);
  });
  const veil = register(picture.node, make("div", "veil"));
  frame.append(veil);
  host.append(frame);
}

function canvasOf({ side, channels, rows, cols, cells, pixels }) {
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [cols * side, rows * side];
  if (cols * side < 64) canvas.className = "tiny";
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  let at = 0;
  cells.forEach((node, place) => {
    if (node < 0) return;
    const [top, left] = [Math.floor(place / cols) * side, (place % cols) * side];
    for (let p = 0; p < side * side; p++, at += channels) {
      const to = 4 * ((top + Math.floor(p / side)) * canvas.width + left + (p % side));
      for (let c = 0; c < 3; c++) {
        image.data[to + c] = pixels[at + (channels < 3 ? 0 : c)];
      }
      image.data[to + 3] = channels === 4 ? pixels[at + 3] : 255;
    }
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

// All nodes in their order, each into the element of the nearest node above.
function drawContent() {
  const host = new Array(count);
  const cursor = new Int32Array(count).fill(-1); // how far the text is written
  const open = [];
  const finish = (i) => {
    if (runsOn(i) && hasSpan(i) && cursor[i] >= 0) write(i, spans[2 * i + 1], host[i]);
  };
  const write = (i, to, element) => {
    if (to <= cursor[i]) return;
    const text = textBetween(i, cursor[i], to);
    // What lies between tokens is space, unless the document was cut.
    element.append(text.trim() ? make("span", "cut", text) : text);
    cursor[i] = to;
  };
  for (let i = 0; i < count; i++) {
    while (open.length && end[open[open.length - 1]] <= i) finish(open.pop());
    const above = parent[i];
    const into = above < 0 ? reading : host[above];
    if (above >= 0 && inPicture[above]) continue;
    if (inFlow(i)) write(above, spans[2 * i], into);
    if (pictureOf.has(i)) {
      host[i] = into;
      if (!shownElsewhere.has(i) && !(shownIn.get(above) ?? []).includes(i)) {
        drawPicture(pictureOf.get(i), into);
      }
      continue;
    }
    const element = register(i, elementOf(i));
    if (depth[i] > DEEPEST && !runsOn(i) && !isLeaf(i)) {
      // Deeper boxes stand beside one another.
      (host[above].parentElement ?? into).append(element);
    } else into.append(element);
    host[i] = element;
    for (const picture of shownIn.get(i) ?? []) {
      if (pictureOf.has(picture)) drawPicture(pictureOf.get(picture), element);
    }
    if (hasSpan(i)) cursor[i] = spans[2 * i];
    if (inFlow(i)) {
      cursor[above] = Math.max(cursor[above], spans[2 * i + 1]);
    }
    if (isLeaf(i) && inFlow(i)) {
      element.textContent = textBetween(i, spans[2 * i], spans[2 * i + 1]);
    }
    open.push(i);
  }
  while (open.length) finish(open.pop());
}
