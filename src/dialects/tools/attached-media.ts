/*
 * Media of a tool's result stand behind the results where a dialect has text alone in these (dialects.md 4.3): a word on both sides tells the model which
 * belongs where. `label`: what it is and its number, such as `image 1`.
 */

/** What a result says in the place of its media. */
export const attachedBelow = (label: string): string => `[${label} attached below]`;

/** What stands before the media. */
export const ofResultAbove = (label: string): string => `[${label} of the tool result above]`;
