/** Host names of this machine itself (RFC 6761, RFC 1122). */
const LOOPBACK = /^(?:localhost|.*\.localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/;

/** Whether `hostname`, with the brackets that a URL has or without, is this machine by every resolver. */
export const isLoopback = (hostname: string): boolean => LOOPBACK.test(hostname);
