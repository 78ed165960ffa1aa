/** The options of the commands, as commander gives them: as they were typed. */

export type FolderOptions = { data?: string };
export type ConfigOptions = FolderOptions & { config?: string };
export type ServeOptions = ConfigOptions & {
  host?: string;
  port?: string;
  publicUrl?: string;
  cdnUrl?: string;
  workers?: string;
  /** This process is a worker, started by a serving one. */
  asWorker?: boolean;
};
export type JsonOption = { json?: boolean };
export type KeyLimitOptions = {
  expires?: string;
  models?: string;
  endpoints?: string;
  capUsdDay?: string;
  capUsd?: string;
  capRequestsDay?: string;
};
export type CreateKeyOptions = FolderOptions &
  JsonOption &
  KeyLimitOptions & { name?: string; account?: string; admin?: boolean };
export type ChangeKeyOptions = FolderOptions & JsonOption & KeyLimitOptions & { name?: string };
export type CreateTokenOptions = FolderOptions &
  JsonOption & { name?: string; account?: string; scopes?: string; expires?: string; capRequestsDay?: string };
export type ModelsOptions = ConfigOptions & JsonOption & { modality: string; allModels?: boolean };
export type UsageOptions = FolderOptions &
  JsonOption & { account?: string; since: string; until?: string; group?: string; by?: string; csv?: boolean };
export type AccountOptions = ConfigOptions & JsonOption;
export type CreateAccountOptions = AccountOptions & { plan?: string };
export type DepositOptions = AccountOptions & {
  reference?: string;
  detail?: string;
  promotion?: boolean;
  correction?: boolean;
};
export type LogsOptions = FolderOptions &
  JsonOption & { follow?: boolean; model?: string; status?: string; id?: string; since?: string; limit?: string };
