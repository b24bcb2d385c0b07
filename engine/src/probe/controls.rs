//! Transactions for control recipients, and what their answers mean.

use super::{After, Tally, blame, ends_at_recipient, in_words, mail_refused, push_back};
use crate::knowledge::Control;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::shard::Shard;
use crate::site::Group;
use engine_proto::smtp::dialog::Event;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::{ControlFinding, control_local_part};
use engine_proto::verdict::classify::{Classification, ReplyView, classify};
use engine_proto::verdict::{Class, Scope, Stage};
use std::rc::Rc;

/// One transaction for control recipients, one a domain.
pub(super) async fn ask_controls<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    session: &mut Session<R>,
    controls: Vec<Control>,
    tally: &mut Tally,
) -> After {
    let now = R::now();
    session.limit = now + shard.session_limit;
    let recipients: Vec<String> = controls
        .iter()
        .map(|control| format!("{}@{}", control_local_part(shard.random_bytes()), control.domain.as_str()))
        .collect();
    session.dialog.transact(now, recipients.iter().map(String::as_str), false);
    tally.transactions += 1;
    tally.asked += controls.len() as u32;
    let mut controls: Vec<Option<Control>> = controls.into_iter().map(Some).collect();
    let mut after = After::Open;
    // As for recipients: where the session ends at one of them, that one is the suspect.
    let mut suspect = None;
    loop {
        let event = session.next().await;
        shard.tell_controls(&controls, session.story.as_mut());
        match event {
            Event::Answered { index: at, reply } => {
                tally.answers += 1;
                tally.errors += u32::from(!reply.is_positive());
                group.routes[index].works();
                shard.shared.reached(group.source.get());
                if let Some(control) = controls.get_mut(usize::from(at)).and_then(Option::take)
                    && control_answered(shard, group, index, &control, &reply)
                {
                    after = After::Leave;
                }
            }
            Event::MailRefused(reply) => {
                // Whom it concerns is still there below.
                mail_refused(shard, group, index, &mut [], &reply);
                after = After::Leave;
            }
            Event::Ready => {
                if after == After::Open {
                    group.site.pace.borrow_mut().answered();
                }
                break;
            }
            Event::Over(closure) => {
                blame(shard, group, index, &closure, tally);
                if ends_at_recipient(&closure) {
                    suspect = controls.iter_mut().find_map(Option::take);
                }
                after = After::Over;
                break;
            }
            Event::StartTls => {}
        }
    }
    let blamed = suspect.is_none();
    controls.into_iter().flatten().for_each(|control| ask_again(shard, group, control, blamed));
    if let Some(control) = suspect {
        ask_again(shard, group, control, true);
    }
    after
}

/// A control recipient has got no answer: it is asked again, if it may be.
fn ask_again<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, control: Control, blamed: bool) {
    if shard.knowledge.borrow_mut().unanswered(&control, blamed, R::now()) {
        group.want_control(control);
    }
}

/// What the answer to a control recipient means. True when the session is to be left.
fn control_answered<R: Runtime>(
    shard: &Rc<Shard<R>>,
    group: &Rc<Group>,
    index: usize,
    control: &Control,
    reply: &Reply,
) -> bool {
    let said: Classification =
        classify(&ReplyView { stage: Stage::Control, mx: &group.routes[index].host, reply });
    if shard.stories.get() {
        let line = format!("control recipient: {}", in_words(&said));
        shard.knowledge.borrow_mut().tell(control, &[line]);
    }
    let push = said.class == Class::Throttled || said.scope == Scope::Session;
    if push {
        push_back(shard, group, index);
        ask_again(shard, group, control.clone(), true);
    } else {
        shard.knowledge.borrow_mut().learned(control, ControlFinding::of(&said), R::now());
    }
    push
}
