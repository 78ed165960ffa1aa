import { Type } from "@sinclair/typebox";
import { late, Nullable, Open } from "./open.ts";

const message = late(() => Type.String({ description: "What went wrong, for people. It may be reworded." }));
const code = late(() =>
  Type.String({
    description: "What went wrong, for programs. It is stable.",
    examples: ["invalid_request", "invalid_api_key"],
  }),
);

/** What some refusals say beside their words (contract 6). */
const told = () => ({
  affordable_output_tokens: Type.Optional(
    Type.Integer({ description: "Of insufficient_quota: how many tokens of output the money pays for." }),
  ),
  reset_at: Type.Optional(Type.String({ description: "When what is used up is there again (RFC 3339)." })),
});

/** Error body of every endpoint but messages (contract 6). */
export const ChatErrorReply = late(() =>
  Open(
    {
      error: Open({
        message: message(),
        type: Type.String({ examples: ["invalid_request_error", "rate_limit_error", "server_error"] }),
        param: Nullable(Type.String(), "Path of the request field at fault."),
        code: code(),
        ...told(),
      }),
    },
    { title: "ChatError" },
  ),
);

/** Error body of the messages dialect (contract 6). */
export const MessagesErrorReply = late(() =>
  Open(
    {
      type: Type.Literal("error"),
      error: Open({
        type: Type.String({ examples: ["invalid_request_error", "authentication_error", "overloaded_error"] }),
        message: message(),
        code: code(),
        param: Type.Optional(Type.String({ description: "Path of the request field at fault." })),
        ...told(),
      }),
      request_id: Type.String(),
    },
    { title: "MessagesError" },
  ),
);
