// Two pictures of a page beside each other, in a browser: the images `stored` and `shot`. Fonts are drawn a little differently by other versions of the browser and of its libraries:
// edges of letters change, and letters move by part of a pixel. So blocks of BLOCK x BLOCK pixels are compared by their mean colours, each against the nearest of the other picture's that
// lie up to SHIFT pixels away. Other hinting, or half a pixel, changes such means by up to 14 of 255 (measured on these pages); what has gone, has come or has another colour by more, down to a
// line of one pixel in the colour of an axis.
const BLOCK = 8, SHIFT = 2, TOLERANCE = 18;

const pixels = name => {
  const image = document.getElementById(name), canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return { width: canvas.width, height: canvas.height, data: context.getImageData(0, 0, canvas.width, canvas.height).data };
};

// Sums over the rectangle from the top left corner, by channel: a block's mean is four look-ups.
const sums = ({ width, height, data }) => {
  const to = [0, 1, 2].map(() => new Float64Array((width + 1) * (height + 1)));
  for (let c = 0; c < 3; c++)
    for (let y = 0; y < height; y++) {
      let row = 0;
      for (let x = 0; x < width; x++) {
        row += data[(y * width + x) * 4 + c];
        to[c][(y + 1) * (width + 1) + x + 1] = to[c][y * (width + 1) + x + 1] + row;
      }
    }
  return (c, x, y) => { const s = to[c], w = width + 1; return (s[(y + BLOCK) * w + x + BLOCK] - s[y * w + x + BLOCK] - s[(y + BLOCK) * w + x] + s[y * w + x]) / (BLOCK * BLOCK); };
};

// The blocks of `a` that `b` has nothing like.
const strange = (a, b, width, height, found) => {
  for (let y = SHIFT; y + BLOCK + SHIFT <= height; y += BLOCK)
    for (let x = SHIFT; x + BLOCK + SHIFT <= width; x += BLOCK) {
      const mine = [0, 1, 2].map(c => a(c, x, y));
      let best = 255;
      for (let dy = -SHIFT; dy <= SHIFT; dy++)
        for (let dx = -SHIFT; dx <= SHIFT; dx++)
          best = Math.min(best, Math.max(...mine.map((v, c) => Math.abs(v - b(c, x + dx, y + dy)))));
      if (best > TOLERANCE)
        found.push({ x, y, by: Math.round(best) });
    }
};

addEventListener("load", () => {
  const lines = [], a = pixels("stored"), b = pixels("shot");
  const blank = ({ data }) => data.every((v, i) => v === data[i % 4]);
  if (blank(a) || blank(b)) {
    lines.push("a picture is blank");
  } else if (a.width !== b.width || a.height !== b.height) {
    lines.push(`size: ${a.width} x ${a.height} stored, ${b.width} x ${b.height} now`);
  } else {
    const found = [], one = sums(a), other = sums(b);
    strange(one, other, a.width, a.height, found);
    strange(other, one, a.width, a.height, found);
    found.sort((p, q) => q.by - p.by);
    found.slice(0, 5).forEach(p => lines.push(`differs at ${p.x},${p.y} by ${p.by}`));
    lines.push(`blocks=${found.length}`);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = lines.join("\n");
  document.body.append(pre);
});
