/** Wakes long polls and event streams in every room. Polling underneath bounds what is missed. */
import type { GatewayPorts } from "../ports.ts";
import { createLocalWake } from "../store/wake.ts";
import type { Topic, Wake } from "../wake-port.ts";
import type { EdgeEnvironment } from "./environment.ts";

export type RoomWake = Wake & {
  /** For what other rooms say: goes no further. */
  notifyHere(topics: Topic[]): void;
};

export function roomNames({ ROOMS }: EdgeEnvironment): string[] {
  const count = Number(ROOMS);
  const rooms = Number.isInteger(count) && count >= 1 && count <= 64 ? count : 1;
  return Array.from({ length: rooms }, (_, i) => `room-${i}`);
}

export function createRoomWake(
  environment: EdgeEnvironment,
  self: DurableObjectId,
  log: GatewayPorts["log"],
): RoomWake {
  const local = createLocalWake();
  const others = roomNames(environment)
    .map((name) => environment.GATEWAY.idFromName(name))
    .filter((id) => !id.equals(self));
  let gathered: Set<Topic> | undefined;

  /** What comes in one turn goes out in one call to each room. */
  function tellOthers(topic: Topic): void {
    if (others.length === 0) return;
    if (gathered !== undefined) {
      gathered.add(topic);
      return;
    }
    const topics = new Set([topic]);
    gathered = topics;
    setTimeout(() => {
      gathered = undefined;
      for (const id of others) {
        environment.GATEWAY.get(id)
          .wake([...topics])
          .catch((error: unknown) =>
            log({ level: "warn", message: "a room was not woken", error: String(error) }),
          );
      }
    }, 0);
  }

  return {
    wait: local.wait,
    follow: local.follow,
    notify(topic, told) {
      local.notify(topic, told);
      tellOthers(topic);
    },
    notifyHere(topics) {
      for (const topic of topics) local.notify(topic);
    },
  };
}
