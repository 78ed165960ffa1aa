import type { Clock } from "../../lib/clock.ts";
import type { ImageRequest, ImageStep, ImageUpstream } from "../image-upstream.ts";
import { REFUSED_KEY_MS, Rests } from "../rests.ts";

/** The name of some work as it is kept: before the vendor's own name stands the number of the key that it was begun with, unless that is the first. */
const BEGUN_WITH = /^key(\d{1,6})\/(.*)$/s;

const nameFor = (key: number, name: string): string => (key === 0 ? name : `key${key}/${name}`);

/** How long a key is not used after this step, ms; undefined where the step says nothing of the key. */
function restOf(step: ImageStep): number | undefined {
  if (step.kind !== "failed") return undefined;
  if (step.elsewhere) return REFUSED_KEY_MS;
  return step.limited ? Math.min((step.retryAfterSeconds ?? 0) * 1_000, REFUSED_KEY_MS) : undefined;
}

/**
 * One vendor's upstream of those of its several keys, in their order (reliability 6.2). New images are spread over the keys; one that is refused, or whose
 * account is empty, is left alone for ten minutes, one that is limited for as long as its vendor says, and the next is asked at once, since nothing was
 * drawn. Work is asked for with the key that it was begun with, also after a restart: it is in the name that is kept of it. An image that is sent again goes
 * the same way as at first.
 */
export function overKeys(each: readonly ImageUpstream[], clock: Pick<Clock, "monotonic">): ImageUpstream {
  /** Keys that are left alone for a model. */
  const rests = new Rests(clock);
  const isResting = (key: number, model: string) => rests.until(`${key} ${model}`) > 0;
  const first = each[0] as ImageUpstream;

  /** The keys to be asked for an image, in turn. */
  function keysFor({ key, model }: ImageRequest): number[] {
    const start = Bun.hash.crc32(key) % each.length;
    const all = each.map((_, at) => (start + at) % each.length);
    const free = all.filter((at) => !isResting(at, model));
    return free.length > 0 ? free : all.slice(0, 1);
  }

  function begunWith(name: string): { upstream: ImageUpstream; key: number; own: string } {
    const [, said, own = ""] = BEGUN_WITH.exec(name) ?? [];
    const key = Number(said ?? 0);
    const upstream = said === undefined ? undefined : each[key];
    return upstream ? { upstream, key, own } : { upstream: first, key: 0, own: name };
  }

  const named = (step: ImageStep, key: number): ImageStep =>
    step.kind === "pending" ? { ...step, resumeId: nameFor(key, step.resumeId) } : step;

  return {
    ...first,
    async create(request, signal) {
      let step: ImageStep | undefined;
      for (const key of keysFor(request)) {
        step = named(await (each[key] as ImageUpstream).create(request, signal), key);
        const restMs = restOf(step);
        if (restMs === undefined) return step;
        rests.rest(`${key} ${request.model}`, restMs);
      }
      return step as ImageStep;
    },
    ...(first.resume && {
      async resume(name, request, signal) {
        const { upstream, key, own } = begunWith(name);
        return named(await upstream.resume!(own, request, signal), key);
      },
    }),
    ...(first.cancel && {
      cancel(name, signal) {
        if (name === undefined) return first.cancel!(name, signal);
        const { upstream, own } = begunWith(name);
        return upstream.cancel!(own, signal);
      },
    }),
  };
}
