/** Host names of this machine itself (RFC 6761, RFC 1122). */
const LOOPBACK = /^(?:localhost|.*\.localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/;

/** Whether `hostname` is this machine for every resolver. An IPv6 address may have the brackets that it has in a URL. */
export const isLoopback = (hostname: string): boolean => LOOPBACK.test(hostname);
