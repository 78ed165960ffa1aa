/**
 * `text` as one word of a POSIX shell's command line: as it stands where every shell takes it so, else within single quotes. The data folder of macOS
 * has a blank in its path, and zsh takes the brackets of an IPv6 address for a pattern.
 */
export const toShellWord = (text: string): string =>
  /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
