/** Images as tasks meet them: made from a folder and from an archive, and run. */
import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AttestationClaimsSchema } from "#core/wire/attestations.ts";
import { importImage } from "#executor/images/import.ts";
import { ImageStore } from "#executor/images/store.ts";
import { openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { Rig } from "../executor-under-test.ts";

let gateway: TestGateway;
let rig: Rig;
let root: string;
let store: ImageStore;
const digests: Record<string, string> = {};

beforeAll(async () => {
  gateway = await openTestGateway();
  rig = await Rig.open(gateway);
  store = await ImageStore.open(join(rig.directory, "data"));
  root = join(rig.directory, "root");
  await makeRoot(root);
  const tar = join(rig.directory, "root.tar");
  execFileSync("tar", ["--create", "--file", tar, "--directory", root, "."]);
  digests.folder = (await importImage(store, root, { name: "tiny:folder" })).digest;
  digests.tar = (await importImage(store, tar, { name: "tiny:tar" })).digest;
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await gateway?.close();
});

/** The smallest root that runs a shell: Debian's static busybox and a few of its names. */
async function makeRoot(path: string): Promise<void> {
  for (const folder of ["bin", "etc", "data"]) await mkdir(join(path, folder), { recursive: true });
  await copyFile("/bin/busybox", join(path, "bin/busybox"));
  for (const name of ["sh", "cat", "ls", "id", "echo", "test", "sleep"])
    await symlink("busybox", join(path, "bin", name));
  await writeFile(join(path, "etc/marker"), "from the image\n");
  await writeFile(join(path, "data/setuid"), "#!/bin/sh\nid -u\n");
  await chmod(join(path, "data/setuid"), 0o4755);
  await symlink("/etc/shadow", join(path, "data/absolute"));
}

test("a folder and an archive of it make the same image", () => {
  expect(digests.folder).toBe(digests.tar);
});

test.each(["tiny:folder", "tiny:tar", "the digest"])(
  "a task runs from an image by %s, and sees nothing of the host",
  async (name) => {
    const image = name === "the digest" ? digests.tar! : name;
    const { task, stdout, attestations, output } = await rig.run({
      image,
      command: [
        "/bin/sh",
        "-c",
        "cat /etc/marker; ls /; cat /data/absolute; echo written > /data/new; cat /data/new",
      ],
      outputs: ["/data/new", "/data/absolute", "/etc/marker"],
    });
    expect(stdout.toString()).toMatch(/^from the image\n/);
    expect(stdout.toString()).toMatch(/written\n$/);
    expect(stdout.toString()).not.toMatch(/^(usr|boot|lib)$/m);
    expect(task.result!.outputs.map(({ path }) => path)).toEqual(["/data/new", "/etc/marker"]);
    expect((await output("/etc/marker")).toString()).toBe("from the image\n");
    const claims = AttestationClaimsSchema.parse(
      JSON.parse(Buffer.from(attestations[0]!.jwt.split(".")[1]!, "base64url").toString()),
    );
    expect(claims.dsec.image).toEqual({ name: image, digest: digests.tar });
  },
);

test("what one task writes into an image's files no other task sees, nor the image", async () => {
  const command = ["/bin/sh", "-c", "cat /etc/marker; echo changed > /etc/marker"];
  for (let i = 0; i < 2; i++) {
    expect((await rig.run({ image: "tiny:tar", command })).stdout.toString()).toBe("from the image\n");
  }
  expect((await store.find("tiny:tar")).digest).toBe(digests.tar);
});

test("a program with a set-id bit in the source has none in the image", async () => {
  const { stdout } = await rig.run({
    image: "tiny:folder",
    command: ["/bin/sh", "-c", "test -u /data/setuid && echo set; echo done"],
  });
  expect(stdout.toString()).toBe("done\n");
});

test("an image that is imported while the executor runs can be used by it, and one that is removed cannot", async () => {
  await importImage(store, root, { name: "late:1" });
  const lateDigest = (await store.find("late:1")).digest;
  expect((await rig.run({ image: lateDigest, command: ["/bin/echo", "late"] })).stdout.toString()).toBe(
    "late\n",
  );
  await writeFile(join(root, "etc/marker"), "another\n");
  const { digest } = await importImage(store, root, { name: "gone:1" });
  await store.remove("gone:1");
  const { task } = await rig.run({ image: digest, command: ["/bin/echo", "x"], retries: 0 });
  expect(task.state).toBe("dead");
  await rm(root, { recursive: true });
});

test("a running task keeps its image when the image is removed", async () => {
  const other = join(rig.directory, "other");
  await makeRoot(other);
  await writeFile(join(other, "etc/marker"), "still here\n");
  const { digest } = await importImage(store, other, { name: null });
  const { id } = await rig.submit({
    image: digest,
    command: ["/bin/sh", "-c", "echo begun; sleep 1; cat /etc/marker"],
  });
  await rig.begun(id);
  await store.remove(digest);
  expect((await rig.finished(id)).stdout.toString()).toBe("begun\nstill here\n");
});
