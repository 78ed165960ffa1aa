import { primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { flag, nano, whole } from "./columns.ts";

/** What a key with a cap has used on one UTC day (days since 1970). Keys without caps have no rows. */
export const keySpend = sqliteTable(
  "key_spend",
  {
    keyId: text("key_id").notNull(),
    day: whole("day").notNull(),
    requests: whole("requests").notNull(),
    nano: nano("nano").notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.day] })],
);

/** One row: whether the last server on this store ended as it should. */
export const serverStop = sqliteTable("server_stop", {
  id: whole("id").primaryKey(),
  clean: flag("clean").notNull(),
});
