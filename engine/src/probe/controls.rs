//! Transactions for control recipients, and what their answers mean.

use super::transaction::{After, Answered, Course, Heard, Recipients, Scene, hear};
use super::{blame, ends_at_recipient, in_words, mail_refused, push_back};
use crate::knowledge::Control;
use crate::runtime::Runtime;
use crate::session::Session;
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::{ControlFinding, control_local_part};
use engine_proto::verdict::classify::{Classification, ReplyView, classify};
use engine_proto::verdict::{Class, Scope, Stage};

/// One transaction for control recipients, one a domain.
pub(super) async fn ask_controls<R: Runtime>(
    scene: &Scene<'_, R>,
    session: &mut Session<R>,
    controls: Vec<Control>,
    course: &mut Course,
) -> After {
    let (shard, now) = (scene.shard, R::now());
    session.limit = now + shard.session_limit;
    let recipients: Vec<String> = controls
        .iter()
        .map(|control| format!("{}@{}", control_local_part(shard.random_bytes()), control.domain.as_str()))
        .collect();
    session.dialog.transact(now, recipients.iter().map(String::as_str), false);
    let asked = controls.len();
    hear(scene, session, asked, course, Controls(controls.into_iter().map(Some).collect())).await
}

/// Control recipients by their places in the transaction, until they have their answers.
struct Controls(Vec<Option<Control>>);

impl<R: Runtime> Recipients<R> for Controls {
    fn record(&mut self, scene: &Scene<'_, R>, story: &mut Vec<String>) {
        let mut knowledge = scene.shard.knowledge.borrow_mut();
        self.0.iter().flatten().for_each(|control| knowledge.tell(control, story));
    }

    fn answered(&mut self, scene: &Scene<'_, R>, heard: &Answered<'_>) -> Heard {
        let Some(control) = self.0.get_mut(heard.place).and_then(Option::take) else { return Heard::Answer };
        answered(scene, control, heard)
    }

    fn mail_refused(&mut self, scene: &Scene<'_, R>, reply: &Reply) -> bool {
        // Whom it concerns is put back behind this.
        mail_refused(scene.shard, scene.group, scene.index, Vec::new(), false, reply);
        true
    }

    fn put_back(&mut self, scene: &Scene<'_, R>) -> bool {
        let mut none = true;
        for control in self.0.drain(..).flatten() {
            none = false;
            ask_again(scene, control, true);
        }
        none
    }

    fn out_of_time(&mut self, scene: &Scene<'_, R>) {
        Recipients::<R>::put_back(self, scene);
    }

    fn cut_off(&mut self, scene: &Scene<'_, R>, closure: &Closure, tally: &Tally) {
        blame(scene, closure, tally);
        // As for recipients: where the session ends at one of them, that one is the suspect.
        let mut controls = self.0.drain(..).flatten();
        let suspect = if ends_at_recipient(closure) { controls.next() } else { None };
        let blamed = suspect.is_none();
        controls.for_each(|control| ask_again(scene, control, blamed));
        if let Some(control) = suspect {
            ask_again(scene, control, true);
        }
    }
}

/// A control recipient has got no answer: it is asked again, if it may be.
fn ask_again<R: Runtime>(scene: &Scene<'_, R>, control: Control, blamed: bool) {
    if scene.shard.knowledge.borrow_mut().unanswered(&control, blamed, R::now()) {
        scene.group.want_control(control);
    }
}

/// What the answer to a control recipient means.
fn answered<R: Runtime>(scene: &Scene<'_, R>, control: Control, heard: &Answered<'_>) -> Heard {
    let Scene { shard, group, index } = *scene;
    let Answered { reply, behind_others, at, .. } = *heard;
    let said: Classification =
        classify(&ReplyView { stage: Stage::Control, mx: &group.routes[index].host, reply });
    if shard.stories.get() {
        let line = format!("control recipient: {}", in_words(&said));
        shard.knowledge.borrow_mut().tell(&control, &[line]);
    }
    if said.class == Class::Throttled && said.scope == Scope::Session && behind_others {
        // RFC 5321 4.5.3.1.10: a transaction that is full; the rest goes into the next.
        group.want_control(control);
        return Heard::Later;
    }
    if said.class == Class::Throttled || said.scope == Scope::Session {
        push_back(shard, group, index, said.rule);
        ask_again(scene, control, true);
        return Heard::Push;
    }
    let finding = ControlFinding::of(&said);
    if finding == ControlFinding::AcceptsAll {
        group.catch_alls.set(true);
    }
    shard.knowledge.borrow_mut().learned(&control, finding, at);
    Heard::Answer
}
