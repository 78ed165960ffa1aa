import { IMAGE_TYPES } from "../../vendors/image-upstream.ts";
import { ImageJobList, ImageJobView, ImageRequestBody } from "../../wire/images.ts";
import { IDEMPOTENCY_PARAMETER } from "../idempotency.ts";
import { errorReplies, jsonBody, jsonReply, PUBLIC_ERRORS, STRICT_PARAMETER } from "../openapi-detail.ts";
import { DEFAULT_PAGE, MAX_PAGE, MAX_WAIT_SECONDS } from "./request.ts";

const WAIT_PARAMETER = {
  name: "Prefer",
  in: "header" as const,
  required: false,
  description: `\`wait=N\`: answer as soon as the job has ended, or after N seconds, at most ${MAX_WAIT_SECONDS}.`,
  schema: { type: "string" as const },
};
const ID_PARAMETER = { name: "id", in: "path" as const, required: true, schema: { type: "string" as const } };
const TAGS = ["Images"];

/** `POST /v1/images/generations`, for the OpenAPI document, as all that follow. */
export const CREATE_DETAIL = {
  tags: TAGS,
  summary: "Create an image job",
  description:
    "Answers 202 with the job; ask for it until it has ended. One image is one unit, free in the plan's allowance of 24 hours and from the wallet beyond it; failed and cancelled jobs cost nothing.",
  parameters: [IDEMPOTENCY_PARAMETER, WAIT_PARAMETER, STRICT_PARAMETER],
  requestBody: jsonBody(ImageRequestBody),
  responses: {
    "202": jsonReply(ImageJobView, "The job was accepted."),
    ...errorReplies("chat", [
      ...(["insufficient_quota", "deposit_required", "model_not_found", "not_found"] as const),
      ...(["too_many_inflight_jobs", "allowance_exhausted", "model_unpriced", "vendor_not_configured"] as const),
      ...(["idempotency_in_progress", "idempotency_key_reused", "upstream_overloaded"] as const),
    ]),
  },
};

/** `GET /v1/images/generations`. */
export const LIST_DETAIL = {
  tags: TAGS,
  summary: "List image jobs",
  description: "The account's jobs, newest first. Pass `next_before` as `before` until it is null.",
  parameters: [
    { name: "before", in: "query" as const, required: false, schema: { type: "string" as const } },
    {
      ...{ name: "limit", in: "query" as const, required: false },
      schema: { type: "integer" as const, minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE },
    },
  ],
  responses: { "200": jsonReply(ImageJobList, "A page of jobs."), ...errorReplies("chat") },
};

/** `GET /v1/images/generations/{id}`. */
export const SHOW_DETAIL = {
  tags: TAGS,
  summary: "Poll an image job",
  description: "While it is processing, `retry-after` says when to ask again.",
  parameters: [ID_PARAMETER, WAIT_PARAMETER],
  responses: { "200": jsonReply(ImageJobView, "The job."), ...errorReplies("chat", ["not_found"]) },
};

/** `DELETE /v1/images/generations/{id}`. */
export const CANCEL_DETAIL = {
  tags: TAGS,
  summary: "Cancel an image job",
  description:
    "A job that has not ended fails with the code `cancelled` and costs nothing; one that has stays as it is.",
  parameters: [ID_PARAMETER],
  responses: { "200": jsonReply(ImageJobView, "The job as it is now."), ...errorReplies("chat", ["not_found"]) },
};

const PICTURE = Object.fromEntries(
  IMAGE_TYPES.map((type) => [type, { schema: { type: "string" as const, format: "binary" } }]),
);

const FILE_REPLIES = {
  "200": { description: "The image.", content: PICTURE },
  "206": { description: "The part of it that `Range` asks for.", content: PICTURE },
  "302": { description: "It is kept elsewhere: `location` leads there." },
  "304": { description: "It is what `If-None-Match` names." },
  "416": { description: "It has no such part." },
  ...errorReplies("chat", ["not_found"], PUBLIC_ERRORS),
};

/** `GET /v1/images/files/{name}`. */
export const FILE_DETAIL = {
  tags: TAGS,
  summary: "An image",
  description: "PNG, JPEG or WebP; takes `Range`. Its name is all that is needed to see it.",
  security: [],
  parameters: [{ name: "name", in: "path" as const, required: true, schema: { type: "string" as const } }],
  responses: FILE_REPLIES,
};
