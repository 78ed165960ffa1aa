import { Type } from "@sinclair/typebox";
import { MAX_PROMPT } from "./bounds.ts";
import { checker, late, Maybe, Nullable, Open } from "./open.ts";

/** Body of `POST /v1/images/generations` (interface 4.1). Fields that are not named are left out, and told in `x-sluice-dropped`. */
export const ImageRequestBody = late(() =>
  Open(
    {
      prompt: Type.Optional(
        Type.Union([Type.String({ pattern: "\\S", description: "a text that says what to draw" }), Type.Null()], {
          description: `what to draw, 1 to ${MAX_PROMPT.toLocaleString("en-US")} characters; with source_job_id it defaults to the source's`,
        }),
      ),
      model: Maybe(Type.String({ description: "an image model's ID; with source_job_id it defaults to the source's" })),
      n: Maybe(Type.Integer({ minimum: 1, maximum: 1, description: "1: one image for each request" })),
      size: Maybe(
        Type.String({
          description: 'pixels such as 1024x1536, or "auto"; the nearest aspect ratio that the model draws is used',
        }),
      ),
      style: Maybe(Type.String({ maxLength: 1_000, description: "a style hint of at most 1,000 characters" })),
      source_job_id: Maybe(
        Type.String({
          maxLength: 100,
          description: "the id of one of your finished jobs, to be drawn at another size",
        }),
      ),
    },
    {
      title: "ImageRequest",
      examples: [{ model: "sluice/canvas", prompt: "a lighthouse at dusk", size: "1536x1024" }],
    },
  ),
);

/** The first fault of such a body, or undefined. */
export const checkImageRequest = checker(ImageRequestBody);

/** An image job as callers see it (interface 2.1). */
export const ImageJobView = late(() =>
  Open(
    {
      id: Type.String({ description: "The job's id, a UUID." }),
      object: Type.Literal("image.generation.job"),
      status: Type.Union(["processing", "succeeded", "failed", "blocked"].map((status) => Type.Literal(status))),
      created: Type.Integer({ description: "Unix seconds." }),
      model: Type.String(),
      prompt: Type.String(),
      aspect_ratio: Type.String({ examples: ["3:2"] }),
      style: Nullable(Type.String(), "The style hint, where one was given."),
      data: Type.Optional(
        Type.Array(Open({ url: Type.String({ description: "Where the image is." }) }), {
          description: "Present once it succeeded.",
        }),
      ),
      error: Type.Optional(
        Open(
          {
            message: Type.String(),
            code: Type.String({
              description:
                "cancelled, content_policy, interrupted, poisoned, timeout, source_gone, invalid_result, upstream_error, vendor_not_configured or internal_error.",
            }),
            type: Type.String(),
          },
          { description: "Present when it failed or was blocked." },
        ),
      ),
    },
    { title: "ImageJob" },
  ),
);

/** A page of jobs (interface 2.2). */
export const ImageJobList = late(() =>
  Open(
    {
      object: Type.Literal("list"),
      data: Type.Array(ImageJobView(), { description: "Newest first." }),
      next_before: Nullable(Type.String(), "Pass it as `before` for the next page; null on the last one."),
    },
    { title: "ImageJobList" },
  ),
);
