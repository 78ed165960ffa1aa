import { REASONING_FORMS_OF } from "../../canon/intent.ts";
import { remember } from "../../lib/remember.ts";
import type { UpstreamDialect } from "../dialect.ts";
import { ceilingLessons } from "../refusals/output-ceiling.ts";
import { amend, repairs } from "./amend.ts";
import { geminiCounter } from "./counter.ts";
import { decodeStream } from "./decode-stream.ts";
import { encodeRequest } from "./encode-request.ts";
import { decodeError } from "./errors.ts";
import { decodeReply } from "./reply.ts";

/** A model's name as one segment of a path, whatever characters it has. */
const stepOf = remember((model: string): string => encodeURIComponent(model.replace(/^models\//, "")));

/** Google's own wire protocol, as Gemini and Vertex speak it (dialects.md 3). No client does, so it has only this half. */
export const gemini: UpstreamDialect = {
  name: "gemini",
  pathFor: (model, stream) =>
    `/models/${stepOf(model)}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  counter: geminiCounter,
  hasObjectArguments: true,
  reasoningForms: REASONING_FORMS_OF.gemini,
  encodeRequest,
  amend,
  decodeReply,
  decoder: decodeStream,
  decodeError,
  repairs,
  lessons: ceilingLessons,
  provesReasoning: true,
};
