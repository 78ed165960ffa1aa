import { AccountError } from "./account-error.ts";

/** Longest name of an account, a key or a token, characters. */
const MAX_NAME = 100;
/** Signs that do something to a terminal, or to the order of what stands beside them: names are shown in lists and sentences. */
const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/**
 * A name without the spaces around it. Throws AccountError for none, one above 100 characters, and one with signs in it that cannot be shown.
 * `whose`: "A key's", at the start of a sentence.
 */
export function checkName(given: string, whose: string): string {
  const name = given.trim();
  if (name === "" || name.length > MAX_NAME) throw new AccountError(`${whose} name has 1 to ${MAX_NAME} characters.`);
  if (INVISIBLE.test(name)) throw new AccountError(`${whose} name holds no control characters.`);
  return name;
}
