import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.ExecWatch;
import io.fabric8.kubernetes.client.dsl.LogWatch;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElector;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A program written with fabric8: several are started, one is elected, and it follows the ConfigMaps of a namespace.
 *
 * <pre>java ElectedInformer NAMESPACE IDENTITY [POD]</pre>
 *
 * The leader answers each new ConfigMap by an edit (a JSON patch), and, where a pod is named, reads its log and runs a
 * command in it. It prints a line for each thing it sees. SIGTERM releases the lease.
 */
public final class ElectedInformer {
  private final KubernetesClient client;
  private final String namespace;
  private final String identity;

  private ElectedInformer(KubernetesClient client, String namespace, String identity) {
    this.client = client;
    this.namespace = namespace;
    this.identity = identity;
  }

  public static void main(String[] arguments) throws Exception {
    KubernetesClient client = new KubernetesClientBuilder().build();
    say("http client %s", client.getHttpClient().getClass().getName());
    ElectedInformer program = new ElectedInformer(client, arguments[0], arguments[1]);
    LeaderElector elector = client.leaderElector().withConfig(new LeaderElectionConfigBuilder()
        .withName("elected-informer")
        .withLock(new LeaseLock(arguments[0], "elected-informer", arguments[1]))
        .withLeaseDuration(Duration.ofSeconds(15))
        .withRenewDeadline(Duration.ofSeconds(10))
        .withRetryPeriod(Duration.ofSeconds(1))
        .withReleaseOnCancel(true)
        .withLeaderCallbacks(new LeaderCallbacks(
            () -> new Thread(() -> program.lead(arguments.length > 2 ? arguments[2] : null)).start(),
            () -> say("stopped leading"),
            leader -> say("leader is %s", leader)))
        .build()).build();
    CompletableFuture<?> election = elector.start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      election.cancel(true);
      elector.release();  // Cancelling releases too, in another thread, and nothing says when it is done.
      client.close();
    }));
    try {
      election.join();
    } catch (CancellationException ended) {
      say("ended");
    }
  }

  private void lead(String pod) {
    say("%s leads", identity);
    try {
      if (pod != null) {
        talkTo(pod);
      }
      SharedIndexInformer<ConfigMap> informer =
          client.configMaps().inNamespace(namespace).withLabel("informed").inform(new Reports());
      say("synced %s", informer.hasSynced());
      informer.stopped().whenComplete((nothing, failure) -> say("informer stopped: %s", failure));
    } catch (Exception failure) {
      say("failed: %s", failure);
    }
  }

  private void talkTo(String pod) throws Exception {
    var found = client.pods().inNamespace(namespace).withName(pod).waitUntilReady(60, TimeUnit.SECONDS);
    say("log %s", client.pods().resource(found).getLog().strip());
    ByteArrayOutputStream followed = new ByteArrayOutputStream();
    try (LogWatch watch = client.pods().resource(found).tailingLines(1).watchLog(followed)) {
      for (int tries = 0; followed.size() == 0 && tries < 100; tries++) {
        Thread.sleep(100);
      }
    }
    say("followed %s", followed.toString().strip());
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    try (ExecWatch command = client.pods().resource(found).writingOutput(printed).exec("sh", "-c", "echo $((6 * 7)); exit 3")) {
      int code = command.exitCode().get(30, TimeUnit.SECONDS);
      say("exec printed %s and returned %d", printed.toString().strip(), code);
    }
  }

  private final class Reports implements ResourceEventHandler<ConfigMap> {
    @Override
    public void onAdd(ConfigMap added) {
      say("added %s %s", added.getMetadata().getName(), added.getData());
      if (!"yes".equals(added.getData().get("seen"))) {
        client.resource(added).edit(map -> new ConfigMapBuilder(map).addToData("seen", "yes").build());
      }
    }

    @Override
    public void onUpdate(ConfigMap before, ConfigMap after) {
      Map<String, String> data = after.getData();
      say("updated %s %s", after.getMetadata().getName(), data);
    }

    @Override
    public void onDelete(ConfigMap deleted, boolean unknown) {
      say("deleted %s", deleted.getMetadata().getName());
    }
  }

  private static synchronized void say(String format, Object... arguments) {
    System.out.println(String.format(format, arguments));
    System.out.flush();
  }
}
