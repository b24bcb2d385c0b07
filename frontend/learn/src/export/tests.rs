use super::*;
use crate::tests::judged;
use crate::{Bounce, Cause, Event, EventKind, Tally, read as read_file};

const NOW: u64 = 1_795_700_000;

fn learned(text: &str) -> (Vec<(String, EventKind)>, Result<Tally, LearnError>) {
    let mut events = Vec::new();
    let bytes = text.as_bytes().to_vec();
    let mut on_event = |event: Event| events.push((event.address.as_str().to_owned(), event.kind));
    let tally = read_file(Box::new(std::io::Cursor::new(bytes)), NOW, &mut on_event);
    (events, tally)
}

/// The form of each provider, with two definite bounces, one failure and one delivery where it has deliveries.
#[test]
fn exports_of_providers_are_read() {
    let not_found = EventKind::Bounced(Bounce::NotFound);
    for (name, text, deliveries) in [
        ("sendgrid", include_str!("../../testdata/exports/sendgrid.csv"), 0),
        ("ses", include_str!("../../testdata/exports/ses.csv"), 1),
        ("mailgun", include_str!("../../testdata/exports/mailgun.csv"), 1),
        ("postmark", include_str!("../../testdata/exports/postmark.csv"), 0),
        ("brevo", include_str!("../../testdata/exports/brevo.csv"), 0),
        ("mailchimp", include_str!("../../testdata/exports/mailchimp.csv"), 0),
    ] {
        let (events, tally) = learned(text);
        let tally = tally.unwrap_or_else(|error| panic!("{name}: {error}"));
        let kind = |address: &str| events.iter().find(|event| event.0 == address).map(|event| event.1);
        assert_eq!(kind("a@x.example"), Some(not_found), "{name}");
        assert_eq!(kind("b@x.example"), Some(not_found), "{name}");
        assert!(matches!(kind("c@x.example"), Some(EventKind::Failed(_))), "{name}");
        assert!(kind("e@x.example").is_none_or(|kind| matches!(kind, EventKind::Failed(_))), "{name}");
        assert_eq!((tally.delivered, tally.undated), (deliveries, 0), "{name}");
    }
}

#[test]
fn events_without_words_of_a_server_are_not_definite() {
    let (_, tally) = learned(
        "email,event,timestamp\na@x.example,hard bounce,2026-11-25\nb@x.example,dropped,2026-11-25\n\
         c@x.example,hard bounce,\nd e,bounce,2026-11-25\n",
    );
    let tally = tally.unwrap();
    assert!(tally.definite.is_empty(), "{tally:?}");
    assert_eq!(tally.failed.get(&Cause::Suppressed), Some(&1));
    assert_eq!((tally.undated, tally.unreadable, tally.rows), (1, 1, 4));
}

#[test]
fn files_with_nothing_to_learn_are_refused() {
    for (text, expected) in [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        (
            "name,city\nx,y\n",
            "it is neither a message nor an mbox nor JSON, and as CSV it has no column of addresses (one of: email, ",
        ),
        ("email,time\nx,y\n", "no column of events"),
        ("email,event\nx,y\n", "no column of times"),
        ("email,event,time\n", "it has a header of columns and no rows"),
        ("email,event,time\na@x.example,opened,2026-11-25\n", "none of its rows (1) has a known event"),
        ("From: a@b.example\nSubject: x\n\nhello\n", "none of its messages (1) is a bounce"),
        (
            "From a@b.example Thu Nov 26 10:00:00 2026\nSubject: x\n\nhello\n",
            "none of its messages (1) is a bounce",
        ),
    ] {
        let said = learned(text).1.unwrap_err().to_string();
        assert!(said.contains(expected) && !said.contains('\n'), "{text:?}: {said}");
    }
    let endless = format!("email,event,time\n\"{}", "x\n".repeat(2 << 20));
    let said = learned(&endless).1.unwrap_err().to_string();
    assert!(said.contains("a quote may have no end"), "{said}");
}

/// Each form with a bounce, a failure that says nothing, and events that are none.
#[test]
fn other_exports_are_read() {
    let not_found = "NotFound";
    for (name, text, expected) in [
        (
            "the bounces of Mailgun",
            "address,code,error,created_at\na@x.example,550,5.1.1 user unknown,\"Wed, 25 Nov 2026 10:00:00 UTC\"\n\
             b@x.example,550,No such user here,2026-11-25 10:00:00 +0000\nc@x.example,450,No such user here,2026-11-25\n\
             d@x.example,605,Not delivering to previously bounced address,2026-11-25\n",
            [not_found, not_found, "Failed", "Failed"],
        ),
        (
            "the log of Brevo",
            "st_text;ts;sub;frm;email;tag;reason\nHard bounce;20-11-2026 10:00:00;s;n@me.example;a@x.example;;550 5.1.1 user unknown\n\
             Soft bounce;20-11-2026 10:00:00;s;n@me.example;b@x.example;;\nSent;20-11-2026 10:00:00;s;n@me.example;c@x.example;;\n\
             Delivered;20-11-2026 10:00:00;s;n@me.example;d@x.example;;\n",
            [not_found, "Failed", "", "Delivered"],
        ),
        (
            "rejects.csv of Mandrill",
            "Email,Reason,Detail,Created At,Expires At\na@x.example,hard-bounce,550 5.1.1 user unknown,2026-11-25 10:00:00,\n\
             b@x.example,soft-bounce,550 5.1.1 user unknown,2026-11-25 10:00:00,\nc@x.example,unsub,,2026-11-25 10:00:00,\n\
             d@x.example,hard-bounce,,2026-11-25 10:00:00,\n",
            [not_found, "Failed", "", "Failed"],
        ),
        (
            "activity.csv of Mandrill",
            "Date,Email Address,Sender,Subject,Status,Tags,Opens,Clicks,Bounce Detail\n\
             2026-11-25 10:00:00,a@x.example,n@me.example,s,bounced,,0,0,550 5.1.1 user unknown\n\
             2026-11-25 10:00:00,b@x.example,n@me.example,s,sent,,0,0,\n\
             2026-11-25 10:00:00,c@x.example,n@me.example,s,rejected,,0,0,\n\
             2026-11-25 10:00:00,d@x.example,n@me.example,s,soft-bounced,,0,0,452 4.2.2 full\n",
            [not_found, "", "Failed", "Failed"],
        ),
        (
            "the suppression list of Amazon SES",
            "EmailAddress,Reason,LastUpdateTime\na@x.example,BOUNCE,2026-11-25T10:00:00+00:00\n\
             b@x.example,COMPLAINT,2026-11-25T10:00:00+00:00\n",
            ["Failed", "", "", ""],
        ),
        (
            "the activity of SendGrid",
            "processed,message_id,event,from,email,reason,mx,attempt,type\n\
             2026-11-25 10:00:00,1,bounce,n@me.example,a@x.example,550 5.1.1 user unknown,mx.x.example,,bounce\n\
             2026-11-25 10:00:00,1,deferred,n@me.example,b@x.example,451 later,,1,\n\
             2026-11-25 10:00:00,1,delivered,n@me.example,c@x.example,,,,\n2026-11-25 10:00:00,1,open,n@me.example,d@x.example,,,,\n",
            [not_found, "", "Delivered", ""],
        ),
        (
            "the accounting file of PowerMTA",
            "type,timeLogged,orig,rcpt,orcpt,dsnAction,dsnStatus,dsnDiag,dsnMta,bounceCat\n\
             b,2026-11-25 10:00:00+0000,n@me.example,a@x.example,,failed,5.1.1 (bad mailbox),smtp;550 5.1.1 user unknown,mx.x.example (192.0.2.1),bad-mailbox\n\
             t,2026-11-25 10:00:00+0000,n@me.example,b@x.example,,delayed,4.2.2,smtp;452 4.2.2 full,mx.x.example (192.0.2.1),\n\
             type,timeLogged,rcpt,dsnStatus,dsnDiag\nd,2026-11-25 10:00:00+0000,c@x.example,2.0.0,smtp;250 ok\n\
             rb,2026-11-25 10:00:00+0000,d@x.example,5.7.1,smtp;550 5.7.1 spam\n",
            [not_found, "", "Delivered", "Failed"],
        ),
        (
            "the events of SparkPost",
            "type,timestamp,rcpt_to,reason\nout_of_band,2026-11-25T10:00:00Z,a@x.example,550 5.1.1 user unknown\n\
             delivery,2026-11-25T10:00:00Z,b@x.example,\npuzzling,2026-11-25T10:00:00Z,c@x.example,550 5.7.1 spam\n\
             injection,2026-11-25T10:00:00Z,d@x.example,\n",
            [not_found, "Delivered", "Failed", ""],
        ),
        (
            "the events of Mailgun",
            "event,severity,timestamp,recipient,delivery-status.code,delivery-status.message\n\
             failed,permanent,1795600000,a@x.example,550,5.1.1 user unknown\nfailed,temporary,1795600000,b@x.example,550,5.1.1 user unknown\n\
             delivered,,1795600000,c@x.example,250,OK\n",
            [not_found, "", "Delivered", ""],
        ),
    ] {
        check(name, text, expected);
    }
}

/// What the four addresses of a file get: a bounce, `Failed`, `Delivered` or nothing.
fn check(name: &str, text: &str, expected: [&str; 4]) {
    let (events, tally) = learned(text);
    let tally = tally.unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = ["a@x.example", "b@x.example", "c@x.example", "d@x.example"].map(|address| {
        let of: Vec<String> = events
            .iter()
            .filter(|event| event.0 == address)
            .map(|event| match event.1 {
                EventKind::Bounced(bounce) => format!("{bounce:?}"),
                EventKind::Failed(_) => "Failed".to_owned(),
                kind => format!("{kind:?}"),
            })
            .collect();
        of.join(" ")
    });
    for (expected, found) in expected.iter().zip(&found) {
        let is_wrong = found != expected && !["", "Failed"].contains(&&**found);
        let words = |kind: &str| if kind.is_empty() { "nothing".to_owned() } else { kind.to_owned() };
        judged("exports", &words(expected), &words(found), (found == expected, is_wrong), "", name);
    }
    assert_eq!((found, tally.undated), (expected.map(str::to_owned), 0), "{name}: {tally:?}");
}

#[test]
fn json_of_providers_is_read() {
    for (name, text) in [
        (
            "Amazon SES",
            r#"{"notificationType":"Bounce","bounce":{"bounceType":"Permanent","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"a@x.example","action":"failed","status":"5.1.1","diagnosticCode":"smtp; 550 5.1.1 user unknown"},{"emailAddress":"b@x.example","action":"failed","status":"5.7.1","diagnosticCode":"smtp; 550 5.7.1 spam"}],"timestamp":"2026-11-25T10:00:00.000Z"},"mail":{"timestamp":"2020-01-01T00:00:00Z","source":"n@me.example","destination":["a@x.example","z@x.example"]}}
               {"eventType":"Delivery","mail":{"destination":["c@x.example"]},"delivery":{"timestamp":"2026-11-25T10:00:00.000Z","recipients":["c@x.example"],"smtpResponse":"250 ok"}}
               {"eventType":"Open","mail":{"destination":["d@x.example"]},"open":{"timestamp":"2026-11-25T10:00:00.000Z"}}"#,
        ),
        (
            "Amazon SNS",
            r#"{"Type":"Notification","Timestamp":"2026-11-25T10:00:00.000Z","Message":"{\"notificationType\":\"Bounce\",\"bounce\":{\"bounceType\":\"Permanent\",\"bouncedRecipients\":[{\"emailAddress\":\"a@x.example\",\"status\":\"5.1.1\",\"diagnosticCode\":\"smtp; 550 5.1.1 user unknown\"},{\"emailAddress\":\"b@x.example\"}],\"timestamp\":\"2026-11-25T10:00:00.000Z\"}}"}
               {"Records":[{"Sns":{"Message":"{\"notificationType\":\"Delivery\",\"delivery\":{\"timestamp\":\"2026-11-25T10:00:00.000Z\",\"recipients\":[\"c@x.example\"]}}"}}]}"#,
        ),
        (
            "SendGrid",
            r#"[{"email":"a@x.example","timestamp":1795600000,"event":"bounce","type":"bounce","reason":"550 5.1.1 user unknown","status":"5.1.1"},
                {"email":"b@x.example","timestamp":1795600000,"event":"dropped","reason":"Bounced Address","status":"5.0.0"},
                {"email":"c@x.example","timestamp":1795600000,"event":"delivered","response":"250 OK"},
                {"email":"d@x.example","timestamp":1795600000,"event":"deferred","response":"450 later"}]"#,
        ),
        (
            "Mailgun",
            r#"{"signature":{"timestamp":"1"},"event-data":{"event":"failed","severity":"permanent","timestamp":1795600000.5,"recipient":"a@x.example","reason":"bounce","delivery-status":{"code":550,"message":"5.1.1 user unknown","mx-host":"mx.x.example"},"message":{"headers":{"to":"z@x.example"}}}}
               {"items":[{"event":"failed","severity":"permanent","timestamp":1795600000.5,"recipient":"b@x.example","reason":"suppress-bounce","delivery-status":{"code":605,"description":"Not delivering to previously bounced address"}},
               {"event":"delivered","timestamp":1795600000.5,"recipient":"c@x.example","delivery-status":{"code":250,"message":"OK"}},
               {"event":"failed","severity":"temporary","timestamp":1795600000.5,"recipient":"d@x.example","delivery-status":{"code":450,"message":"later"}}]}"#,
        ),
        (
            "Postmark",
            r#"{"RecordType":"Bounce","Type":"HardBounce","Email":"a@x.example","BouncedAt":"2026-11-25T10:00:00.1234567-05:00","Details":"smtp;550 5.1.1 user unknown","Description":"The server was unable to deliver your message"}
               {"RecordType":"Bounce","Type":"SoftBounce","Email":"b@x.example","BouncedAt":"2026-11-25T10:00:00Z","Details":"smtp;550 5.1.1 user unknown"}
               {"RecordType":"Delivery","Recipient":"c@x.example","DeliveredAt":"2026-11-25T10:00:00Z","Details":"250 ok"}
               {"RecordType":"Bounce","Type":"AutoResponder","Email":"d@x.example","BouncedAt":"2026-11-25T10:00:00Z"}"#,
        ),
        (
            "SparkPost",
            r#"[{"msys":{"message_event":{"type":"bounce","error_code":"550","raw_reason":"550 5.1.1 user unknown","reason":"550 5.1.1 user unknown","rcpt_to":"a@x.example","timestamp":"1795600000"}}},
                {"msys":{"message_event":{"type":"policy_rejection","reason":"550 5.7.1 refused","rcpt_to":"b@x.example","timestamp":"1795600000"}}}]
               [{"msys":{"message_event":{"type":"delivery","rcpt_to":"c@x.example","timestamp":"1795600000"}}},{"msys":{"track_event":{"type":"open","rcpt_to":"d@x.example","timestamp":"1795600000"}}}]"#,
        ),
        (
            "KumoMTA",
            r#"{"type":"Bounce","sender":"n@me.example","recipient":"a@x.example","timestamp":1795600000,"created":1795500000,"response":{"code":550,"enhanced_code":{"class":5,"subject":1,"detail":1},"content":"user unknown","command":"RCPT TO:<a@x.example>"},"peer_address":{"name":"mx.x.example","addr":"192.0.2.1"}}
               {"type":"Bounce","recipient":["b@x.example"],"timestamp":1795600000,"response":{"code":550,"enhanced_code":null,"content":"user unknown","command":"."}}
               {"type":"Reception","recipient":"c@x.example","timestamp":1795600000,"response":{"code":250,"content":""}}
               {"type":"Delivery","recipient":"c@x.example","timestamp":1795600000,"response":{"code":250,"content":"ok"}}
               {"type":"TransientFailure","recipient":"d@x.example","timestamp":1795600000,"response":{"code":450,"content":"later"}}"#,
        ),
    ] {
        check(name, text, ["NotFound", "Failed", "Delivered", ""]);
        // Pretty-printed, or as one line.
        check(name, &text.replace('\n', " "), ["NotFound", "Failed", "Delivered", ""]);
    }
}

#[test]
fn other_forms_are_refused_by_their_name() {
    for (text, expected) in [
        ("{\"a\":1}\n{\"a\":2}", "it is JSON, and none of its objects (2) is an event of Amazon SES, "),
        ("[1, 2]", "it is JSON, but not with one object for each event"),
        ("[\"a@x.example\"", "it is JSON, but not with one object for each event"),
        ("[2026-11-25 10:00:00] sent", "it is neither a message nor an mbox nor JSON, "),
        ("{\"a\":1} x", "it is JSON, but not with one object for each event"),
        ("{\"a\":1,}", "it is JSON, but its object 1 is damaged"),
        ("<?xml version=\"1.0\"?><a/>", "it is XML, which cannot be read: "),
        ("PK\u{3}\u{4}x", "it is a ZIP archive or an Excel file, "),
        (
            "Nov 25 10:00:00 mx postfix/smtp[7]: x: to=<a@x.example>, dsn=5.1.1",
            "it is the log of a mail server",
        ),
        ("2026-11-25T10:00:00 mx postfix/smtp[7]: x: to=<a@x.example>", "it is the log of a mail server"),
    ] {
        let said = learned(text).1.unwrap_err().to_string();
        assert!(said.contains(expected), "{text:?}: {said}");
    }
}

#[test]
fn times_are_read() {
    for (cell, expected) in [
        ("1795600000", Some(1_795_600_000)),
        ("1795600000123", Some(1_795_600_000)),
        ("1795600000.5", Some(1_795_600_000)),
        ("2026-11-25T09:46:40Z", Some(1_795_600_000)),
        ("2026-11-25T10:46:40+01:00", Some(1_795_600_000)),
        ("2026-11-25T10:46:40+0100", Some(1_795_600_000)),
        ("2026-11-25T10:46:40.123+0100", Some(1_795_600_000)),
        ("2026-11-25 09:46:40 +0000", Some(1_795_600_000)),
        ("2026-11-25 09:46:40+00", Some(1_795_600_000)),
        ("2026-11-25 09:46:40 UTC", Some(1_795_600_000)),
        ("2026-11-25 09:46:40.123", Some(1_795_600_000)),
        ("2026-11-25 09:46:40", Some(1_795_600_000)),
        ("25-11-2026 09:46:40", Some(1_795_600_000)),
        ("25.11.2026 09:46:40", Some(1_795_600_000)),
        ("2026/11/25 09:46:40", Some(1_795_600_000)),
        ("11/25/2026 09:46:40", Some(1_795_600_000)),
        ("11/25/2026 9:46:40 AM", Some(1_795_600_000)),
        ("Nov 25, 2026 9:46:40 AM", Some(1_795_600_000)),
        ("25 Nov 2026, 09:46:40", Some(1_795_600_000)),
        ("25-Nov-2026 09:46:40", Some(1_795_600_000)),
        ("November 25, 2026 at 9:46:40 AM (UTC)", Some(1_795_600_000)),
        ("Wed Nov 25 09:46:40 2026", Some(1_795_600_000)),
        ("Wed, 25 Nov 2026 09:46:40 +0000", Some(1_795_600_000)),
        ("2026-11-25", Some(1_795_564_800)),
        ("2026/11/25 10:00", Some(1_795_600_800)),
        ("11/25/2026 12:00 AM", Some(1_795_564_800)),
        ("11/12/2026 10:00", None),
        ("7", None),
        ("NaN", None),
        ("", None),
        ("soon", None),
        ("13/13/2026", None),
        ("2026-11-25 25:00", None),
    ] {
        assert_eq!(time::read(cell).and_then(Reading::certain_time), expected, "{cell}");
    }
}

#[test]
fn the_file_decides_the_order_of_day_and_month() {
    let (october, november) = (1_791_720_000, 1_794_312_000);
    for (times, expected) in [
        // 11 October or 10 November, at noon: a time without doubt, the future, the order of the rows, the habit of the form.
        (&["11/10/2026 12:00", "25/10/2026"][..], Some(october)),
        (&["11/10/2026 12:00", "10/25/2026"], Some(november)),
        (&["11/10/2026 12:00", "12/11/2026"], Some(october)),
        (&["11/10/2026 12:00", "11/09/2026", "10/11/2026"], Some(november)),
        (&["11-10-2026 12:00"], Some(october)),
        (&["11.10.2026 12:00"], Some(october)),
        (&["11/10/2026 12:00 PM"], Some(november)),
        (&["11/10/2026 12:00"], None),
        (&["11/10/2026 12:00", "25/10/2026", "10/25/2026"], None),
    ] {
        let rows: Vec<String> = times.iter().map(|time| format!("a@x.example,bounced,{time}\n")).collect();
        let text = format!("email,event,time\n{}", rows.concat());
        let mut events = Vec::new();
        let bytes = std::io::Cursor::new(text.into_bytes());
        read_file(Box::new(bytes), NOW, &mut |event: Event| events.push(event.at)).unwrap();
        let found = events.iter().copied().find(|at| at % 86_400 == 43_200);
        assert_eq!(found, expected, "{times:?}");
    }
}
