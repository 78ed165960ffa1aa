import { sizeOf } from "./canvas-frame.ts";
import { type Colour, mix, paletteOf, seededBy } from "./canvas-palette.ts";
import { blend, newPicture, type Picture, put } from "./canvas-picture.ts";

const PAPER: Colour = [247, 243, 232];
const STROKES = 900;
const STEPS = 70;
const WASHES = 6;

/** An ink drawing on paper: strokes that follow one flow, over a few washes of colour. The same words, the same picture. */
export function drawSketch(prompt: string, ratio: string): Picture {
  const { width, height } = sizeOf(ratio);
  const picture = newPicture(width, height);
  const random = seededBy(`sketch ${prompt}`);
  const colours = paletteOf(prompt, random());
  fill(picture);
  const inks = [colours.near, mix(colours.near, colours.above, 0.5), mix(colours.above, colours.horizon, 0.3)];
  for (let wash = 0; wash < WASHES; wash++) {
    const colour = mix(colours.horizon, colours.above, random() * 0.7);
    drawWash(picture, random() * width, random() * height, Math.min(width, height) * (0.12 + random() * 0.22), colour);
  }
  const flow = makeFlow(width, height, random);
  for (let stroke = 0; stroke < STROKES; stroke++) {
    const ink = inks[Math.floor(random() * inks.length)] ?? colours.near;
    drawStroke(picture, random() * width, random() * height, flow, ink, 0.6 + random() * 1.5);
  }
  return picture;
}

function fill(picture: Picture): void {
  const { width, height, stride } = picture;
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) put(picture, row * stride + column * 3, PAPER);
  }
}

/** Ink and colour darken what is below: they are never lighter than the paper. */
function dab(picture: Picture, x: number, y: number, colour: Colour, share: number): void {
  const { width, height, stride } = picture;
  if (x < 0 || y < 0 || x >= width || y >= height) return;
  blend(picture, y * stride + x * 3, colour, share);
}

function drawWash(picture: Picture, x: number, y: number, radius: number, colour: Colour): void {
  for (let row = Math.floor(y - radius); row <= y + radius; row++) {
    for (let column = Math.floor(x - radius); column <= x + radius; column++) {
      const far = Math.hypot(column - x, row - y) / radius;
      if (far < 1) dab(picture, column, row, colour, 0.38 * (1 - far ** 3));
    }
  }
}

/** The direction of the strokes at each place, radians. */
type Flow = (x: number, y: number) => number;

function makeFlow(width: number, height: number, random: () => number): Flow {
  const scale = (2 + random() * 3) / Math.max(width, height);
  const [a, b, c] = [random() * 7, random() * 7, 0.6 + random() * 1.6];
  return (x, y) => c * (Math.sin(x * scale * 2 + a) + Math.cos(y * scale * 3 + b) + Math.sin((x + y) * scale));
}

function drawStroke(picture: Picture, x: number, y: number, flow: Flow, ink: Colour, width: number): void {
  let [column, row] = [x, y];
  for (let step = 0; step < STEPS; step++) {
    // A pen is set down and lifted.
    const press = Math.sin((Math.PI * (step + 1)) / (STEPS + 1));
    const reach = Math.ceil(width);
    for (let down = -reach; down <= reach; down++) {
      for (let across = -reach; across <= reach; across++) {
        const cover = width * press + 0.5 - Math.hypot(across, down);
        if (cover > 0) dab(picture, Math.round(column) + across, Math.round(row) + down, ink, Math.min(1, cover) * 0.5);
      }
    }
    const direction = flow(column, row);
    column += Math.cos(direction) * 2;
    row += Math.sin(direction) * 2;
  }
}
