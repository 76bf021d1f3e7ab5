//! A controller written with kube-rs: a `Greeting` gets a ConfigMap with its text, and leaves a farewell behind.
//!
//! It installs its own CustomResourceDefinition, holds each object by a finalizer until it has written the
//! farewell, applies what it makes by server-side apply, and records events. Run with `KUBECONFIG` set.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
    runtime::{
        conditions::is_crd_established,
        controller::{Action, Controller, Error as ControllerError},
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{Error as FinalizerError, Event as Finalizer, finalizer},
        wait::await_condition,
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const FINALIZER: &str = "greetings.example.com/farewell";
const MANAGER: &str = "kube-rs-controller";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
struct GreetingSpec {
    text: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct GreetingStatus {
    said: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<FinalizerError<Error>>),
}

struct Context {
    client: Client,
    recorder: Recorder,
}

async fn reconcile(greeting: Arc<Greeting>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = greeting.namespace().unwrap_or_default();
    let greetings: Api<Greeting> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&greetings, FINALIZER, greeting, |event| async {
        match event {
            Finalizer::Apply(greeting) => say(&greeting, &context).await,
            Finalizer::Cleanup(greeting) => take_leave(&greeting, &context).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn say(greeting: &Greeting, context: &Context) -> Result<Action, Error> {
    let namespace = greeting.namespace().unwrap_or_default();
    let owners = greeting.controller_owner_ref(&()).map(|owner| vec![owner]);
    write(context, &namespace, &greeting.name_any(), &greeting.spec.text, owners).await?;

    let greetings: Api<Greeting> = Api::namespaced(context.client.clone(), &namespace);
    let status = json!({"status": {"said": greeting.spec.text}});
    greetings.patch_status(&greeting.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    println!("said {:?} for {}", greeting.spec.text, greeting.name_any());
    Ok(Action::await_change())
}

async fn take_leave(greeting: &Greeting, context: &Context) -> Result<Action, Error> {
    let namespace = greeting.namespace().unwrap_or_default();
    let name = format!("farewell-{}", greeting.name_any());
    write(context, &namespace, &name, &format!("no more {}", greeting.spec.text), None).await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "Farewell".into(),
        note: Some(format!("{} is written", name)),
        action: "Delete".into(),
        secondary: None,
    };
    context.recorder.publish(&event, &greeting.object_ref(&())).await?;
    println!("took leave of {}", greeting.name_any());
    Ok(Action::await_change())
}

async fn write(
    context: &Context,
    namespace: &str,
    name: &str,
    text: &str,
    owner_references: Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
) -> Result<(), Error> {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), owner_references, ..ObjectMeta::default() },
        data: Some([("text".to_string(), text.to_string())].into()),
        ..ConfigMap::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    maps.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&map)).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    println!("server {}", client.apiserver_version().await?.git_version);

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = Greeting::crd();
    let apply = PatchParams::apply(MANAGER).force();
    definitions.patch(Greeting::crd_name(), &apply, &Patch::Apply(&definition)).await?;
    let established = await_condition(definitions, Greeting::crd_name(), is_crd_established());
    tokio::time::timeout(Duration::from_secs(30), established).await??;
    println!("established {}", Greeting::crd_name());

    let reporter = Reporter { controller: MANAGER.into(), instance: None };
    let context = Arc::new(Context { recorder: Recorder::new(client.clone(), reporter), client: client.clone() });
    // One of the watches begins with a list, the other has the server stream what there is.
    Controller::new(Api::<Greeting>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default().streaming_lists())
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, error, _| {
                println!("error {error}");
                Action::requeue(Duration::from_secs(1))
            },
            context,
        )
        .for_each(|result| async move {
            // An event about what it made may come after its object is gone.
            if let Err(error) = result
                && !matches!(error, ControllerError::ObjectNotFound(_))
            {
                println!("error {error}");
            }
        })
        .await;
    Ok(())
}
