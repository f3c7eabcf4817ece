// Put it together.
document.getElementById("title").textContent = data.title;
const counts = data.types.map((type, k) => {
  let number = 0;
  for (let i = 0; i < count; i++) number += kind[i] === k;
  return [type, number];
}).filter(([type, number]) => type.leaf && number);
document.getElementById("facts").textContent = [
  many(data.shape.levels, "level"),
  ...counts.map(([type, number]) => `${number.toLocaleString("en")} × ${type.name}`),
  `${many(data.shape.families, "family", "families")}, the largest of ${data.shape.largest.toLocaleString("en")}`,
  `${many(data.shape.pairs, "pair")}, ${data.shape.flat.toLocaleString("en")} if flat`,
].join(" · ");
if (data.weights) {
  const layers = data.weights.layers;
  layers.forEach((_, k) => pick.layer.add(new Option(`${k + 1} of ${layers.length}`, k)));
  pick.layer.value = String(layers.length - 1);
  pick.head.add(new Option("mean of heads", "mean"));
  const heads = layers.length ? layers[0].length : 0;
  if (heads > 1) for (let h = 0; h < heads; h++) pick.head.add(new Option(`${h + 1} of ${heads}`, h));
  document.getElementById("controls").hidden = layers.length === 0;
}
drawContent();
drawTree();
drawPanel();

for (const select of Object.values(pick)) {
  select.addEventListener("change", () => {
    shade();
    drawPanel();
  });
}
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
reading.addEventListener("click", (event) => {
  if (!getSelection().isCollapsed) return; // text is being selected
  const target = event.target.closest(".n");
  if (target) choose(Number(target.dataset.i), "reading");
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen > 0) choose(parent[chosen], "key");
});

const tip = document.getElementById("tip");
document.addEventListener("mousemove", (event) => {
  const target = event.target.closest?.("#reading .lit, #tree .lit");
  tip.hidden = true;
  if (!target) return;
  let i = Number(target.dataset.i);
  let level;
  // An element below the sibling may be shaded in its place.
  for (; i >= 0; i = parent[i]) {
    level = levels.find((l) => l.siblings.includes(i));
    if (level) break;
  }
  if (!level) return;
  const weight = level.weights[level.siblings.indexOf(i)];
  const each = leaves[i] > 1 ? `, ${percent(weight / leaves[i])} on each of ${many(leaves[i], "leaf", "leaves")}` : "";
  tip.textContent = `${describe(i, 40)}: ${percent(weight)}${each}`;
  tip.hidden = false;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10}px`;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shade);
