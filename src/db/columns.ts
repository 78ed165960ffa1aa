import { customType } from "drizzle-orm/sqlite-core";

/** A whole number below 2^53: a count, or Unix milliseconds. The driver hands out BigInt everywhere, so that money stays exact. */
export const whole = customType<{ data: number; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: Number,
  toDriver: (value) => value,
});

/** True or false, kept as 1 or 0. */
export const flag = customType<{ data: boolean; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: (value) => Number(value) === 1,
  toDriver: (value) => (value ? 1 : 0),
});

/** Money in nano-USD, exact (contract 5). */
export const nano = customType<{ data: bigint; driverData: bigint }>({ dataType: () => "integer" });
