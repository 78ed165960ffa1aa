import { REASONING_FORMS_OF } from "../../canon/intent.ts";
import type { Dialect } from "../dialect.ts";
import { encodeError } from "../refusals/openai-error.ts";
import { readUpstreamError } from "../refusals/upstream-error.ts";
import { amend, lessons, plainer, repairs, replyChanges } from "./amend.ts";
import { checkRequest } from "./check.ts";
import { responsesCounter } from "./counter.ts";
import { decodeRequest } from "./decode-request.ts";
import { canFollow, decodeStream } from "./decode-stream.ts";
import { encodeRequest } from "./encode-request.ts";
import { encodeStream } from "./encode-stream.ts";
import { encodeErrorFrame } from "./errors.ts";
import { readIntent } from "./intent.ts";
import { ownForms } from "./own-forms.ts";
import { PING } from "./records.ts";
import { readRefusedFields } from "./refused-fields.ts";
import { relabelReply, relabelStream } from "./relabel.ts";
import { replay } from "./replay.ts";
import { decodeReply, encodeReply } from "./reply.ts";
import { serverTools } from "./server-tools.ts";
import { renameReply } from "./wire-names.ts";

/** The wire protocol of OpenAI's newer SDK calls and of agents that know only it; stateless here (contract 3). */
export const responses: Dialect = {
  name: "responses",
  pathFor: () => "/responses",
  // Headers that name an organisation or a project belong to the client's own account at a vendor, not to this gateway's.
  passHeaders: ["openai-beta"],
  ownForms,
  intent: readIntent,
  amountFields: ["max_output_tokens"],
  reasoningFields: ["reasoning.effort"],
  ownNames: {
    thinking: "reasoning.effort",
    user: ["safety_identifier", "user"],
    reasoning_content: "reasoning",
    verbosity: "text.verbosity",
    // They steer a vendor's cache alone: an answer without it is the same.
    prompt_cache_key: [],
    // Unless no answer is asked for at all (openai 7.59).
    prompt_cache_options: ["prompt_cache_options.prewarm"],
    prompt_cache_retention: [],
    response_format: "text.format",
    "response_format.strict": "text.format.strict",
  },
  check: checkRequest,
  decodeRequest,
  counter: responsesCounter,
  reasoningForms: REASONING_FORMS_OF.responses,
  encodeRequest,
  amend,
  repairs,
  replyChanges,
  plainer,
  lessons,
  refusedFields: readRefusedFields,
  decodeReply,
  encodeReply,
  relabel: relabelReply,
  renameReply,
  decoder: decodeStream,
  encoder: encodeStream,
  relabeler: relabelStream,
  canFollow,
  decodeError: readUpstreamError,
  encodeError,
  encodeErrorFrame,
  ping: PING,
  replay,
  serverTools,
  provesReasoning: true,
  marksTexts: true,
};
