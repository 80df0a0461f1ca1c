/**
 * The gateway on Cloudflare. A request goes to one of a few Durable Objects: there, unlike in a plain Worker,
 * database connections, long polls and caches live on from one request to the next.
 */
import type { EdgeEnvironment } from "./edge/environment.ts";
import { roomNames } from "./edge/wake.ts";

export { GatewayRoom } from "./edge/gateway-room.ts";

export default {
  fetch(request: Request, environment: EdgeEnvironment): Promise<Response> {
    const names = roomNames(environment);
    // One caller stays in one room, so that its rate is counted in one place.
    const name = names[bucketOf(request.headers.get("authorization") ?? "", names.length)]!;
    return environment.GATEWAY.get(environment.GATEWAY.idFromName(name)).fetch(request);
  },
};

/** FNV-1a: spreads callers evenly; nothing secret can be read back from a bucket number. */
function bucketOf(text: string, buckets: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % buckets;
}
