import type { Lesson, VendorTerms } from "../dialect.ts";

/**
 * How servers say that their model sees nothing: vLLM (also of one that was started without images), Ollama, LM Studio, llama.cpp, OpenRouter, Venice, mlx-lm,
 * LMDeploy and DeepSeek, each in the same words in whatever dialect it is asked. Of what kind or how large an image may be is said otherwise.
 */
const BLIND =
  /\bis not a multimodal model\b|\bat most 0 image|\bdoes not support image(?:s| inputs?)(?=$|[.,]| \()|^image input is not supported|\bImage content is not supported by this model\b|^No endpoints found that support image input|^Only 'text' content type|^Unsupported Responses input content part type: 'input_image'|\bunknown variant `image_url`, expected `text`|\bVision add-on is not loaded\b/i;

/** What a refusal in these words teaches of images; see {@link UpstreamDialect.lessons}. */
export const imageLessons = (words: string, terms: VendorTerms): Lesson[] =>
  BLIND.test(words) ? [{ ...terms, quirks: { ...terms.quirks, noImages: true } }] : [];
