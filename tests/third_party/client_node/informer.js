/*
 * A program written with JavaScript's client: it follows the ConfigMaps of a namespace, and talks to a pod of it.
 *
 *   KUBECONFIG=... node informer.js NAMESPACE POD
 *
 * It prints a line for each thing it sees.
 */
import { Writable } from "node:stream";
import * as k8s from "@kubernetes/client-node";

const [namespace, pod] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);

/** A stream, and what has been written to it. */
function kept() {
  const stream = new Writable({
    write(chunk, _encoding, done) {
      stream.text = (stream.text ?? "") + chunk;
      done();
    },
  });
  return stream;
}

async function talk() {
  console.log(`log ${(await core.readNamespacedPodLog({ name: pod, namespace })).trim()}`);

  const output = kept();
  const status = await new Promise((resolve, reject) => {
    const command = ["sh", "-c", "echo $((6 * 7)); exit 3"];
    new k8s.Exec(config).exec(namespace, pod, "sh", command, output, process.stderr, null, false, resolve).catch(reject);
  });
  const code = status.details.causes.find((cause) => cause.reason === "ExitCode").message;
  console.log(`exec printed ${output.text.trim()} and returned ${code}`);
}

async function follow() {
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "informed=yes" });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = k8s.makeInformer(config, path, list, "informed=yes");
  const data = (map) => JSON.stringify(map.data);
  informer.on("add", async (map) => {
    console.log(`added ${map.metadata.name} ${data(map)}`);
    if (map.data.seen) return;
    const patch = [{ op: "add", path: "/data/seen", value: "yes" }];
    await core.patchNamespacedConfigMap({ name: map.metadata.name, namespace, body: patch });
  });
  informer.on("update", (map) => console.log(`updated ${map.metadata.name} ${data(map)}`));
  informer.on("delete", (map) => console.log(`deleted ${map.metadata.name}`));
  informer.on("error", (error) => console.log(`failed: ${error}`));
  await informer.start();
  process.once("SIGTERM", () => informer.stop().then(() => process.exit(0)));
}

console.log(`server ${(await config.makeApiClient(k8s.VersionApi).getCode()).gitVersion}`);
await talk();
await follow();
