import { INVISIBLE } from "../lib/invisible.ts";
import { MAX_NAME } from "../wire/bounds.ts";
import { BadWish } from "./account-error.ts";

/**
 * A name without the spaces around it, each lone surrogate replaced by U+FFFD as the store would. Throws BadWish when it is empty, has more than 100
 * characters, or holds control characters. `whose` begins the sentence of the error: "A key's".
 */
export function checkName(given: string, whose: string): string {
  const name = given.toWellFormed().trim();
  const refuse = (text: string) => new BadWish(`${whose} name ${text}`, "name");
  if (name === "" || [...name].length > MAX_NAME) throw refuse(`has 1 to ${MAX_NAME} characters.`);
  if (name.search(INVISIBLE) >= 0) throw refuse("holds no control characters.");
  return name;
}
