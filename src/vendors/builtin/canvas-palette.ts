/** A colour: red, green, blue, 0 to 255 each. */
export type Colour = readonly [red: number, green: number, blue: number];

/** The colours of a picture. */
export type Palette = { above: Colour; horizon: Colour; light: Colour; near: Colour; night: boolean };

const palette = (above: Colour, horizon: Colour, light: Colour, near: Colour, night = false): Palette => ({
  ...{ above, horizon, light, near, night },
});

/** Words of a prompt, and the colours that they ask for. The first entry that fits is taken. */
const BY_WORD: readonly (readonly [words: RegExp, colours: Palette])[] = [
  [
    /night|moon|star|midnight|space|dark|dream/i,
    palette([9, 12, 38], [58, 60, 110], [236, 236, 214], [10, 12, 28], true),
  ],
  [
    /sunset|dusk|evening|autumn|fire|orange|lighthouse/i,
    palette([48, 44, 98], [248, 152, 92], [255, 224, 160], [44, 22, 48]),
  ],
  [
    /dawn|sunrise|morning|pink|spring|flower|rose/i,
    palette([126, 158, 214], [253, 208, 190], [255, 244, 214], [72, 58, 96]),
  ],
  [/snow|winter|ice|white|frost|polar/i, palette([150, 184, 216], [232, 240, 246], [255, 255, 250], [74, 98, 126])],
  [
    /forest|green|jungle|garden|tree|grass|frog/i,
    palette([122, 176, 190], [222, 234, 190], [255, 250, 214], [18, 56, 44]),
  ],
  [/desert|sand|gold|yellow|savanna|lion/i, palette([104, 166, 206], [250, 222, 160], [255, 248, 220], [140, 80, 44])],
  [
    /sea|ocean|blue|water|lake|boat|fish|whale/i,
    palette([58, 122, 190], [196, 226, 238], [255, 252, 232], [16, 50, 84]),
  ],
  [/red|mars|blood|love|heart/i, palette([92, 20, 40], [240, 128, 104], [255, 220, 196], [48, 8, 22])],
];

/** For prompts that name no colour of their own. */
const OTHERS: readonly Palette[] = [
  palette([70, 112, 178], [238, 206, 186], [255, 240, 210], [34, 40, 76]),
  palette([62, 134, 150], [240, 228, 196], [255, 248, 224], [22, 56, 66]),
  palette([110, 90, 160], [246, 198, 196], [255, 236, 220], [46, 30, 76]),
  palette([88, 150, 196], [232, 232, 214], [255, 250, 230], [38, 66, 70]),
];

/** The colours for a prompt; `pick` from 0 to below 1 chooses where its words do not. */
export function paletteOf(prompt: string, pick: number): Palette {
  const named = BY_WORD.find(([words]) => words.test(prompt))?.[1];
  return named ?? OTHERS[Math.floor(pick * OTHERS.length)] ?? OTHERS[0]!;
}

/** The colour that lies `share` of the way from one to the other. */
export function mix(from: Colour, to: Colour, share: number): Colour {
  const part = (at: 0 | 1 | 2) => from[at] + (to[at] - from[at]) * share;
  return [part(0), part(1), part(2)];
}

/** Numbers from 0 to below 1, the same for the same text. */
export function seededBy(text: string): () => number {
  // Two words of the digest: prompts that differ at all give other pictures.
  const digest = new Bun.CryptoHasher("sha256").update(text).digest();
  let a = digest.readUInt32LE(0);
  let b = digest.readUInt32LE(4) | 1;
  return () => {
    // Xorshift beside a Weyl sequence.
    a ^= a << 13;
    a ^= a >>> 17;
    a ^= a << 5;
    b = (b + 0x9e3779b9) | 0;
    return ((a + b) >>> 0) / 4_294_967_296;
  };
}
