/**
 * From now on code is compiled when it has run as often as the runtime's own measure says. A start asks for twenty times as much (boot.ts), since it runs
 * nearly all of its code once.
 */
export function compileAsUsual(): void {
  Bun.unsafe.setJITPolicy(1);
}
