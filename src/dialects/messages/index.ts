import { REASONING_FORMS_OF } from "../../canon/intent.ts";
import { markMessagesBody, takesMarks } from "../cache-marks.ts";
import type { Dialect } from "../dialect.ts";
import { readUpstreamError } from "../refusals/upstream-error.ts";
import { amend, repairs } from "./amend.ts";
import { headerEdits } from "./betas.ts";
import { watchBlankStops } from "./blank-stops.ts";
import { checkRequest } from "./check.ts";
import { messagesCounter } from "./counter.ts";
import { decodeRequest } from "./decode-request.ts";
import { decodeStream } from "./decode-stream.ts";
import { encodeRequest } from "./encode-request.ts";
import { encodeStream } from "./encode-stream.ts";
import { encodeError, encodeErrorFrame } from "./errors.ts";
import { readIntent } from "./intent.ts";
import { lessons } from "./lessons.ts";
import { plainer } from "./plain-terms.ts";
import { PING } from "./records.ts";
import { readRefusedExtras } from "./refused-extras.ts";
import { relabelReply, relabelStream } from "./relabel.ts";
import { replay } from "./replay.ts";
import { decodeReply, encodeReply } from "./reply.ts";
import { serverTools } from "./server-tools.ts";
import { passesHeader } from "./version.ts";
import { renameReply, withToolNames } from "./wire-names.ts";

/** The wire protocol of Anthropic's SDKs and of Claude Code (interface 4.5; dialects.md 2). */
export const messages: Dialect = {
  name: "messages",
  pathFor: () => "/v1/messages",
  counter: messagesCounter,
  hasObjectArguments: true,
  reasoningForms: REASONING_FORMS_OF.messages,
  demandsOutputCeiling: true,
  // The last is `user_profile_id` of the SDK's params: on whose behalf the caller asks, as `metadata.user_id` says it in the body.
  passHeaders: ["anthropic-version", "anthropic-beta", "anthropic-user-profile-id"],
  passesHeader,
  intent: readIntent,
  amountFields: ["max_tokens"],
  reasoningFields: ["thinking", "output_config.effort"],
  ownNames: {
    reasoning_content: "thinking",
    user: "metadata.user_id",
    parallel_tool_calls: "tool_choice.disable_parallel_tool_use",
    response_format: ["output_config.format", "output_format"],
    stop: "stop_sequences",
  },
  check: checkRequest,
  decodeRequest,
  encodeRequest,
  markCache: (body, model, { noAddedCacheMarks, knownCacheMarks }) => {
    if (!noAddedCacheMarks && (!knownCacheMarks || takesMarks(model))) markMessagesBody(body);
  },
  amend,
  headerEdits,
  replyChanges: (body, quirks) => withToolNames(body, quirks, watchBlankStops(body)),
  repeatsCallIds: true,
  decodeReply,
  encodeReply,
  relabel: relabelReply,
  explainsApart: true,
  renameReply,
  decoder: decodeStream,
  encoder: encodeStream,
  relabeler: relabelStream,
  decodeError: readUpstreamError,
  encodeError,
  encodeErrorFrame,
  ping: PING,
  replay,
  serverTools,
  repairs,
  plainer,
  lessons,
  refusedFields: (words, { refusesExtras }) => (refusesExtras ? readRefusedExtras(words) : []),
  provesReasoning: true,
  bindsReasoning: true,
};
