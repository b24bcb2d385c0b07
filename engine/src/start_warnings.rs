//! Warnings that the engine logs soon after its start, once it has asked DNS and logged in to its proxies.

use crate::egress::Pool;
use crate::egress::connect::Unconnected;
use crate::ehlo;
use crate::resolver::{Resolver, addresses};
use crate::runtime::Runtime;
use engine_proto::dns::public::is_public;
use engine_proto::dns::{Failure, Name, Outcome, Question, RecordKind, Records};
use engine_proto::limits::DNS_SILENCE;
use std::net::{IpAddr, SocketAddr};

/// Warns of each proxy that cannot be reached, does not answer in time or does not accept the login. `with_names`: also warns of
/// EHLO names that DNS does not confirm.
pub(crate) async fn warn_of_sources<R: Runtime>(pool: &Pool, resolver: &Resolver<R>, with_names: bool) {
    for source in &pool.sources {
        // Other errors, such as a lack of descriptors on this machine, say nothing about the source.
        if let Err(Unconnected::Source(why)) = source.check_login::<R>().await {
            tracing::warn!(
                "the source {} cannot be used now: {why}; addresses whose sites are asked from it get no verdict \
                 until it can",
                source.label
            );
        }
        if with_names {
            confirm_name(resolver, &source.dialog.ehlo, source.bound_address()).await;
        }
    }
}

/// Warns if our EHLO name has no forward-confirmed reverse DNS (RFC 8601 2.7.3), because many servers refuse such clients. `own` is
/// the address that the source is bound to, if any. A private one does not count, because mail servers see another address then.
async fn confirm_name<R: Runtime>(resolver: &Resolver<R>, name: &str, own: Option<IpAddr>) {
    if ehlo::is_literal(name) {
        return;
    }
    let own = own.filter(|address| is_public(*address));
    let Some(ours) = Name::parse(name) else { return };
    for kind in [RecordKind::A, RecordKind::Aaaa] {
        let outcome = resolver.look_up(&Question { name: ours.clone(), kind }, true).await;
        for address in addresses(&outcome).into_iter().filter(|address| own.is_none_or(|own| own == *address))
        {
            let question = Question { name: Name::reverse(address), kind: RecordKind::Ptr };
            if let Outcome::Records { records: Records::Ptr(names), .. } =
                &*resolver.look_up(&question, true).await
                && names.contains(&ours)
            {
                return;
            }
        }
    }
    if resolver.is_down() {
        // The resolvers are at fault, not the name: see `warn_of_silence`.
        return;
    }
    let whose = own.map_or_else(|| "this machine's address".to_owned(), |own| own.to_string());
    tracing::warn!(
        "the EHLO name {name} has no forward-confirmed reverse DNS, and many mail servers refuse such clients: let it \
         resolve to {whose} and that address to it, or set another name"
    );
}

/// Warns soon after the start if no resolver answers, because then no address can be checked.
pub(crate) async fn warn_of_silence<R: Runtime>(resolver: &Resolver<R>, resolvers: &[SocketAddr]) {
    let Some(why) = resolver.silence_at_start().await else { return };
    let why = match why {
        Failure::Unreachable => "cannot be reached".to_owned(),
        _ => format!("gave no answer within {} s", (2 * DNS_SILENCE).as_secs()),
    };
    let names: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
    tracing::warn!(
        "the DNS resolver {} {why}, and no address can be checked until one answers: name another resolver with --resolver, or \
         run `mailprobe doctor`",
        names.join(", ")
    );
}
