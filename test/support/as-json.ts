/** A value after it was written and read as JSON: negative zeros, which `toEqual` tells apart, become 0, and undefined fields are gone. */
export const asJson = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value));
