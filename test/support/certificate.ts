import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A key and a certificate for the name that it signs itself, in PEM, good for a day. */
export function selfSigned(name: string): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), "dsec-certificate-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const alternative = /^[\d.]+$|:/.test(name) ? `IP:${name}` : `DNS:${name}`;
  try {
    execFileSync(
      "openssl",
      [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"],
        ...["-subj", `/CN=${name}`, "-addext", `subjectAltName=${alternative}`, "-keyout", key, "-out", cert],
      ],
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
