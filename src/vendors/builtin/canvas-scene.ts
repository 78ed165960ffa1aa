import { sizeOf } from "./canvas-frame.ts";
import { type Colour, mix, type Palette, paletteOf, seededBy } from "./canvas-palette.ts";
import { blend, newPicture, type Picture, put } from "./canvas-picture.ts";

const WATER = /sea|ocean|lake|water|river|boat|ship|fish|whale|beach|coast|lighthouse|harbou?r/i;
const MOST_STARS = 260;

type Random = () => number;
/** A line of hills: where it begins in each column, from the top, and its colour. */
type Ridge = { tops: Float64Array; colour: Colour };
/** Where the sun or the moon stands, and how large it is. */
type Light = { x: number; y: number; radius: number };

/** A landscape under a sky, drawn from the words of a prompt: the same words, the same picture. */
export function drawScene(prompt: string, ratio: string): Picture {
  const { width, height } = sizeOf(ratio);
  const picture = newPicture(width, height);
  const random = seededBy(prompt);
  const colours = paletteOf(prompt, random());
  const shore = WATER.test(prompt) ? Math.round(height * (0.64 + random() * 0.1)) : height;
  const light: Light = {
    x: width * (0.2 + random() * 0.6),
    y: shore * (0.2 + random() * 0.3),
    radius: Math.min(width, height) * (0.05 + random() * 0.05),
  };
  drawSky(picture, colours, light, shore);
  if (colours.night) drawStars(picture, random, shore);
  const count = 3 + Math.floor(random() * 3);
  const ridges = Array.from({ length: count }, (_, at) => makeRidge(picture, colours, (at + 1) / count, shore, random));
  for (const ridge of ridges) drawRidge(picture, ridge, shore, colours.horizon);
  if (shore < height) drawWater(picture, shore, colours, random);
  return picture;
}

function drawSky(picture: Picture, colours: Palette, light: Light, shore: number): void {
  const { width, stride } = picture;
  const reach = light.radius * 7;
  for (let row = 0; row < shore; row++) {
    const sky = mix(colours.above, colours.horizon, (row / shore) ** 1.35);
    const down = row - light.y;
    for (let column = 0; column < width; column++) {
      const at = row * stride + column * 3;
      put(picture, at, sky);
      const across = column - light.x;
      if (Math.abs(across) > reach || Math.abs(down) > reach) continue;
      const far = Math.hypot(across, down);
      if (far >= reach) continue;
      const glow = 0.55 * (1 - far / reach) ** 2;
      // The last pixel of the disc's edge is partly covered.
      const disc = Math.min(1, Math.max(0, light.radius - far + 0.5));
      blend(picture, at, colours.light, Math.max(glow, disc));
    }
  }
}

function drawStars(picture: Picture, random: Random, shore: number): void {
  for (let star = 0; star < MOST_STARS; star++) {
    const column = Math.floor(random() * (picture.width - 1));
    const row = Math.floor(random() ** 1.5 * (shore - 1));
    const bright = 0.25 + random() * 0.75;
    const at = row * picture.stride + column * 3;
    blend(picture, at, [255, 255, 240], bright);
    if (bright > 0.85) blend(picture, at + 3, [255, 255, 240], 0.5);
  }
}

/** Hills `depth` of the way from the horizon (0) to the foot of the picture (1). */
function makeRidge({ width }: Picture, colours: Palette, depth: number, shore: number, random: Random): Ridge {
  const base = shore * (0.46 + depth * 0.44);
  const rise = shore * (0.1 + 0.1 * random()) * (1.15 - depth * 0.5);
  const waves = Array.from({ length: 5 }, (_, octave) => ({
    length: ((1.2 + random()) * 2 ** octave * Math.PI) / Math.max(width, shore),
    shift: random() * 7,
    share: 0.62 ** octave,
  }));
  const tops = new Float64Array(width);
  for (let column = 0; column < width; column++) {
    let sum = 0;
    for (const { length, shift, share } of waves) sum += Math.sin(column * length + shift) * share;
    tops[column] = base - (rise * (sum + 1.2)) / 2.2;
  }
  return { tops, colour: mix(mix(colours.horizon, colours.near, 0.25), colours.near, depth) };
}

/** Hills stand in mist at their foot. */
function drawRidge(picture: Picture, { tops, colour }: Ridge, shore: number, mist: Colour): void {
  const { width, stride } = picture;
  for (let column = 0; column < width; column++) {
    const top = tops[column]!;
    const first = Math.max(0, Math.floor(top));
    for (let row = first; row < shore; row++) {
      const at = row * stride + column * 3;
      const haze = Math.min(0.34, ((row - top) / shore) * 1.1);
      const shade = mix(colour, mist, haze);
      if (row === first) blend(picture, at, shade, Math.min(1, first + 1 - top));
      else put(picture, at, shade);
    }
  }
}

/** What stands above the shore, upside down in moving water. */
function drawWater(picture: Picture, shore: number, colours: Palette, random: Random): void {
  const { width, height, stride, pixels } = picture;
  const shift = random() * 7;
  for (let row = shore; row < height; row++) {
    const below = row - shore;
    const from = Math.max(0, shore - 1 - Math.round(below * 1.3));
    const swing = 1 + below * 0.05;
    const dim = 0.22 + 0.3 * (below / Math.max(1, height - shore));
    for (let column = 0; column < width; column++) {
      const wave = Math.sin(below * 0.9 + shift + column * 0.013) + Math.sin(below * 0.37 + column * 0.031);
      const column2 = Math.min(width - 1, Math.max(0, Math.round(column + wave * swing)));
      const source = from * stride + column2 * 3;
      const at = row * stride + column * 3;
      for (let channel = 0; channel < 3; channel++) pixels[at + channel] = pixels[source + channel]!;
      blend(picture, at, colours.near, dim);
    }
  }
}
