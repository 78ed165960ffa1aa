import { Type } from "@sinclair/typebox";
import { late, Nullable, Open } from "./open.ts";

/** Body of `POST /v1/debug/translate`. */
export const TranslateRequest = late(() =>
  Open(
    {
      dialect: Type.Union([Type.Literal("chat"), Type.Literal("messages"), Type.Literal("responses")], {
        description: '"chat", "messages" or "responses"',
      }),
      body: Open({}, { description: "The request as it would be sent to the dialect's own endpoint." }),
    },
    {
      title: "TranslateRequest",
      examples: [{ dialect: "chat", body: { model: "sluice/echo", messages: [{ role: "user", content: "Hi" }] } }],
    },
  ),
);

const ShownRequest = late(() => ({
  dialect: Type.Optional(Type.String({ description: "The wire protocol this vendor is spoken to in." })),
  method: Type.Optional(Type.Literal("POST")),
  url: Type.Optional(Type.String()),
  headers: Type.Optional(Type.Record(Type.String(), Type.String(), { description: "Secrets read `[secret]`." })),
  body: Type.Optional(Open({}, { description: "The very body that would be sent." })),
  reasoning: Type.Optional(
    Open({ kind: Type.String() }, { description: "What was ordered of the model's reasoning." }),
  ),
  dropped: Type.Optional(Type.Array(Type.String(), { description: "What this vendor cannot be told." })),
}));

/** Answer of `POST /v1/debug/translate`. */
export const TranslateReply = late(() =>
  Open(
    {
      object: Type.Literal("translation"),
      dialect: Type.String(),
      model: Type.String(),
      stream: Type.Boolean(),
      reasoning: Open({ kind: Type.String() }, { description: "What the body asks of the model's reasoning." }),
      routes: Type.Array(
        Open({
          vendor: Type.String(),
          model: Type.String({ description: "The vendor's own name of the model." }),
          ...ShownRequest(),
          error: Type.Optional(
            Open(
              { code: Type.String(), message: Type.String(), param: Nullable(Type.String()) },
              { description: "In place of the request: why this vendor cannot be asked." },
            ),
          ),
        }),
        { description: "The model's routes in the order in which they are tried." },
      ),
    },
    { title: "Translation" },
  ),
);
