//! Works that arrive at the shard of their site.

use super::*;
use crate::common::Common;
use crate::config::EngineConfig;
use crate::runtime::testing::Monoio;
use crate::seed;
use crate::work::PlannedRoute;
use crate::work::testing::{answer, mailbox, work};
use engine_proto::limits::ROUTE_DOWN;
use engine_proto::lists::MailService;
use engine_proto::retry::TRANSIENT_WAIT;
use std::sync::Arc;

#[test]
fn a_work_that_may_begin_anew_does_so_if_another_work_arrives_while_no_route_is_left() {
    let (client, now) = (mailbox(), Instant::now());
    let config = EngineConfig { ehlo: Some("probe.example".into()), shards: 1, ..EngineConfig::default() };
    let shared = Arc::new(crate::shared(config).expect("the shared state"));
    let asking = Rc::new(Asking::new(Rc::new(Common::new(shared, seed::rng())), 0));
    let host = PlannedRoute { host: "mx.example".into(), preference: 10, address: [192, 0, 2, 1].into() };
    let plan = Plan {
        site: "example".into(),
        site_hash: 0,
        group: 0,
        routes: vec![host],
        service: MailService::Unknown,
        handed: 0.into(),
    };
    let group = asking.group(&plan, now).expect("a source");
    let mut deferred = work(&client, "a@a.example", Priority::List);
    deferred.tried = 1;
    deferred.set_fallback_by_reply("for-now", Some(ROUTE_DOWN));
    deferred.set_again(Some(TRANSIENT_WAIT));
    group.enqueue(deferred);
    group.route_state(0).set_down(now + ROUTE_DOWN, "test");
    receive::<Monoio>(&asking, work(&client, "b@a.example", Priority::List), &plan, now);
    assert_eq!(answer(&client), Some((Reason::Unverifiable, "test", true)));
    assert_eq!(answer(&client), None, "the first work waits for its next try");
    let waiting = asking.common.take_all();
    assert_eq!(waiting.len(), 1);
    waiting.into_iter().for_each(Work::give_up);
}
