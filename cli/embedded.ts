import { type Executor, startExecutor } from "#executor/main.ts";
import { type GatewaySettings, type OpenGateway, openGateway } from "./compose.ts";
import type { Log } from "./log.ts";
import { requireRoot } from "./privilege.ts";

export type EmbeddedSettings = GatewaySettings & {
  /** The URL of a Redis that keeps the agents' memory in place of the data folder. */
  memoryRedis?: string | undefined;
};

/**
 * A gateway on embedded defaults and one executor that calls it without HTTP. `close` ends what the executor runs and gives
 * it back to the queue, so that it runs anew when the data folder is served again. `done` rejects once nothing can be run
 * any more.
 */
export async function openEmbedded(
  settings: EmbeddedSettings,
): Promise<OpenGateway & Pick<Executor, "done">> {
  requireRoot();
  const opened = await openGateway(settings);
  try {
    const executor = await startExecutor({
      gatewayUrl: opened.gateway.url,
      token: opened.adminKey,
      dataDirectory: opened.folder.executor,
      fetch: opened.gateway.fetch,
      redisUrl: settings.memoryRedis,
      log: settings.log satisfies Log,
    });
    return {
      ...opened,
      done: executor.done,
      async close() {
        // Why it ended by itself, `done` says.
        await executor.close().catch(() => {});
        await opened.close();
      },
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}
