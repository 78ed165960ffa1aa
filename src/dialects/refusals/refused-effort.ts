import type { Lesson, VendorTerms } from "../dialect.ts";

/**
 * How servers refuse a depth of reasoning that their model does not have, in whatever dialect: Ollama; OpenVINO's; vLLM (of Mistral's models in words of its
 * own) and FastAPI, LMDeploy and TensorRT-LLM, Groq, Huawei, Zod, older and newer (LM Studio, Alishahryar1/free-claude-code #410; OpenRouter,
 * Darkatse/TauriTavern #85), and Rust's readers, by the field's name; GitHub Copilot (microsoft/vscode #312711); OpenAI's models behind others
 * (microsoft/vscode #301045), which say no field's name: of how wordy an answer is to be they say the same, but know a single value, and of images' detail
 * `auto`. Google, in the chat dialect too (HKUDS/nanobot #3515, agentjido/req_llm #971, BerriAI/litellm #37314).
 */
export const EFFORT_REFUSED =
  /\binvalid reasoning value\b|\b(?:reasoning[._]effort|output_config\.effort)\b[^;]{0,60}\b(?:input should be|must be one of|not one of|invalid enum value|invalid option|unknown variant|not supported by (?:\w+ )?models?)\b|^(?:unsupported|invalid) value: '\w+'(?: is not supported with the '[^']+' model)?\. supported values are: (?!.*'auto')[^.]*'high'|^thinking (?:level|budget)(?: \w+)? is (?:not supported for this model|unsupported: \w+)/i;

/** What a refusal in these words teaches: nothing is rejected for such reasons (interface 4.8, 7), and the next request may ask for another depth. `path`: where it stands. */
export const effortLessons = (path: string, words: string, terms: VendorTerms): Lesson[] =>
  EFFORT_REFUSED.test(words) ? [{ ...terms, refuses: [...(terms.refuses ?? []), path], isOnce: true }] : [];
