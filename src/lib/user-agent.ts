/** How this program calls itself in its requests to others. */
export const userAgentOf = (version: string): string => `sluice/${version}`;
