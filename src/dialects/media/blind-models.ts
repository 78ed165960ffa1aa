import type { Lesson, Quirks, VendorTerms } from "../dialect.ts";

/**
 * The words in which servers refuse an image since their model takes none: vLLM (also when it was started without images), Ollama, LM Studio, llama.cpp,
 * OpenRouter, Venice, mlx-lm, LMDeploy and DeepSeek, each the same in every dialect. An image of the wrong kind or size is refused in other words.
 */
const BLIND =
  /\bis not a multimodal model\b|\bat most 0 image|\bdoes not support image(?:s| inputs?)(?=$|[.,]| \()|^image input is not supported|\bImage content is not supported by this model\b|^No endpoints found that support image input|^Only 'text' content type|^Unsupported Responses input content part type: 'input_image'|\bunknown variant `image_url`, expected `text`|\bVision add-on is not loaded\b/i;

/**
 * The words in which servers refuse an image's address since they read none from the web, or from few hosts: Copilot (caozhiyuan/copilot-api #258),
 * LM Studio, Moonshot (OpenHands/software-agent-sdk #3155), Ollama, older and newer, and vLLM, SGLang and LMDeploy that were started with a list of hosts.
 */
const FETCHES_NOTHING =
  /\bexternal image URLs are not supported\b|^'url' field must be a base64 encoded image\b|\bunsupported image url: |^invalid image input$|^image URLs are not currently supported\b|\bURL must be from one of the allowed domains\b/i;

/**
 * The words in which servers refuse an image that they cannot decode, whose engine reads no WebP: llama.cpp (can1357/oh-my-pi #2922), LM Studio
 * (lmstudio-ai/lmstudio-bug-tracker #1839) and older Ollama (ollama/ollama #11410), which have the same words for an address.
 */
const READS_NO_WEBP =
  /^Failed to load image or audio file\b|^'url' field must be a base64 encoded image\b|^invalid image input$/i;

/** The lessons about images in a vendor's refusal, given its words; see {@link UpstreamDialect.lessons}. */
export function imageLessons(words: string, terms: VendorTerms): Lesson[] {
  const taught = (quirks: Quirks): Lesson[] => [{ ...terms, quirks: { ...terms.quirks, ...quirks } }];
  if (BLIND.test(words)) return taught({ noImages: true });
  const lesson: Quirks = {
    ...(FETCHES_NOTHING.test(words) && { remoteMedia: "none" }),
    ...(READS_NO_WEBP.test(words) && { noWebp: true }),
  };
  return Object.keys(lesson).length > 0 ? taught(lesson) : [];
}
