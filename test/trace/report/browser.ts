/** Reports in a real browser, which sees the file alone: what it asks for, says or pops up besides is kept. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import type { ReportData } from "#trace/analysis/report-data.ts";
import { type PageOptions, reportPage } from "#trace/report/page.ts";

export type Opened = { page: Page; requests: string[]; dialogs: string[]; faults: string[] };

export class ReportBrowser {
  readonly #folder = mkdtempSync(join(tmpdir(), "dsec-report-"));
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(): Promise<ReportBrowser> {
    const args = [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
    ];
    return new ReportBrowser(await chromium.launch({ executablePath: "/usr/bin/chromium", args }));
  }

  async file(name: string, report: ReportData, options: PageOptions = {}): Promise<string> {
    const pieces: string[] = [];
    for await (const piece of reportPage(report, options)) pieces.push(piece);
    const path = join(this.#folder, name);
    writeFileSync(path, pieces.join(""));
    return path;
  }

  async open(path: string, hash = "", colorScheme: "light" | "dark" = "light"): Promise<Opened> {
    const page = await this.#browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme });
    const opened: Opened = { page, requests: [], dialogs: [], faults: [] };
    page.on("request", (request) => opened.requests.push(request.url()));
    page.on("dialog", (dialog) => {
      opened.dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    page.on("pageerror", (error) => opened.faults.push(String(error)));
    // a breach of the page's policy is told on the console
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) opened.faults.push(message.text());
    });
    await page.goto(`${pathToFileURL(path)}${hash}`);
    return opened;
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
