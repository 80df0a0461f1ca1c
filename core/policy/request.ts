import { DsecError } from "../errors.ts";
import type { CompiledPolicy } from "./compile.ts";
import { type Allowed, type Call, type Decision, type Denied, decide, deny } from "./decide.ts";
import { canonicalHost, quote } from "./host.ts";
import { DEFAULT_PORT, parseUrl, splitAuthority, type Target } from "./url.ts";

/** The head of an HTTP/1.1 request as it came, before anything was made of it. */
export type RequestHead = {
  method: string;
  /** The request-target, in any of the four forms (RFC 9112 section 3.2). */
  target: string;
  /** The value of every Host field. */
  hosts: readonly string[];
  /** The value of the Upgrade field, or null. */
  upgrade: string | null;
};

/** Where the request came in: at the proxy itself, or inside a CONNECT that was decided before. */
export type Arrival =
  | { kind: "proxy" }
  /** `scheme` is `https` where the client spoke TLS inside the tunnel, and `http` where it did not. */
  | { kind: "tunnel"; scheme: "http" | "https"; tunnel: Allowed };

export type RequestDecision = {
  decision: Decision;
  /**
   * `websocket` where the call is the opening of one (RFC 6455 section 4.1). Any other upgrade is ignored (RFC 9110
   * section 7.8) and its fields are not sent on: after `h2c` nobody could see the requests any more.
   */
  upgrade: "websocket" | null;
};

/** The one decision for a request in whatever form: absolute, origin, CONNECT, upgrade, plain or in a tunnel. */
export function decideRequest(
  compiled: CompiledPolicy,
  head: RequestHead,
  arrival: Arrival,
): RequestDecision {
  const read = targetFromRequest(head, arrival);
  const decision = "allowed" in read ? read : decide(compiled, read);
  const websocket = head.method === "GET" && head.upgrade?.trim().toLowerCase() === "websocket";
  return { decision, upgrade: decision.allowed && websocket ? "websocket" : null };
}

/**
 * The method and absolute URL that a request means. Host, request-target and tunnel must all name one authority:
 * where they differ, the upstream would choose another than we judged (RFC 9112 section 3.2.2, section 11.2).
 */
export function targetFromRequest(head: RequestHead, arrival: Arrival): Call | Denied {
  let target: Target | null = null;
  try {
    const call = { method: head.method, url: absoluteUrl(head, arrival) };
    target = parseUrl(call.url);
    for (const host of head.hosts) requireSame("Host field", host, target);
    if (arrival.kind === "tunnel" && authorityOf(target) !== authorityOf(arrival.tunnel.target)) {
      throw invalid(
        `${authorityOf(target)} is asked for in a tunnel to ${authorityOf(arrival.tunnel.target)}`,
      );
    }
    return call;
  } catch (error) {
    if (error instanceof DsecError) return deny(error.code, error.message, head.method, target);
    throw error;
  }
}

/**
 * Whether the TLS handshake in a tunnel names the host that CONNECT was decided for (RFC 6066 section 3). An opaque
 * tunnel must name it: nothing else in it can be seen.
 * @param tlsName server_name of the ClientHello, or null
 */
export function decideTlsName(tunnel: Allowed, tlsName: string | null): Decision {
  const { method, target } = tunnel;
  const refuse = (why: string) =>
    deny("TLS_NAME_MISMATCH", `tunnel to ${authorityOf(target)}: ${why}`, method, target);
  if (tlsName === null) {
    // RFC 6066 has no server_name for addresses; the connection goes to the judged address in any case.
    if (tunnel.passage === "opaque" && target.host.kind === "name") return refuse("TLS names no server");
    return tunnel;
  }
  try {
    if (canonicalHost(tlsName).text === target.host.text) return tunnel;
  } catch (error) {
    if (!(error instanceof DsecError)) throw error;
  }
  return refuse(`TLS names ${quote(tlsName)}`);
}

function absoluteUrl(head: RequestHead, arrival: Arrival): string {
  const { method, target, hosts } = head;
  if (hosts.length > 1) throw invalid("it has more than one Host field");
  if (method === "CONNECT") {
    if (arrival.kind === "tunnel") throw invalid("CONNECT inside a tunnel");
    const { host, port } = splitAuthority(target);
    if (port === null || /[/?#@]/.test(host)) throw invalid("CONNECT takes host:port and nothing else");
    return `https://${target}/`;
  }
  if (!target.startsWith("/")) {
    if (target === "*") throw invalid("* names no upstream; write OPTIONS with an absolute URL");
    const scheme = /^([a-z]+):\/\//i.exec(target)?.[1]?.toLowerCase();
    if (scheme === undefined) throw invalid("it must be absolute-form, or origin-form with a Host field");
    if (arrival.kind === "proxy" || scheme === arrival.scheme) return target;
    throw invalid(`${scheme}: is asked for in a tunnel that speaks ${arrival.scheme}:`);
  }
  const [host] = hosts;
  if (host === undefined || host === "") throw invalid("origin-form needs a Host field");
  if (/[/?#@]/.test(host)) throw invalid(`the Host field ${quote(host)} is no authority`);
  return `${arrival.kind === "tunnel" ? arrival.scheme : "http"}://${host}${target}`;
}

function requireSame(what: string, authority: string, target: Target): void {
  const { host, port } = splitAuthority(authority);
  const named = `${canonicalHost(host).text}:${port ?? DEFAULT_PORT[target.scheme]}`;
  if (named !== authorityOf(target)) {
    throw invalid(`the ${what} names ${quote(authority)} and the request-target ${authorityOf(target)}`);
  }
}

function authorityOf(target: Target): string {
  return `${target.host.text}:${target.port}`;
}

function invalid(why: string): DsecError {
  return new DsecError("REQUEST_TARGET_INVALID", `request: ${why}`);
}
