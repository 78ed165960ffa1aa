/** Host names, as URLs have them, of this machine itself (RFC 6761, RFC 1122). */
const LOOPBACK = /^(?:localhost|.*\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Whether `hostname`, as a URL has it, is this machine by every resolver. */
export const isLoopback = (hostname: string): boolean => LOOPBACK.test(hostname);
