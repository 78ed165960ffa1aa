import { INVISIBLE } from "../lib/invisible.ts";
import { MAX_NAME } from "../wire/bounds.ts";
import { BadWish } from "./account-error.ts";

/**
 * A name without the spaces around it, each half of a character replaced as the store would. Throws BadWish for none, one above 100 characters, and one with signs in it that cannot be shown.
 * `whose`: "A key's", at the start of a sentence.
 */
export function checkName(given: string, whose: string): string {
  const name = given.toWellFormed().trim();
  const refuse = (text: string) => new BadWish(`${whose} name ${text}`, "name");
  if (name === "" || [...name].length > MAX_NAME) throw refuse(`has 1 to ${MAX_NAME} characters.`);
  if (name.search(INVISIBLE) >= 0) throw refuse("holds no control characters.");
  return name;
}
